"""Findings in words, for terminals, pages and Markdown alike: the text of a code with its numbers put in."""

from collections.abc import Callable, Sequence

from nanodyno.analysis.findings import FINDINGS, Finding
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import LISTS, FindingNumbers, written

MULTIPLIED = 2.0
"""Speeds that differ by this factor are said to be so many times each other, others by their percentage."""


def words(finding: Finding, language: Language = ENGLISH) -> str:
    """What a finding says: a sentence or several, whole."""
    said = (_said(finding, f"finding.{finding.code}{variant}", language) for variant in _variants(finding))
    return language.together(list(said))


def fix(finding: Finding, language: Language = ENGLISH) -> str | None:
    """What is to be done about it; None where nothing is."""
    message = f"finding.{finding.code}.fix"
    return language.say(message) if language.has(message) else None


def repeated(name: str, count: int, language: Language) -> str:
    """The first of several runs of one config, and how many there are: train1 \u00d73."""
    return name if count == 1 else f"{name} \u00d7{language.number(count, 'd')}"


def _said(finding: Finding, message: str, language: Language) -> str:
    kind, numbers = FINDINGS[finding.code], finding.numbers
    shown = _names(finding, language)
    for place, source in kind.places.items():
        unit, name = (source, place) if isinstance(source, str) else source
        value = numbers.get(name)
        if isinstance(value, list | tuple) and unit not in LISTS:
            for end, each in enumerate(value):
                shown[f"{place}_{end}"] = written(unit, each, numbers, language)
        else:
            shown[place] = written(unit, value, numbers, language)
    if kind.counted is None or not language.has_plural(message):
        return language.say(message, **shown)
    count = numbers[kind.counted]
    assert isinstance(count, int), f"{kind.counted} counts"
    return language.say_plural(message, count, **shown)


def _names(finding: Finding, language: Language) -> dict[str, str]:
    if not finding.runs:
        return {}
    counts = finding.numbers.get("counts")
    sizes = [each for each in counts if isinstance(each, int)] if isinstance(counts, list) else [1, 1]
    return {
        "run": repeated(finding.runs[0], sizes[0], language),
        "other": repeated(finding.runs[-1], sizes[-1], language),
        "runs": language.listed(finding.runs),
    }


def _variants(finding: Finding) -> Sequence[str]:
    """The ends of the ids of what is said; most codes have one text whatever their numbers."""
    choose = VARIANTS.get(finding.code)
    return (
        ("",)
        if choose is None
        else tuple(f".{each}" if each else "" for each in choose(finding.numbers, finding))
    )


def _confounded(numbers: FindingNumbers, _: Finding) -> list[str]:
    """With the keys that can move something, where there are several; one alone is not confounded."""
    moved = {"speed": numbers["speed"], "loss": numbers["loss_keys"]}
    return ["settings", *(what for what, keys in moved.items() if len(keys) > 1)]


def _one_change(numbers: FindingNumbers, finding: Finding) -> list[str]:
    """What changed, and what a difference comes from, as far as the runs compare."""
    moving = len({*numbers["speed"], *numbers["loss_keys"]})
    if finding.code == "one-change-each":
        lead = "moves"
    elif not numbers["others"]:
        lead = "single"
    else:
        lead = "moves-one" if moving else "moves-nothing"
    explained = [what for what in ("speed", "loss") if numbers[f"explains_{what}"]]
    return [lead, *([f"explains-{explained[0] if len(explained) == 1 else 'both'}"] if explained else [])]


def _gpus_by_rate(numbers: FindingNumbers, _: Finding) -> list[str]:
    return [
        "reached",
        *(["excluded"] if numbers["excluded"] else []),
        *(["possible"] if numbers["able"] else []),
    ]


def _throughput(numbers: FindingNumbers, _: Finding) -> list[str]:
    ratio = numbers["throughput_ratio"]
    if ratio >= MULTIPLIED or ratio <= 1 / MULTIPLIED:
        return ["multiplied" if ratio > 1 else "divided"]
    return ["faster" if ratio > 1 else "slower"]


def _slower_at_higher_rate(numbers: FindingNumbers, finding: Finding) -> list[str]:
    cost = "model" if numbers["parameters_ratio"] > 1 else "cost"
    rate = "rate-multiplied" if numbers["rate_ratio"] >= MULTIPLIED else "rate-by-share"
    return [*_throughput(numbers, finding), cost, rate]


