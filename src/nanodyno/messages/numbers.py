"""How the numbers of findings are written: one function for each unit of `analysis.findings.Unit`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanodyno.analysis.findings import Unit
from nanodyno.messages import quantities as q
from nanodyno.messages.language import ENGLISH, Language

FindingNumbers = Mapping[str, Any]
GPUS_SHOWN = 16
HIGHEST_PERPLEXITY = 100_000
"""Above any vocabulary a figure says no more: guessing has its vocabulary's size."""
PARTS_OF_TIME = {
    "matmul": "probe.part.matmul",
    "attention": "common.attention",
    "loss": "common.loss",
    "element-wise": "probe.part.element-wise",
    "optimizer": "common.optimizer",
    "copies": "probe.part.copies",
    "data": "common.waiting-for-data",
    "idle": "common.idle",
}
PARTS_OF_MEMORY = {
    "weights": "common.memory-part.weights",
    "grads": "common.memory-part.gradients",
    "optimizer": "tune.memory-part.moments",
    "casts": "common.memory-part.casts",
    "activations": "common.memory-part.activations",
    "logits_and_loss": "common.memory-part.logits-and-loss",
    "largest_temporary": "tune.memory-part.temporaries",
    "context": "common.memory-part.cuda-context",
    "fragmentation": "common.memory-part.fragmentation",
}
OUR_REASONS = {
    "no answer": "doctor.reason.no-answer",
    "NVIDIA's driver lists none": "doctor.reason.driver-lists-none",
    "no reason was given": "doctor.reason.none-given",
    "unknown": "common.unknown",
}
"""Where there is no reason in another program's words."""


LISTS: frozenset[Unit] = frozenset(
    {
        "GPUs", "losses", "number", "pairs", "parts of time", "percentages", "setting changes", "shapes",
        "shares of GPUs", "steps", "texts", "texts and", "turn of settings",
    }
)  # fmt: skip
"""That write several values as one; of other units, two values have two places: `{loss_0}`, `{loss_1}`."""


def written(unit: Unit, value: Any, numbers: FindingNumbers, language: Language) -> str:
    """A number of a finding; `numbers` are all of its finding, by which some are read."""
    if unit in _OF_SEVERAL:
        return _OF_SEVERAL[unit](value, numbers, language)
    if value is None:
        return language.say("common.not-known")
    return _UNITS[unit](value, language)


def place(axis: str, at: float, language: Language) -> str:
    """A place on an axis of training."""
    if axis == "iterations":
        return language.say("finding.number.iteration", number=language.number(at, ",.0f"))
    if axis == "tokens":
        return language.say("common.token-count", number=q.count(at, language))
    if axis == "seconds":
        return q.duration(at, language)
    return q.of_unit(language.number(at, ".3g"), "FLOP", language)


def fold(ratio: float, language: Language) -> str:
    """How many times larger or smaller: 2.4 of 2.39 and of 0.418."""
    times = max(ratio, 1 / ratio)
    return language.number(times, ".1f" if times < 10 else ",.0f")


def forecast_loss(value: float, language: Language) -> str:
    return language.number(value, ".3f")


def perplexity(value: float, language: Language) -> str:
    if value > HIGHEST_PERPLEXITY:
        return f">{language.number(HIGHEST_PERPLEXITY, ',.0f')}"
    return language.number(value, ".1f" if value < 1000 else ",.0f")


def kind_of_data(kind: str, language: Language) -> str:
    return language.say("forecast.data-kind.other") if kind == "other" else kind


def change_words(change: float, metric: Any, language: Language = ENGLISH, signed: bool = True) -> str:
    """+39.0%, -0.4%, +130%; of a loss +0.0123."""
    sign = "+" if signed else ""
    if metric == "val_loss":
        return language.number(change, f"{sign}.4f")
    return q.share(change, f"{sign},.{0 if abs(change) >= 1 else 1}f", language)


def confidence_words(low: float | None, high: float | None, metric: Any, language: Language = ENGLISH) -> str:
    """Within a sentence: 95% CI -1.2% to +0.8%."""
    bounds = interval_words(low, high, metric, language)
    return bounds if low is None or high is None else language.say("attribute.interval.ci", interval=bounds)


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


def settings_words(settings: Mapping[str, Any], _: Language = ENGLISH) -> str:
    """As they are typed, in every language."""
    return ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in settings.items()
    )


