"""Forecasts and their warnings in words: a message a code, whose numbers are shown by their names."""

from collections.abc import Callable, Sequence
from typing import Any

from nanodyno.analysis.findings import Code, Finding
from nanodyno.report import finding_words
from nanodyno.report import quantities as q
from nanodyno.report.language import ENGLISH, Language, Plural, message

WORDS: dict[Code, str | Plural] = {
    "forecast-end": message(
        "{run} ends at a loss of {loss} (80%: {low} to {high}), a perplexity of {perplexity} "
        "({perplexity_low} to {perplexity_high}), at iteration {iterations} (tokens: {tokens})"
    ),
    "forecast-by-size": message(
        "by its size, data and tokens alone, not by its curve, {run} would end at about {loss} "
        "(80%: {low} to {high}), a perplexity of {perplexity} ({perplexity_low} to {perplexity_high}), "
        "at iteration {iterations} (tokens: {tokens})"
    ),
    "forecast-ended": message(
        "{run} has got that far already: its loss was {loss} at iteration {iterations}"
    ),
    "forecast-over": message(
        "{run} has ended: its loss was {loss}, a perplexity of {perplexity}, at iteration {iterations} "
        "(tokens: {tokens})"
    ),
    "forecast-changed": message(
        "with this schedule {run} ends at {loss_1} instead of {loss_0} at iteration {iterations} "
        "({difference})"
    ),
    "target-reached": message(
        "{run} reaches {target} at about iteration {iterations} (tokens: {tokens}; time from now: "
        "{seconds}), and nine times in ten by iteration {likely_iterations}"
    ),
    "target-reached-perhaps": message(
        "{run} reaches {target} at about iteration {iterations} (tokens: {tokens}; time from now: "
        "{seconds}), but less than nine times in ten before the end"
    ),
    "target-behind": message(
        "{run} has reached {target}: {loss} was measured at iteration {iterations} (tokens: {tokens}; time "
        "from its start, at its pace: {seconds})"
    ),
    "target-not-reached": message(
        "{run} does not reach {target} with this schedule: {loss} is expected at iteration {iterations}"
    ),
    "target-missed": message(
        "{run} has not reached {target} in {iterations_done} iterations: its lowest loss was {loss}, at "
        "iteration {iterations}"
    ),
    "forecast-time": message(
        "{run} takes {seconds} more to iteration {iterations}, at {per_iteration} an iteration with its "
        "share of evaluations and saves"
    ),
    "forecast-time-training-only": message(
        "{run} takes {seconds} more to iteration {iterations}, at {per_iteration} an iteration; what "
        "evaluations and saves take is not known"
    ),
    "forecast-few-points": message(
        "{run} has shown too little of its curve (losses seen: {points}): this is a published law for "
        "model size and tokens, at the level of one public run, for data of the kind: {data}; it "
        "knows nothing of this run"
    ),
    "forecast-schedule-unknown": message(
        "{run}: its learning-rate schedule is not known, so the interval reaches from a rate that is held "
        "to one that falls to nothing; --set lr_decay_iters=... and max_iters=... give its shape"
    ),
    "forecast-overfitting": message(
        "{run} is overfitting: its val loss was lowest, {best}, at iteration {iteration}, and rises to "
        "{loss} (80%: {low} to {high}) by iteration {iterations}"
    ),
    "forecast-siblings": message(
        "{run}: this forecast rests on finished runs of the same model, data and schedule too: {names}"
    ),
    "forecast-dead": message(
        "{run} has no forecast: its losses are NaN/inf from iteration {iteration} on. The last finite one "
        "was {best}, at iteration {good_iteration}"
    ),
    "forecast-dead-from-start": message("{run} has no forecast: none of its losses is finite"),
    "forecast-stuck": message(
        "{run} has no forecast: from iteration {iteration} on its val loss is not below that of an untrained "
        "model ({untrained})"
    ),
    "forecast-of-train-loss": message("{run} has no evaluations: this is its training loss"),
    "forecast-beyond-schedule": message(
        "{run}: its learning rate is at its lowest ({share} of its peak) from iteration {lr_decay_iters} on; "
        "--set lr_decay_iters={plain_iterations} asks about a schedule that goes all the way"
    ),
    "forecast-far": message(
        "{run}: that is {times} times as far as it has come, and forecasts were tried at up to {tried} times"
    ),
    "forecast-spikes-left-out": message("{run}: losses that leap were left out of the fit: {count}"),
    "forecast-without-biases": message(
        "{run} does not tell whether its model has biases: none are assumed; with them it would have {more} "
        "more parameters"
    ),
    "forecast-batch-grows": message(
        "{run}: its batch grows from {tokens_per_iter} to {tokens} tokens an iteration; the forecast takes "
        "the same tokens to bring the same loss in any of these batches, and was learned from runs that do "
        "not grow"
    ),
    "forecast-batch-by-noise": message(
        "{run}: the measured noise decides how its batch grows; the forecast leaves it at {tokens} tokens an "
        "iteration from here on, and was learned from runs that do not grow"
    ),
    "warning-diverging": message(
        "{run}: its loss has risen by {rise} since its best ({best}, now {loss}): it may be diverging. The "
        "middle of the forecast is a recovery, its upper end a rise that goes on"
    ),
    "warning-plateau": message(
        "{run}: its loss hardly falls any more ({slope} nats per e-fold of iterations) while the "
        "learning rate is high"
    ),
    "warning-spikes": message("{run}: {count} of its last {of} batches had a loss that leaps"),
    "warning-parting": message(
        "{run}: val loss is {gap} above train loss, and was {smallest}: it begins to learn its data by heart"
    ),
    "warning-repeating": message(
        "{run} will see its data {epochs} times ({tokens} tokens): beyond about four times its val loss may "
        "rise again, and the interval reaches higher for that"
    ),
    "warning-not-finite": Plural(
        "{run}: {n} of its losses is not a number, and was left out",
        "{run}: {n} of its losses are not a number, and were left out",
        by="count",
    ),
    "warning-uneven-evaluations": message(
        "{run}: its val losses scatter by {noise}: each seems to be of other tokens"
    ),
    "ends-lower": message(
        "{run} ends lower than {other} with a probability of {probability}: {loss_0} ({low_0} to {high_0}) "
        "at iteration {iteration_0} against {loss_1} ({low_1} to {high_1}) at iteration {iteration_1}"
    ),
    "ends-alike": message(
        "either may end lower: {run} at {loss_0} ({low_0} to {high_0}) at iteration {iteration_0}, {other} "
        "at {loss_1} ({low_1} to {high_1}) at iteration {iteration_1}"
    ),
    "measured-lower": message(
        "{run} is lower than {other}: {loss_0} at iteration {iteration_0} against {loss_1} at iteration "
        "{iteration_1}, both measured"
    ),
    "measured-alike": message(
        "{run} and {other} have the same loss, {loss_0}, at iteration {iteration_0} and at iteration "
        "{iteration_1}, both measured"
    ),
    "ends-on-other-data": message(
        "{run} and {other} are of different text or tokenizers: which of them ends lower says nothing"
    ),
    "ends-rough": message(
        "{run} and {other} are compared as if the learning rate of each fell from here to its lowest at that "
        "place: a rough answer"
    ),
}
ENDS: tuple[Code, ...] = ("ends-lower", "ends-alike", "ends-rough")
"""Of two runs, in a comparison."""
PAIRS = {"losses": "loss", "lows": "low", "highs": "high", "iterations": "iteration"}


