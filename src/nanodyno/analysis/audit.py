"""A run held against arithmetic: what its numbers say about it that it did not say, and what cannot be."""

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nanodyno.analysis.account import (
    NANOGPT_VOCABULARY,
    Account,
    AccountStep,
)
from nanodyno.analysis.findings import Code, Finding, Number, Severity
from nanodyno.analysis.imported import whole
from nanodyno.config import ModelShape
from nanodyno.costs.flops import NANOGPT_PEAK_FLOPS, nanogpt_flops_per_token
from nanodyno.costs.parameters import parameters
from nanodyno.hardware.gpus import Gpu, all_gpus

MOST_LAYERS, MOST_WIDTH, WIDTH_STEP = 48, 2048, 64
FITS = 0.015
"""How far a shape's FLOPs may be from those that a printed MFU stands for, beside its rounding."""
HALF_A_DIGIT = 0.00005
TOLD_FITS = 0.005
"""The same of a printed number of parameters, which has three or four digits."""
POISONED = 0.03
CONSUMER_MATMULS, OTHER_MATMULS, FLOAT32_MATMULS = 1.16, 0.85, 1.0
"""The largest share of the datasheet's dense peak that large matmuls reached, in public measurements of 20
GeForce GPUs (an RTX 5090 at 1.156: these run above the clock that their peak is for) and of 14 others (an
A100 at 0.848). In float32, without tensor cores, a GPU that keeps to its clock may come near its peak."""
CONSUMER_TRAINING = 0.81
"""The same of whole trainings on GeForce GPUs (an RTX 3060), in 15 public measurements."""
LEAP = 1.25
"""Times the learning rate that its own course leads to."""
NAMED = 6
"""GPUs that are listed of those that can, and of those that cannot, have done it."""
GEFORCE = re.compile(r"RTX \d{4}( Ti| SUPER)*")
CONSUMER = re.compile(rf"{GEFORCE.pattern}|(GTX|TITAN)\b.*")


@dataclass(frozen=True)
class Fit:
    """A shape that explains the numbers, and how far off it is."""

    n_layer: int
    n_embd: int
    error: float
    by_mfu: bool = True


def audit(account: Account) -> tuple[Finding, ...]:
    parts = (_of_model, _of_tokens, _of_rate, _of_elapsed, _of_losses, _of_schedule)
    return tuple(finding for part in parts for finding in part(account))


def flops_reported(account: Account) -> float | None:
    """FLOPs per token that the printed MFU stands for, with the times and the tokens of an iteration.

    nanoGPT prints a running average (nine tenths the one before), into which evaluations go with their time:
    the same average of one over the logged times makes the printed value a multiple of what is looked for.
    """
    tokens = account.speed.tokens_per_iter
    if not tokens or not account.mfu_is_nanogpts:
        return None
    found: list[float] = []
    average: float | None = None
    for step in account.steps:
        if step.printed_mfu is None or step.printed_mfu <= 0 or not step.seconds:
            average = None  # none is printed at the start of a process
            continue
        newest = 1 / step.seconds
        average = newest if average is None else 0.9 * average + 0.1 * newest
        found.append(step.printed_mfu / average)
    if not found:
        return None
    return statistics.median(found) * NANOGPT_PEAK_FLOPS * account.processes / tokens


def _fits_within(account: Account) -> float:
    """How far the FLOPs of the right shape may be from those of the printed MFU, which has two decimals."""
    return FITS + HALF_A_DIGIT / (account.printed_mfu or math.inf)


def fitting_shapes(account: Account) -> list[Fit]:
    """Layers x width that explain the printed MFU and the printed number of parameters; nearest first.

    Where none explains both, those that explain the number: the MFU may be of another peak. With
    nanoGPT's vocabulary and no biases unless told otherwise. A block size is needed.
    """
    reported, count = flops_reported(account), account.reported_parameters or None  # 0.00M is a small model's
    both = _fitting(account, reported, count)
    return both if both or reported is None else _fitting(account, None, count)


