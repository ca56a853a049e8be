"""What tune found, in words: why a candidate was left out, why another is fast."""

import math

from nanodyno.analysis.asking import SkipReason
from nanodyno.analysis.candidates import Candidate
from nanodyno.analysis.findings import Code, Finding
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.tuning import TuneRow
from nanodyno.messages import quantities
from nanodyno.messages.findings import words
from nanodyno.messages.language import ENGLISH, Language

UNKNOWN = "-"
FITS: dict[SkipReason | None, str] = {
    None: "common.yes",
    "too-large": "common.no",
    "tight": "tune.fits.tightly",
    "failed": "common.failed",
    "disturbed": "common.disturbed",
}
FIT_CODES: dict[SkipReason | None, str] = {
    None: "yes",
    "too-large": "no",
    "tight": "tightly",
    "failed": "failed",
    "disturbed": "disturbed",
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
ALONG_MICRO_BATCHES: frozenset[Code] = frozenset({"rises", "flat", "falls"})
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
WIDEST = 0.5
"""A wider interval, as two rounds leave, says only that nothing is known."""


def finding_words(finding: Finding, language: Language = ENGLISH) -> str:
    said, switches = words(finding, language), finding.numbers.get("switches")
    if finding.code in ALONG_MICRO_BATCHES and switches is not None:
        return language.say("tune.finding.with-switches", switches=str(switches), finding=said)
    return said


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


def fits_code(row: TuneRow) -> str:
    """The same as documents have it, whatever the words."""
    known = row.reason is not None or row.summary is not None
    return FIT_CODES.get(row.reason, UNKNOWN) if known else UNKNOWN


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
