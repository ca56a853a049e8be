"""What can be derived of a run that another program logged: as much as the log tells, and no more."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from nanodyno.analysis.metrics import gpu_of
from nanodyno.config import SIZE_KEYS, ConfigError, ModelShape, build_config, keys_where
from nanodyno.hardware.gpus import Gpu, find_gpu
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
    reported = {key: settings[key] for key in MODERN if key in settings}
    if not reported:
        return {}
    of_the_model = (*SIZE_KEYS, "n_head")
    try:
        config = build_config({key: settings[key] for key in of_the_model if key in settings} | reported)
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


def imported_gpu(record: ImportedRecord) -> Gpu | None:
    if record.machine is not None:
        return gpu_of(record.machine)
    if record.device_name is None:
        return None
    return find_gpu(record.device_name, record.device_memory_bytes)


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