def _fitting(account: Account, reported: float | None, count: float | None) -> list[Fit]:
    block = _int(account, "block_size")
    if block is None or (reported is None and count is None):
        return []
    known_layers, known_width = _int(account, "n_layer"), _int(account, "n_embd")
    layers = [known_layers] if known_layers else range(1, MOST_LAYERS + 1)
    widths = [known_width] if known_width else range(WIDTH_STEP, MOST_WIDTH + 1, WIDTH_STEP)
    fits: list[Fit] = []
    within = _fits_within(account)
    for n_layer in layers:
        for n_embd in widths:
            shape = _shape(account, n_layer, n_embd, block)
            errors = [
                (nanogpt_flops_per_token(shape) / reported - 1, within) if reported else None,
                (parameters(shape).nanogpt / count - 1, TOLD_FITS) if count else None,
            ]
            found = [each for each in errors if each is not None]
            if all(abs(error) <= bound for error, bound in found):
                fits.append(Fit(n_layer, n_embd, found[-1][0], by_mfu=reported is not None))
    return sorted(fits, key=lambda fit: abs(fit.error))


def with_found_shape(account: Account) -> Account:
    """The account with the shape that its numbers allow, where it is not reported and only one fits.

    One number alone fits some shape of whatever model: a second one has to agree, or a setting.
    """
    fits = fitting_shapes(account) if account.shape is None else []
    block = _int(account, "block_size")
    if len(fits) != 1 or block is None or not _is_confirmed(account, fits[0]):
        return account
    shape = _shape(account, fits[0].n_layer, fits[0].n_embd, block)
    return replace(account, shape=shape, shape_found=True)


def _is_confirmed(account: Account, fit: Fit) -> bool:
    partly_reported = _int(account, "n_layer") or _int(account, "n_embd")
    return bool(partly_reported) or (fit.by_mfu and bool(account.reported_parameters))


def _of_model(account: Account) -> Iterator[Finding]:
    reported, shape = flops_reported(account), account.shape
    if shape is None or account.shape_found:
        fits = fitting_shapes(account)
        if fits:
            block = _int(account, "block_size")
            assert block is not None, "there are no fits without it"
            yield _finding(
                account, "model-from-numbers" if fits[0].by_mfu else "model-from-count", "fact",
                flops_per_token=reported,
                fits=[
                    {
                        "n_layer": fit.n_layer,
                        "n_embd": fit.n_embd,
                        "parameters": parameters(_shape(account, fit.n_layer, fit.n_embd, block)).nanogpt,
                    }
                    for fit in fits[:5]
                ],
                count=len(fits),
            )  # fmt: skip
    elif reported is not None and _is_of_another_peak(account, reported):
        expected = nanogpt_flops_per_token(shape)
        yield _finding(
            account, "mfu-of-another-peak", "caution",
            flops_per_token=reported, expected=expected, peak=NANOGPT_PEAK_FLOPS * expected / reported,
            processes=None if account.processes_reported else _whole_ratio(expected / reported),
        )  # fmt: skip


def _is_of_another_peak(account: Account, reported: float) -> bool:
    """Whether the printed MFU does not fit the reported model."""
    assert account.shape is not None
    return abs(reported / nanogpt_flops_per_token(account.shape) - 1) > 3 * _fits_within(account)


def _whole_ratio(ratio: float) -> int | None:
    """How many processes it would be: nanoGPT's MFU is that of one."""
    count = round(ratio)
    return count if count > 1 and abs(ratio / count - 1) <= 3 * FITS else None


def _of_rate(account: Account) -> Iterator[Finding]:
    speed, printed, gpu = account.speed, account.printed_mfu, account.gpu
    on_a100 = gpu is not None and gpu.name.startswith("A100")
    if printed is not None and printed > 1 and (on_a100 or not account.mfu_is_nanogpts):
        yield _finding(account, "mfu-above-one", "wrong", mfu=printed)
    reached = speed.achieved_flops_per_second
    if reached is not None and gpu is not None and speed.mfu is not None:
        yield _share_of_gpu(account, gpu, speed.mfu.value, reached.value)
    elif reached is not None and account.names_no_device:
        yield _gpus_by_rate(account, reached.value)
    reported = flops_reported(account)
    fits = account.shape is None or reported is None or not _is_of_another_peak(account, reported)
    if printed is not None and account.mfu_is_nanogpts and fits and not on_a100:
        yield _finding(
            account, "mfu-against-a100", "caution", mfu=printed, gpu=None if gpu is None else gpu.name
        )
    yield from _poisoned(account)


