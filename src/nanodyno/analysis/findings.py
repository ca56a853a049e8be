"""A conclusion as data: a code and its numbers. Words come when it is shown, in the reader's language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["wrong", "caution", "fact", "next", "impossible", "fix", "note"]
"""Of runs: wrong: something told cannot be so; caution: what does not follow; fact: what does; next: what
to do. Of a machine: impossible: no training; fix: what is to be done; note: good to know."""
Number = float | int | str | bool | None | Sequence["Number"] | Mapping[str, "Number"]

Code = str
"""A key of FINDINGS."""
Unit = Literal[
    "amount",
    "bytes/s",
    "celsius",
    "change of ratio",
    "confidence",
    "count",
    "duration",
    "effect",
    "FLOP/s",
    "forecast change",
    "fold",
    "forecast loss",
    "GiB",
    "GiB saved",
    "GPUs",
    "hours",
    "interval of effect",
    "keys that move",
    "kind of data",
    "loss",
    "loss change",
    "loss beside target",
    "losses",
    "metric",
    "MFLOP",
    "MHz",
    "milliseconds",
    "number",
    "pairs",
    "part of memory",
    "parts of time",
    "percent",
    "percent change",
    "percentages",
    "perplexity",
    "place",
    "probability",
    "ratio",
    "reason",
    "setting changes",
    "settings",
    "shapes",
    "share of peak",
    "share of time",
    "signed change of ratio",
    "shares of GPUs",
    "size of effect",
    "source of noise",
    "steps",
    "tenths of percent",
    "text",
    "texts",
    "texts and",
    "times",
    "tokens",
    "turn of settings",
    "value of metric",
    "whole percent",
]
"""How a number is written; `messages.numbers` has a function for each."""


@dataclass(frozen=True)
class FindingKind:
    """What all findings of one code have in common."""

    places: Mapping[str, Unit | tuple[Unit, str]] = field(default_factory=dict[str, Unit | tuple[Unit, str]])
    """Of their texts: which number stands there and how; the one of that name unless another is named."""
    counted: str | None = None
    """The number that decides the form of a text with a plural, in which it is `{n}`."""


@dataclass(frozen=True)
class Finding:
    code: Code
    severity: Severity = "fact"
    runs: tuple[str, ...] = ()
    """That it is about."""
    numbers: Mapping[str, Number] = field(default_factory=dict[str, Number])

    def __post_init__(self) -> None:
        assert self.code in FINDINGS, self.code


def _kind(counted: str | None = None, **places: Unit | tuple[Unit, str]) -> FindingKind:
    return FindingKind(places, counted)


# fmt: off
OF_RUNS: Mapping[Code, FindingKind] = {
    "model-from-numbers": _kind(fits="shapes", flops_per_token="MFLOP"),
    "model-from-count": _kind(fits="shapes"),
    "tokens-contradict": _kind(computed_tokens="count", reported_tokens="count"),
    "mfu-above-one": _kind(mfu="tenths of percent"),
    "rate-impossible": _kind(
        achieved_flops_per_second="FLOP/s", gpu="text", most="whole percent", peak="FLOP/s",
        share="share of peak",
    ),
    "more-than-one-gpu": _kind(
        achieved_flops_per_second="FLOP/s", gpu="text", gpus="number", most="whole percent",
        share="share of peak",
    ),
    "mfu-against-a100": _kind(mfu="tenths of percent"),
    "mfus-against-a100": _kind(mfus="percentages"),
    "mfu-poisoned": _kind(
        counted="iterations", longest_seconds="duration", lowered_by="percent", seconds="duration",
    ),
    "perplexity-as-loss": _kind(guessing="ratio", loss="loss", reported_loss="ratio", vocabulary="number"),
    "worse-than-guessing": _kind(guessing="ratio", iteration="number", loss="loss", vocabulary="number"),
    "not-a-number": _kind(counted="count", iteration="number"),
    "speed-without-disturbances": _kind(
        counted="count", elapsed_iteration_seconds="milliseconds", excess="percent change",
        iteration_seconds="milliseconds",
    ),
    "speed-not-elapsed": _kind(
        elapsed_iteration_seconds="milliseconds", excess="percent change", iteration_seconds="milliseconds",
    ),
    "another-schedule": _kind(after="number", before="number", iteration="number"),
    "hours-to-tokens": _kind(counted="iterations", hours="hours", tokens="amount"),
    "beside-public-curve": _kind(
        counted="warmup_iters", curve="number", data="number", difference="loss change",
        learning_rate="number", loss="loss", own_data="number", own_learning_rate="number", public="loss",
        tokens="amount",
    ),
    "gpu-shared": _kind(counted="other_gpu_processes", other_gpu_bytes="GiB", other_gpu_share="percent"),
    "steps-unchanged": _kind(steps_per_billion="count"),
    "effective-batch-changed": _kind(tokens_after="count", tokens_before="count"),
    "speed-within-noise": _kind(
        level="confidence", noise_source="source of noise", ratio_high="signed change of ratio",
        ratio_low="signed change of ratio", run_noise="percent", tokens_per_second="amount",
    ),
    "speed-of-few-iterations": _kind(),
    "speed-uncertain": _kind(),
    "speed-impossible": _kind(),
    "speed-of-contradicting-tokens": _kind(),
    "speed-unrecorded-difference": _kind(
        throughput_times=("ratio", "throughput_ratio"), tokens_per_second="amount",
    ),
    "nothing-in-common": _kind(),
    "no-change": _kind(),
    "one-change": _kind(changed="texts and", moving="keys that move", speed="texts", loss_keys="texts"),
    "one-change-each": _kind(speed="texts", loss_keys="texts"),
    "one-known-change": _kind(counted="count", changed="texts and"),
    "settings-unknown": _kind(keys="texts"),
    "no-common-loss": _kind(),
    "losses-on-other-data": _kind(at="place", losses="losses"),
    "losses-of-different-models": _kind(at="place", difference="loss change"),
    "no-evidence-for-learning-rate": _kind(after="number", at="place", before="number", losses="losses"),
    "losses-at-other-stages": _kind(at="place", losses="losses"),
    "losses-of-contradicting-tokens": _kind(at="place", losses="losses"),
    "losses-unrecorded-difference": _kind(
        at="place", difference="loss change", losses="losses", noise_source="source of noise",
        seed_noise="loss",
    ),
    "losses-within-noise": _kind(
        at="place", difference_high="loss change", difference_low="loss change",
        level="confidence", losses="losses", noise_source="source of noise", seed_noise="loss",
    ),
    "losses-apart": _kind(
        at="place", difference="loss change", difference_high="loss change", difference_low="loss change",
        level="confidence", losses="losses", noise_source="source of noise", seed_noise="loss",
    ),
    "losses-at-equal-time": _kind(
        at="place", difference_high=("forecast change", "difference_high"),
        difference_low=("forecast change", "difference_low"), level="confidence",
        loss=("forecast loss", "losses"),
    ),
    "next-measure-apart": _kind(),
    "next-name-the-gpu": _kind(),
    "next-evaluate-more": _kind(),
    "next-compare-alone": _kind(),
    "throughput-fell-rate-rose": _kind(
        achieved_flops_per_second="FLOP/s", parameters_times=("fold", "parameters_ratio"),
        rate_change=("change of ratio", "rate_ratio"), rate_times=("fold", "rate_ratio"),
        throughput_change=("change of ratio", "throughput_ratio"),
        throughput_times=("fold", "throughput_ratio"), tokens_per_second="amount",
        work_times=("fold", "work_ratio"),
    ),
    "throughput-rose-rate-fell": _kind(
        achieved_flops_per_second="FLOP/s", parameters_times=("fold", "parameters_ratio"),
        rate_change=("change of ratio", "rate_ratio"),
        throughput_change=("change of ratio", "throughput_ratio"),
        throughput_times=("fold", "throughput_ratio"), tokens_per_second="amount",
        work_times=("fold", "work_ratio"),
    ),
    "throughput-changed": _kind(
        throughput_change=("change of ratio", "throughput_ratio"),
        throughput_times=("fold", "throughput_ratio"), tokens_per_second="amount",
    ),
    "same-effective-batch": _kind(tokens_per_iter="count"),
    "confounded": _kind(
        counted="count", speed_keys=("texts and", "speed"), loss_keys="texts and",
    ),
    "gpus-by-rate": _kind(
        counted="excluded_count", able="shares of GPUs", achieved_flops_per_second="FLOP/s",
        excluded="GPUs", most="whole percent", trained="whole percent",
    ),
    "machine-busy": _kind(others_cpu_share="percent", stolen_cpu_share="percent"),
    "speed-on-busy-machine": _kind(),
    "gpu-throttled": _kind(
        highest_celsius="celsius", highest_sm_mhz="MHz", power_brake_share="percent", sm_mhz="MHz",
        thermal_share="percent",
    ),
    "share-of-gpu": _kind(
        achieved_flops_per_second="FLOP/s", gpu="text", peak="FLOP/s", share="share of peak",
    ),
    "mfu-of-another-peak": _kind(
        expected="MFLOP", flops_per_token="MFLOP", peak="FLOP/s", processes="number",
    ),
}
"""Of runs, alone and side by side."""
OF_FORECASTS: Mapping[Code, FindingKind] = {
    "forecast-end": _kind(
        high="forecast loss", iterations="count", loss="forecast loss", low="forecast loss",
        perplexity="perplexity", perplexity_high="perplexity", perplexity_low="perplexity", tokens="tokens",
    ),
    "forecast-by-size": _kind(
        high="forecast loss", iterations="count", loss="forecast loss", low="forecast loss",
        perplexity="perplexity", perplexity_high="perplexity", perplexity_low="perplexity", tokens="tokens",
    ),
    "forecast-ended": _kind(iterations="count", loss="forecast loss"),
    "forecast-over": _kind(
        iterations="count", loss="forecast loss", perplexity="perplexity", tokens="tokens",
    ),
    "forecast-changed": _kind(
        difference="forecast change", iterations="count", loss=("forecast loss", "losses"),
    ),
    "target-reached": _kind(
        iterations="count", likely_iterations="count", seconds="duration", target="forecast loss",
        tokens="tokens",
    ),
    "target-reached-perhaps": _kind(
        iterations="count", seconds="duration", target="forecast loss", tokens="tokens",
    ),
    "target-behind": _kind(
        iterations="count", loss="forecast loss", seconds="duration", target="forecast loss",
        tokens="tokens",
    ),
    "target-not-reached": _kind(iterations="count", loss="loss beside target", target="forecast loss"),
    "target-missed": _kind(
        iterations="count", iterations_done="count", loss="loss beside target", target="forecast loss",
    ),
    "forecast-time": _kind(iterations="count", per_iteration="milliseconds", seconds="duration"),
    "forecast-time-training-only": _kind(
        iterations="count", per_iteration="milliseconds", seconds="duration",
    ),
    "forecast-few-points": _kind(counted="points", data="kind of data"),
    "forecast-schedule-unknown": _kind(),
    "forecast-overfitting": _kind(
        best="forecast loss", high="forecast loss", iteration="count", iterations="count",
        loss="forecast loss", low="forecast loss",
    ),
    "forecast-siblings": _kind(names="texts and"),
    "forecast-dead": _kind(best="forecast loss", good_iteration="count", iteration="count"),
    "forecast-dead-from-start": _kind(),
    "forecast-stuck": _kind(iteration="count", untrained="forecast loss"),
    "forecast-of-train-loss": _kind(),
    "forecast-beyond-schedule": _kind(
        lr_decay_iters="count", plain_iterations=("text", "iterations"), share="percent",
    ),
    "forecast-far": _kind(times="times", tried="text"),
    "forecast-far-by-size": _kind(loss="forecast loss", times="times", tried="text"),
    "forecast-spikes-left-out": _kind(counted="count"),
    "forecast-without-biases": _kind(more="percent"),
    "forecast-batch-grows": _kind(tokens="amount", tokens_per_iter="amount"),
    "forecast-batch-by-noise": _kind(tokens="amount"),
    "warning-diverging": _kind(best="forecast loss", loss="forecast loss", rise="forecast loss"),
    "warning-plateau": _kind(),
    "warning-spikes": _kind(count="count", of="count"),
    "warning-parting": _kind(gap="forecast loss", smallest="forecast loss"),
    "warning-repeating": _kind(epochs="times", tokens="amount"),
    "warning-not-finite": _kind(counted="count"),
    "warning-uneven-evaluations": _kind(noise="forecast loss"),
    "ends-lower": _kind(
        high=("forecast loss", "highs"), iteration=("count", "iterations"),
        loss=("forecast loss", "losses"), low=("forecast loss", "lows"), probability="probability",
    ),
    "ends-alike": _kind(
        high=("forecast loss", "highs"), iteration=("count", "iterations"),
        loss=("forecast loss", "losses"), low=("forecast loss", "lows"),
    ),
    "measured-lower": _kind(iteration=("count", "iterations"), loss=("forecast loss", "losses")),
    "measured-alike": _kind(iteration=("count", "iterations"), loss=("forecast loss", "losses")),
    "ends-on-other-data": _kind(),
    "ends-rough": _kind(),
}
OF_ATTRIBUTIONS: Mapping[Code, FindingKind] = {
    "difference": _kind(
        after="value of metric", before="value of metric", interval="interval of effect", metric="metric",
        size="effect",
    ),
    "difference-tied": _kind(
        after="value of metric", before="value of metric", interval="interval of effect", metric="metric",
        size="effect",
    ),
    "difference-not-shown": _kind(
        after="value of metric", before="value of metric", interval="interval of effect", metric="metric",
        size="effect",
    ),
    "difference-once": _kind(
        after="value of metric", before="value of metric", metric="metric", size="effect",
    ),
    "part": _kind(
        after="value of metric", before="value of metric", change="number", interval="interval of effect",
        metric="metric", size="effect",
    ),
    "part-tied": _kind(
        after="value of metric", before="value of metric", change="number", interval="interval of effect",
        size="effect",
    ),
    "part-not-shown": _kind(
        after="value of metric", before="value of metric", change="number", interval="interval of effect",
        size="effect",
    ),
    "part-once": _kind(after="value of metric", before="value of metric", change="number", size="effect"),
    "screened": _kind(counted="changes", interval="interval of effect", size="effect"),
    "some-pair-interacts": _kind(interval="interval of effect", pairs="pairs", size="effect"),
    "pair-interacts": _kind(
        interval="interval of effect", one="number", other_change="number", size="effect",
    ),
    "paths-disagree": _kind(
        one="number", one_first="effect", one_then="effect", other_change="number", other_first="effect",
        other_then="effect",
    ),
    "path": _kind(steps="steps"),
    "step": _kind(change="number", combination="settings", interval="interval of effect", size="effect"),
    "no-parts": _kind(),
    "no-path": _kind(),
    "no-end": _kind(),
    "no-parts-screened": _kind(),
    "combination-too-large": _kind(combination="settings", limit_bytes="GiB", needs_bytes="GiB"),
    "combination-does-not-fit": _kind(combination="settings"),
    "combination-indivisible": _kind(combination="settings", words="number"),
    "combination-failed": _kind(combination="settings", words="number"),
    "combination-disturbed": _kind(combination="settings"),
    "combinations-not-measured": _kind(counted="unmeasured"),
    "next-make-fit": _kind(),
    "combination-idles": _kind(combination="settings", idle="share of time", launches="count"),
    "combination-dispatches": _kind(combination="settings", idle="share of time"),
    "combination-recomputes": _kind(combination="settings", level="number"),
    "token-time-moved": _kind(
        moved="size of effect", parts="parts of time", turn=("turn of settings", "combinations"),
    ),
    "work-time-moved": _kind(
        moved="size of effect", parts="parts of time", turn=("turn of settings", "combinations"),
    ),
    "idle-moved": _kind(shares="share of time", turn=("turn of settings", "combinations")),
    "matmul-moved": _kind(
        ceiling="FLOP/s", rates="FLOP/s", turn=("turn of settings", "combinations"),
    ),
    "optimizer-moved": _kind(shares="share of time", turn=("turn of settings", "combinations")),
    "fragmented": _kind(combination="settings", held_bytes="GiB", used_bytes="GiB"),
    "allocator-starts-over": _kind(counted="times", combination="settings"),
    "inert": _kind(changes="setting changes", metric="metric"),
    "untimed": _kind(changes="setting changes", metric="metric"),
    "alike": _kind(changes="setting changes", metric="metric"),
    "ignored": _kind(changes="setting changes"),
    "held-for-all": _kind(settings="settings"),
    "measured-here": _kind(here="number", there="number"),
    "taken-as-in-other": _kind(keys="texts"),
    "taken-by-default": _kind(),
    "short-training": _kind(counted="seeds", steps="number"),
    "one-round": _kind(),
    "not-precise": _kind(counted="rounds", asked="size of effect", widest="size of effect"),
    "not-precise-after-all": _kind(counted="rounds", asked="size of effect", widest="size of effect"),
    "round-lost": _kind(combination="settings", round="number", words="number"),
    "round-set-aside": _kind(combination="settings", round="number"),
}
OF_SEARCHES: Mapping[Code, FindingKind] = {
    "launch-bound": _kind(idle="whole percent", size="text"),
    "dispatch-bound": _kind(idle="whole percent", size="text"),
    "unfilled": _kind(share="whole percent", size="text"),
    "busy": _kind(idle="whole percent", size="text"),
    "rises": _kind(gain="whole percent", to="text", first=("text", "from")),
    "flat": _kind(to="text", within="whole percent", first=("text", "from")),
    "falls": _kind(loss="whole percent", to="text", first=("text", "from")),
    "does-not-fit": _kind(
        name="text", needs=("GiB", "needs_bytes"), part="part of memory", part_size=("GiB", "part_bytes"),
        usable=("GiB", "usable_bytes"),
    ),
    "made-to-fit": _kind(
        needs=("GiB", "needs_bytes"), part="part of memory", part_size=("GiB", "part_bytes"), size="text",
        switches="text",
    ),
    "tight": _kind(left=("GiB", "left_bytes"), margin=("GiB", "margin_bytes"), name="text"),
    "switch": _kind(
        change=("percent change", "gain"), saved=("GiB saved", "saved_bytes"), setting="text", size="text",
    ),
    "switch-afresh": _kind(
        change=("percent change", "gain"), saved=("GiB saved", "saved_bytes"), setting="text", size="text",
    ),
    "smaller-for-free": _kind(fastest="text", saved=("GiB", "saved_bytes"), slower="tenths of percent"),
    "no-fresh": _kind(),
    "not-all-tried": _kind(counted="number", first="text"),
    "few-divisors": _kind(counted="sequences", tokens="text"),
    "nothing-fits": _kind(counted="number", name="text"),
    "nothing-roomy": _kind(
        margin=("GiB", "margin_bytes"), name="text", needs=("GiB", "needs_bytes"),
        usable=("GiB", "usable_bytes"),
    ),
    "nothing-measured": _kind(counted="candidates"),
}
"""Of searches for the fastest config."""
OF_MACHINES: Mapping[Code, FindingKind] = {
    "torch-broken": _kind(words="reason"),
    "torch-not-for-gpu": _kind(gpu="reason", sm="reason"),
    "torch-for-cpu": _kind(counted="gpus", torch="reason"),
    "gpu-not-seen": _kind(cuda="reason", driver="reason"),
    "no-triton": _kind(words="reason"),
    "no-cudnn-front-end": _kind(),
    "no-attention": _kind(words="reason"),
    "gpu-full": _kind(bytes="GiB"),
    "memory-held": _kind(bytes="GiB"),
    "hot-gpu": _kind(celsius="number"),
    "compile-fails": _kind(words="reason"),
    "not-measured": _kind(words="reason"),
    "cache-refuses": _kind(words="reason"),
    "low-ceiling": _kind(share="percent"),
    "disk-refuses": _kind(folder="reason", words="reason"),
    "little-disk": _kind(bytes="GiB"),
    "slow-disk": _kind(rate="bytes/s"),
    "little-memory": _kind(bytes="GiB"),
    "gpu-pages": _kind(),
    "no-gpu": _kind(words="reason"),
    "nvml-silent": _kind(words="reason"),
    "rocm-untried": _kind(),
    "mps-untried": _kind(dtype="reason"),
    "different-gpus": _kind(gpus="reason", meant="reason"),
    "unknown-gpu": _kind(gpu="reason"),
    "no-bfloat16": _kind(gpu="reason"),
    "few-lanes": _kind(lanes="reason", most="reason"),
    "not-remembered": _kind(),
}
# fmt: on
FINDINGS = {**OF_RUNS, **OF_FORECASTS, **OF_ATTRIBUTIONS, **OF_SEARCHES, **OF_MACHINES}
"""Every code there is."""
