"""What audits and comparisons found, in words: a message a code, whose numbers are shown by their names."""

from collections.abc import Callable, Mapping
from typing import Any

from nanodyno.analysis.findings import Code, Finding
from nanodyno.messages.language import ENGLISH, Language, Plural
from nanodyno.report.finding_numbers import shown_numbers

Numbers = Mapping[str, Any]
WORDS: dict[Code, str | Plural] = {
    "model-from-numbers": "finding.model-from-numbers",
    "model-from-count": "finding.model-from-count",
    "tokens-contradict": "finding.tokens-contradict",
    "mfu-above-one": "finding.mfu-above-one",
    "rate-impossible": "finding.rate-impossible",
    "more-than-one-gpu": "finding.more-than-one-gpu",
    "mfu-against-a100": "finding.mfu-against-a100",
    "mfus-against-a100": "finding.mfus-against-a100",
    "mfu-poisoned": Plural(
        "finding.mfu-poisoned",
        by="iterations",
    ),
    "perplexity-as-loss": "finding.perplexity-as-loss",
    "worse-than-guessing": "finding.worse-than-guessing",
    "not-a-number": Plural(
        "finding.not-a-number",
        by="count",
    ),
    "speed-without-disturbances": Plural(
        "finding.speed-without-disturbances",
        by="count",
    ),
    "speed-not-elapsed": "finding.speed-not-elapsed",
    "another-schedule": "finding.another-schedule",
    "hours-to-tokens": Plural(
        "finding.hours-to-tokens",
        by="iterations",
    ),
    "beside-public-curve": Plural(
        "finding.beside-public-curve",
        by="warmup_iters",
    ),
    "gpu-shared": Plural(
        "finding.gpu-shared",
        by="other_gpu_processes",
    ),
    "steps-unchanged": "finding.steps-unchanged",
    "effective-batch-changed": "finding.effective-batch-changed",
    "speed-within-noise": "finding.speed-within-noise",
    "speed-of-few-iterations": "finding.speed-of-few-iterations",
    "speed-uncertain": "finding.speed-uncertain",
    "speed-of-contradicting-tokens": "finding.speed-of-contradicting-tokens",
    "speed-unrecorded-difference": "finding.speed-unrecorded-difference",
    "nothing-in-common": "finding.nothing-in-common",
    "no-change": "finding.no-change",
    "one-change": "finding.one-change",
    "one-change-each": "finding.one-change-each",
    "one-known-change": "finding.one-known-change",
    "settings-unknown": "finding.settings-unknown",
    "no-common-loss": "finding.no-common-loss",
    "losses-on-other-data": "finding.losses-on-other-data",
    "losses-of-different-models": "finding.losses-of-different-models",
    "no-evidence-for-learning-rate": "finding.no-evidence-for-learning-rate",
    "losses-at-other-stages": "finding.losses-at-other-stages",
    "losses-of-contradicting-tokens": "finding.losses-of-contradicting-tokens",
    "losses-unrecorded-difference": "finding.losses-unrecorded-difference",
    "losses-within-noise": "finding.losses-within-noise",
    "losses-apart": "finding.losses-apart",
    "next-measure-apart": "finding.next-measure-apart",
    "next-name-the-gpu": "finding.next-name-the-gpu",
    "next-evaluate-more": "finding.next-evaluate-more",
    "next-compare-alone": "finding.next-compare-alone",
}
"""Those that are one sentence whatever their numbers; the others are below."""


def words(finding: Finding, language: Language = ENGLISH) -> str:
    counts = finding.numbers.get("counts")
    sizes = [each for each in counts if isinstance(each, int)] if isinstance(counts, list) else [1, 1]
    shown = {
        "run": repeated(finding.runs[0], sizes[0], language),
        "other": repeated(finding.runs[-1], sizes[-1], language),
        "runs": language.listed(finding.runs),
        **shown_numbers(finding.numbers, language),
    }
    reported = COMPOSED.get(finding.code)
    if reported is not None:
        return reported(finding.numbers, shown, language)
    return language.tell(WORDS[finding.code], shown, finding.numbers)


def repeated(name: str, count: int, language: Language) -> str:
    """The first of several runs of one config, and how many there are: train1 \u00d73."""
    return name if count == 1 else f"{name} \u00d7{language.number(count, 'd')}"


Shown = Mapping[str, str]