def _share_of_gpu(account: Account, gpu: Gpu, share: float, reached: float) -> Finding:
    """A share of the peak, or more than large matmuls reach: then of several GPUs, where that may be."""
    most = matmul_share(gpu, account.dtype)
    numbers: dict[str, object] = {
        "gpu": gpu.name,
        "share": share,
        "achieved_flops_per_second": reached,
        "peak": account.reference.peak_flops_per_second,
    }
    if share <= most:
        alone = not account.processes_reported
        return _finding(account, "share-of-gpu", "fact", **numbers, taken_as_one=alone)
    if account.processes_reported:
        return _finding(account, "rate-impossible", "wrong", **numbers, most=most)
    gpus = math.ceil(share / most)
    return _finding(account, "more-than-one-gpu", "caution", **numbers, most=most, gpus=gpus)


def matmul_share(gpu: Gpu, dtype: str) -> float:
    """The largest share of its peak that large matmuls reach on such a GPU, by public measurements."""
    if CONSUMER.fullmatch(gpu.name):
        return CONSUMER_MATMULS
    return FLOAT32_MATMULS if dtype == "float32" else OTHER_MATMULS


IMPOSSIBLE = "rate-impossible", "more-than-one-gpu"
"""Findings of an MFU that the named GPU cannot have reached."""


def _gpus_by_rate(account: Account, reached: float) -> Finding:
    """The fastest GeForce GPUs that cannot do this alone, and the slowest whose trainings reach it."""
    peaks = _geforce_peaks(account.dtype)
    ranked = sorted(peaks.items(), key=lambda item: item[1])
    excluded = [name for name, peak in ranked if reached > CONSUMER_MATMULS * peak]
    shares = [(name, reached / peak) for name, peak in ranked]
    able = [{"gpu": name, "share": share} for name, share in shares if share <= CONSUMER_TRAINING]
    return _finding(
        account, "gpus-by-rate", "fact",
        achieved_flops_per_second=reached, excluded=excluded[::-1][:NAMED], excluded_count=len(excluded),
        able=able[:NAMED], most=CONSUMER_MATMULS, trained=CONSUMER_TRAINING,
    )  # fmt: skip


def _geforce_peaks(dtype: str) -> dict[str, float]:
    """By name, and with the memory where that makes another peak."""
    found = [
        (gpu, peak)
        for gpu in all_gpus()
        if GEFORCE.fullmatch(gpu.name) and (peak := gpu.peak_flops_per_second(dtype)) is not None
    ]
    of_name: dict[str, set[float]] = {}
    for gpu, peak in found:
        of_name.setdefault(gpu.name, set()).add(peak)
    return {gpu.name if len(of_name[gpu.name]) == 1 else gpu.label: peak for gpu, peak in found}


def _with_evaluations(account: Account) -> list[AccountStep]:
    """Iterations whose time nanoGPT took with the evaluation before them in it."""
    evaluated = {each.iteration for each in account.evals}
    return [
        step
        for step in account.steps
        if step.seconds and not step.steady and step.iteration > 0 and step.iteration in evaluated
    ]


def _poisoned(account: Account) -> Iterator[Finding]:
    """nanoGPT's running average takes iterations in whose time an evaluation is."""
    odd, seconds = _with_evaluations(account), account.speed.iteration_seconds
    if not odd or seconds is None or not account.mfu_is_nanogpts:
        return
    longest = max(step.seconds or 0.0 for step in odd)
    pulled = 0.1 * (1 - seconds.value / longest)  # a tenth of the average is the newest one's
    if pulled > POISONED and any(step.printed_mfu for step in odd):
        yield _finding(
            account, "mfu-poisoned", "caution",
            iterations=len(odd), longest_seconds=longest, seconds=seconds.value, lowered_by=pulled,
        )  # fmt: skip


