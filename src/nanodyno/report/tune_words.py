"""What tune found, in words: why a candidate was left out, why another is fast."""

import math
from collections.abc import Callable
from typing import Any

from nanodyno.analysis.asking import SkipReason
from nanodyno.analysis.candidates import Candidate
from nanodyno.analysis.findings import Code, Finding
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.tuning import TuneRow
from nanodyno.messages.language import ENGLISH, Language, Plural
from nanodyno.report import quantities

UNKNOWN = "-"
FITS: dict[SkipReason | None, str] = {
    None: "common.yes",
    "too-large": "common.no",
    "tight": "tune.fits.tightly",
    "failed": "common.failed",
    "disturbed": "common.disturbed",
}
REASONS: dict[SkipReason, str] = {
    "too-large": "common.does-not-fit",
    "larger": "tune.reason.larger",
    "tight": "tune.reason.tight",
    "failed": "common.failed",
    "disturbed": "tune.reason.disturbed",
    "no-time": "tune.reason.no-time",
    "beyond": "tune.reason.beyond",
    "flat": "tune.reason.flat",
    "predicted-slow": "tune.reason.predicted-slow",
    "not-needed": "tune.reason.not-needed",
}
WORDS: dict[Code, str | Plural] = {
    "launch-bound": "finding.launch-bound",
    "dispatch-bound": "finding.dispatch-bound",
    "unfilled": "finding.unfilled",
    "busy": "finding.busy",
    "rises": "finding.rises",
    "flat": "finding.flat",
    "falls": "finding.falls",
    "does-not-fit": "finding.does-not-fit",
    "made-to-fit": "finding.made-to-fit",
    "tight": "finding.tight",
    "switch": "finding.switch",
    "switch-afresh": "finding.switch-afresh",
    "smaller-for-free": "finding.smaller-for-free",
    "no-fresh": "finding.no-fresh",
    "not-all-tried": Plural(
        "finding.not-all-tried",
        by="number",
    ),
    "few-divisors": Plural(
        "finding.few-divisors",
        by="sequences",
    ),
    "nothing-fits": Plural(
        "finding.nothing-fits",
        by="number",
    ),
    "nothing-roomy": "finding.nothing-roomy",
    "nothing-measured": Plural(
        "finding.nothing-measured",
        by="candidates",
    ),
}
NOT_FITTING = "finding.does-not-fit.with-usable"
ALONG_MICRO_BATCHES: frozenset[Code] = frozenset({"rises", "flat", "falls"})
WITH_SWITCHES = "tune.finding.with-switches"
SWITCHES = {
    "recompute=light": "tune.switch.recompute-light",
    "recompute=mlp": "tune.switch.recompute-mlp",
    "recompute=full": "tune.switch.recompute-full",
    "recompute=none": "tune.switch.recompute-none",
    "cuda_graph=False": "tune.switch.no-cuda-graph",
    "cuda_graph=True": "tune.switch.cuda-graph",
    "offload_moments=True": "tune.switch.offload",
    "offload_moments=False": "tune.switch.no-offload",
    "kernels=autograd": "tune.switch.autograd",
    "kernels=fused": "tune.switch.fused-kernels",
    "compile=True": "kernel.compiled",
    "compile=False": "tune.switch.eager",
    "residual_dtype=bfloat16": "tune.switch.bf16-residual",
    "moments_dtype=bfloat16": "tune.switch.bf16-moments",
    "fp8=True": "tune.switch.fp8",
    "loss_chunk_size=None": "tune.switch.all-logit-rows",
}
PARTS = {
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

WIDEST = 0.5
"""A wider interval, as two rounds leave, says only that nothing is known."""


def finding_words(finding: Finding, language: Language = ENGLISH) -> str:
    numbers: dict[str, Any] = dict(finding.numbers)
    shown = {_SHORT.get(key, key): _SHOWN.get(key, _plain)(value, language) for key, value in numbers.items()}
    if finding.code in ("switch", "switch-afresh"):
        shown["saved"] = _signed_size(numbers["saved_bytes"], language)
        shown["change"] = quantities.share(numbers["gain"], "+.1f", language)
    words = WORDS[finding.code]
    if finding.code == "does-not-fit" and "usable_bytes" in numbers:
        words = NOT_FITTING
    said = language.tell(words, shown, numbers)
    if finding.code in ALONG_MICRO_BATCHES and "switches" in numbers:
        return language.say(WITH_SWITCHES, switches=numbers["switches"], finding=said)
    return said


def _plain(value: Any, _: Language) -> str:
    return str(value)


def _size(value: float, language: Language) -> str:
    return quantities.gib(round(value), language)


def _whole_percent(value: float, language: Language) -> str:
    return quantities.share(value, ".0f", language)


def _part(value: str, language: Language) -> str:
    return language.say(PARTS[value])


_SHORT = {
    "needs_bytes": "needs",
    "part_bytes": "part_size",
    "usable_bytes": "usable",
    "left_bytes": "left",
    "margin_bytes": "margin",
    "saved_bytes": "saved",
}
_SHOWN: dict[str, Callable[[Any, Language], str]] = {
    **dict.fromkeys(_SHORT, _size),
    **dict.fromkeys(("idle", "share", "gain", "within", "loss"), _whole_percent),
    "slower": lambda value, language: quantities.share(value, ".1f", language),
    "part": _part,
}


def _signed_size(value: float, language: Language) -> str:
    """What is saved, as a change."""
    minus = language.marks("-")
    return f"{minus if value > 0 else '+'}{quantities.gib(round(abs(value)), language)}"


def spread_words(interval: Interval | None, language: Language = ENGLISH) -> str:
    """±0.4%: half of the interval, as a share; nothing where one process is all there is."""
    if interval is None or interval.low is None or interval.high is None or interval.low <= 0:
        return UNKNOWN
    share = math.sqrt(interval.high / interval.low) - 1
    if share <= WIDEST:
        return f"±{quantities.share(share, '.1f', language)}"
    return f"±>{quantities.share(WIDEST, '.0f', language)}"


def switch_words(candidate: Candidate, language: Language = ENGLISH) -> str:
    """Short ones for a table: `recompute light, no graph`."""
    return language.joined([_switch(*each, language) for each in candidate.switches]) or UNKNOWN


def _switch(key: str, value: str, language: Language) -> str:
    if key == "threads" and value.isdecimal():
        return quantities.threads(int(value), language)
    known = SWITCHES.get(f"{key}={value}")
    return f"{value} {key}" if known is None else language.say(known)


def fits_words(row: TuneRow, language: Language = ENGLISH) -> str:
    if row.reason is None and row.summary is None:  # a search that was stopped did not come to it
        return UNKNOWN
    known = FITS.get(row.reason)
    return UNKNOWN if known is None else language.say(known)


def rate_words(row: TuneRow, language: Language = ENGLISH) -> str:
    """607,553 tok/s (±0.4%), 862.9 ms per iteration."""
    rate, seconds = row.tokens_per_second, row.iteration_seconds
    if rate is None or seconds is None:
        return UNKNOWN
    spread = spread_words(rate, language)
    words = "tune.rate.single" if spread == UNKNOWN else "tune.rate.with-spread"
    return language.say(
        words,
        rate=quantities.rate(rate.value, language),
        spread=spread,
        milliseconds=quantities.milliseconds(seconds, language),
    )


def memory_words(row: TuneRow, language: Language = ENGLISH) -> str:
    return UNKNOWN if row.peak_bytes is None else quantities.gib(row.peak_bytes, language)
