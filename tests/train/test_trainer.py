"""The loop against computations that share nothing with it but the model and the windows."""

import gc
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nanodyno.config import RunConfig
from nanodyno.data.loader import Loader, Windows
from nanodyno.errors import RunFailed
from nanodyno.model.gpt import GPT
from nanodyno.records.types import EvalRecord, SaveRecord, StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.checkpoint import Checkpoint
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]
Walk = Callable[..., Iterator[Any]]
Weights = dict[str, Tensor]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def newest(checkpoints: Path) -> Checkpoint:
    found = checkpoint.newest(checkpoints)
    assert found is not None
    return found.checkpoint


def steps_of(trainer: Trainer) -> list[StepRecord]:
    return [event for event in trainer.events() if isinstance(event, StepRecord)]


def windows_of(trainer: Trainer) -> Windows:
    config = trainer.config
    return Windows(trainer.dataset.split("train"), config.block_size, 320, config.seed)


def rate(config: RunConfig, iteration: int) -> float:
    """Warm-up and cosine as nanoGPT's train.py has them."""
    if iteration < config.warmup_iters:
        return config.learning_rate * (iteration + 1) / (config.warmup_iters + 1)
    progress = (iteration - config.warmup_iters) / (config.lr_decay_iters - config.warmup_iters)
    return config.min_lr + 0.5 * (1 + math.cos(math.pi * progress)) * (config.learning_rate - config.min_lr)


def plain_training(trainer: Trainer, dtype: torch.dtype) -> tuple[list[float], list[float], Weights]:
    """The same run as a bare torch loop: its losses, its gradient norms and its last weights."""
    config, windows = trainer.config, windows_of(trainer)
    torch.manual_seed(config.seed)
    model = GPT(config.model_shape(320))
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}],
        betas=(config.beta1, config.beta2),
        foreach=False,
    )
    losses, norms, place = [], [], 0
    for iteration in range(config.max_iters):
        micro_losses = []
        for _ in range(config.gradient_accumulation_steps):
            x, y = windows.batch(np.arange(place, place + config.batch_size))
            place += config.batch_size
            with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
                loss = model(torch.from_numpy(x), torch.from_numpy(y))
            (loss / config.gradient_accumulation_steps).backward()
            micro_losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip).item())
        for group in optimizer.param_groups:
            group["lr"] = rate(config, iteration)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(micro_losses) / len(micro_losses))
    return losses, norms, {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-5), ("bfloat16", 1e-3), ("float16", 1e-3)])
def test_a_run_is_the_same_as_a_bare_torch_loop(trainer: Trainers, dtype: str, rtol: float) -> None:
    ours = trainer(dtype=dtype, max_iters=12, grad_clip=1.35, weight_decay=0.5)
    losses, norms, weights = plain_training(ours, DTYPES[dtype])
    steps = steps_of(ours)
    assert [step.loss for step in steps] == pytest.approx(losses, rel=rtol)
    assert [step.grad_norm for step in steps] == pytest.approx(norms, rel=20 * rtol)
    assert min(norms) < 1.35 < max(norms)  # clipping took part, and not always
    assert losses[-1] < losses[0] - 0.5
    assert [step.learning_rate for step in steps] == pytest.approx([rate(ours.config, i) for i in range(12)])
    if dtype == "float32":
        for name, parameter in ours.engine.model.named_parameters():
            torch.testing.assert_close(parameter.detach(), weights[name], rtol=1e-3, atol=1e-4)


def test_the_loss_of_an_iteration_is_the_mean_over_its_micro_steps_before_the_update(
    trainer: Trainers,
) -> None:
    ours = trainer(max_iters=1, batch_size=2, gradient_accumulation_steps=5)
    windows = windows_of(ours)
    with torch.no_grad():
        micro = [
            ours.engine.model(*map(torch.from_numpy, windows.batch(np.arange(2 * i, 2 * i + 2)))).item()
            for i in range(5)
        ]
    (step,) = steps_of(ours)
    assert step.loss == pytest.approx(sum(micro) / 5, rel=1e-6)
    assert abs(micro[-1] - step.loss) > 1e-4  # so the last micro-loss alone would not pass
    assert step.tokens == 2 * 5 * 16


@pytest.mark.parametrize(("batch_size", "accumulation"), [(6, 2), (3, 4), (1, 12)])
def test_the_split_into_micro_batches_changes_rounding_only(
    trainer: Trainers, batch_size: int, accumulation: int
) -> None:
    whole = trainer(batch_size=12, gradient_accumulation_steps=1, max_iters=5)
    split = trainer(batch_size=batch_size, gradient_accumulation_steps=accumulation, max_iters=5)
    for first, second in zip(steps_of(whole), steps_of(split), strict=True):
        assert second.loss == pytest.approx(first.loss, rel=1e-5)
        assert second.grad_norm == pytest.approx(first.grad_norm, rel=1e-4)


