# pyright: strict
"""`batch_ramp`: how tokens_per_iter grows while a run trains."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

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
    """Set where the measured noise decides; it doubles."""

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.first, *(size for _, size in self.steps))

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
        return Ramp(first, most=most)
    steps = tuple(_step(part, text) for part in text.split(","))
    before = (0, first)
    for step in steps:
        if step[0] <= before[0] or step[1] <= before[1]:
            raise NoRamp(
                f"grows from step to step, and {step[0]}:{step[1]} comes after {before[0]}:{before[1]}"
            )
        before = step
    return Ramp(first, steps)


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
        raise NoRamp(f"{word.strip()} is no whole number of tokens")
    return int(number)


def _form(text: str) -> str:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return (
        f"must be steps such as 10M:131072, 50M:262144 (from so many tokens on, so many tokens per "
        f"iteration), {NOISE} or {NOISE}:524288, not {shown!r}"
    )
