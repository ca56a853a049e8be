"""A simulated Hugging Face hub: a local server that speaks the hub's API and misbehaves as a seed has it."""

import gzip
import hashlib
import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanodyno.data.prepare.request import Choices, Destination, run_preparation
from nanodyno.records.preparation import PreparationRecord

REPO = "HuggingFaceFW/fineweb-edu"
COMMIT = "5b8a5a1f3e5c0d9e7c1b2a3f4d5e6f708192a3b4"
PAGE = 2  # entries a page of a listing


@dataclass
class Hub:
    """What the hub holds, how it misbehaves, and what it was asked."""

    files: dict[str, bytes]
    large: bool = True
    """Whether files are kept apart by their sha256, as large ones are, or in git by its sha1."""
    trouble: float = 0.0
    """The share of answers that are a 429, a 503 or less than they promise."""
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Statuses and headers that the next requests are answered with."""
    cuts: list[int] = field(default_factory=list)
    """After how many bytes the next files break off."""
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    answers: list[int] = field(default_factory=list)
    """Statuses in the order they were sent; 0 is a connection dropped in mid-answer."""
    ranges: list[str] = field(default_factory=list)
    tokens: dict[str, str | None] = field(default_factory=dict)
    """The last Authorization by the first word of the path: api, datasets or cdn."""
    endpoint: str = ""
    honours_ranges: bool = True
    instead: bytes | None = None
    """What every answer is when it is no hub at all."""

    def entries(self, folder: str) -> list[dict[str, Any]]:
        """The tree of a folder as the hub tells it: its folders, then its files."""
        inside = {p: b for p, b in self.files.items() if not folder or p.startswith(f"{folder}/")}
        folders = sorted({path.rpartition("/")[0] for path in inside} - {"", folder})
        return [{"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in folders] + [
            self._entry(path, content) for path, content in inside.items()
        ]

    def _entry(self, path: str, content: bytes) -> dict[str, Any]:
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        reported: dict[str, Any] = {"type": "file", "oid": git, "size": len(content), "path": path}
        if self.large:
            sha256 = hashlib.sha256(content).hexdigest()
            reported["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 134}
        return reported


class _Server(ThreadingHTTPServer):
    hub: Hub


class _Handler(BaseHTTPRequestHandler):
    """One request, answered out of the hub that its server holds."""

    broken = False

    @property
    def hub(self) -> Hub:
        assert isinstance(self.server, _Server)
        return self.server.hub

    def do_GET(self) -> None:
        first, _, rest = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        self.hub.tokens[first] = self.headers.get("Authorization")
        troubled = self.hub.dice.random() < self.hub.trouble
        self.broken = troubled and self.hub.dice.random() < 1 / 3
        if troubled and not self.broken:
            self.hub.refusals.append(self.hub.dice.choice([(429, {"Retry-After": "0"}), (503, {})]))
        if self.hub.refusals:
            status, headers = self.hub.refusals.pop(0)
            return self._answer(status, b"", headers)
        if self.hub.instead is not None:
            return self._answer(200, self.hub.instead)
        return {"api": self._api, "datasets": self._resolve, "cdn": self._content}[first](rest)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _api(self, rest: str) -> None:
        repo, _, rest = rest.removeprefix("datasets/").partition("/revision/")
        if rest:
            known = repo == REPO and rest in ("main", COMMIT)
            reported = json.dumps({"id": repo, "sha": COMMIT, "siblings": []}).encode()
            return self._answer(200, reported) if known else self._unknown()
        repo, _, rest = repo.partition("/tree/")
        commit, _, folder = rest.partition("/")
        entries = self.hub.entries(folder)
        if repo != REPO or commit != COMMIT or not entries:
            return self._unknown()
        page = int(parse_qs(urlsplit(self.path).query).get("cursor", ["0"])[0])
        more = f"{self.hub.endpoint}{urlsplit(self.path).path}?recursive=true&cursor={page + 1}"
        headers = {"Link": f'<{more}>; rel="next"'} if len(entries) > (page + 1) * PAGE else {}
        reported = json.dumps(entries[page * PAGE : (page + 1) * PAGE]).encode()
        return self._answer(200, reported, headers)

    def _resolve(self, rest: str) -> None:
        """Sends to another host, as the hub does for large files."""
        _, _, path = rest.partition(f"/resolve/{COMMIT}/")
        if path not in self.hub.files:
            return self._unknown()
        content = self.hub.files[path]
        headers = {
            "Location": f"{self.hub.endpoint.replace('127.0.0.1', 'localhost')}/cdn/{path}",
            "X-Repo-Commit": COMMIT,
            "X-Linked-Size": str(len(content)),
            "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
        }
        return self._answer(302, b"", headers)

    def _content(self, path: str) -> None:
        content, reported = self.hub.files[path], self.headers.get("Range")
        if reported and self.hub.honours_ranges:
            self.hub.ranges.append(reported)
            first = int(reported.removeprefix("bytes=").rstrip("-"))
            span = f"bytes {first}-{len(content) - 1}/{len(content)}"
            return self._answer(206, content[first:], {"Content-Range": span})
        return self._answer(200, content)

    def _unknown(self) -> None:
        self._answer(404, b"", {"X-Error-Message": "Repository not found", "X-Error-Code": "RepoNotFound"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        whole = len(body)
        if self.hub.cuts and self.path.startswith("/cdn/"):
            body = body[: self.hub.cuts.pop(0)]
        elif self.broken and body:
            body = body[: self.hub.dice.randrange(whole)]
        self.hub.answers.append(0 if len(body) < whole else status)
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(whole))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub at HF_ENDPOINT with three files of FineWeb-Edu's 10BT sample and one of a dump."""
    seeded = random.Random(1)
    names = [f"sample/10BT/{number:03}_00000.parquet" for number in (0, 1, 2)]
    files = {name: seeded.randbytes(400_000 + number) for number, name in enumerate(names)}
    files |= {"data/CC-MAIN-2024-10/train-00000-of-00001.parquet": b"dump", "README.md": b"# FineWeb-Edu"}
    hub = Hub(files)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.hub = hub
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    for name, value in {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "secret", "NO_PROXY": "*"}.items():
        monkeypatch.setenv(name, value)
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()


TEXTS = [f"document {number} " + "word " * (number % 17) for number in range(400)]


@pytest.fixture
def texts() -> list[str]:
    """The documents of `corpus`, in order."""
    return TEXTS


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three parquet files and one of JSON lines, 100 documents each, the last with five seen before."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(3):
        table = pa.table({"text": TEXTS[number * 100 : number * 100 + 100]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=30)
    rows = [*TEXTS[300:], *TEXTS[10:15]]
    packed = gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in rows).encode())
    (folder / "3.jsonl.gz").write_bytes(packed)
    return folder


@pytest.fixture
def prepared() -> Callable[..., PreparationRecord]:
    """prepared(source, out, workers=1, **choices): in bytes, a fifth val, shards of 3,000 tokens."""

    def prepare(source: Path | str, out: Path, workers: int = 1, **choices: Any) -> PreparationRecord:
        chosen = Choices(**({"tokenizer": "bytes", "val": 0.2, "shard_tokens": 3000} | choices))
        return run_preparation(str(source), chosen, Destination(out, workers, lambda _: None))

    return prepare


@pytest.fixture
def digests() -> Callable[[Path], dict[str, str]]:
    """Every file of a folder by its content."""

    def of(folder: Path) -> dict[str, str]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    return of
