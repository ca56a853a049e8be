"""A run held against arithmetic: what its numbers say about it that it did not say, and what cannot be."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nanodyno.analysis.account import GPT2_VOCABULARY, NANOGPT_VOCABULARY, Account
from nanodyno.analysis.findings import Code, Finding, Severity
from nanodyno.analysis.imported import whole
from nanodyno.config import ModelShape
from nanodyno.costs.flops import NANOGPT_PEAK_FLOPS, nanogpt_flops_per_token
from nanodyno.costs.parameters import parameters
from nanodyno.hardware.gpus import all_gpus

MOST_LAYERS, MOST_WIDTH, WIDTH_STEP = 48, 2048, 64
FITS = 0.015
"""How far a shape's FLOPs may be from those that a printed MFU stands for: it is an average, and rounded."""
TOLD_FITS = 0.005
"""The same of a printed number of parameters, which has three or four digits."""
POISONED = 0.03
BOOST = 1.1
"""Cards were seen to run 8% above the clock that their datasheet's peak is for."""
LEAP = 1.25
NAMED, EXCLUDED = 6, 16
"""Cards that are told of those that can, and of those that cannot, have done it."""
GEFORCE = re.compile(r"RTX \d{4}( Ti| SUPER)*")


@dataclass(frozen=True)
class Fit:
    """A shape that explains the numbers, and how far off it is."""

    n_layer: int
    n_embd: int
    error: float
    by_mfu: bool = True


def audit(account: Account) -> tuple[Finding, ...]:
    parts = (_of_model, _of_tokens, _of_rate, _of_losses, _of_schedule)
    return tuple(finding for part in parts for finding in part(account))


def flops_reported(account: Account) -> float | None:
    """FLOPs per token that the printed MFU stands for, with the time and the tokens of an iteration."""
    rate, printed = account.speed.tokens_per_second, account.printed_mfu
    if rate is None or printed is None or not account.mfu_is_nanogpts:
        return None
    return printed * NANOGPT_PEAK_FLOPS * account.processes / rate.value


