"""What a card can do by its datasheet: the table in cards.csv and the lookup in it.

Tensor peaks are dense, with fp32 accumulation, at the specified boost clock. An unknown card has no row: its
share of a peak is then unknown, never taken from another card.
"""

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

GIB = 2**30
TERA = 1e12

# Drivers put these before the name, some versions of them and not others.
_PREFIXES = frozenset({"nvidia", "geforce", "tesla", "amd", "instinct"})

# A 16 GB card with ECC on shows as little as 14.6 GiB; the nearest two cards of one name are 10 and 12 GB.
_MEMORY_TOLERANCE = 0.10


@dataclass(frozen=True)
class Card:
    """One row of the table: a card, or one of its variants when one name was sold with several memories."""

    name: str
    memory_bytes: int
    """The nominal size; drivers show up to a tenth less."""
    tensor_flops: float
    tensor_dtype: str
    """bfloat16, which implies float16 at the same rate; or float16, on cards older than bfloat16."""
    fp32_flops: float
    bandwidth_bytes_per_second: float
    tdp_watts: float
    source: str

    def peak_flops(self, dtype: str) -> float | None:
        """FLOP/s at which this card's datasheet multiplies matrices of a dtype; None where it cannot."""
        if dtype == "float32":
            return self.fp32_flops
        if dtype == "float16" or dtype == self.tensor_dtype:
            return self.tensor_flops
        return None


def find_card(device_name: str, memory_bytes: int | None) -> Card | None:
    """The card that a driver means by a name, told apart by total memory where one name is several cards.

    The whole name has to agree: an RTX A1000 is no A100 and a laptop part is not its desktop namesake.
    Without a memory, cards of one name and one peak are as good as one (the first row is returned), others
    are not.
    """
    rows = _cards_by_name().get(_normal_form(device_name), ())
    if not rows:
        return None
    if memory_bytes is None:
        peaks = {(row.tensor_flops, row.fp32_flops) for row in rows}
        return rows[0] if len(peaks) == 1 else None
    nearest = min(rows, key=lambda row: abs(row.memory_bytes - memory_bytes))
    distance = abs(nearest.memory_bytes - memory_bytes)
    return nearest if distance <= _MEMORY_TOLERANCE * nearest.memory_bytes else None


@cache
def all_cards() -> tuple[Card, ...]:
    """The table, in its own order."""
    text = files("nanodyno.hardware").joinpath("cards.csv").read_text(encoding="utf-8")
    return tuple(_card(row) for row in csv.DictReader(text.splitlines()))


@cache
def _cards_by_name() -> dict[str, tuple[Card, ...]]:
    names: dict[str, tuple[Card, ...]] = {}
    for card in all_cards():
        name = _normal_form(card.name)
        names[name] = (*names.get(name, ()), card)
    return names


def _normal_form(name: str) -> str:
    """Lower-case words without the vendor's: 'NVIDIA A100-SXM4-40GB' becomes 'a100 sxm4 40gb'."""
    words = re.findall(r"[^\s\-_]+", name.casefold())
    while words and words[0] in _PREFIXES:
        words.pop(0)
    return " ".join(words)


def _card(row: dict[str, str]) -> Card:
    return Card(
        name=row["name"],
        memory_bytes=int(row["memory_gb"]) * GIB,
        tensor_flops=float(row["tensor_tflops"]) * TERA,
        tensor_dtype=row["tensor_dtype"],
        fp32_flops=float(row["fp32_tflops"]) * TERA,
        bandwidth_bytes_per_second=float(row["bandwidth_gb_s"]) * 1e9,
        tdp_watts=float(row["tdp_w"]),
        source=row["source"],
    )