def _fell_and_rose(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["rate_ratio"] >= 2:
        return language.say(
            "finding.throughput-fell-rate-rose.multiplied",
            **shown,
        )
    return language.say(
        "finding.throughput-fell-rate-rose.by-share",
        **shown,
    )


def _rose_and_fell(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["throughput_ratio"] >= 2:
        return language.say(
            "finding.throughput-rose-rate-fell.multiplied",
            **shown,
        )
    return language.say(
        "finding.throughput-rose-rate-fell.by-share",
        **shown,
    )


def _changed_speed(numbers: Numbers, shown: Shown, language: Language) -> str:
    ratio = numbers["throughput_ratio"]
    if ratio >= 2:
        template = "finding.throughput-changed.multiplied"
    elif ratio > 1:
        template = "finding.throughput-changed.faster"
    else:
        template = "finding.throughput-changed.slower"
    return language.say(template, **shown)


def _same_batch(numbers: Numbers, shown: Shown, language: Language) -> str:
    if not numbers["split_changed"]:
        return language.say("finding.same-effective-batch.same-split", **shown)
    return language.say(
        "finding.same-effective-batch.other-split",
        **shown,
    )


def _confounded(numbers: Numbers, shown: Shown, language: Language) -> str:
    """Of the keys that can move something, where there are several; one alone is not confounded."""
    changed = Plural("finding.confounded.settings", by="count")
    clauses = [language.tell(changed, shown, numbers)]
    if len(numbers["speed"]) > 1:
        clauses.append(
            language.say(
                "finding.confounded.speed",
                keys=language.listed(numbers["speed"]),
            )
        )
    if len(numbers["loss_keys"]) > 1:
        clauses.append(
            language.say(
                "finding.confounded.loss",
                keys=language.listed(numbers["loss_keys"]),
            )
        )
    return language.clauses(clauses)


def _speed_on_busy_machine(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["on_cpu"]:
        return language.say("finding.speed-on-busy-machine.cpu", **shown)
    return language.say(
        "finding.speed-on-busy-machine.gpu",
        **shown,
    )


def _machine_busy(numbers: Numbers, shown: Shown, language: Language) -> str:
    """By whoever took more of the CPU."""
    if (numbers["stolen_cpu_share"] or 0.0) > (numbers["others_cpu_share"] or 0.0):
        return language.say(
            "finding.machine-busy.by-host",
            **shown,
        )
    return language.say(
        "finding.machine-busy.by-programs",
        **shown,
    )


def _gpu_throttled(numbers: Numbers, shown: Shown, language: Language) -> str:
    """By what lowered the clocks for longer."""
    if (numbers["power_brake_share"] or 0.0) > (numbers["thermal_share"] or 0.0):
        return language.say(
            "finding.gpu-throttled.by-power",
            **shown,
        )
    return language.say(
        "finding.gpu-throttled.by-heat",
        **shown,
    )


def _gpus_by_rate(numbers: Numbers, shown: Shown, language: Language) -> str:
    sentences = [language.say("finding.gpus-by-rate.reached", **shown)]
    if numbers["excluded"]:
        excluded = Plural(
            "finding.gpus-by-rate.excluded",
            by="excluded_count",
        )
        sentences.append(language.tell(excluded, shown, numbers))
    if numbers["able"]:
        sentences.append(
            language.say(
                "finding.gpus-by-rate.possible",
                **shown,
            )
        )
    return language.together(sentences)


def _share_of_gpu(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["taken_as_one"]:
        return language.say(
            "finding.share-of-gpu.assumed-one",
            **shown,
        )
    return language.say(
        "finding.share-of-gpu.known",
        **shown,
    )


def _another_peak(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["processes"]:
        return language.say(
            "finding.mfu-of-another-peak.several-processes",
            **shown,
        )
    return language.say(
        "finding.mfu-of-another-peak.one-process",
        **shown,
    )


COMPOSED: dict[Code, Callable[[Numbers, Shown, Language], str]] = {
    "throughput-fell-rate-rose": _fell_and_rose,
    "throughput-rose-rate-fell": _rose_and_fell,
    "throughput-changed": _changed_speed,
    "same-effective-batch": _same_batch,
    "confounded": _confounded,
    "gpus-by-rate": _gpus_by_rate,
    "machine-busy": _machine_busy,
    "speed-on-busy-machine": _speed_on_busy_machine,
    "gpu-throttled": _gpu_throttled,
    "share-of-gpu": _share_of_gpu,
    "mfu-of-another-peak": _another_peak,
}
"""Whose sentences depend on their numbers."""
