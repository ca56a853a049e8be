"""Dataset files of the Hugging Face hub: what a name means there, and which files there are at a revision."""

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from nanodyno.data.prepare.reading import SUFFIXES
from nanodyno.data.prepare.transfer import Patience, Remote, Transfer
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Notify

NAMED = {"fineweb-edu": "HuggingFaceFW/fineweb-edu", "fineweb": "HuggingFaceFW/fineweb"}
SAMPLES = ("10BT", "100BT", "350BT")

_HUB = "https://huggingface.co"


@dataclass(frozen=True)
class HubName:
    """A dataset and what is wanted of it: a folder, a file, a pattern with *, or nothing for the whole."""

    repo: str
    path: str


@dataclass(frozen=True)
class HubFile:
    """One file of a dataset, by its path there."""

    path: str
    remote: Remote


@dataclass(frozen=True)
class HubListing:
    """The files of a dataset at one commit, in the order of their paths."""

    repo: str
    revision: str
    files: tuple[HubFile, ...]


def hub_name(name: str) -> HubName | None:
    """What a user's word means on the hub, None when it cannot be a name there.

    fineweb-edu and fineweb are followed by a sample (10BT unless told), a dump (CC-MAIN-2024-10) or a path;
    other datasets are org/name or org/name/path.
    """
    first, _, rest = name.partition("/")
    if first in NAMED:
        return HubName(NAMED[first], _fineweb_path(first, rest))
    found = re.fullmatch(r"(\w[\w.-]*/\w[\w.-]*)(?:/(.+))?", name)
    return HubName(found[1], (found[2] or "").strip("/")) if found else None


def connect(patience: Patience | None = None, tell: Notify | None = None) -> Transfer:
    """Requests as the user of this machine: with the token that huggingface_hub has stored, if any."""
    from huggingface_hub import get_token

    token = get_token()
    headers = {"User-Agent": "nanodyno"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return Transfer(headers, patience or Patience(), tell or (lambda _: None))


def list_files(
    transfer: Transfer, name: HubName, revision: str = "main", suffixes: Sequence[str] = SUFFIXES
) -> HubListing:
    """The dataset's files at a revision, pinned to its commit first: later commits change nothing."""
    api = f"{_endpoint()}/api/datasets/{name.repo}"
    reported, _ = transfer.json(f"{api}/revision/{quote(revision, safe='')}")
    commit = str(_reported(reported, "sha", api))
    last = PurePosixPath(name.path).name
    narrowed = "*" in last or last.endswith(tuple(suffixes))
    folder = str(PurePosixPath(name.path).parent) if narrowed else name.path
    address = f"{api}/tree/{commit}/{quote(folder) if folder != '.' else ''}".rstrip("/") + "?recursive=true"
    entries = [entry for entry in _pages(transfer, address) if entry.get("type") == "file"]
    files = [_hub_file(name.repo, commit, entry) for entry in entries]
    chosen = [
        file
        for file in files
        if file.path.endswith(tuple(suffixes)) and (not narrowed or fnmatch.fnmatchcase(file.path, name.path))
    ]
    if not chosen:
        raise _nothing_there(name, files, suffixes)
    return HubListing(name.repo, commit, tuple(sorted(chosen, key=lambda file: file.path)))


def fetch(transfer: Transfer, file: HubFile, folder: Path) -> Path:
    """The file under folder, whole and checked; what is there of it already is not fetched again."""
    return transfer.download(file.remote, folder / file.path)


def _endpoint() -> str:
    # Read at every call: huggingface_hub reads it once, when it is imported.
    return os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")


def _fineweb_path(name: str, part: str) -> str:
    if part in ("", *SAMPLES):
        return f"sample/{part or SAMPLES[0]}"
    if re.fullmatch(r"CC-MAIN-\d{4}-\d{2}", part):
        return f"data/{part}"
    if part.split("/")[0] in ("sample", "data"):
        return part.rstrip("/")
    raise NanodynoError(
        f"{name} has no part {part!r}",
        hint=f"there are the samples {', '.join(SAMPLES)} (as in {name}/10BT), a dump (as in "
        f"{name}/CC-MAIN-2024-10), and data for all dumps",
    )


def _pages(transfer: Transfer, address: str) -> Iterator[Mapping[str, Any]]:
    next_address: str | None = address
    while next_address:
        page, next_address = transfer.json(next_address)
        if not isinstance(page, list):
            raise _no_hub(address)
        yield from page


def _hub_file(repo: str, commit: str, entry: Mapping[str, Any]) -> HubFile:
    """A listed file; its path becomes one of this machine's, so it may not lead out of the folder."""
    path = str(_reported(entry, "path", repo))
    if not all(part not in ("", ".", "..") and re.fullmatch(r"[^\\:\0]+", part) for part in path.split("/")):
        raise RunFailed(f"{repo} lists a file named {path!r}", hint="it is not safe to fetch")
    address = f"{_endpoint()}/datasets/{repo}/resolve/{commit}/{quote(path)}"
    large = entry.get("lfs")
    if large:
        return HubFile(
            path, Remote(address, int(_reported(large, "size", repo)), sha256=_reported(large, "oid", repo))
        )
    return HubFile(
        path, Remote(address, int(_reported(entry, "size", repo)), git_sha1=_reported(entry, "oid", repo))
    )


def _reported(answer: Any, key: str, address: str) -> Any:
    if not isinstance(answer, dict) or key not in answer:
        raise _no_hub(address)
    return answer[key]


def _no_hub(address: str) -> RunFailed:
    return RunFailed(
        f"{address} does not respond like the Hugging Face hub",
        hint="check HF_ENDPOINT, and that no proxy or sign-in page stands in between",
    )


def _nothing_there(name: HubName, files: Sequence[HubFile], suffixes: Sequence[str]) -> NanodynoError:
    others = ", ".join(sorted({PurePosixPath(file.path).name for file in files})[:5])
    return NanodynoError(
        f"{name.repo} has no text files at {name.path or 'its top level'}",
        hint=f"read are {', '.join(suffixes)}; there is: {others or 'nothing'}",
    )
