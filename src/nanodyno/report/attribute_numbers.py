"""The numbers of an attribution as they are shown: changes, values, settings, corners."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report import quantities as q
from nanodyno.report.probes import TITLES

SIZES = frozenset({"size", "low", "high", "one_first", "one_then", "other_first", "other_then", "moved"})
WIDTHS = frozenset({"widest", "asked"})
PAIRED = ("combinations", "shares", "rates")
"""Of both ends of a step."""


def shown_numbers(numbers: Mapping[str, Any], language: Language) -> dict[str, str]:
    metric = numbers.get("metric")
    every = dict(numbers)
    for name in PAIRED:
        if name in every:
            every |= {f"{name}_{place}": each for place, each in enumerate(every.pop(name))}
    shown = {
        name: language.say("common.not-known") if value is None else _shown(name, value, metric, language)
        for name, value in every.items()
    }
    if "size" in numbers:
        shown["interval"] = interval_words(numbers["low"], numbers["high"], metric, language)
    return shown


def _shown(name: str, value: Any, metric: Any, language: Language) -> str:
    if name in SIZES or name in WIDTHS:
        return change_words(value, metric, language, signed=name in SIZES)
    if name == "steps" and not isinstance(value, int):
        return _steps(value, metric, language)
    if name in ("before", "after") and isinstance(value, int | float):
        return value_words(value, metric, language)
    return _FORMATS.get(name.removesuffix("_0").removesuffix("_1"), _plain)(value, language)


def change_words(change: float, metric: Any, language: Language = ENGLISH, signed: bool = True) -> str:
    """+39.0%, -0.4%, +130%; of a loss +0.0123."""
    sign = "+" if signed else ""
    if metric == "val_loss":
        return language.number(change, f"{sign}.4f")
    return q.share(change, f"{sign},.{0 if abs(change) >= 1 else 1}f", language)


def interval_words(low: float | None, high: float | None, metric: Any, language: Language = ENGLISH) -> str:
    if low is None or high is None:
        return language.say("attribute.interval.none")
    bounds = (change_words(each, metric, language) for each in (low, high))
    return language.say("common.range", **dict(zip(("low", "high"), bounds, strict=True)))


def value_words(value: float, metric: Any, language: Language = ENGLISH) -> str:
    if metric == "val_loss":
        return language.number(value, ".4f")
    if metric == "achieved_flops_per_second":
        return q.flop_rate(value, language)
    return q.of_unit(q.rate(value, language), "tok/s", language)


def metric_words(metric: str, language: Language = ENGLISH) -> str:
    """Within a sentence, where other languages have an article."""
    if metric == "val_loss":
        return language.say("attribute.metric.val-loss")
    if metric == "achieved_flops_per_second":
        return language.say("attribute.metric.work-rate")
    return language.say("attribute.metric.throughput")


def settings_words(settings: Mapping[str, Any], _: Language = ENGLISH) -> str:
    """As they are typed, in every language."""
    return ", ".join(f"{key}={_typed(value)}" for key, value in settings.items())


def _typed(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def setting_words(value: Any, language: Language = ENGLISH) -> str:
    return language.number(value, "g") if isinstance(value, float) else str(value)


def turn_words(key: str, before: Any, after: Any, language: Language = ENGLISH) -> str:
    """n_embd 384 to 768."""
    return language.say(
        "attribute.value.change",
        key=key,
        before=setting_words(before, language),
        after=setting_words(after, language),
    )


def _changes(changes: Any, language: Language) -> str:
    """A number where only it is counted."""
    if isinstance(changes, int):
        return language.number(changes)
    return language.joined(
        [turn_words(each["key"], each["before"], each["after"], language) for each in changes]
    )


def _steps(steps: Sequence[Mapping[str, Any]], metric: Any, language: Language) -> str:
    reported = [
        language.say(
            "attribute.value.step",
            change=each["change"],
            size=change_words(each["size"], metric, language),
            interval=interval_words(each["low"], each["high"], metric, language),
        )
        for each in steps
    ]
    return language.say("attribute.value.step-separator").join(reported)


def _parts(parts: Sequence[Mapping[str, Any]], language: Language) -> str:
    reported = [
        language.say(
            "attribute.value.time-part",
            part=language.say(TITLES[each["part"]]),
            size=q.share(each["moved"], "+.1f", language),
        )
        for each in parts
    ]
    return language.joined(reported)


def _pairs(pairs: Sequence[Sequence[str]], language: Language) -> str:
    return language.joined(
        [language.say("attribute.value.pair", one=one, other=other) for one, other in pairs]
    )


def _plain(value: Any, language: Language) -> str:
    return language.number(value) if isinstance(value, int) else str(value)


def _share(value: float, language: Language) -> str:
    return q.share(value, ".0f", language) if value >= 0.1 else q.percent(value, language)


_FORMATS: dict[str, Callable[[Any, Language], str]] = {
    "metric": metric_words,
    "before": settings_words,
    "after": settings_words,
    "combination": settings_words,
    "combinations": settings_words,
    "settings": settings_words,
    "changes": _changes,
    "keys": lambda keys, language: language.joined(keys),
    "pairs": _pairs,
    "parts": _parts,
    "needs_bytes": q.gib,
    "limit_bytes": q.gib,
    "held_bytes": q.gib,
    "used_bytes": q.gib,
    "idle": _share,
    "shares": _share,
    "rates": q.flop_rate,
    "ceiling": q.flop_rate,
    "launches": lambda value, language: language.number(value, ",.0f"),
}
