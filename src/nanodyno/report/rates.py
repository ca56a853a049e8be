"""A range test of the learning rate in words: on its way, and what it found."""

from nanodyno.analysis.rates import (
    FEWEST_LONG,
    FEWEST_SHORT,
    Begun,
    Chosen,
    Lengths,
    RangeTestEvent,
    TrialEnded,
)
from nanodyno.messages.quantities import clock


def event_words(event: RangeTestEvent) -> str:
    return _begun(event) if isinstance(event, Begun) else f"  {_ended(event)}"


def _begun(begun: Begun) -> str:
    lengths = begun.lengths
    long = "" if lengths.long is None else f" and {FEWEST_LONG} or more of {lengths.long:,}"
    return (
        f"learning_rate=auto: a range test of {FEWEST_SHORT} or more trainings of {lengths.short} iterations"
        f"{long}, the work of {begun.work:,} iterations of this run, which has {lengths.whole:,}"
    )


def _ended(ended: TrialEnded) -> str:
    trial = ended.trial
    loss = "diverged" if trial.val_loss is None else f"val loss {trial.val_loss:.4f}"
    where = f"{ended.iterations:,} iterations, repeat {trial.repeat + 1}"
    left = "" if ended.seconds_left is None else f"; about {clock(ended.seconds_left)} more"
    return f"learning rate {trial.learning_rate:.3g}, {where}: {loss}{left}"


def chosen_words(chosen: Chosen, trials: int, lengths: Lengths) -> str:
    interval = chosen.interval
    words = f"learning_rate=auto chose {chosen.learning_rate:g}"
    if interval.low is not None and interval.high is not None:
        words += f" (95% CI {interval.low:.2g} to {interval.high:.2g} over {interval.n} repeats)"
    words += f" from {trials} short runs: {chosen.in_short:.2g} was best in {lengths.short} iterations"
    if chosen.in_long is not None:
        words += f" and {chosen.in_long:.2g} in {lengths.long:,}"
        words += f", extrapolated to {lengths.whole:,}" if chosen.carried else ", which is used unchanged"
    words += "; another rate may be better for the whole run"
    if chosen.at_the_end:
        words += "; the loss was still falling at the last rate tried"
    return words
