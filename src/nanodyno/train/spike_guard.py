"""Judges each iteration before its update: a loss or a gradient norm that is no number, or one that leaps.

A leap is a value more than `zscore` standard deviations above the mean of the latest ones that were accepted.
"""

import math
import statistics
from collections import deque

from pydantic import BaseModel, ConfigDict

from nanodyno.errors import RunFailed
from nanodyno.records.types import Skipped

WINDOW = 128
ENOUGH = 32
"""Below it a standard deviation says little, and a run that begins leaps down anyway."""
SMALLEST_DEVIATION = 1e-3
"""Relative to the mean: a window that hardly moves makes no leap of a rounding error."""
MOST_SKIPS_IN_A_ROW = 10
"""The weights stay as they are while updates are skipped: what is bad ten times running stays bad."""


class Diverged(RunFailed):
    """The loss or the gradient became NaN/inf, or had a spike."""

    def __init__(self, words: str, saved_at: int | None, skipping: bool = False) -> None:
        saved = (
            "nothing was saved before that: start again under another --name with"
            if saved_at is None
            else f"the state of iteration {saved_at} is saved: resume from there with --resume RUN and"
        )
        skip = "" if skipping else ", or with --bad_update=skip, which skips such updates"
        super().__init__(words, f"{saved} a lower --learning_rate or a longer --warmup_iters{skip}")


def what_happened(how: Skipped | None, loss: float, norm: float | None) -> str:
    of_the_norm = norm is not None and (how == "norm-spike" or (how == "not-finite" and math.isfinite(loss)))
    verb = "became" if how == "not-finite" else "spiked to"
    return f"the gradient's norm {verb} {norm:.4g}" if of_the_norm else f"the loss {verb} {loss:.4g}"


class SpikeGuardState(BaseModel):
    """What the next judgement depends on, as a checkpoint keeps it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    skipped_in_a_row: int = 0


class SpikeGuard:
    """Keeps the latest accepted losses and gradient norms; a zscore of 0 looks for numbers only."""

    def __init__(self, zscore: float, seen: SpikeGuardState = SpikeGuardState()) -> None:  # noqa: B008 - frozen
        self._zscore = zscore
        self._losses = deque(seen.losses, WINDOW)
        self._norms = deque(seen.norms, WINDOW)
        self.skipped_in_a_row = seen.skipped_in_a_row

    def judge(self, loss: float, norm: float | None) -> Skipped | None:
        if not math.isfinite(loss) or (norm is not None and not math.isfinite(norm)):
            return "not-finite"
        if self._zscore and _leaps(loss, self._losses, self._zscore):
            return "loss-spike"
        if self._zscore and norm is not None and _leaps(norm, self._norms, self._zscore):
            return "norm-spike"
        return None

    def accept(self, loss: float, norm: float | None) -> None:
        self.skipped_in_a_row = 0
        self._losses.append(loss)
        if norm is not None:
            self._norms.append(norm)

    def skip(self) -> None:
        self.skipped_in_a_row += 1

    def seen(self) -> SpikeGuardState:
        return SpikeGuardState(
            losses=tuple(self._losses), norms=tuple(self._norms), skipped_in_a_row=self.skipped_in_a_row
        )


def _leaps(value: float, before: deque[float], zscore: float) -> bool:
    if len(before) < ENOUGH:
        return False
    mean = statistics.fmean(before)
    deviation = max(statistics.pstdev(before, mean), SMALLEST_DEVIATION * abs(mean))
    return value > mean + zscore * deviation
