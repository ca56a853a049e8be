"""Small JSON files that one user writes for another: how one is known, and read with care."""

import json
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nanodyno.errors import NanodynoError
from nanodyno.records.importers.source import clean, unreadable

RESULT_FORMAT, CEILINGS_FORMAT = "nanodyno-result", "nanodyno-ceilings"
LARGEST = 1 << 24
"""Bytes: ours have some tens of thousands."""
_MARK = re.compile(rb'\s*\{\s*"format"\s*:\s*"(nanodyno-[a-z]+)"')


def format_of(path: Path) -> str | None:
    """Return the format that a file begins with. A file that cannot be read has none."""
    try:
        with path.open("rb") as file:
            found = _MARK.match(file.read(4096))
    except OSError:
        return None
    return None if found is None else found[1].decode()


def read_export(path: Path, what: str, newest: int) -> tuple[bytes, Any]:
    """Return the content of a file and the JSON in it, whose text is printable. `what` names its kind.

    Raises NanodynoError for what cannot be read, is too large, is no JSON or has a version above `newest`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > LARGEST:
        raise damaged(path, what, "it is too large for one")
    try:
        raw = _printable(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise damaged(path, what, str(error)) from None
    version = raw.get("version") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > newest:
        raise NanodynoError(
            f"{clean(path.name)} was written by a newer nanodyno", "upgrade nanodyno to read it"
        )
    return content, raw


def damaged(path: Path, what: str, why: str | ValidationError) -> NanodynoError:
    """Return the error that names the file and the first thing that is wrong with it."""
    if isinstance(why, ValidationError):
        first = why.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return NanodynoError(f"{clean(path.name)} is not a complete {what} of nanodyno: {why}", "export it again")


def _printable(value: Any) -> Any:
    """Without what no terminal should see, and no number that no computer counts to."""
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError("a number in it is too large")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value
