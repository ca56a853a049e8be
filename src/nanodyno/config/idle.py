# pyright: strict
"""Settings that do nothing beside the others: sound, so not refused, but worth a word before a run."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nanodyno.config.build import tenth
from nanodyno.config.fields import RunConfig
from nanodyno.config.optimizers import OPTIMIZERS

_DECAY = ("min_lr", "lr_decay_iters")
_BY_HAND = ("products", "cuda_graph")
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
    alone = [(SEVERAL, ("parallel",))] if processes == 1 else []
    for needs, keys in (*_needs(config), *alone):
        there = tuple(key for key in keys if key not in unchosen and _is_set(config, key))
        if there:
            yield Idle(there, needs)


def _needs(config: RunConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    if not config.decay_lr:
        yield "decay_lr=True", ("schedule", "warmup_iters", *_DECAY)
    elif config.schedule == "constant":
        yield "schedule=cosine|linear|wsd", _DECAY
    if config.dataset != EMBEDDED:
        yield f"dataset={EMBEDDED}", ("tokenizer",)
    if config.kernels == "autograd":
        yield "kernels=auto|fused", _BY_HAND
    elif config.device in ("cpu", "mps"):
        yield "device=cuda", _BY_HAND
    if not config.untied_head and not config.value_embeddings:
        yield "untied_head=True|value_embeddings=1", ("embedding_lr",)
    if config.kernels == "fused" and not OPTIMIZERS[config.optimizer].compiles:
        compiled = [f"optimizer={name}" for name, entry in OPTIMIZERS.items() if entry.compiles]
        yield "|".join(["kernels=autograd", *compiled]), ("compile",)


def _is_set(config: RunConfig, key: str) -> bool:
    derived = {"min_lr": tenth(config.learning_rate), "lr_decay_iters": config.max_iters}
    return getattr(config, key) != derived.get(key, RunConfig.model_fields[key].default)


def _unreached(config: RunConfig) -> Iterator[Unreached]:
    tokens = config.ramp.tokens_after(config.max_iters)
    first = next((since for since, _ in config.ramp.steps if since >= tokens), None)
    if first is not None:
        yield Unreached(first, tokens)