def _faster_at_lower_rate(numbers: FindingNumbers, finding: Finding) -> list[str]:
    cost = "smaller" if numbers["parameters_ratio"] < 1 else "cost"
    return [*_throughput(numbers, finding), cost, "rate"]


def _at_one_iteration(numbers: FindingNumbers, _: Finding) -> list[str]:
    return ["at-one" if len(set(numbers["iterations"])) == 1 else "apart"]


def _longer(numbers: FindingNumbers, _: Finding) -> list[str]:
    return ["longer" if numbers["moved"] > 0 else "shorter"]


def _losses_at_equal_time(numbers: FindingNumbers, _: Finding) -> list[str]:
    lead = {"better": "other-lower", "worse": "run-lower"}.get(numbers["call"], "within-noise")
    return [lead, *(["smoothed"] if numbers["kind"] == "train" else [])]


def _measured_here(numbers: FindingNumbers, finding: Finding) -> list[str]:
    several = len(finding.runs) > 1
    if numbers["there"] is None:
        return ["gpus-unknown" if several else "gpu-unknown"]
    return ["both-elsewhere" if several else ""]


def _throttled(numbers: FindingNumbers, _: Finding) -> list[str]:
    if _larger(numbers, "power_brake_share", "thermal_share"):
        return ["by-power"]
    return [_if_known(numbers, "by-heat", ("highest_celsius", "sm_mhz", "highest_sm_mhz"))]


def _if_known(numbers: FindingNumbers, variant: str, details: Sequence[str]) -> str:
    """The variant, or the one that leaves the details out where one of them was not measured."""
    known = all(numbers[each] is not None for each in details)
    return variant if known else f"{variant}-details-unknown".lstrip("-")


def _way(pair: Sequence[float]) -> str:
    return "up" if pair[1] > pair[0] else "down"


def _larger(numbers: FindingNumbers, one: str, other: str) -> bool:
    return (numbers[one] or 0.0) > (numbers[other] or 0.0)


VARIANTS: dict[str, Callable[[FindingNumbers, Finding], list[str]]] = {
    "throughput-fell-rate-rose": _slower_at_higher_rate,
    "throughput-rose-rate-fell": _faster_at_lower_rate,
    "losses-at-equal-time": _losses_at_equal_time,
    "throughput-changed": _throughput,
    "same-effective-batch": lambda numbers, _: ["other-split" if numbers["split_changed"] else "same-split"],
    "confounded": _confounded,
    "one-change": _one_change,
    "one-change-each": _one_change,
    "gpus-by-rate": _gpus_by_rate,
    "machine-busy": lambda numbers, _: [
        "by-host" if _larger(numbers, "stolen_cpu_share", "others_cpu_share") else "by-programs"
    ],
    "speed-on-busy-machine": lambda numbers, _: [str(numbers["reason"])],
    "gpu-throttled": _throttled,
    "gpu-shared": lambda numbers, _: [_if_known(numbers, "", ("other_gpu_bytes", "other_gpu_share"))],
    "idle-moved": lambda numbers, _: [_way(numbers["shares"])],
    "matmul-moved": lambda numbers, _: [_way(numbers["rates"])],
    "optimizer-moved": lambda numbers, _: [_way(numbers["shares"])],
    "losses-apart": lambda numbers, _: ["run-lower" if numbers["difference"] > 0 else "other-lower"],
    "share-of-gpu": lambda numbers, _: ["assumed-one" if numbers["taken_as_one"] else "known"],
    "mfu-of-another-peak": lambda numbers, _: [
        "several-processes" if numbers["processes"] else "one-process"
    ],
    "measured-here": _measured_here,
    "measured-lower": _at_one_iteration,
    "measured-alike": _at_one_iteration,
    "ends-lower": _at_one_iteration,
    "ends-alike": _at_one_iteration,
    "token-time-moved": _longer,
    "work-time-moved": _longer,
    "short-training": lambda numbers, _: ["equal-time" if numbers["equal"] == "time" else ""],
    "does-not-fit": lambda numbers, _: ["with-usable" if "usable_bytes" in numbers else ""],
}
