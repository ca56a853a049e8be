"""Bytes over HTTP with patience: what a server or the line does wrong is tried again, from where it stopped.

huggingface_hub's own transfers are not used: they begin a broken file anew, its listing waits for ever on a
server that says nothing, and its errors are those of an HTTP client that has changed between versions.
"""

import hashlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Notify

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

_CHUNK_BYTES = 2**16
# Answers that another time may be better: too slow, too many requests, trouble of the server's own.
_PASSING_STATUSES = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Patience:
    """How long to bear with a server. Failures count in a row: every byte that arrives begins a new row."""

    attempts: int = 8
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0
    longest_asked_wait_seconds: float = 600.0
    timeout_seconds: float = 30.0

    def wait_seconds(self, failures: int, asked: float | None) -> float:
        """Twice as long after each failure, and no less than the server asked for."""
        own = min(self.first_wait_seconds * 2 ** (failures - 1), self.longest_wait_seconds)
        return max(own, min(asked or 0.0, self.longest_asked_wait_seconds))


@dataclass(frozen=True)
class Remote:
    """A file at an address, with what is known of its content: sha256 or git's own sha1 of a blob."""

    address: str
    size_bytes: int
    sha256: str | None = None
    git_sha1: str | None = None

    def agrees(self, path: Path) -> bool:
        """Whether the file at path has this content, as far as is known."""
        if path.stat().st_size != self.size_bytes:
            return False
        if self.sha256 is not None:
            return _digest(path, hashlib.sha256()) == self.sha256
        if self.git_sha1 is not None:
            return _digest(path, hashlib.sha1(b"blob %d\0" % self.size_bytes)) == self.git_sha1
        return True


class Stopped(Exception):
    """The transfer was told to stop; what has arrived stays for the next time."""


class _Passing(Exception):
    """A failure that may pass."""

    def __init__(self, message: str, asked_wait: float | None = None, progressed: bool = False) -> None:
        super().__init__(message)
        self.asked_wait = asked_wait
        self.progressed = progressed