def fitting_shapes(account: Account) -> list[Fit]:
    """Layers x width that explain the printed MFU and the printed number of parameters; nearest first.

    Where none explains both, those that explain the number: evaluations may have pulled the MFU down. With
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
    for n_layer in layers:
        for n_embd in widths:
            shape = _shape(account, n_layer, n_embd, block)
            errors = [
                (nanogpt_flops_per_token(shape) / reported - 1, FITS) if reported else None,
                (parameters(shape).nanogpt / count - 1, TOLD_FITS) if count else None,
            ]
            found = [each for each in errors if each is not None]
            if all(abs(error) <= bound for error, bound in found):
                fits.append(Fit(n_layer, n_embd, found[-1][0], by_mfu=reported is not None))
    return sorted(fits, key=lambda fit: abs(fit.error))


def with_found_shape(account: Account) -> Account:
    """The account with the shape that its numbers allow, where it was not told and only one fits."""
    fits = fitting_shapes(account) if account.shape is None else []
    block = _int(account, "block_size")
    if len(fits) != 1 or block is None:
        return account
    shape = _shape(account, fits[0].n_layer, fits[0].n_embd, block)
    return replace(account, shape=shape, shape_found=True)


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
    elif reported is not None:
        expected = nanogpt_flops_per_token(shape)
        if abs(reported / expected - 1) > 3 * FITS:
            yield _finding(
                account, "mfu-of-another-peak", "caution",
                flops_per_token=reported, expected=expected, peak=NANOGPT_PEAK_FLOPS * expected / reported,
            )  # fmt: skip


def _of_rate(account: Account) -> Iterator[Finding]:
    speed, printed = account.speed, account.printed_mfu
    if printed is not None and printed > 1:
        yield _finding(account, "mfu-above-one", "wrong", mfu=printed)
    gpu, reached = account.gpu, speed.achieved_flops_per_second
    if reached is not None:
        if gpu is not None and speed.mfu is not None:
            share = speed.mfu.value
            code, severity = ("rate-impossible", "wrong") if share > BOOST else ("share-of-gpu", "fact")
            yield _finding(
                account, code, severity, gpu=gpu.name, share=share, achieved_flops_per_second=reached.value,
                peak=account.reference.peak_flops_per_second,
            )  # fmt: skip
        elif gpu is None and account.foreign:
            yield _gpus_by_rate(account, reached.value)
    if printed is not None and account.mfu_is_nanogpts and not (gpu and gpu.name.startswith("A100")):
        yield _finding(
            account, "mfu-against-a100", "caution", mfu=printed, gpu=None if gpu is None else gpu.name
        )
    yield from _poisoned(account)


def _gpus_by_rate(account: Account, reached: float) -> Finding:
    """GeForce cards that cannot do this, the fastest first, and the slowest ones that can."""
    peaks = _geforce_peaks(account.dtype)
    ranked = sorted(peaks.items(), key=lambda item: item[1])
    excluded = [name for name, peak in ranked if reached > BOOST * peak]
    able = [{"gpu": name, "share": reached / peak} for name, peak in ranked if reached <= BOOST * peak]
    return _finding(
        account, "gpus-by-rate", "fact",
        achieved_flops_per_second=reached, excluded=excluded[::-1][:EXCLUDED], excluded_count=len(excluded),
        able=able[:NAMED],
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


def _poisoned(account: Account) -> Iterator[Finding]:
    """nanoGPT's running average takes iterations in whose time an evaluation or a checkpoint is."""
    timed = [step for step in account.steps if step.seconds]
    odd = [step for step in timed if not step.steady and step.iteration > 0]
    seconds = account.speed.iteration_seconds
    if not odd or seconds is None or not account.mfu_is_nanogpts:
        return
    longest = max(step.seconds or 0.0 for step in odd)
    pulled = 0.1 * (1 - seconds.value / longest)  # a tenth of the average is the newest one's
    if pulled > POISONED and any(step.printed_mfu for step in odd):
        yield _finding(
            account, "mfu-poisoned", "caution",
            iterations=len(odd), longest_seconds=longest, seconds=seconds.value, lowered_by=pulled,
        )  # fmt: skip


def _of_losses(account: Account) -> Iterator[Finding]:
    vocabulary = account.vocabulary or GPT2_VOCABULARY
    trained = [each for each in account.evals if each.iteration > 0 and math.isfinite(each.val_loss)]
    if account.tells_perplexity:
        reported = trained[-1].val_loss
        yield _finding(
            account, "perplexity-as-loss", "wrong",
            reported_loss=reported, guessing=math.log(vocabulary), loss=math.log(reported),
            vocabulary=vocabulary,
        )  # fmt: skip
    broken = sum(not math.isfinite(each.val_loss) for each in account.evals)
    broken += sum(step.loss is not None and not math.isfinite(step.loss) for step in account.steps)
    if broken:
        yield _finding(account, "not-a-number", "wrong", count=broken)


def _of_tokens(account: Account) -> Iterator[Finding]:
    reported = account.reported_tokens_per_iter
    if reported is not None and account.tokens_per_iter not in (None, reported):
        yield _finding(
            account,
            "tokens-contradict",
            "wrong",
            reported_tokens=reported,
            computed_tokens=account.tokens_per_iter,
        )


def _of_schedule(account: Account) -> Iterator[Finding]:
    """A learning rate that leaps where the run was taken up again: another schedule, or none saved."""
    rates = {step.iteration: step.learning_rate for step in account.steps if step.learning_rate is not None}
    for restart in account.restarts:
        before = max((each for each in rates if each < restart), default=None)
        after = min((each for each in rates if each >= restart), default=None)
        if before is None or after is None:
            continue
        old, new = rates[before], rates[after]
        if min(old, new) > 0 and max(old, new) / min(old, new) > LEAP:
            yield _finding(account, "another-schedule", "caution", iteration=restart, before=old, after=new)


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
