# pyright: strict
"""Settings that do nothing beside the others: sound, so not refused, but worth a word before a run."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nanodyno.config.build import derived_value
from nanodyno.config.fields import RunConfig, keys_where
from nanodyno.config.optimizers import COMPILED, OPTIMIZERS

EMBEDDED = "python"
SEVERAL = "torchrun --nproc_per_node=2"


@dataclass(frozen=True)
class Idle:
    keys: tuple[str, ...]
    needs: str
    """As settings, for example schedule=wsd, or as a command."""


@dataclass(frozen=True)
class Unreached:
    """A step of a batch_ramp that the run ends before."""

    since: int
    tokens: int
    """Of the whole run."""


def idle_settings(
    config: RunConfig, unchosen: Collection[str] = (), processes: int = 1
) -> tuple[Idle | Unreached, ...]:
    """Those that are set otherwise than they would be by themselves; `unchosen`: keys that nobody set."""
    return (*_idle(config, unchosen, processes), *_unreached(config))


def _idle(config: RunConfig, unchosen: Collection[str], processes: int) -> Iterator[Idle]:
    for needs in _unmet(config, processes):
        keys = keys_where(lambda each: needs in each.idle_unless)  # noqa: B023 - asked at once
        there = tuple(key for key in keys if key not in unchosen and _is_set(config, key))
        if there:
            yield Idle(there, needs)


def _unmet(config: RunConfig, processes: int) -> list[str]:
    """The conditions of `idle_unless` that this config does not meet; of two for one setting the first."""
    needs_no_compiler = config.kernels == "fused" and not OPTIMIZERS[config.optimizer].compiles
    unmet = {
        "decay_lr=True": not config.decay_lr,
        "schedule=cosine|linear|wsd": config.decay_lr and config.schedule == "constant",
        f"dataset={EMBEDDED}": config.dataset != EMBEDDED,
        "kernels=auto|fused": config.kernels == "autograd",
        "device=cuda": config.kernels != "autograd" and config.device in ("cpu", "mps"),
        "untied_head=True|value_embeddings=1": not (config.untied_head or config.value_embeddings),
        COMPILED: needs_no_compiler,
        SEVERAL: processes == 1,
    }
    return [condition for condition, is_unmet in unmet.items() if is_unmet]


def _is_set(config: RunConfig, key: str) -> bool:
    """Whether it is another than it would be if it were left out."""
    return getattr(config, key) != default_of(config, key)


def default_of(config: RunConfig, key: str) -> object:
    """What a setting of this config would be if it were left out."""
    info = RunConfig.model_fields[key]
    return derived_value(config, key) if info.is_required() else info.default


def _unreached(config: RunConfig) -> Iterator[Unreached]:
    tokens = config.ramp.tokens_after(config.max_iters)
    first = next((since for since, _ in config.ramp.steps if since >= tokens), None)
    if first is not None:
        yield Unreached(first, tokens)