def setting_words(value: Any, language: Language = ENGLISH) -> str:
    return language.number(value, "g") if isinstance(value, float) else str(value)


def turn_words(key: str, before: Any, after: Any, language: Language = ENGLISH) -> str:
    """n_embd 384 -> 768."""
    return language.say(
        "attribute.value.change",
        key=key,
        before=setting_words(before, language),
        after=setting_words(after, language),
    )


def _in(how: str) -> Callable[[Any, Language], str]:
    return lambda value, language: language.number(value, how)


def _share(how: str) -> Callable[[Any, Language], str]:
    return lambda value, language: q.share(value, how, language)


def _unit(unit: str, how: str, scale: float = 1.0) -> Callable[[Any, Language], str]:
    return lambda value, language: q.of_unit(language.number(value * scale, how), unit, language)


def _plain(value: Any, language: Language) -> str:
    if isinstance(value, bool):
        return language.say("common.yes") if value else language.say("common.no")
    if isinstance(value, int):
        return language.number(value, ",")
    if isinstance(value, float):
        return language.number(value, "g")
    return value if isinstance(value, str) else language.joined([str(each) for each in value])


def _shapes(fits: Sequence[Mapping[str, Any]], language: Language) -> str:
    shapes = [
        language.say_plural(
            "finding.number.model-shape",
            fit["n_layer"],
            width=str(fit["n_embd"]),
            size=q.count(fit["parameters"], language),
        )
        for fit in fits
    ]
    return language.say("finding.number.alternative").join(shapes)


def _shares_of_gpus(gpus: Sequence[Mapping[str, Any]], language: Language) -> str:
    return language.joined([f"{each['gpu']} {q.share(each['share'], '.0f', language)}" for each in gpus])


def _gpus(gpus: Sequence[str], language: Language) -> str:
    more = ["…"] if len(gpus) > GPUS_SHOWN else []
    return language.joined([*gpus[:GPUS_SHOWN], *more])


def _probability(value: float, language: Language) -> str:
    return f">{q.share(0.99, '.0f', language)}" if value > 0.99 else q.share(value, ".0f", language)


def _metric(metric: str, language: Language) -> str:
    """Within a sentence, where other languages have an article."""
    if metric == "val_loss":
        return language.say("attribute.metric.val-loss")
    if metric == "achieved_flops_per_second":
        return language.say("attribute.metric.work-rate")
    return language.say("attribute.metric.throughput")


def _setting_changes(changes: Any, language: Language) -> str:
    return language.joined(
        [turn_words(each["key"], each["before"], each["after"], language) for each in changes]
    )


def _turn_of_settings(ends: Sequence[Mapping[str, Any]], language: Language) -> str:
    """Between two combinations: n_embd 384 -> 768 with batch_size=16."""
    before, after = ends
    changed = [key for key in before if before[key] != after[key]]
    turn = language.joined([turn_words(key, before[key], after[key], language) for key in changed])
    same = {key: value for key, value in before.items() if key not in changed}
    if not same:
        return turn
    return language.say("attribute.value.turn-beside", turn=turn, settings=settings_words(same))


def _pairs(pairs: Sequence[Sequence[str]], language: Language) -> str:
    return language.joined(
        [language.say("attribute.value.pair", one=one, other=other) for one, other in pairs]
    )


def _parts_of_time(parts: Sequence[Mapping[str, Any]], language: Language) -> str:
    return language.joined(
        [
            language.say(
                "attribute.value.time-part",
                part=language.say(PARTS_OF_TIME[each["part"]]),
                size=language.number(100 * each["moved"], "+.1f"),
            )
            for each in parts
        ]
    )


def _steps(steps: Sequence[Mapping[str, Any]], numbers: FindingNumbers, language: Language) -> str:
    metric = numbers.get("metric")
    reported = [
        language.say(
            "attribute.value.step",
            change=each["change"],
            size=change_words(each["size"], metric, language),
            interval=confidence_words(each["low"], each["high"], metric, language),
        )
        for each in steps
    ]
    return language.say("attribute.value.step-separator").join(reported)


def _memory_saved(value: float, language: Language) -> str:
    """As a change of the memory that is taken."""
    minus = language.marks("-")
    return f"{minus if value > 0 else '+'}{q.gib(round(abs(value)), language)}"


def _reason(words: Any, language: Language) -> str:
    return language.say(OUR_REASONS[words]) if words in OUR_REASONS else str(words)


