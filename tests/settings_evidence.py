"""What changing one setting does to a tiny training on a CPU: evidence for what is declared of it."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nanodyno.config import RunConfig, build_config
from nanodyno.config.shape import ModelShape
from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.shards import Dataset, open_dataset
from nanodyno.data.tokenizers import BytesTokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.model.modern import make_model
from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.train.device import choose
from nanodyno.train.trainer import Trainer

ITERATIONS = 3
ROUNDING = 5e-6
PLAIN: dict[str, Any] = {
    "n_layer": 1, "n_head": 2, "n_embd": 32, "block_size": 8, "batch_size": 2, "tokens_per_iter": 16,
    "learning_rate": 1e-2, "warmup_iters": 1, "max_iters": ITERATIONS, "dataset": "first",
    "eval_interval": ITERATIONS, "eval_tokens": 32, "device": "cpu", "dtype": "float32", "compile": False,
}  # fmt: skip
SPLIT = {"tokens_per_iter": 32}
FUSED = {"kernels": "fused"}
MUON = {"optimizer": "muon"}
SAMPLES: dict[str, tuple[dict[str, Any], Any]] = {
    "n_layer": ({}, 2),
    "n_head": ({}, 4),
    "n_embd": ({}, 64),
    "block_size": (SPLIT, 16),
    "vocab_size": ({}, 384),
    "bias": ({}, True),
    "dropout": ({}, 0.2),
    "gelu": ({"learning_rate": 0.1}, "tanh"),
    "positions": ({}, "rope"),
    "rope_base": ({"positions": "rope"}, 10.0),
    "norm": ({}, "rms"),
    "activation": ({}, "relu2"),
    "qk_norm": ({}, True),
    "n_kv_head": ({}, 1),
    "window": ({}, 4),
    "window_pattern": ({"window": 4}, "LS"),
    "value_embeddings": ({"n_layer": 2}, 1),
    "untied_head": ({}, True),
    "logit_softcap": ({}, 5.0),
    "zero_init": ({}, True),
    "embedding_init": ({}, 0.1),
    "batch_size": (SPLIT, 4),
    "gradient_accumulation_steps": (
        SPLIT,
        {"gradient_accumulation_steps": 1, "batch_size": 4, "tokens_per_iter": None},
    ),
    "tokens_per_iter": (SPLIT, 64),
    "batch_ramp": (SPLIT, "32:64"),
    "learning_rate": ({}, 5e-3),
    "min_lr": ({}, 9e-3),
    "warmup_iters": ({}, 0),
    "lr_decay_iters": ({}, 9),
    "max_iters": ({"lr_decay_iters": ITERATIONS}, 5),
    "weight_decay": ({}, 0.9),
    "beta1": ({}, 0.5),
    "beta2": ({}, 0.5),
    "grad_clip": ({}, 0.0),
    "decay_lr": ({}, False),
    "schedule": ({}, "constant"),
    "wsd_decay_fraction": ({"schedule": "wsd"}, 1.0),
    "optimizer": ({}, "muon"),
    "muon_lr": (MUON, 5e-3),
    "muon_momentum": (MUON, 0.5),
    "embedding_lr": ({"untied_head": True, "embedding_lr": 2e-2}, 5e-2),
    "cautious_decay": ({"weight_decay": 0.9}, True),
    "dataset": ({}, "second"),
    "seed": ({}, 7),
    "eval_interval": ({}, 1),
    "eval_tokens": ({}, 64),
    "eval_iters": ({}, {"eval_iters": 4, "eval_tokens": None}),
    "log_interval": ({}, 2),
    "dtype": ({}, "bfloat16"),
    "kernels": ({}, "fused"),
    "attention": ({}, "math"),
    "loss_chunk_size": ({}, 4),
    "residual_dtype": (FUSED, "bfloat16"),
    "moments_dtype": (FUSED, "bfloat16"),
    "fp8": (FUSED | {"dtype": "bfloat16"}, True),
    "keep_checkpoints": ({}, 3),
    "out_dir": ({}, "elsewhere"),
}
"""Of each setting that a CPU knows: a config in which it acts (on top of PLAIN), and another value."""
AMOUNTS: dict[str, tuple[Any, Any]] = {
    "dropout": (0.1, 0.4),
    "grad_clip": (0.1, 0.2),
    "logit_softcap": (5.0, 9.0),
    "value_embeddings": (1, 2),
}
"""Of settings that are there or not: two amounts."""


@dataclass(frozen=True)
class Outcome:
    losses: tuple[float, ...]
    operations: Counter[Any]
    """Of the training iterations: what was called on which shapes, and how often."""


class _Traced(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = tuple((each.shape, each.dtype) for each in args if isinstance(each, Tensor))
        words = tuple(each for each in (kwargs or {}).values() if isinstance(each, str))
        self.operations[func, shapes, words] += 1
        return func(*args, **(kwargs or {}))


@cache
def datasets(folder: Path) -> dict[str, Dataset]:
    def text(first: int, last: int) -> CorpusDocument:
        return CorpusDocument(f"{first}", "".join(f"{n} times {n} is {n * n}.\n" for n in range(first, last)))

    for name, at in (("first", 0), ("second", 500)):
        splits = {"train": [text(at, at + 200)], "val": [text(at + 200, at + 240)]}
        write_dataset(folder / name, BytesTokenizer(), splits, {})
    return {name: open_dataset(folder / name) for name in ("first", "second")}


class Evidence:
    """Trainings of PLAIN with changes, each made once."""

    def __init__(self, folder: Path) -> None:
        self._datasets = datasets(folder)
        self._known: dict[str, Outcome] = {}

    def outcome(self, config: RunConfig) -> Outcome:
        key = config.model_dump_json()
        if key not in self._known:
            self._known[key] = self._trained(config)
        return self._known[key]

    def _trained(self, config: RunConfig) -> Outcome:
        trainer = Trainer(config, self._datasets[config.dataset], config.vocab_size or 320, choose(config))
        losses: list[float] = []
        operations: Counter[Any] = Counter()
        events = trainer.events()
        while True:
            with _Traced() as traced:
                event = next(events)
            if isinstance(event, StepRecord):
                losses.append(event.loss)
                operations += traced.operations
            if isinstance(event, EvalRecord) and event.iteration == ITERATIONS:
                return Outcome((*losses, event.val_loss), operations)

    def of(self, **changes: Any) -> Outcome:
        return self.outcome(build_config(PLAIN | changes))

    def effects(self, one: Outcome, other: Outcome) -> set[str]:
        """More micro-steps of the same shapes take time and no memory; a loss differs beyond rounding."""
        found: set[str] = set()
        if one.operations != other.operations:
            found.add("speed")
        if one.operations.keys() != other.operations.keys():
            found.add("memory")
        if max(abs(a - b) for a, b in zip(one.losses, other.losses, strict=True)) > ROUNDING:
            found.add("loss")
        return found


def operations_of(shape: ModelShape) -> Counter[Any]:
    """Of a forward pass over one sequence, without dropout."""
    model = make_model(shape).eval()
    tokens = torch.zeros(1, shape.block_size, dtype=torch.long)
    with _Traced() as traced, torch.no_grad():
        model(tokens, tokens)
    return traced.operations
