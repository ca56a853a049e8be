"""Forecasts and their warnings in words: a template a code, whose numbers are shown by their names."""

from collections.abc import Callable, Sequence
from typing import Any

from nanodyno.analysis.findings import Finding
from nanodyno.report import finding_words
from nanodyno.report import quantities as q

TEMPLATES: dict[str, str] = {
    "forecast-end": (
        "{run} ends at a loss of {loss} (80%: {low} to {high}), a perplexity of {perplexity} "
        "({perplexity_low} to {perplexity_high}), at iteration {iterations} (tokens: {tokens})"
    ),
    "forecast-by-size": (
        "by its size, data and tokens alone, not by its curve, {run} would end at about {loss} "
        "(80%: {low} to {high}), a perplexity of {perplexity} ({perplexity_low} to {perplexity_high}), "
        "at iteration {iterations} (tokens: {tokens})"
    ),
    "forecast-ended": "{run} has been there: its loss was {loss} at iteration {iterations}",
    "forecast-changed": (
        "with this schedule {run} ends at {loss_1} instead of {loss_0} at iteration {iterations} "
        "({difference})"
    ),
    "target-reached": (
        "{run} reaches {target} at about iteration {iterations} (tokens: {tokens}; time from now: "
        "{seconds}), and nine times in ten by iteration {likely_iterations}"
    ),
    "target-reached-perhaps": (
        "{run} reaches {target} at about iteration {iterations} (tokens: {tokens}; time from now: "
        "{seconds}), but less than nine times in ten before the end"
    ),
    "target-not-reached": (
        "{run} does not reach {target} with this schedule: {loss} is expected at iteration {iterations}"
    ),
    "target-beyond-laws": (
        "{run}: {target} is below {floor}, which is what the known laws leave possible for a model of this "
        "size on these tokens: a target of another tokenizer, other data or a larger model"
    ),
    "forecast-time": (
        "{run} takes {seconds} more to iteration {iterations}, at {per_iteration} an iteration with its "
        "share of evaluations and saves"
    ),
    "forecast-time-training-only": (
        "{run} takes {seconds} more to iteration {iterations}, at {per_iteration} an iteration; what "
        "evaluations and saves take is not known"
    ),
    "forecast-few-points": (
        "{run} has shown too little of its curve (losses seen: {points}): this is a published law for "
        "model size and tokens, at the level of one public run, for data of the kind: {data}. It knows "
        "nothing of this run"
    ),
    "forecast-schedule-unknown": (
        "{run}: its learning-rate schedule is not known, so the interval reaches from a rate that is held "
        "to one that falls to nothing; --set lr_decay_iters=..., learning_rate=... and max_iters=... tell it"
    ),
    "forecast-of-train-loss": "{run} has no evaluations: this is its training loss",
    "forecast-beyond-schedule": (
        "{run}: its learning rate is at its lowest ({min_lr}) from iteration {lr_decay_iters} on; "
        "--set lr_decay_iters={plain_iterations} asks about a schedule that goes all the way"
    ),
    "forecast-spikes-left-out": "{run}: losses that leap were left out of the fit: {count}",
    "warning-diverging": (
        "{run}: its val loss has risen by {rise} since its best ({best}, now {loss}): it may be diverging, "
        "and the forecast takes for granted that it recovers"
    ),
    "warning-plateau": (
        "{run}: its val loss hardly falls any more ({slope} nats per e-fold of iterations) while the "
        "learning rate is high"
    ),
    "warning-spikes": "{run}: {count} of its last {of} batches had a loss that leaps",
    "warning-parting": (
        "{run}: val loss is {gap} above train loss, and was {smallest}: it begins to learn its data by heart"
    ),
    "warning-repeating": (
        "{run} will see its data {epochs} times ({tokens} tokens): beyond about four times the forecast is "
        "too low"
    ),
    "warning-not-finite": "{run}: {count} of its losses are not a number, and were left out",
    "warning-uneven-evaluations": (
        "{run}: its val losses scatter by {noise}: they seem to be of other tokens each time"
    ),
    "ends-lower": (
        "{run} ends lower than {other} with a probability of {probability}: {loss_0} ({low_0} to {high_0}) "
        "at iteration {iteration_0} against {loss_1} ({low_1} to {high_1}) at iteration {iteration_1}"
    ),
    "ends-alike": (
        "either may end lower: {run} at {loss_0} ({low_0} to {high_0}) at iteration {iteration_0}, {other} "
        "at {loss_1} ({low_1} to {high_1}) at iteration {iteration_1}"
    ),
    "ends-rough": (
        "{run} and {other} are compared as if the learning rate of each fell from here to its lowest at that "
        "place: a rough answer"
    ),
}
ENDS = ("ends-lower", "ends-alike", "ends-rough")
"""Of two runs, in a comparison."""
PAIRS = {"losses": "loss", "lows": "low", "highs": "high"}


def words(finding: Finding) -> str:
    if finding.code not in TEMPLATES:
        return finding_words.words(finding)
    numbers: dict[str, Any] = dict(finding.numbers)
    for name, one in (PAIRS | {"iterations": "iteration"}).items():
        if isinstance(numbers.get(name), Sequence):
            before, after = numbers.pop(name)
            numbers |= {f"{one}_0": before, f"{one}_1": after}
    if "iterations" in numbers:
        numbers["plain_iterations"] = str(numbers["iterations"])
    shown = {
        name: _shown(name.removesuffix("_0").removesuffix("_1"), value) for name, value in numbers.items()
    }
    return TEMPLATES[finding.code].format(run=finding.runs[0], other=finding.runs[-1], **shown)


def sentence(finding: Finding) -> str:
    text = words(finding)
    return f"{text if text.startswith(finding.runs) else text[0].upper() + text[1:]}."


def short_end(median: float, low: float, high: float) -> str:
    """For a line of progress."""
    return f"ends at about {median:.3f} (80%: {low:.3f} to {high:.3f})"


def _shown(name: str, value: Any) -> str:
    return "not known" if value is None else _FORMATS.get(name, str)(value)


def _loss(value: float) -> str:
    return f"{value:.3f}"


def _probability(value: float) -> str:
    return ">99%" if value > 0.99 else f"{value:.0%}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _perplexity(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


_FORMATS: dict[str, Callable[[Any], str]] = {
    "best": _loss,
    "count": _whole,
    "difference": lambda value: f"{value:+.3f}",
    "epochs": lambda value: f"{value:.1f}",
    "floor": _loss,
    "gap": _loss,
    "high": _loss,
    "iteration": _whole,
    "iterations": _whole,
    "iterations_done": _whole,
    "likely_iterations": _whole,
    "loss": _loss,
    "low": _loss,
    "lr_decay_iters": _whole,
    "min_lr": lambda value: f"{value:g}",
    "noise": _loss,
    "of": _whole,
    "per_iteration": q.milliseconds,
    "perplexity": _perplexity,
    "perplexity_high": _perplexity,
    "perplexity_low": _perplexity,
    "points": _whole,
    "probability": _probability,
    "rise": _loss,
    "seconds": q.duration,
    "slope": _loss,
    "smallest": _loss,
    "target": _loss,
    "tokens": q.count,
}
