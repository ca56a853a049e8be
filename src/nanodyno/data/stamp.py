"""Whether files of tokens are still those that a run began with, without reading them all."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from nanodyno.data.manifest import reported_os_errors

_BLOCKS, _BLOCK_BYTES = 256, 4096


@reported_os_errors()
def stamp(paths: Iterable[Path]) -> str:
    """Changes whenever a file was written or replaced; checksums then tell whether its content did."""
    digest = hashlib.sha256()
    for path in paths:
        facts = path.stat()
        digest.update(f"{path.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def sampled_digest(path: Path) -> str:
    """Of a MiB in blocks spread evenly over a file: for files that come with no checksum."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = path.stat().st_size
        for block in range(_BLOCKS):
            file.seek(max(0, size - _BLOCK_BYTES) * block // (_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()[:16]
