"""One short training in this process, for benchmarks that compare what a recipe reaches.

Nothing is written to disk. Seconds are of iterations alone, without compilation and evaluation.
"""

import gc
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._dynamo import config as dynamo

from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.costs.parameters import parameters
from nanodyno.data.loader import Windows
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.shards import open_dataset
from nanodyno.records.types import StepRecord
from nanodyno.train.autograd import AutogradEngine
from nanodyno.train.device import choose, reset_peak_memory, take_threads
from nanodyno.train.engine import Prepared
from nanodyno.train.fused import FusedEngine
from nanodyno.train.trainer import Trainer

EVALUATED = 1_048_576
"""Tokens of the val split, from its beginning where that is all there is of it."""
SHAPES_KEPT = 64
"""That Muon's step stays compiled for, from one trial to the next; torch would compile it for eight."""


@dataclass(frozen=True)
class Trial:
    seed: int
    parameters: int
    value_embeddings: int
    tokens: int
    train_seconds: float
    tokens_per_second: float
    """Median over iterations."""
    prepared_seconds: float
    wall_seconds: float
    val_loss: float
    val_tokens: int
    train_loss: float
    """Mean of the last tenth of the iterations."""
    losses: tuple[tuple[int, float, float], ...]
    """Tokens, training seconds and val loss on the way, where they were asked for."""
    also: dict[str, float]
    """Val losses of other datasets, by folder."""
    peak_gib: float | None
    attention: str | None
    notes: tuple[str, ...]


def config_for(settings: Mapping[str, object], tokens: int | None) -> RunConfig:
    """With as many iterations as the tokens take, and no evaluation but the trial's own."""
    quiet: dict[str, object] = {"eval_interval": 10**9, "eval_tokens": 1}
    config = build_config(dict(settings) | quiet)
    if tokens is None:
        return config
    return build_config(dict(settings) | quiet | {"max_iters": -(-tokens // config.tokens_per_iter)})


def run_trial(
    config: RunConfig,
    data_folder: Path,
    val_tokens: int = EVALUATED,
    looks: int = 0,
    also: Sequence[Path] = (),
) -> Trial:
    _clear()
    began = time.perf_counter()
    take_threads(config.threads)
    choice = choose(config)
    dataset = resolve_dataset(
        config.dataset, data_folder, config.tokenizer, config.vocab_size, lambda _: None
    )
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = Trainer(config, dataset, vocab_size, choice)
    if isinstance(trainer.engine, AutogradEngine):
        torch.compiler.reset()  # else a process compiles few models, and then none, without a word
    prepared = trainer.warm_up() if trainer.engine.needs_preparation else None
    if prepared and isinstance(trainer.engine, FusedEngine) and choice.device.type == "cuda":
        refuse_torchs_kernels(prepared)
    due = {round(config.max_iters * (look + 1) / (looks + 1)) for look in range(looks)}
    steps: list[StepRecord] = []
    losses: list[tuple[int, float, float]] = []
    for event in trainer.events():
        if not isinstance(event, StepRecord):
            continue
        steps.append(event)
        if len(steps) in due:
            loss, _ = _val_loss(trainer, trainer.val_windows, val_tokens)
            seconds = sum(step.step_seconds for step in steps)
            losses.append((sum(step.tokens for step in steps), seconds, loss))
    val_loss, seen = _val_loss(trainer, trainer.val_windows, val_tokens)
    others = {
        str(folder): Windows(open_dataset(folder, vocab_size).split("val"), config.block_size, vocab_size)
        for folder in also
    }
    counted = parameters(config.model_shape(vocab_size))
    peaks = [step.peak_allocated_bytes for step in steps if step.peak_allocated_bytes is not None]
    return Trial(
        seed=config.seed,
        parameters=counted.total,
        value_embeddings=counted.value_embeddings,
        tokens=sum(step.tokens for step in steps),
        train_seconds=sum(step.step_seconds for step in steps),
        tokens_per_second=statistics.median(step.tokens / step.step_seconds for step in steps),
        prepared_seconds=prepared.seconds if prepared else 0.0,
        wall_seconds=time.perf_counter() - began,
        val_loss=val_loss,
        val_tokens=seen,
        train_loss=statistics.fmean(step.loss for step in steps[-max(1, len(steps) // 10) :]),
        losses=tuple(losses),
        also={name: _val_loss(trainer, windows, val_tokens)[0] for name, windows in others.items()},
        peak_gib=max(peaks) / 2**30 if peaks else None,
        attention=prepared.attention if prepared else None,
        notes=prepared.notes if prepared else (),
    )


def refuse_torchs_kernels(prepared: Prepared) -> None:
    """Where a kernel of ours failed, a trial would be slow, and its seconds those of no recipe."""
    if not prepared.triton:
        raise RuntimeError(f"not trained on torch's own kernels: {'; '.join(prepared.notes)}")


def _clear() -> None:
    """Of the trial before, also of one that failed: it is gone only when its error is."""
    dynamo.recompile_limit = SHAPES_KEPT
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _val_loss(trainer: Trainer, windows: Windows, tokens: int) -> tuple[float, int]:
    found = trainer.engine.mean_loss(windows, tokens, trainer.batches.size, lambda: False)
    reset_peak_memory(trainer.device)  # the peak that is told is training's
    return found
