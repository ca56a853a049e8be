"""The numbers of findings as they are shown, each by its name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanodyno.messages.language import Language
from nanodyno.report import quantities as q

PAIRED = ("tokens_per_second", "achieved_flops_per_second")
"""Of both runs, where a finding is about two."""

NumberFormat = Callable[[Any, Language], str]


def shown_numbers(numbers: Mapping[str, Any], language: Language) -> dict[str, str]:
    every = dict(numbers)
    if "at" in every:
        every["at"] = (every.pop("axis"), every["at"])
    for name in PAIRED:
        if isinstance(every.get(name), list):
            every[f"{name}_0"], every[f"{name}_1"] = every.pop(name)
    if "degrees_of_freedom" in every:
        every["noise_source"] = (
            language.say("finding.noise-source.default")
            if every["degrees_of_freedom"] is None
            else language.say("finding.noise-source.repeated-runs")
        )
    for name in ("throughput", "rate"):
        if f"{name}_ratio" in every:
            every |= {f"{name}_change": every[f"{name}_ratio"], f"{name}_times": every[f"{name}_ratio"]}
    return {
        name: language.say("common.not-known") if value is None else _format(name)(value, language)
        for name, value in every.items()
    }


def _format(name: str) -> NumberFormat:
    return _FORMATS.get(name.removesuffix("_0").removesuffix("_1"), _plain)


def place(axis: str, at: float, language: Language) -> str:
    """A place on an axis of training."""
    if axis == "iterations":
        return language.say("finding.number.iteration", number=language.number(at, ",.0f"))
    if axis == "tokens":
        return language.say("common.token-count", number=q.count(at, language))
    if axis == "seconds":
        return q.duration(at, language)
    return q.of_unit(language.number(at, ".3g"), "FLOP", language)


def _plain(value: Any, language: Language) -> str:
    if isinstance(value, bool):
        return language.say("common.yes") if value else language.say("common.no")
    if isinstance(value, int):
        return language.number(value, ",")
    if isinstance(value, float):
        return language.number(value, "g")
    return value if isinstance(value, str) else language.joined([str(each) for each in value])


def _in(how: str) -> NumberFormat:
    return lambda value, language: language.number(value, how)


def _fits(fits: Sequence[Mapping[str, Any]], language: Language) -> str:
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


def _able(gpus: Sequence[Mapping[str, Any]], language: Language) -> str:
    return language.joined([f"{each['gpu']} {q.share(each['share'], '.0f', language)}" for each in gpus])


EXCLUDED_SHOWN = 16


def _excluded(gpus: Sequence[str], language: Language) -> str:
    more = ["…"] if len(gpus) > EXCLUDED_SHOWN else []
    return language.joined([*gpus[:EXCLUDED_SHOWN], *more])


def _share(value: float, language: Language) -> str:
    return q.share(value, ".0f", language) if value > 1 else q.percent(value, language)


def _losses(values: Sequence[float], language: Language) -> str:
    return language.listed([language.number(value, ".4f") for value in values])


def _megaflops(value: float, language: Language) -> str:
    return q.of_unit(language.number(value / 1e6, ".1f"), "MFLOP", language)


def _megahertz(value: float, language: Language) -> str:
    return q.of_unit(language.number(value, ",.0f"), "MHz", language)


_FORMATS: dict[str, NumberFormat] = {
    "able": _able,
    "at": lambda at, language: place(at[0], at[1], language),
    "gpu": lambda value, _: value,
    "computed_tokens": q.rate,
    "difference": _in("+.4f"),
    "difference_high": _in("+.4f"),
    "difference_low": _in("+.4f"),
    "elapsed_iteration_seconds": q.milliseconds,
    "excess": lambda value, language: q.share(value, "+.1f", language),
    "excluded": _excluded,
    "expected": _megaflops,
    "fits": _fits,
    "achieved_flops_per_second": q.flop_rate,
    "flops_per_token": _megaflops,
    "iteration_seconds": q.milliseconds,
    "guessing": _in(".2f"),
    "highest_celsius": lambda value, language: q.of_unit(language.number(value, "d"), "°C", language),
    "highest_sm_mhz": _megahertz,
    "hours": _in(",.1f"),
    "level": lambda value, language: q.share(value, ".3g", language),
    "longest_seconds": q.duration,
    "loss": _in(".4f"),
    "losses": _losses,
    "lowered_by": q.percent,
    "most": lambda value, language: q.share(value, ".0f", language),
    "mfu": lambda value, language: q.share(value, ".1f", language),
    "mfus": lambda values, language: language.listed([q.share(each, ".1f", language) for each in values]),
    "other_gpu_bytes": q.gib,
    "other_gpu_share": q.percent,
    "others_cpu_share": q.percent,
    "own_cpu_share": q.percent,
    "parameters": q.count,
    "parameters_ratio": _in(".2f"),
    "peak": q.flop_rate,
    "power_brake_share": q.percent,
    "public": _in(".4f"),
    "rate_change": lambda value, language: q.share(abs(value - 1), ".1f", language),
    "rate_times": _in(".2f"),
    "ratio_high": _in(".2f"),
    "ratio_low": _in(".2f"),
    "run_noise": q.percent,
    "seconds": q.duration,
    "seed_noise": _in(".4f"),
    "share": _share,
    "sm_mhz": _megahertz,
    "steps_per_billion": q.rate,
    "stolen_cpu_share": q.percent,
    "thermal_share": q.percent,
    "throughput_change": lambda value, language: q.share(abs(value - 1), ".1f", language),
    "throughput_times": _in(".2f"),
    "reported_loss": _in(".2f"),
    "reported_tokens": q.rate,
    "tokens": q.count,
    "trained": lambda value, language: q.share(value, ".0f", language),
    "tokens_after": q.rate,
    "tokens_before": q.rate,
    "tokens_per_iter": q.rate,
    "tokens_per_second": q.rate,
    "waited_share": q.percent,
    "work_ratio": _in(".2f"),
}
