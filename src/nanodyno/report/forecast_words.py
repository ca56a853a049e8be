"""Forecasts and their warnings in words: a message a code, whose numbers are shown by their names."""

from collections.abc import Callable, Sequence
from typing import Any

from nanodyno.analysis.findings import Code, Finding
from nanodyno.messages.language import ENGLISH, Language, Plural
from nanodyno.report import finding_words
from nanodyno.report import quantities as q

WORDS: dict[Code, str | Plural] = {
    "forecast-end": "finding.forecast-end",
    "forecast-by-size": "finding.forecast-by-size",
    "forecast-ended": "finding.forecast-ended",
    "forecast-over": "finding.forecast-over",
    "forecast-changed": "finding.forecast-changed",
    "target-reached": "finding.target-reached",
    "target-reached-perhaps": "finding.target-reached-perhaps",
    "target-behind": "finding.target-behind",
    "target-not-reached": "finding.target-not-reached",
    "target-missed": "finding.target-missed",
    "forecast-time": "finding.forecast-time",
    "forecast-time-training-only": "finding.forecast-time-training-only",
    "forecast-few-points": "finding.forecast-few-points",
    "forecast-schedule-unknown": "finding.forecast-schedule-unknown",
    "forecast-overfitting": "finding.forecast-overfitting",
    "forecast-siblings": "finding.forecast-siblings",
    "forecast-dead": "finding.forecast-dead",
    "forecast-dead-from-start": "finding.forecast-dead-from-start",
    "forecast-stuck": "finding.forecast-stuck",
    "forecast-of-train-loss": "finding.forecast-of-train-loss",
    "forecast-beyond-schedule": "finding.forecast-beyond-schedule",
    "forecast-far": "finding.forecast-far",
    "forecast-spikes-left-out": "finding.forecast-spikes-left-out",
    "forecast-without-biases": "finding.forecast-without-biases",
    "forecast-batch-grows": "finding.forecast-batch-grows",
    "forecast-batch-by-noise": "finding.forecast-batch-by-noise",
    "warning-diverging": "finding.warning-diverging",
    "warning-plateau": "finding.warning-plateau",
    "warning-spikes": "finding.warning-spikes",
    "warning-parting": "finding.warning-parting",
    "warning-repeating": "finding.warning-repeating",
    "warning-not-finite": Plural(
        "finding.warning-not-finite",
        by="count",
    ),
    "warning-uneven-evaluations": "finding.warning-uneven-evaluations",
    "ends-lower": "finding.ends-lower",
    "ends-alike": "finding.ends-alike",
    "measured-lower": "finding.measured-lower",
    "measured-alike": "finding.measured-alike",
    "ends-on-other-data": "finding.ends-on-other-data",
    "ends-rough": "finding.ends-rough",
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
    return language.say("list.sentence-end", sentence=capitalised)


def short_end(median: float, low: float, high: float) -> str:
    """For a line of progress, which is English."""
    return f"ends at about {median:.3f} (80%: {low:.3f} to {high:.3f})"


def loss(value: float, language: Language) -> str:
    return language.number(value, ".3f")


def perplexity(value: float, language: Language) -> str:
    return language.number(value, ".1f" if value < 1000 else ",.0f")


def _shown(name: str, value: Any, language: Language) -> str:
    if value is None:
        return language.say("common.not-known")
    return _FORMATS[name](value, language) if name in _FORMATS else str(value)


def _in(how: str) -> Callable[[Any, Language], str]:
    return lambda value, language: language.number(value, how)


def kind_of_data(kind: str, language: Language) -> str:
    return language.say("forecast.data-kind.other") if kind == "other" else kind


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
