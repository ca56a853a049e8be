"""What tune found, in words: why a candidate was left out, why another is fast."""

import math

from nanodyno.analysis.asking import Reason
from nanodyno.analysis.candidates import Candidate
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.tune_findings import Code, Finding
from nanodyno.analysis.tuning import Row
from nanodyno.report import quantities

UNKNOWN = "-"
FITS: dict[Reason | None, str] = {
    None: "yes",
    "too-large": "no",
    "tight": "tightly",
    "failed": "failed",
    "disturbed": "disturbed",
}
REASONS: dict[Reason, str] = {
    "too-large": "does not fit",
    "larger": "not tried: a smaller micro-batch with these switches does not fit",
    "tight": "measured, and too tight for a whole run",
    "failed": "failed",
    "disturbed": "disturbed at every attempt, so no rate is claimed",
    "no-time": "not measured: no time was left",
    "beyond": "not tried: a micro-batch nearer to the best is far slower already",
    "predicted-slow": "not tried: predicted to be slower by far",
    "not-needed": "not tried: its micro-batch is not among the good ones",
}
WORDS: dict[Code, str] = {
    "launch-bound": "launch-bound below {below}: at {size} the GPU idles {idle:.0%} of the time",
    "dispatch-bound": "bound by Python and dispatching below {below}: {idle:.0%} of the time at {size}",
    "rises": "rises with the micro-batch: {to} is {gain:.0%} faster than {from}",
    "flat": "flat from {from} to {to}: within {within:.0%} of the fastest",
    "falls": "falls again: {to} is {loss:.0%} slower than {from}",
    "does-not-fit": "{name} does not fit: about {needs} by prediction, of which {part} take {part_size}",
    "made-to-fit": "{size} fits with {switches}; without, it would need about {needs} and leave too little: "
    "{part} take {part_size}",
    "tight": "{name} fits, but leaves {left} where {margin} are to be left for a desktop and a whole run",
    "switch": "{setting} at {size}: {change} in speed, {saved} in memory (a first look)",
    "smaller-for-free": "{fastest}, {slower:.1%} faster as measured, counts as tied and takes {saved} more",
    "no-fresh": "no time was left to measure the best afresh: these figures are of the search itself, and "
    "the winner's may be lucky; give more --budget, the same command goes on",
    "not-all-tried": "not tried for lack of time: {number} more, the first of them {first}; a longer "
    "--budget goes on from here",
    "few-divisors": "{sequences} sequences an iteration have no divisors in between: with "
    "--tokens_per_iter={tokens:.0f} there is more to choose from",
    "nothing-fits": "even {name} ran out of memory, as all {number} that were tried: a smaller model "
    "(--n_layer, --n_embd), a shorter --block_size or a larger --memory-limit would help",
    "nothing-measured": "none of {candidates} candidates could be measured",
}
SWITCHES = {
    "recompute=light": "recompute light",
    "recompute=mlp": "recompute mlp",
    "recompute=full": "recompute full",
    "recompute=none": "keep all",
    "cuda_graph=False": "no graph",
    "cuda_graph=True": "graph",
    "offload_moments=True": "offload",
    "offload_moments=False": "no offload",
    "kernels=autograd": "autograd",
    "kernels=fused": "fused",
    "compile=True": "compiled",
    "compile=False": "eager",
    "residual_dtype=bfloat16": "bf16 stream",
    "moments_dtype=bfloat16": "bf16 moments",
    "fp8=True": "fp8",
    "loss_rows=None": "all rows",
}
PARTS = {"logits_and_loss": "logits and loss", "largest_temporary": "temporaries", "optimiser": "moments"}

WIDEST = 0.5
"""A wider interval, as two rounds leave, says only that nothing is known."""


def finding_words(finding: Finding) -> str:
    numbers = dict(finding.numbers)
    for key, value in list(numbers.items()):
        if key.endswith("_bytes") and isinstance(value, int | float):
            numbers[_SHORT[key]] = _signed_size(finding.code, value)
    if finding.code == "switch":
        numbers["change"] = f"{100 * float(numbers['gain']):+.1f}%"
    if "part" in numbers:
        numbers["part"] = PARTS.get(str(numbers["part"]), str(numbers["part"]))
    words = WORDS[finding.code].format(**numbers)
    if finding.code == "does-not-fit" and "usable" in numbers:
        words += f"; {numbers['usable']} are usable"
    return words


_SHORT = {
    "needs_bytes": "needs",
    "part_bytes": "part_size",
    "usable_bytes": "usable",
    "left_bytes": "left",
    "margin_bytes": "margin",
    "saved_bytes": "saved",
}


def _signed_size(code: Code, value: float) -> str:
    if code != "switch":
        return quantities.gib(round(value))
    return f"{'-' if value > 0 else '+'}{quantities.gib(round(abs(value)))}"


def spread_words(interval: Interval | None) -> str:
    """±0.4%: half of the interval, as a share; nothing where one process is all there is."""
    if interval is None or interval.low is None or interval.high is None or interval.low <= 0:
        return UNKNOWN
    share = math.sqrt(interval.high / interval.low) - 1
    return f"±{share:.1%}" if share <= WIDEST else f"±>{WIDEST:.0%}"


def switch_words(candidate: Candidate) -> str:
    """Short ones for a table: `recompute light, no graph`."""
    words = (SWITCHES.get(f"{key}={value}", f"{value} {key}") for key, value in candidate.switches)
    return ", ".join(words) or UNKNOWN


def fits_words(row: Row) -> str:
    return FITS.get(row.reason, UNKNOWN)


def rate_words(row: Row) -> str:
    """607,553 tok/s (±0.4%), 862.9 ms per iteration."""
    rate, summary = row.tokens_per_second, row.summary
    if rate is None or summary is None:
        return UNKNOWN
    spread = spread_words(rate)
    words = f"{quantities.rate(rate.estimate)} tok/s" + ("" if spread == UNKNOWN else f" ({spread})")
    return f"{words}, {quantities.milliseconds(summary.iteration_seconds)} per iteration"


def memory_words(row: Row) -> str:
    return UNKNOWN if row.peak_bytes is None else quantities.gib(row.peak_bytes)
