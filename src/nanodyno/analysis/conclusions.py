"""What follows from two runs side by side, and what does not."""

import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from nanodyno.analysis.account import GPT2_VOCABULARY, Account
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import audit, with_found_shape
from nanodyno.analysis.changes import Changes, SettingChange
from nanodyno.analysis.compare import RunComparison, compare, loss_metric, named_apart
from nanodyno.analysis.curves import CurveAxis, LossesAt, losses_at_equal
from nanodyno.analysis.decisions import Decision, NotComparable, check_groups
from nanodyno.analysis.findings import Code, Finding, Number, Severity
from nanodyno.analysis.forecast_findings import ends_of
from nanodyno.analysis.machine_state import machine_findings
from nanodyno.config import SPLIT_KEYS
from nanodyno.records.imported import Setting
from nanodyno.records.store import Run

LOSS_AXES: tuple[CurveAxis, ...] = ("tokens", "iterations")
"""On which of them losses are compared in words: the first that is known."""
TOKENS_TO_REACH = 10e9
"""What FineWeb-Edu's smallest sample has, and about where published 124M runs end."""
SAME_SIZE = 0.1


def compared_runs(
    runs: Sequence[Run], history: Iterable[Run] = (), sizes: Sequence[int] = ()
) -> tuple[RunComparison, tuple[Finding, ...]]:
    """Of runs as they are on disk; the first is the reference.

    `history` are other runs of the user, which show how far runs of one config lie apart. `sizes` are the
    numbers of runs that belong together, in order; without them runs of one config do.
    """
    accounts = named_apart([with_found_shape(account_of(run)) for run in runs])
    known = [account_of(run).without_steps() for run in history]
    ends = list(itertools.accumulate(sizes))
    groups = [tuple(accounts[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    check_groups(groups)
    comparison = compare(accounts, known, groups)
    return comparison, (*conclusions(comparison), *ends_of(comparison.accounts, known))


def conclusions(comparison: RunComparison) -> tuple[Finding, ...]:
    """Of each run alone, and of the first group against each other one, by the first run of each."""
    accounts = {each.name: each for each in comparison.accounts}
    first, *others = (accounts[group[0]] for group in comparison.groups)
    alone = _as_one([finding for account in comparison.accounts for finding in _alone(account)])
    together = [finding for other in others for finding in _pair(first, other, comparison)]
    return (*together, *alone, *_next(comparison, [*together, *alone]))


def _as_one(findings: Sequence[Finding]) -> list[Finding]:
    """What is said of an MFU says the same of every run's: once, where the first of them stands."""
    of_mfu = [each for each in findings if each.code == "mfu-against-a100"]
    if len(of_mfu) < 2:
        return list(findings)
    runs = tuple(run for each in of_mfu for run in each.runs)
    mfus, gpus = ([each.numbers[key] for each in of_mfu] for key in ("mfu", "gpu"))
    joined = Finding("mfus-against-a100", "caution", runs, {"mfus": mfus, "gpus": gpus})
    return [joined if each is of_mfu[0] else each for each in findings if each not in of_mfu[1:]]


def _alone(account: Account) -> Iterator[Finding]:
    """Of a speed that cannot be so nothing follows."""
    found = audit(account)
    yield from found
    yield from _public(account)
    growth, seconds = account.growth, account.speed.iteration_seconds
    if seconds is not None:
        yield from machine_findings(account.name, account.machine_state)
    is_false = any(each.code in ("tokens-contradict", "rate-impossible") for each in found)
    if growth is not None and seconds is not None and not is_false:
        iterations = growth.iterations(TOKENS_TO_REACH)
        yield _of(
            (account,), "hours-to-tokens", "fact", tokens=TOKENS_TO_REACH, iterations=iterations,
            hours=growth.even(iterations) * account.in_tokens_per_iter(seconds.value) / 3600,
        )  # fmt: skip


def _public(account: Account) -> Iterator[Finding]:
    """The last evaluation beside a public run of the same size at the same tokens.

    Of the same tokenizer and context length, and not where the data is known to be other: such losses do not
    compare.
    """
    count, growth = account.parameters, account.growth
    vocabulary = account.vocabulary or GPT2_VOCABULARY
    if count is None or growth is None or vocabulary != GPT2_VOCABULARY or account.tells_perplexity:
        return
    own_data = account.data.dataset if account.data else account.settings.get("dataset")
    for name, curve in public_curves().items():
        if abs(count / curve["parameters"] - 1) > SAME_SIZE or (own_data and not _is_fineweb(own_data)):
            continue
        if account.shape is None or account.shape.block_size != curve["block_size"]:
            continue
        points = {int(step) * curve["tokens_per_iter"]: loss for step, loss in curve["val_loss"].items()}
        met = [each for each in account.trained_evals if growth.tokens(each.iteration) in points]
        if met:
            last = max(met, key=lambda each: each.iteration)
            tokens = growth.tokens(last.iteration)
            yield _of(
                (account,), "beside-public-curve", "caution",
                curve=name, tokens=tokens, loss=last.val_loss, public=points[tokens],
                difference=last.val_loss - points[tokens], data=curve["data"],
                learning_rate=curve["learning_rate"], warmup_iters=curve["warmup_iters"],
                own_learning_rate=account.settings.get("learning_rate"),
                own_data=own_data,
            )  # fmt: skip


def _is_fineweb(dataset: Setting) -> bool:
    """By its name; FineWeb-Edu is other text."""
    name = str(dataset).lower()
    return "fineweb" in name and "edu" not in name


@cache
def public_curves() -> dict[str, dict[str, Any]]:
    text = files("nanodyno.analysis").joinpath("public_curves.json").read_text(encoding="utf-8")
    return json.loads(text)


def _pair(one: Account, other: Account, comparison: RunComparison) -> Iterator[Finding]:
    changes = comparison.changes[other.name]
    yield from _of_batch(one, other, changes)
    yield from _of_speed(one, other, comparison)
    yield from _of_changes(one, other, changes, comparison)
    yield from _of_losses(one, other, changes, comparison)
    yield from _of_losses_at_equal_time(other, comparison)


def _share_a_figure(one: Account, other: Account, comparison: RunComparison) -> bool:
    return any({one.name, other.name} <= metric.values.keys() for metric in comparison.metrics)


def _of_batch(one: Account, other: Account, changes: Changes) -> Iterator[Finding]:
    before, after = one.tokens_per_iter, other.tokens_per_iter
    if before is None or after is None or _grows(one) or _grows(other):
        return
    if before != after:
        yield _of((one, other), "effective-batch-changed", "fact", tokens_before=before, tokens_after=after)
        return
    keys = {each.key for each in changes.changed}
    split = not keys.isdisjoint(SPLIT_KEYS) and "block_size" not in keys
    yield _of((one, other), "same-effective-batch", "fact", tokens_per_iter=before, split_changed=split)
    if split:
        yield _of(
            (one, other), "steps-unchanged", "fact", tokens_per_iter=before, steps_per_billion=1e9 / before
        )


def _grows(account: Account) -> bool:
    return account.growth is not None and bool(account.growth.stages)


def _of_speed(one: Account, other: Account, comparison: RunComparison) -> Iterator[Finding]:
    """In the words of the decisions on tokens per second and on achieved FLOP/s."""
    decision = comparison.decision("tokens_per_second", other.name)
    if decision is None or decision.effect is None:
        return
    numbers: dict[str, Number] = {
        "throughput_ratio": decision.effect.value,
        "tokens_per_second": _means("tokens_per_second", decision, comparison),
        **_certainty(decision, "ratio", "run_noise"),
    }
    if decision.reason is not None:
        numbers["reason"] = decision.reason
        yield _of_decision(decision, SPEED_REASONS[decision.reason], "caution", numbers)
        return
    rate = comparison.decision("achieved_flops_per_second", other.name)
    work = one.reference.flops_per_token, other.reference.flops_per_token
    if rate is not None and rate.effect is not None and work[0] and work[1]:
        numbers |= {
            "rate_ratio": rate.effect.value,
            "work_ratio": work[1] / work[0],
            "parameters_ratio": (other.parameters or 0) / (one.parameters or 1),
            "achieved_flops_per_second": _means("achieved_flops_per_second", decision, comparison),
        }
    calls = decision.call, None if rate is None else rate.call
    if decision.call == "no-significant-difference":
        yield _of_decision(decision, "speed-within-noise", "fact", numbers)
    elif calls == ("worse", "better"):
        yield _of_decision(decision, "throughput-fell-rate-rose", "fact", numbers)
    elif calls == ("better", "worse"):
        yield _of_decision(decision, "throughput-rose-rate-fell", "fact", numbers)
    else:
        yield _of_decision(decision, "throughput-changed", "fact", numbers)


SPEED_REASONS: dict[NotComparable, Code] = {
    "too-few-iterations": "speed-of-few-iterations",
    "speed-uncertain": "speed-uncertain",
    "tokens-contradict": "speed-of-contradicting-tokens",
    "machine-busy": "speed-on-busy-machine",
    "gpu-shared": "speed-on-busy-machine",
    "gpu-throttled": "speed-on-busy-machine",
    "rate-impossible": "speed-impossible",
    "unrecorded-difference": "speed-unrecorded-difference",
}
LOSS_REASONS: dict[NotComparable, Code] = {
    "other-data": "losses-on-other-data",
    "other-schedule": "losses-at-other-stages",
    "tokens-contradict": "losses-of-contradicting-tokens",
    "unrecorded-difference": "losses-unrecorded-difference",
}


def _means(metric: str, decision: Decision, comparison: RunComparison) -> list[Number]:
    """Of the reference and of the other."""
    found = next(each for each in comparison.metrics if each.name == metric)
    return [found.mean(decision.against), found.mean(decision.runs)]


def _certainty(decision: Decision, effect_name: str, noise_name: str) -> dict[str, Number]:
    """The interval of the effect, and the noise between runs that is in it."""
    effect, noise = decision.effect, decision.noise
    return {
        f"{effect_name}_low": None if effect is None else effect.low,
        f"{effect_name}_high": None if effect is None else effect.high,
        "level": None if effect is None else effect.level,
        noise_name: None if noise is None else noise.sd,
        "degrees_of_freedom": None if noise is None else noise.degrees,
    }


def _of_decision(
    decision: Decision, code: Code, severity: Severity, numbers: Mapping[str, Number]
) -> Finding:
    """About the first run of each group; `counts` are the runs of each."""
    several = len(decision.runs) + len(decision.against) > 2
    counts: dict[str, Number] = {"counts": [len(decision.against), len(decision.runs)]} if several else {}
    return Finding(code, severity, (decision.against[0], decision.runs[0]), {**numbers, **counts})


def _of_changes(
    one: Account, other: Account, changes: Changes, comparison: RunComparison
) -> Iterator[Finding]:
    """What the changes allow to be said; of a figure that is not comparable nothing follows from them."""
    if not changes.changed and one.settings.keys() & other.settings.keys():
        yield _of((one, other), "no-change", "fact")
    elif not changes.changed and not _share_a_figure(one, other, comparison):
        yield _of((one, other), "nothing-in-common", "fact")
    speed, loss = (_units(changes.that_move(what)) for what in ("speed", "loss"))
    named = {*speed, *loss}
    changed = [each.key for each in changes.changed if not each.follows or each.key in named]
    compared = _compared(other, comparison) - ({"speed"} if "device_name" in changes.unknown else set())
    unknown = [key for key in changes.unknown if key != "device_name"]
    numbers: dict[str, Number] = {
        "changed": changed,
        "speed": speed,
        "loss_keys": loss,
        "others": len(_units(changes.changed)) > 1,
        "explains_speed": bool(speed) and "speed" in compared,
        "explains_loss": bool(loss) and "loss" in compared,
    }
    if len(speed) > 1 or len(loss) > 1:
        yield _of(
            (one, other), "confounded", "caution",
            count=len(changed), changed=changed, speed=speed, loss_keys=loss, unknown=list(changes.unknown),
        )  # fmt: skip
    elif changed and unknown:
        yield _of((one, other), "one-known-change", "caution", changed=changed, count=len(unknown))
    elif numbers["others"] and speed and loss and speed != loss:
        yield _of((one, other), "one-change-each", "fact", **numbers)
    elif changed:
        yield _of((one, other), "one-change", "fact", **numbers)
    if changes.unknown:
        yield _of((one, other), "settings-unknown", "caution", keys=list(changes.unknown))


def _compared(other: Account, comparison: RunComparison) -> set[str]:
    """Of speed and of loss, what can be compared with the first run."""
    decisions = {
        "speed": [comparison.decision("tokens_per_second", other.name)],
        "loss": [comparison.decision(f"val_loss_at_equal_{axis}", other.name) for axis in LOSS_AXES],
    }
    found = {what: next((each for each in those if each), None) for what, those in decisions.items()}
    return {what for what, decision in found.items() if decision is not None and decision.reason is None}


def _units(changed: tuple[SettingChange, ...]) -> list[str]:
    """Keys, but those that follow from each other as one.

    Tokens per iteration are micro-batch times accumulation: of two of them that changed the one follows from
    the other, and of three the last. A follower whose leader moves something else stands for itself: a decay
    that is as long as the run.
    """
    moving = {each.key for each in changed}
    keys = [each.key for each in changed if each.follows not in moving]
    product = [key for key in ("tokens_per_iter", *SPLIT_KEYS) if key in keys]
    return [key for key in keys if key not in product[max(1, len(product) - 1) :]]


def _units_of(confounded: Finding) -> list[str]:
    keys = confounded.numbers["speed"]
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _of_losses(
    one: Account, other: Account, changes: Changes, comparison: RunComparison
) -> Iterator[Finding]:
    """In the words of the decision at equal tokens, or where those are not known at equal iterations."""
    found = next(
        (
            (losses, decision)
            for axis in LOSS_AXES
            for losses in comparison.losses
            if losses.axis == axis
            if (decision := comparison.decision(loss_metric(losses), other.name)) is not None
        ),
        None,
    )
    if found is None:
        if any(losses_at_equal((one, other), axis) for axis in LOSS_AXES):
            yield _of((one, other), "next-compare-alone", "next")
        else:
            yield _of((one, other), "no-common-loss", "caution")
        return
    losses, decision = found
    numbers = _difference(losses, decision)
    if decision.reason is not None:
        yield _of_decision(decision, LOSS_REASONS[decision.reason], "caution", numbers)
        return
    kinds = {each.kind for each in changes.changed}
    if kinds & {"model", "function"} and len(_units(changes.that_move("loss"))) > 1:
        yield _of_decision(decision, "losses-of-different-models", "caution", numbers)
        rate = next((each for each in changes.changed if each.key == "learning_rate"), None)
        if rate is not None:
            yield _of_decision(
                decision,
                "no-evidence-for-learning-rate",
                "caution",
                {"before": rate.before, "after": rate.after, **numbers},
            )
    if decision.call == "no-significant-difference":
        yield _of_decision(decision, "losses-within-noise", "caution", numbers)
    else:
        yield _of_decision(decision, "losses-apart", "fact", numbers)


def _of_losses_at_equal_time(other: Account, comparison: RunComparison) -> Iterator[Finding]:
    """What an hour of training is worth; of different models too."""
    for losses in comparison.losses:
        decision = comparison.decision(loss_metric(losses), other.name)
        if losses.axis == "seconds" and decision is not None and decision.reason is None:
            numbers = {"kind": losses.kind, "call": decision.call, **_difference(losses, decision)}
            yield _of_decision(decision, "losses-at-equal-time", "fact", numbers)


def _difference(found: LossesAt, decision: Decision) -> dict[str, Number]:
    groups = (decision.against, decision.runs)
    return {
        "axis": found.axis,
        "at": found.at,
        "losses": [statistics.fmean(found.losses[name].loss for name in group) for group in groups],
        "difference": None if decision.effect is None else decision.effect.value,
        **_certainty(decision, "difference", "seed_noise"),
    }


def _next(comparison: RunComparison, found: list[Finding]) -> Iterator[Finding]:
    codes = {each.code for each in found}
    confounded = next((each for each in found if each.code == "confounded"), None)
    if confounded is not None:
        after = {each.key: each.after for each in comparison.changes[confounded.runs[-1]].changed}
        apart = [f"{key}={after[key]}" for key in _units_of(confounded)]
        yield Finding("next-measure-apart", "next", confounded.runs, {"apart": apart})
    nameless = tuple(a.name for a in comparison.accounts if a.names_no_device)
    if nameless:
        yield Finding("next-name-the-gpu", "next", nameless)
    reported_losses = not any(account.tells_perplexity for account in comparison.accounts)
    trained = "not-a-number" not in codes and all(each.iterations > 0 for each in comparison.accounts)
    if "no-common-loss" in codes and trained and reported_losses:
        yield Finding("next-evaluate-more", "next", tuple(a.name for a in comparison.accounts))


def _of(accounts: tuple[Account, ...], code: Code, severity: Severity, **numbers: Number) -> Finding:
    return Finding(code, severity, tuple(account.name for account in accounts), numbers)
