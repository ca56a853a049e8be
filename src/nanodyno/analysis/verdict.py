"""What a comparison allows to be said: different, tied within a margin, or no difference shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from nanodyno.analysis.repeats import RepetitionTime, ratio_interval
from nanodyno.analysis.statistics import Interval

MARGIN = 0.01

VerdictCall = Literal["different", "tied", "no difference shown"]


@dataclass(frozen=True)
class SpeedComparison:
    config: str
    reference: str
    ratio: Interval
    """Seconds of config over seconds of reference, at the level that the guards left: all of a table's
    intervals hold together in 95 of 100."""
    margin: float
    call: VerdictCall


def call_of(ratio: Interval, margin: float = MARGIN) -> VerdictCall:
    """Read off the shown interval, so that table and verdict cannot disagree.

    tied: all of it lies between 1 / (1 + margin) and 1 + margin, also when 1 is outside it: 0.3% +- 0.1% is
    tied within 1%. These are two one-sided tests at half of the interval's error each, stricter than the
    usual ones. different: 1 is outside. Otherwise, and without bounds, no difference is shown, which is not
    the same as none.
    """
    if ratio.low is None or ratio.high is None:
        return "no difference shown"
    if ratio.low >= 1 / (1 + margin) and ratio.high <= 1 + margin:
        return "tied"
    return "different" if ratio.low > 1 or ratio.high < 1 else "no difference shown"


def compare(
    repetitions: Sequence[RepetitionTime],
    reference: str | None = None,
    *,
    margin: float = MARGIN,
    level: float = 0.95,
) -> list[SpeedComparison]:
    """Every config against the reference, or without one every pair (in order of first appearance).

    The error is shared out: of m comparisons each gets (1 - level) / m (Bonferroni), so that all of them hold
    together and the reader may pick out any, the fastest included. Name a reference only if it was chosen
    before measuring (or on other measurements): that is what makes m smaller. A pair without a common round
    is left out.
    """
    configs = list(dict.fromkeys(repetition.config for repetition in repetitions))
    if reference is None:
        pairs = [(later, earlier) for earlier, later in combinations(configs, 2)]
    else:
        pairs = [(config, reference) for config in configs if config != reference]
    each = 1 - (1 - level) / max(len(pairs), 1)
    found = [(pair, ratio_interval(repetitions, *pair, each)) for pair in pairs]
    return [
        SpeedComparison(*pair, ratio, margin, call_of(ratio, margin))
        for pair, ratio in found
        if ratio is not None
    ]
