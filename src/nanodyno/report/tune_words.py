"""What tune found, in words: why a candidate was left out, why another is fast."""

import math
from collections.abc import Callable
from typing import Any

from nanodyno.analysis.asking import SkipReason
from nanodyno.analysis.candidates import Candidate
from nanodyno.analysis.findings import Code, Finding
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.tuning import TuneRow
from nanodyno.report import quantities
from nanodyno.report.language import ENGLISH, Language, Plural, message

UNKNOWN = "-"
FITS: dict[SkipReason | None, str] = {
    None: message("yes"),
    "too-large": message("no"),
    "tight": message("tightly"),
    "failed": message("failed"),
    "disturbed": message("disturbed"),
}
REASONS: dict[SkipReason, str] = {
    "too-large": message("does not fit"),
    "larger": message("not tried: a smaller micro-batch with these switches does not fit"),
    "tight": message("measured, and too tight for a whole run"),
    "failed": message("failed"),
    "disturbed": message("disturbed at every attempt, so no rate is claimed"),
    "no-time": message("not measured: no time was left"),
    "beyond": message("not tried: a micro-batch nearer to the best is far slower already"),
    "flat": message("not tried: smaller micro-batches are as fast already"),
    "predicted-slow": message("not tried: predicted to be slower by far"),
    "not-needed": message("not tried: its micro-batch is not among the good ones"),
}
WORDS: dict[Code, str | Plural] = {
    "launch-bound": message("launch-bound up to {size}: there the GPU idles {idle} of the time"),
    "dispatch-bound": message(
        "bound by Python and dispatching up to {size}: there they take {idle} of the time"
    ),
    "unfilled": message(
        "up to a micro-batch of {size}, kernels are too short to fill the GPU: at {size}, {share} of the "
        "time goes to their beginnings and ends (predicted, not measured)"
    ),
    "busy": message("at {size} the GPU idles {idle} of the time: launches do not hold it up"),
    "rises": message("rises with the micro-batch: {to} is {gain} faster than {from}"),
    "flat": message("flat from {from} to {to}: within {within} of the fastest"),
    "falls": message("falls again: {to} is {loss} slower than {from}"),
    "does-not-fit": message(
        "{name} does not fit: about {needs} by prediction, of which {part} take {part_size}"
    ),
    "made-to-fit": message(
        "{size} fits with {switches}; without, it would need about {needs} and leave too little: "
        "{part} take {part_size}"
    ),
    "tight": message(
        "{name} fits, but leaves {left} where {margin} are to be left for a desktop and a whole run"
    ),
    "switch": message("{setting} at {size}: {change} in speed, {saved} in memory (a first look)"),
    "switch-afresh": message("{setting} at {size}: {change} in speed, {saved} in memory"),
    "smaller-for-free": message(
        "{fastest}, {slower} faster as measured, counts as tied and takes {saved} more"
    ),
    "no-fresh": message(
        "no time was left to measure the best afresh: these figures are of the search itself, and "
        "the winner's may be lucky; give more --budget, the same command goes on"
    ),
    "not-all-tried": Plural(
        "not tried for lack of time: {n} more, the first of them {first}; a longer --budget goes on from "
        "here",
        "not tried for lack of time: {n} more, the first of them {first}; a longer --budget goes on from "
        "here",
        by="number",
    ),
    "few-divisors": Plural(
        "{n} sequence an iteration has no divisors in between: with --tokens_per_iter={tokens} there is "
        "more to choose from",
        "{n} sequences an iteration have no divisors in between: with --tokens_per_iter={tokens} there is "
        "more to choose from",
        by="sequences",
    ),
    "nothing-fits": Plural(
        "even {name} ran out of memory, as all {n} that were tried: a smaller model (--n_layer, --n_embd), a "
        "shorter --block_size or a larger --memory-limit would help",
        "even {name} ran out of memory, as all {n} that were tried: a smaller model (--n_layer, --n_embd), a "
        "shorter --block_size or a larger --memory-limit would help",
        by="number",
    ),
    "nothing-roomy": message(
        "{name} takes least of what was measured, {needs} of {usable}, and {margin} are to be left free: a "
        "smaller model (--n_layer, --n_embd), a shorter --block_size or a larger --memory-limit would help"
    ),
    "nothing-measured": Plural(
        "none of {n} candidate could be measured",
        "none of {n} candidates could be measured",
        by="candidates",
    ),
}
NOT_FITTING = message(
    "{name} does not fit: about {needs} by prediction, of which {part} take {part_size}; {usable} are usable"
)
ALONG_MICRO_BATCHES: frozenset[Code] = frozenset({"rises", "flat", "falls"})
WITH_SWITCHES = message("with {switches}: {finding}")
SWITCHES = {
    "recompute=light": message("recompute light"),
    "recompute=mlp": message("recompute mlp"),
    "recompute=full": message("recompute full"),
    "recompute=none": message("keep all"),
    "cuda_graph=False": message("no graph"),
    "cuda_graph=True": message("graph"),
    "offload_moments=True": message("offload"),
    "offload_moments=False": message("no offload"),
    "kernels=autograd": "autograd",
    "kernels=fused": message("fused"),
    "compile=True": message("compiled"),
    "compile=False": "eager",
    "residual_dtype=bfloat16": message("bf16 stream"),
    "moments_dtype=bfloat16": message("bf16 moments"),
    "fp8=True": "fp8",
    "loss_chunk_size=None": message("all rows"),
}
PARTS = {
    "weights": message("weights"),
    "grads": message("grads"),
    "optimizer": message("moments"),
    "casts": message("casts"),
    "activations": message("activations"),
    "logits_and_loss": message("logits and loss"),
    "largest_temporary": message("temporaries"),
    "context": message("context"),
    "fragmentation": message("fragmentation"),
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
    return language.say(FITS.get(row.reason, UNKNOWN))


def rate_words(row: TuneRow, language: Language = ENGLISH) -> str:
    """607,553 tok/s (±0.4%), 862.9 ms per iteration."""
    rate, seconds = row.tokens_per_second, row.iteration_seconds
    if rate is None or seconds is None:
        return UNKNOWN
    spread = spread_words(rate, language)
    words = (
        message("{rate} tok/s, {milliseconds} per iteration")
        if spread == UNKNOWN
        else message("{rate} tok/s ({spread}), {milliseconds} per iteration")
    )
    return language.say(
        words,
        rate=quantities.rate(rate.value, language),
        spread=spread,
        milliseconds=quantities.milliseconds(seconds, language),
    )


def memory_words(row: TuneRow, language: Language = ENGLISH) -> str:
    return UNKNOWN if row.peak_bytes is None else quantities.gib(row.peak_bytes, language)
