# pyright: strict
"""`batch_ramp`: how tokens_per_iter grows while a run trains."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

NOISE = "noise"
GROWTH_LIMIT = 16
"""Times tokens_per_iter that the measured noise may make of it, unless the config says how far."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}


class NoRamp(ValueError):
    """What is wrong with the text, in words that follow its key."""


@dataclass(frozen=True)
class Ramp:
    """tokens_per_iter at the beginning, and from so many tokens on; or by the noise, up to `most`."""

    first: int
    steps: tuple[tuple[int, int], ...] = ()
    most: int | None = None
    """Set where the measured noise decides: the last doubling."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.first, *(size for _, size in self.steps))

    @property
    def grows(self) -> bool:
        return bool(self.steps) or self.most is not None

    @property
    def fewest_steps(self) -> int:
        """Micro-steps of an iteration: noise is measured between two."""
        return 1 if self.most is None else 2

    def at(self, tokens: int) -> int:
        """Of the iteration that begins when so many tokens were seen, by the schedule."""
        return next((size for since, size in reversed(self.steps) if tokens >= since), self.first)

    def tokens_after(self, iterations: int) -> int:
        """Of a run's first so many iterations, by the schedule."""
        seen = 0
        for end, size in self._stages():
            done = min(iterations, _reaching(end - seen, size)) if math.isfinite(end) else iterations
            seen += done * size
            iterations -= done
        return seen

    def iterations_for(self, tokens: int) -> int:
        """The fewest that see so many tokens, by the schedule."""
        seen = done = 0
        for end, size in self._stages():
            number = _reaching(min(end, tokens) - seen, size)
            seen, done = seen + number * size, done + number
        return done

    def in_share(self, share: float) -> str | None:
        """As a setting, of a run that is so many times as long; None for one that does not rise."""
        if self.most is not None:
            return f"{NOISE}:{self.most}"
        steps: list[tuple[int, int]] = []
        for since, size in self.steps:
            at = max(1, round(since * share))
            steps = [step for step in steps if step[0] < at] + [(at, size)]
        return ", ".join(f"{since}:{size}" for since, size in steps) or None

    def _stages(self) -> Iterator[tuple[float, int]]:
        """Where each size ends, and it."""
        ends = (*(since for since, _ in self.steps), math.inf)
        return zip(ends, self.sizes, strict=True)


def _reaching(tokens: float, size: int) -> int:
    return max(0, math.ceil(tokens / size))


def read_ramp(text: str, first: int) -> Ramp:
    """`10M:131072, 50M:262144`, `noise` or `noise:524288`."""
    kind, _, limit = (part.strip() for part in text.partition(":"))
    if kind == NOISE:
        most = GROWTH_LIMIT * first if not limit and ":" not in text else _number(limit, text)
        if most < 2 * first:
            raise NoRamp(f"{text} ends at {most}, and the first doubling is {2 * first}")
        return Ramp(first, most=first * 2 ** ((most // first).bit_length() - 1))
    parts = [part.strip() for part in text.split(",")]
    steps = tuple(_step(part, text) for part in parts)
    for number, (before, step) in enumerate(pairwise([(0, first), *steps]), 1):
        _refuse_falling(f"step {number} ({parts[number - 1]})", number - 1, before, step)
    return Ramp(first, steps)


def _refuse_falling(name: str, former: int, before: tuple[int, int], step: tuple[int, int]) -> None:
    """Each step begins later than the former, and is larger; the first comes after tokens_per_iter."""
    if step[0] == 0:
        raise NoRamp(f"{name} starts at 0 tokens, where tokens_per_iter is the size; start it later")
    if step[0] <= before[0]:
        raise NoRamp(f"{name} starts at {step[0]} tokens, not later than step {former} ({before[0]})")
    if step[1] <= before[1]:
        of_former = f"step {former}'s {before[1]}" if former else f"tokens_per_iter={before[1]}"
        smaller = "" if former else ", or tokens_per_iter smaller"
        raise NoRamp(
            f"{name} has {step[1]} tokens per iteration, not more than {of_former}; make it larger{smaller}"
        )


def whole_micro_batches(sequences: int, fewest_steps: int, most: int) -> list[int]:
    """Of at most so many sequences, those that divide an iteration into so many micro-steps or more."""
    return [size for size in range(1, min(most, sequences // fewest_steps) + 1) if sequences % size == 0]


def _step(part: str, text: str) -> tuple[int, int]:
    since, colon, size = part.partition(":")
    if not colon:
        raise NoRamp(_form(text))
    return _number(since, text), _number(size, text)


def _number(word: str, text: str) -> int:
    found = re.fullmatch(r"(\d[\d_]{0,20}(?:\.\d{1,9})?)([kmb]?)", word.strip().lower())
    if found is None:
        raise NoRamp(_form(text))
    number = float(found[1].replace("_", "")) * _UNITS[found[2]]
    if not number.is_integer():
        raise NoRamp(f"{word.strip()} is not a whole number of tokens")
    return int(number)


def _form(text: str) -> str:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return (
        f"must be steps such as 10M:131072, 50M:262144 (after how many tokens, how many tokens per "
        f"iteration), {NOISE} or {NOISE}:524288, not {shown!r}"
    )
