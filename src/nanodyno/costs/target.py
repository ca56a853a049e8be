"""The card that a plan is for: by name, or the one at hand; under a limit of memory."""

import difflib
import re
from dataclasses import dataclass

from nanodyno.costs.setup import Dtype
from nanodyno.errors import NanodynoError
from nanodyno.hardware.cards import Card, all_cards, find_card

GIB = 2**30
SHOWN_SHARE = 0.97
"""Of a card's nominal memory what drivers show at least, where nothing is shown on a display."""


@dataclass(frozen=True)
class Target:
    """`memory_bytes` is what all of a training may take, context included; None where nothing is known."""

    name: str | None
    card: Card | None
    memory_bytes: int | None

    def dtype(self, asked: str) -> Dtype:
        """As the trainer chooses on such a card; a card that is not known is taken for a recent one."""
        own: Dtype = (
            "float16" if self.card is not None and self.card.tensor_dtype == "float16" else "bfloat16"
        )
        if asked in ("auto", "bfloat16"):
            return own
        return "float32" if asked == "float32" else "float16"


def named_target(name: str, limit_bytes: int | None) -> Target:
    card = card_named(name)
    shown = int(card.memory_bytes * SHOWN_SHARE)
    limit = shown if limit_bytes == card.memory_bytes else limit_bytes
    return Target(card.name, card, _limited(card.name, shown, limit))


def present_target(name: str, memory_bytes: int, limit_bytes: int | None) -> Target:
    """Of the card at hand, whether it is in the table or not."""
    return Target(name, find_card(name, memory_bytes), _limited(name, memory_bytes, limit_bytes))


def card_named(name: str) -> Card:
    """One row of the table; a name of several cards needs its memory, as in 'RTX 4060 Ti 16GB'."""
    exact = _rows(name)
    if len(exact) == 1:
        return exact[0]
    bare, memory = _with_memory(name)
    rows = exact or [card for card in _rows(bare) if card.memory_bytes == memory]
    if len(rows) == 1:
        return rows[0]
    if len(exact) > 1:
        both = " or ".join(f"'{card.name} {card.memory_bytes // GIB}GB'" for card in exact)
        raise NanodynoError(f"--gpu {name} is {len(exact)} cards", f"which one? {both}")
    raise NanodynoError(f"no card {name!r} in the table", _advice(name))


def _rows(name: str) -> list[Card]:
    return [card for card in all_cards() if find_card(name, card.memory_bytes) == card]


def _with_memory(name: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(.+?)[\s-]*(\d{1,4})\s*GB", name.strip(), re.IGNORECASE)
    return (found[1], int(found[2]) * GIB) if found else (name, None)


def _advice(name: str) -> str:
    names = {card.name.casefold(): card.name for card in all_cards()}
    near = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.5)
    meant = f"did you mean {', '.join(names[each] for each in near)}? " if near else ""
    return (
        f"{meant}A card that is not in the table is measured, never guessed: `nanodyno probe CONFIG` on it; "
        "or give its --memory-limit alone, for the memory"
    )


def _limited(name: str, memory_bytes: int, limit_bytes: int | None) -> int:
    if limit_bytes is None:
        return memory_bytes
    if limit_bytes > memory_bytes:
        raise NanodynoError(
            f"--memory-limit is {limit_bytes / GIB:.1f} GiB, and {name} has {memory_bytes / GIB:.1f}",
            "a limit is for less than the card has: leave it out, or name a larger card with --gpu",
        )
    return limit_bytes
