"""A conclusion as data: a code and its numbers. Words come when it is shown, in the reader's language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["wrong", "caution", "fact", "next", "impossible", "fix", "note"]
"""Of runs: wrong: something told cannot be so; caution: what does not follow; fact: what does; next: what
to do. Of a machine: impossible: no training; fix: what is to be done; note: good to know."""
Number = float | int | str | bool | None | Sequence["Number"] | Mapping[str, "Number"]

Code = Literal[
    # of a run alone
    "model-from-numbers",
    "model-from-count",
    "mfu-of-another-peak",
    "tokens-contradict",
    "mfu-above-one",
    "rate-impossible",
    "share-of-card",
    "cards-by-rate",
    "mfu-against-a100",
    "mfu-poisoned",
    "perplexity-as-loss",
    "not-a-number",
    "loss-too-low",
    "another-schedule",
    "hours-to-tokens",
    "beside-public-curve",
    # of runs side by side
    "same-effective-batch",
    "steps-unchanged",
    "effective-batch-changed",
    "same-speed",
    "throughput-fell-rate-rose",
    "throughput-rose-rate-fell",
    "throughput-changed",
    "nothing-in-common",
    "no-change",
    "confounded",
    "one-change",
    "one-known-change",
    "settings-unknown",
    "no-common-loss",
    "losses-on-other-data",
    "losses-of-different-models",
    "no-evidence-for-learning-rate",
    "same-loss",
    "loss-noise-unknown",
    "losses-within-noise",
    "losses-apart",
    "next-measure-apart",
    "next-name-the-card",
    "next-evaluate-more",
    # of a tuning
    "launch-bound",
    "dispatch-bound",
    "rises",
    "flat",
    "falls",
    "does-not-fit",
    "made-to-fit",
    "tight",
    "switch",
    "smaller-for-free",
    "no-fresh",
    "not-all-tried",
    "few-divisors",
    "nothing-fits",
    "nothing-measured",
    # of a forecast
    "forecast-end",
    "forecast-by-size",
    "forecast-ended",
    "forecast-changed",
    "forecast-time",
    "forecast-time-training-only",
    "forecast-few-points",
    "forecast-schedule-unknown",
    "forecast-of-train-loss",
    "forecast-beyond-schedule",
    "forecast-spikes-left-out",
    "target-reached",
    "target-reached-perhaps",
    "target-not-reached",
    "target-beyond-laws",
    "warning-diverging",
    "warning-plateau",
    "warning-spikes",
    "warning-parting",
    "warning-repeating",
    "warning-not-finite",
    "warning-uneven-evaluations",
    "ends-lower",
    "ends-alike",
    "ends-rough",
    # of a machine
    "torch-broken",
    "torch-not-for-card",
    "torch-for-cpu",
    "card-not-seen",
    "no-triton",
    "no-cudnn-front-end",
    "no-attention",
    "card-full",
    "memory-held",
    "hot-card",
    "compile-fails",
    "not-measured",
    "low-ceiling",
    "disk-refuses",
    "little-disk",
    "slow-disk",
    "little-memory",
    "card-pages",
    "no-card",
    "nvml-silent",
    "different-cards",
    "unknown-card",
    "no-bfloat16",
    "few-lanes",
    "not-remembered",
    "cache-refuses",
]


@dataclass(frozen=True)
class Finding:
    code: Code
    severity: Severity = "fact"
    runs: tuple[str, ...] = ()
    """That it is about."""
    numbers: Mapping[str, Number] = field(default_factory=dict[str, Number])