@dataclass(frozen=True)
class Transfer:
    """Requests to one server: the headers they carry, the patience they have, whom they tell of trouble."""

    headers: Mapping[str, str] = field(default_factory=dict)
    patience: Patience = Patience()
    tell: Notify = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)

    def json(self, address: str) -> tuple[Any, str | None]:
        """The JSON document at address and the address of its next page."""

        def once() -> tuple[Any, str | None]:
            import requests

            try:
                with self._get(address, {}) as response:
                    return response.json(), response.links.get("next", {}).get("url")
            except requests.RequestException as error:
                raise _Passing(_reason(error)) from error

        return self._patiently(once, address, address)

    def download(self, remote: Remote, path: Path) -> Path:
        """Fetch remote to path, going on from what path.part holds; a file that is there whole is kept."""
        if path.is_file() and remote.agrees(path):
            return path
        part = path.with_name(f"{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._patiently(lambda: self._fetch_rest(remote, part), remote.address, path.name)
            part.replace(path)
        except OSError as error:
            raise RunFailed(
                f"cannot write {part}: {error.strerror or error}",
                hint="free some space or choose another folder, then repeat the command: "
                "it continues from what has arrived",
            ) from error
        return path

    def _fetch_rest(self, remote: Remote, part: Path) -> None:
        """One attempt at what is missing of part, and the check of the whole."""
        import requests

        before = _size(part)
        if before > remote.size_bytes:
            part.unlink()
            before = 0
        try:
            if before < remote.size_bytes or not part.exists():
                _check_space(part, remote.size_bytes - before)
                self._append(remote.address, part, before)
        except requests.RequestException as error:
            raise _Passing(_reason(error), progressed=_size(part) > before) from error
        if (found := _size(part)) != remote.size_bytes:
            message = f"it ended after {found:,} of {remote.size_bytes:,} bytes"
            raise _Passing(message, progressed=before < found < remote.size_bytes)
        if not remote.agrees(part):
            part.unlink()
            raise _Passing("it arrived damaged: its checksum differs from the one that the server reports")

    def _append(self, address: str, part: Path, have: int) -> None:
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with self._get(address, headers) as response:
            goes_on = response.status_code == 206 and _first_byte(response) == have
            with part.open("ab" if have and goes_on else "wb") as file:
                for chunk in response.iter_content(_CHUNK_BYTES):
                    file.write(chunk)
                    if self.stop.is_set():
                        raise Stopped

    def _get(self, address: str, headers: Mapping[str, str]) -> "requests.Response":
        import requests
        from requests import exceptions as errors

        try:
            response = requests.get(
                address,
                headers={**self.headers, **headers},
                stream=True,
                timeout=self.patience.timeout_seconds,
            )
        except (errors.InvalidURL, errors.InvalidSchema, errors.MissingSchema) as error:
            raise _bad_address(address) from error
        if response.ok:
            return response
        with response:
            reported = response.headers.get("X-Error-Message") or response.reason
            if response.status_code in _PASSING_STATUSES:
                raise _Passing(
                    f"it answered {response.status_code} {reported}", _asked_wait(response.headers)
                )
            raise _refused(address, response.status_code, reported)

    def _patiently(self, action: Callable[[], T], address: str, name: str) -> T:
        failures = 0
        while True:
            try:
                return action()
            except _Passing as passing:
                failures = 1 if passing.progressed else failures + 1
                if failures >= self.patience.attempts:
                    raise _gave_up(address, failures, passing) from passing
                wait = self.patience.wait_seconds(failures, passing.asked_wait)
                self.tell(f"{name}: {passing}; trying again in {wait:.0f} s")
            if self.stop.wait(wait):
                raise Stopped


def _digest(path: Path, start: Any) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: start).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check_space(part: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if free < needed_bytes:
        raise RunFailed(
            f"no space for {part.name.removesuffix('.part')}: it needs {needed_bytes / 2**30:.2f} GiB more "
            f"and {part.parent} has {free / 2**30:.2f} GiB free",
            hint="free some space and give the same command again: what is done stays valid",
        )


def _first_byte(response: "requests.Response") -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: in Retry-After (a number or a date) or in the hub's RateLimit."""
    reported = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", reported):
        return float(reported)
    if reported:
        try:
            return max(0.0, parsedate_to_datetime(reported).timestamp() - time.time())
        except ValueError:
            return None
    limit = re.search(r";\s*t=(\d+)", headers.get("RateLimit", ""))
    return float(limit[1]) if limit else None


def _reason(error: Exception) -> str:
    """What the line did, without the client's nest of causes."""
    import requests

    if isinstance(error, requests.exceptions.JSONDecodeError):
        return "it responded with something other than JSON"
    if isinstance(error, requests.exceptions.Timeout):
        return "it did not respond in time"
    return f"the connection failed ({type(error).__name__})"


def _bad_address(address: str) -> NanodynoError:
    return NanodynoError(
        f"{address!r} is not a server address",
        hint="HF_ENDPOINT, if set, must start with https:// and a name",
    )


def _refused(address: str, status: int, reported: str) -> NanodynoError:
    hint = "check the name, the path and the revision; a private dataset needs a token in HF_TOKEN"
    if status in (401, 403):
        hint = (
            "check the name; a gated or private dataset needs a token in HF_TOKEN (and its terms accepted on "
            "its page)"
        )
    return NanodynoError(f"{address} responded with {status} {reported}", hint=hint)


def _gave_up(address: str, failures: int, passing: _Passing) -> RunFailed:
    return RunFailed(
        f"{address} could not be downloaded after {failures} attempts: {passing}",
        hint="check the network (HF_ENDPOINT chooses another hub) and repeat the command: "
        "it continues from what has arrived",
    )
