"""What can be derived of a run that another program logged: as much as the log tells, and no more."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from nanodyno.analysis.peaks import card_of
from nanodyno.analysis.throughput import Yardstick
from nanodyno.config import SIZE_KEYS, ConfigError, ModelShape, build_config, keys_where
from nanodyno.costs.flops import flops_per_token, nanogpt_flops_per_token
from nanodyno.hardware.cards import Card, find_card
from nanodyno.records.imported import AnyStep, ImportedRecord, Setting

MOST = 10**12
"""Of anything that a run has: a log may be damaged, and a file from anybody."""
OF_THE_SHAPE = (*SIZE_KEYS, "vocab_size")
MODERN = keys_where(lambda each: each.group == "modern")


def known_shape(settings: Mapping[str, Setting]) -> ModelShape | None:
    """The model, where every setting is known that its parameters and FLOPs depend on.

    Heads, dropout and the kind of GELU enter neither, and stand in when they are not known.
    """
    sizes = [settings.get(key) for key in OF_THE_SHAPE]
    bias, heads = settings.get("bias"), settings.get("n_head")
    if not all(map(is_count, sizes)) or not isinstance(bias, bool):
        return None
    block = _block(settings)
    if block is None:
        return None
    n_layer, n_embd, block_size, vocab_size = (size for size in sizes if is_count(size))
    return ModelShape(
        n_layer=n_layer,
        n_head=heads if is_count(heads) else 1,
        n_embd=n_embd,
        block_size=block_size,
        vocab_size=vocab_size,
        bias=bias,
        dropout=0.0,
        gelu="exact",
        **block,
    )


def _block(settings: Mapping[str, Setting]) -> dict[str, Any] | None:
    """What a result of ours tells that is not GPT-2's; None where it makes no model."""
    told = {key: settings[key] for key in MODERN if key in settings}
    if not told:
        return {}
    of_the_model = (*SIZE_KEYS, "n_head")
    try:
        config = build_config({key: settings[key] for key in of_the_model if key in settings} | told)
    except ConfigError:
        return None
    return {key: getattr(config, key) for key in MODERN}


def is_count(value: Setting) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST


def whole(value: Setting) -> int | None:
    """A setting that is a number of something, also where it was written as 1e3."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 1 <= value < MOST else None


def imported_card(record: ImportedRecord) -> Card | None:
    if record.machine is not None:
        return card_of(record.machine)
    if record.device_name is None:
        return None
    return find_card(record.device_name, record.device_memory_bytes)


def imported_yardstick(record: ImportedRecord) -> Yardstick | None:
    """None where the model is not known. The peak is the card's for bf16 and fp16, unless it says float32.

    A run that does not tell its number of processes is held against one card.
    """
    shape = known_shape(record.settings)
    if shape is None:
        return None
    card, processes = imported_card(record), record.processes or 1
    peak = card.peak_flops(_dtype(record)) if card else None
    return Yardstick(
        flops_per_token=flops_per_token(shape, record.data.vocab_size if record.data else None),
        nanogpt_flops_per_token=nanogpt_flops_per_token(shape),
        micro_steps=imported_micro_steps(record) or 1,
        processes=processes,
        card_name=card.label if card and peak else None,
        peak_flops=peak * processes if peak else None,
    )


def _dtype(record: ImportedRecord) -> str:
    if record.arithmetic is not None:
        return record.arithmetic.dtype
    return "float32" if record.settings.get("dtype") == "float32" else "float16"


def imported_micro_steps(record: ImportedRecord) -> int | None:
    """Of each process in an iteration: nanoGPT divides the accumulation among them."""
    accumulation = record.settings.get("gradient_accumulation_steps")
    if not is_count(accumulation):
        return None
    return accumulation // (record.processes or 1) or None


def tokens_up_to(steps: Sequence[AnyStep], iterations: int, tokens_per_iter: int | None) -> int | None:
    """Over all iterations from 0 on, logged or not: one that was not is as large as the next that was."""
    seen, done = 0, 0
    for step in steps:
        if step.tokens is None:
            return None if tokens_per_iter is None else iterations * tokens_per_iter
        seen += step.tokens * (step.iteration + 1 - done)
        done = step.iteration + 1
    if done < iterations:
        return None if tokens_per_iter is None else seen + (iterations - done) * tokens_per_iter
    return seen
