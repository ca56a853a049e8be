"""Inputs that lie on the hub: fetched one ahead of the one in use, deleted once they are done with."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nanodyno.data.prepare.hub import HubFile, HubName, connect, fetch, list_files
from nanodyno.data.prepare.plan import Input
from nanodyno.data.prepare.reading import TEXT
from nanodyno.data.prepare.transfer import Transfer

# One that was told to stop ends with the piece at hand; on a dead line it is not waited for.
_LAST_CHUNK_SECONDS = 5.0
_SECONDS_BETWEEN_WORDS = 5.0


@dataclass(frozen=True)
class HubFiles:
    """Files of one commit of a dataset. release() deletes a file unless keep is set."""

    name: str
    path: str
    inputs: tuple[Input, ...]
    folder: Path
    keep: bool
    transfer: Transfer
    files: dict[str, HubFile]
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "fetch"))
    _fetched: dict[str, Future[Path]] = field(default_factory=dict[str, Future[Path]])

    def present(self, given: Input, ahead: Input | None) -> Path:
        here = self._fetch(given)
        if ahead is not None:
            self._fetch(ahead)
        while not wait([here], _SECONDS_BETWEEN_WORDS).done:
            self.transfer.tell(self._how_far(given))
        path = here.result()
        return self.folder if given.members else path

    def release(self, given: Input) -> None:
        future = self._fetched.pop(given.name, None)
        if future is not None:
            wait([future], _LAST_CHUNK_SECONDS)
        if self.keep:
            return
        path = self.folder / given.name
        for fetched in (path, path.with_name(f"{path.name}.part")):
            fetched.unlink(missing_ok=True)
        if not self.transfer.stop.is_set():
            return  # the file that comes next may be about to be opened in the same folder
        for parent in path.relative_to(self.folder.parent).parents[:-1]:
            with suppress(OSError):
                (self.folder.parent / parent).rmdir()  # where nothing else is left

    def stop(self) -> None:
        self.transfer.stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _how_far(self, given: Input) -> str:
        """Of a file that all else waits for."""
        part = (self.folder / given.name).with_name(f"{Path(given.name).name}.part")
        fetched = part.stat().st_size if part.exists() else 0
        return f"fetching {given.name}: {fetched / 2**20:,.0f} of {given.bytes / 2**20:,.0f} MiB"

    def _fetch(self, given: Input) -> Future[Path]:
        if given.name not in self._fetched:
            file = self.files[given.name]
            self._fetched[given.name] = self._pool.submit(fetch, self.transfer, file, self.folder)
        return self._fetched[given.name]


def hub_files(
    name: HubName, folder: Path, keep: bool, tell: Callable[[str], None], revision: str = "main"
) -> HubFiles:
    """The files that a name stands for on the hub, to be fetched into folder."""
    transfer = connect(tell=tell)
    listing = list_files(transfer, name, revision)
    pinned = "/".join(part for part in (name.repo, name.path) if part) + f"@{listing.revision}"
    return HubFiles(
        name=pinned,
        path=pinned,
        inputs=tuple(_input(file) for file in listing.files),
        folder=folder,
        keep=keep,
        transfer=transfer,
        files={file.path: file for file in listing.files},
    )


def _input(file: HubFile) -> Input:
    members = (file.path,) if file.path.endswith(TEXT) else ()
    return Input(name=file.path, bytes=file.remote.size_bytes, members=members)
