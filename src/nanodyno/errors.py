"""What a user did wrong, with a hint and an exit code.

Anything that is not a NanodynoError is our bug and shows a traceback.
"""

import difflib
from collections.abc import Iterable, Mapping


class NanodynoError(Exception):
    """A user's mistake or a failure that a user can act on; caught once, in cli/main.py."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def nearest_names(
    typed: str,
    known: Iterable[str],
    aliases: Mapping[str, str] | None = None,
    most: int = 1,
    cutoff: float = 0.6,
) -> list[str]:
    """Return the known names that `typed` probably means, the nearest first.

    An alias, in lower case, is another word for what it maps to; typed exactly, it is the only answer.
    """
    word = typed.casefold()
    if aliases is not None and word in aliases:
        return [aliases[word]]
    meant = {**(aliases or {}), **{each.casefold(): each for each in known}}
    near = difflib.get_close_matches(word, meant, n=most + len(aliases or {}), cutoff=cutoff)
    return list(dict.fromkeys(meant[each] for each in near))[:most]


def did_you_mean(near: Iterable[str]) -> str:
    """The question to put after an error; empty where nothing is near."""
    listed = ", ".join(near)
    return f"; did you mean {listed}?" if listed else ""


class RunFailed(NanodynoError):
    """It ran and failed: the settings were legal, the outcome was not."""

    exit_code = 1