def words(finding: Finding, language: Language = ENGLISH) -> str:
    if finding.code not in WORDS:
        return finding_words.words(finding, language)
    numbers: dict[str, Any] = dict(finding.numbers)
    for name, one in PAIRS.items():
        if isinstance(numbers.get(name), Sequence):
            before, after = numbers.pop(name)
            numbers |= {f"{one}_0": before, f"{one}_1": after}
    if "iterations" in numbers:
        numbers["plain_iterations"] = str(numbers["iterations"])
    shown = {
        name: _shown(name.removesuffix("_0").removesuffix("_1"), value, language)
        for name, value in numbers.items()
    }
    if finding.code in ("target-not-reached", "target-missed") and shown["loss"] == shown["target"]:
        shown["loss"] = language.number(numbers["loss"], ".5f")  # it misses by less than is shown
    names = {"run": finding.runs[0], "other": finding.runs[-1]}
    return language.tell(WORDS[finding.code], names | shown, finding.numbers)


def sentence(finding: Finding, language: Language = ENGLISH) -> str:
    text = words(finding, language)
    capitalised = text if text.startswith(finding.runs) else text[0].upper() + text[1:]
    return language.say("{sentence}.", sentence=capitalised)


def short_end(median: float, low: float, high: float) -> str:
    """For a line of progress, which is English."""
    return f"ends at about {median:.3f} (80%: {low:.3f} to {high:.3f})"


def loss(value: float, language: Language) -> str:
    return language.number(value, ".3f")


def perplexity(value: float, language: Language) -> str:
    return language.number(value, ".1f" if value < 1000 else ",.0f")


def _shown(name: str, value: Any, language: Language) -> str:
    if value is None:
        return language.say("not known")
    return _FORMATS[name](value, language) if name in _FORMATS else str(value)


def _in(how: str) -> Callable[[Any, Language], str]:
    return lambda value, language: language.number(value, how)


def kind_of_data(kind: str, language: Language) -> str:
    return language.say_in("kind of data", "other") if kind == "other" else kind


def _probability(value: float, language: Language) -> str:
    return f">{q.share(0.99, '.0f', language)}" if value > 0.99 else q.share(value, ".0f", language)


_FORMATS: dict[str, Callable[[Any, Language], str]] = {
    "best": loss,
    "count": q.rate,
    "data": kind_of_data,
    "difference": _in("+.3f"),
    "epochs": _in(".1f"),
    "gap": loss,
    "good_iteration": q.rate,
    "high": loss,
    "iteration": q.rate,
    "iterations": q.rate,
    "iterations_done": q.rate,
    "likely_iterations": q.rate,
    "loss": loss,
    "low": loss,
    "lr_decay_iters": q.rate,
    "min_lr": _in("g"),
    "more": q.percent,
    "names": lambda value, language: language.listed(tuple(value)),
    "noise": loss,
    "of": q.rate,
    "per_iteration": q.milliseconds,
    "perplexity": perplexity,
    "perplexity_high": perplexity,
    "perplexity_low": perplexity,
    "points": q.rate,
    "probability": _probability,
    "rise": loss,
    "seconds": q.duration,
    "share": q.percent,
    "slope": loss,
    "smallest": loss,
    "target": loss,
    "times": _in(".1f"),
    "tokens": q.count,
    "tokens_per_iter": q.count,
    "untrained": loss,
}