def _of_elapsed(account: Account) -> Iterator[Finding]:
    """Whether the reported speed explains the time that the run took."""
    seconds, excess, left_out = (
        account.speed.iteration_seconds,
        account.elapsed_excess,
        account.disturbed_iterations,
    )
    if seconds is None or excess is None:
        return
    numbers: dict[str, Number] = {
        "iteration_seconds": seconds.value,
        "elapsed_iteration_seconds": seconds.value * (1 + excess),
        "excess": excess,
    }
    if left_out:
        yield _finding(account, "speed-without-disturbances", "caution", count=left_out, **numbers)
    else:
        yield _finding(account, "speed-not-elapsed", "caution", **numbers)


def _of_losses(account: Account) -> Iterator[Finding]:
    vocabulary, trained = account.guessed_among, account.trained_evals
    guessing = math.log(vocabulary)
    if account.tells_perplexity:
        reported = trained[-1].val_loss
        yield _finding(
            account, "perplexity-as-loss", "wrong",
            reported_loss=reported, guessing=guessing, loss=math.log(reported), vocabulary=vocabulary,
        )  # fmt: skip
    elif trained and trained[-1].val_loss > guessing:
        yield _finding(
            account, "worse-than-guessing", "caution",
            loss=trained[-1].val_loss, iteration=trained[-1].iteration,
            guessing=guessing, vocabulary=vocabulary,
        )  # fmt: skip
    broken = [each.iteration for each in account.evals if not math.isfinite(each.val_loss)]
    broken += [
        step.iteration for step in account.steps if step.loss is not None and not math.isfinite(step.loss)
    ]
    if broken:
        yield _finding(account, "not-a-number", "wrong", count=len(broken), iteration=min(broken))


def _of_tokens(account: Account) -> Iterator[Finding]:
    """Printed and computed tokens may be of one process or of all; a log that reports how many has both."""
    reported = account.reported_tokens_per_iter
    if reported is not None and account.tokens_per_iter not in (None, reported, reported * account.processes):
        yield _finding(
            account,
            "tokens-contradict",
            "wrong",
            reported_tokens=reported,
            computed_tokens=account.tokens_per_iter,
        )


def _of_schedule(account: Account) -> Iterator[Finding]:
    """A learning rate that leaps where the run was resumed: another schedule, or none saved.

    In a warm-up it also rises by much from one logged iteration to the next: it leaps where neither the
    straight line through the two before nor the one through the two after leads across the gap.
    """
    rates = sorted(
        (step.iteration, step.learning_rate) for step in account.steps if step.learning_rate is not None
    )
    for restart in account.restarts:
        before, after = ([each for each in rates if (each[0] < restart) is early] for early in (True, False))
        if not before or not after:
            continue
        (_, old), (_, new) = before[-1], after[0]
        ahead = _continued(before[-2:], after[0][0])
        back = _continued(after[:2], before[-1][0])
        if min(old, new) > 0 and not (_alike(old, new) or _alike(ahead, new) or _alike(back, old)):
            yield _finding(account, "another-schedule", "caution", iteration=restart, before=old, after=new)


def _continued(points: Sequence[tuple[int, float]], at: int) -> float:
    """On the straight line through two points; through one alone it is level."""
    (x0, y0), (x1, y1) = points[0], points[-1]
    return y0 if x0 == x1 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def _alike(one: float, other: float) -> bool:
    return min(one, other) > 0 and max(one, other) <= LEAP * min(one, other)


def _shape(account: Account, n_layer: int, n_embd: int, block: int) -> ModelShape:
    return ModelShape(
        n_layer=n_layer,
        n_head=_int(account, "n_head") or max(1, n_embd // 64),
        n_embd=n_embd,
        block_size=block,
        vocab_size=_int(account, "vocab_size") or NANOGPT_VOCABULARY,
        bias=account.settings.get("bias") is True,
        dropout=0.0,
        gelu="exact",
    )


def _int(account: Account, key: str) -> int | None:
    return whole(account.settings.get(key))


def _finding(account: Account, code: Code, severity: Severity, **numbers: object) -> Finding:
    return Finding(code, severity, (account.name,), numbers)  # pyright: ignore[reportArgumentType]