def test_accumulated_gradients_are_those_of_one_big_batch(trainer: Trainers) -> None:
    gradients = []
    for batch_size, accumulation in ((12, 1), (2, 6)):
        ours = trainer(batch_size=batch_size, gradient_accumulation_steps=accumulation)
        with Loader(ours.train_windows, batch_size, ours.device) as loader:
            ours.engine.gradients(loader, accumulation)
        gradients.append([p.grad for p in ours.engine.model.parameters()])
    for one, many in zip(*gradients, strict=True):
        torch.testing.assert_close(one, many, rtol=1e-4, atol=1e-7)


def test_the_norm_is_measured_without_clipping_too(trainer: Trainers) -> None:
    unclipped, hardly = (steps_of(trainer(grad_clip=clip, max_iters=3)) for clip in (0.0, 1e9))
    assert [step.grad_norm for step in unclipped] == pytest.approx([step.grad_norm for step in hardly])
    assert [step.loss for step in unclipped] == pytest.approx([step.loss for step in hardly])


def test_events_come_in_order(trainer: Trainers, walk: Walk, tmp_path: Path) -> None:
    reported = [(type(event).__name__, event.iteration) for event in walk(trainer(max_iters=6), tmp_path)]
    steps = [("StepRecord", iteration) for iteration in range(6)]
    assert reported == [
        ("EvalRecord", 0),
        *steps[:4],
        ("EvalRecord", 4),
        ("SaveRecord", 4),
        *steps[4:],
        ("EvalRecord", 6),
        ("SaveRecord", 6),
    ]


def test_eval_only_evaluates_once_and_leaves_nothing(trainer: Trainers) -> None:
    ours = trainer(eval_only=True)
    (event,) = ours.events()
    assert isinstance(event, EvalRecord)
    assert event.val_loss == pytest.approx(math.log(320), abs=0.1)  # as good as guessing
    assert ours.finished


def test_eval_only_works_from_a_checkpoint_as_well(trainer: Trainers, walk: Walk, tmp_path: Path) -> None:
    evals = [event for event in walk(trainer(max_iters=8), tmp_path) if isinstance(event, EvalRecord)]
    resumed = trainer(eval_only=True, max_iters=100, eval_interval=3)
    resumed.restore(newest(tmp_path))
    (event,) = resumed.events()
    assert isinstance(event, EvalRecord)
    assert (event.iteration, event.val_loss) == (8, pytest.approx(evals[-1].val_loss, rel=1e-6))


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_evaluations_and_checkpoints_do_not_touch_training(trainer: Trainers, dropout: float) -> None:
    often, seldom = (
        [step.loss for step in steps_of(trainer(eval_interval=interval, dropout=dropout))]
        for interval in (1, 1000)
    )
    assert often == seldom


@pytest.mark.usefixtures("_deterministic")
def test_the_seed_decides_the_losses(trainer: Trainers) -> None:
    first, again, other = (
        [step.loss for step in steps_of(trainer(seed=seed, max_iters=3))] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_a_loss_that_is_not_a_number_ends_the_run_after_its_record(trainer: Trainers) -> None:
    seen: list[Any] = []
    with pytest.raises(RunFailed, match="the loss became nan in iteration 2") as caught:
        seen.extend(trainer(learning_rate=1e30, decay_lr=False).events())
    assert caught.value.exit_code == 1
    assert math.isnan(seen[-1].loss)
    assert gc.isenabled()


def test_broken_weights_never_take_the_place_of_a_good_checkpoint(
    trainer: Trainers, walk: Walk, tmp_path: Path
) -> None:
    ours = trainer(eval_interval=2)
    events = walk(ours, tmp_path)
    while not (isinstance(event := next(events), StepRecord) and event.iteration == 3):
        pass
    torch.nn.init.constant_(ours.engine.model.norm.weight, math.nan)
    event = next(events)
    assert isinstance(event, EvalRecord)
    assert math.isnan(event.val_loss)
    with pytest.raises(RunFailed, match="the val loss became nan at 4"):
        next(events)
    good = newest(tmp_path)
    assert good.progress.iteration == 2
    checkpoint.load_model(good, ours.engine.model)
    assert all(p.isfinite().all() for p in ours.engine.model.parameters())


def test_the_collector_rests_during_the_loop_and_comes_back_at_its_end(trainer: Trainers) -> None:
    frozen = gc.get_freeze_count()
    for _ in trainer(max_iters=2).events():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_the_collector_comes_back_when_the_events_are_left_early(trainer: Trainers) -> None:
    events = trainer().events()
    next(events)
    assert not gc.isenabled()
    events.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(trainer: Trainers) -> None:
    gc.disable()
    try:
        list(trainer(max_iters=1).events())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_times_are_of_the_iterations_alone(trainer: Trainers, walk: Walk, tmp_path: Path) -> None:
    steps, others = [], 0.0
    for event in walk(trainer(eval_interval=1), tmp_path):
        if isinstance(event, StepRecord):
            steps.append(event)
        elif isinstance(event, SaveRecord):
            others += event.save_seconds
        elif isinstance(event, EvalRecord):
            others += event.eval_seconds
    assert all(0 <= step.data_seconds <= step.step_seconds for step in steps)
    passed = steps[-1].wall_time - steps[0].wall_time
    assert sum(step.step_seconds for step in steps[1:]) <= passed
    assert others > 0
    assert all(step.peak_allocated_bytes is None for step in steps)