def _tokens(value: float | None, _: FindingNumbers, language: Language) -> str:
    if value is None:
        return language.say("finding.number.tokens-not-known")
    return language.say("common.token-count", number=q.count(value, language))


def _source_of_noise(_value: Any, numbers: FindingNumbers, language: Language) -> str:
    if numbers["degrees_of_freedom"] is None:
        return language.say("finding.noise-source.default")
    return language.say("finding.noise-source.repeated-runs")


def _value_of_metric(value: Any, numbers: FindingNumbers, language: Language) -> str:
    if isinstance(value, int | float):
        return value_words(value, numbers.get("metric"), language)
    return settings_words(value)


def _loss_beside_target(value: float, numbers: FindingNumbers, language: Language) -> str:
    """With more digits where it misses the target by less than is shown."""
    shown = forecast_loss(value, language)
    return language.number(value, ".5f") if shown == forecast_loss(numbers["target"], language) else shown


def _keys_that_move(_: Any, numbers: FindingNumbers, language: Language) -> str:
    return language.joined(list(dict.fromkeys([*numbers["speed"], *numbers["loss_keys"]])))


_OF_SEVERAL: dict[Unit, Callable[[Any, FindingNumbers, Language], str]] = {
    "place": lambda at, numbers, language: place(numbers["axis"], at, language),
    "source of noise": _source_of_noise,
    "tokens": _tokens,
    "effect": lambda value, numbers, language: change_words(value, numbers.get("metric"), language),
    "size of effect": lambda value, numbers, language: change_words(
        abs(value), numbers.get("metric"), language, signed=False
    ),
    "interval of effect": lambda _, numbers, language: confidence_words(
        numbers["low"], numbers["high"], numbers.get("metric"), language
    ),
    "value of metric": _value_of_metric,
    "loss beside target": _loss_beside_target,
    "steps": _steps,
    "keys that move": _keys_that_move,
}
_UNITS: dict[Unit, Callable[[Any, Language], str]] = {
    "FLOP/s": q.flop_rate,
    "GPUs": _gpus,
    "GiB": lambda value, language: q.gib(round(value), language),
    "GiB saved": _memory_saved,
    "MFLOP": _unit("MFLOP", ".1f", 1e-6),
    "MHz": _unit("MHz", ",.0f"),
    "amount": q.count,
    "bytes/s": q.byte_rate,
    "celsius": _unit("°C", "d"),
    "change of ratio": lambda value, language: q.share(abs(value - 1), ".1f", language),
    "confidence": _share(".3g"),
    "count": q.rate,
    "duration": q.duration,
    "forecast change": _in("+.3f"),
    "fold": fold,
    "forecast loss": forecast_loss,
    "hours": _in(",.1f"),
    "kind of data": kind_of_data,
    "loss": _in(".4f"),
    "loss change": _in("+.4f"),
    "losses": lambda values, language: language.listed([language.number(each, ".4f") for each in values]),
    "metric": _metric,
    "milliseconds": q.milliseconds,
    "number": _plain,
    "pairs": _pairs,
    "part of memory": lambda value, language: language.say(PARTS_OF_MEMORY[value]),
    "parts of time": _parts_of_time,
    "percent": q.percent,
    "percent change": _share("+.1f"),
    "percentages": lambda values, language: language.listed(
        list(dict.fromkeys(q.share(each, ".1f", language) for each in values))
    ),
    "perplexity": perplexity,
    "probability": _probability,
    "ratio": _in(".2f"),
    "reason": _reason,
    "setting changes": _setting_changes,
    "settings": settings_words,
    "shapes": _shapes,
    "share of peak": lambda value, language: (
        q.share(value, ".0f", language) if value > 1 else q.percent(value, language)
    ),
    "share of time": lambda value, language: (
        q.share(value, ".0f", language) if value >= 0.1 else q.percent(value, language)
    ),
    "shares of GPUs": _shares_of_gpus,
    "signed change of ratio": lambda value, language: q.share(value - 1, "+.1f", language),
    "tenths of percent": _share(".1f"),
    "text": lambda value, _: str(value),
    "texts": lambda values, language: language.joined(list(values)),
    "texts and": lambda values, language: language.listed(list(values)),
    "times": _in(".1f"),
    "turn of settings": _turn_of_settings,
    "whole percent": _share(".0f"),
}
