"""What was measured on this machine and need not be measured again, in the user's cache."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from nanodyno.records.files import write_new


def cache_file(name: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "nanodyno" / name


def recall(path: Path, is_sound: Callable[[Any], bool]) -> dict[str, Any]:
    """A cache that is damaged or of another version is as good as none."""
    with suppress(OSError, ValueError):
        known = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(known, dict) and all(map(is_sound, known.values())):
            return known
    return {}


def remember(path: Path, known: dict[str, Any]) -> None:
    """If it can be written: who cannot write there measures every time. Others may write at the same time."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(aside, json.dumps(known, indent=1))
        aside.replace(path)
