"""The engine written by hand against the one by autograd; on a CPU it runs on its kernels' plain twins."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.config import RunConfig
from nanodyno.records.store import read_run
from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.fused import FusedEngine
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]
Walk = Callable[..., Iterator[Any]]
Spoil = Callable[[Callable[[Tensor], Tensor]], None]


def losses_of(trainer: Trainer) -> list[float]:
    return [event.loss for event in trainer.events() if isinstance(event, StepRecord)]


def engine_of(trainer: Trainer) -> FusedEngine:
    assert isinstance(trainer.engine, FusedEngine)
    return trainer.engine


def gradients_of(trainer: Trainer) -> dict[str, Tensor]:
    """Of the iteration that comes next."""
    with trainer.batches.loading(trainer.sequences) as loader:
        trainer.engine.gradients(loader, trainer.batches.steps)
    return {name: p.grad for name, p in trainer.engine.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "changes",
    [
        {"grad_clip": 0.0, "weight_decay": 0.5},
        {"grad_clip": 1.35, "attention": "math"},
        {"bias": True, "gelu": "tanh", "gradient_accumulation_steps": 1, "loss_chunk_size": 7},
    ],
)
def test_a_run_has_the_losses_the_norms_and_the_evaluations_of_an_eager_one(
    trainer: Trainers, fused: Trainers, changes: dict[str, Any]
) -> None:
    ours, theirs = (list(build(**changes).events()) for build in (fused, trainer))
    for kind, fact, rel in (
        (StepRecord, "loss", 1e-5),
        (StepRecord, "grad_norm", 1e-4),
        (EvalRecord, "val_loss", 1e-5),
    ):
        mine, other = (
            [getattr(event, fact) for event in events if isinstance(event, kind)] for events in (ours, theirs)
        )
        assert mine == pytest.approx(other, rel=rel)
        if fact == "grad_norm" and "attention" in changes:
            assert min(mine) < 1.35 < max(mine)  # clipping took part, and not always


def test_a_bf16_run_has_the_losses_of_autocast(trainer: Trainers, fused: Trainers) -> None:
    theirs = losses_of(trainer(dtype="bfloat16"))
    assert losses_of(fused(dtype="bfloat16")) == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("changes", [{}, {"bias": True, "gelu": "tanh"}])
def test_the_gradients_of_an_iteration_are_autograds(
    trainer: Trainers, fused: Trainers, changes: dict[str, Any]
) -> None:
    # Autograd's are clipped at once, and these while they are applied.
    ours, theirs = (gradients_of(build(**changes, grad_clip=0.0)) for build in (fused, trainer))
    assert ours.keys() == theirs.keys()
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-4, atol=1e-7, msg=name)


@pytest.mark.parametrize("kernels", ["fused", "autograd"])
@pytest.mark.parametrize(("attention", "flash"), [("auto", True), ("math", False)])
def test_the_attention_that_was_named_is_the_one_that_runs(
    trainer: Trainers, spoil: Spoil, kernels: str, attention: str, flash: bool
) -> None:
    ours, ran = trainer(kernels=kernels, attention=attention), set[str]()

    def watch(out: Tensor) -> Tensor:
        assert out.grad_fn is not None
        ran.add(out.grad_fn.name())
        return out

    spoil(watch)
    gradients_of(ours)
    assert {"FlashAttentionForCpu" in name for name in ran} == {flash}


def test_gradients_that_are_dropped_are_zero_and_stay_where_they_are(fused: Trainers) -> None:
    ours = fused(bias=True)
    before = gradients_of(ours)
    assert all(gradient.any() for gradient in before.values())
    first = {name: gradient.clone() for name, gradient in before.items()}
    ours.engine.drop_gradients()
    for name, p in ours.engine.model.named_parameters():
        assert p.grad is not None
        assert p.grad.data_ptr() == before[name].data_ptr()
        assert not p.grad.any()
    again = gradients_of(ours)
    assert all(again[name].equal(first[name]) for name in first)


@pytest.mark.usefixtures("_deterministic")
def test_every_recompute_gives_the_same_losses_to_the_bit(fused: Trainers) -> None:
    levels = ("none", "light", "mlp", "full")
    first, *others = (losses_of(fused(recompute=level, dtype="bfloat16", bias=True)) for level in levels)
    assert others == [first] * 3


@pytest.mark.usefixtures("_deterministic")
def test_the_preparation_leaves_no_trace(fused: Trainers) -> None:
    prepared, plain = fused(), fused()
    how = prepared.warm_up()
    assert (how.compiled, how.attention, how.recompute, how.cuda_graph) == (False, "torch", "none", False)
    assert (how.notes, how.attention_seconds) == ((), ())
    weights = zip(prepared.engine.model.parameters(), plain.engine.model.parameters(), strict=True)
    assert all(mine.equal(other) for mine, other in weights)
    assert not engine_of(prepared).step.flat.gradients.any()
    assert (prepared.iteration, prepared.sequences) == (0, 0)
    assert losses_of(prepared) == losses_of(plain)


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize(
    "changes",
    [
        {"offload_moments": True, "recompute": "full"},
        {"dtype": "bfloat16", "residual_dtype": "bfloat16", "moments_dtype": "bfloat16", "bias": True},
    ],
)
def test_a_resumed_run_goes_on_to_the_bit_whether_it_is_prepared_before_or_after(
    fused: Trainers, walk: Walk, tmp_path: Path, changes: dict[str, Any]
) -> None:
    whole = [e.loss for e in walk(fused(**changes), tmp_path) if isinstance(e, StepRecord)]
    for prepare_first in (False, True):
        resumed = fused(**changes)
        if prepare_first:
            resumed.warm_up()
        resumed.restore(checkpoint.read(tmp_path / "iter-00000004"))
        if not prepare_first:
            resumed.warm_up()
        assert losses_of(resumed) == whole[4:]


@pytest.mark.parametrize(
    ("first", "second", "rel"),
    [
        ({"kernels": "fused"}, {"kernels": "autograd"}, 1e-5),
        ({"kernels": "autograd"}, {"kernels": "fused"}, 1e-5),
        ({"moments_dtype": "bfloat16"}, {"kernels": "autograd"}, 1e-2),
    ],
)
def test_a_checkpoint_of_either_engine_goes_on_in_the_other(
    trainer: Trainers,
    walk: Walk,
    tmp_path: Path,
    first: dict[str, Any],
    second: dict[str, Any],
    rel: float,
) -> None:
    whole = [e.loss for e in walk(trainer(**first), tmp_path) if isinstance(e, StepRecord)]
    resumed = trainer(**second)
    resumed.restore(checkpoint.read(tmp_path / "iter-00000004"))
    assert losses_of(resumed) == pytest.approx(whole[4:], rel=rel)
    for entry in resumed.engine.optimizer.state.values():
        assert entry["step"] == 8
        assert entry["exp_avg"].dtype == entry["exp_avg_sq"].dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "kernels", "recompute"),
    [
        ({"residual_dtype": "bfloat16", "dtype": "bfloat16"}, "fused", "none"),
        ({"moments_dtype": "bfloat16", "recompute": "mlp"}, "fused", "mlp"),
        ({"loss_chunk_size": 5}, "autograd", "none"),
    ],
)
def test_a_run_trains_with_every_precision_and_records_what_it_used(
    data_folder: Path,
    tmp_path: Path,
    config: Callable[..., RunConfig],
    changes: dict[str, Any],
    kernels: str,
    recompute: str,
) -> None:
    job = TrainingJob(config(**changes, max_iters=4), "run", tmp_path / "run", data_folder=data_folder)
    run_training(job, lambda _: None)
    run = read_run(tmp_path / "run")
    record = run.own
    assert (record.arithmetic.kernels, record.arithmetic.recompute) == (kernels, recompute)
    assert record.arithmetic.compiled is record.arithmetic.cuda_graph is False
    assert record.arithmetic.attention == ("torch" if kernels == "fused" else None)
    assert any("Triton has no kernels for cpu" in note for note in record.notes) == (kernels == "fused")
    assert record.config.model_dump().items() >= changes.items()
    assert run.own_steps[-1].loss < run.own_steps[0].loss - 0.2


def test_precisions_of_class_different_are_different_and_near(fused: Trainers) -> None:
    usual = losses_of(fused(dtype="bfloat16"))
    for change in ({"residual_dtype": "bfloat16"}, {"moments_dtype": "bfloat16"}):
        losses = losses_of(fused(dtype="bfloat16", **change))
        assert losses != usual
        assert losses == pytest.approx(usual, rel=0.01)
