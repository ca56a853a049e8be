"""An optimizer that nobody knows of, made up here: registered by one entry, it trains like the others."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.config import ConfigError, ModelShape, RunConfig, build_config
from nanodyno.config.optimizers import OPTIMIZERS, OptimizerEntry, StepCost
from nanodyno.costs.calibration import calibration_for
from nanodyno.costs.memory import memory_of
from nanodyno.costs.parameters import parameters
from nanodyno.costs.setup import settle
from nanodyno.costs.time import iteration_time
from nanodyno.costs.work import per_iteration
from nanodyno.model.batched import BatchedOptimizer
from nanodyno.records.events import RunEvent
from nanodyno.records.store import read_run
from nanodyno.records.types import StepRecord
from nanodyno.report.modern import modern_words
from nanodyno.train import checkpoint
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training
from nanodyno.train.tensors import read_tensors
from nanodyno.train.trainer import Trainer

NAME = "sign-momentum"
BETA = 0.9


def _update_(weights: Tensor, gradients: Tensor, velocity: Tensor, rates: Tensor, cautious: bool) -> None:
    assert not cautious
    beta, learning_rate, decay, clip = rates.unbind()
    velocity.lerp_(gradients * clip, 1 - beta)
    weights.copy_(weights * (1 - decay) - learning_rate * velocity.sign())


class SignMomentum(BatchedOptimizer):
    """The sign of an average of gradients."""

    states = ("velocity",)
    still = (1.0, 0.0, 0.0, 1.0)
    update_ = staticmethod(_update_)

    def rates_of(self, group: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[float, ...]:
        assert len(shape) in (1, 2)
        return BETA, group["lr"], group["lr"] * group["weight_decay"], 1.0


def _cost(shape: ModelShape, fused: bool) -> StepCost:
    return StepCost(moved_bytes=20 * shape.n_embd, kernels=7, temporary_bytes=1000 if fused else 3000)


ENTRY = OptimizerEntry(
    "Sign-Momentum",
    implementation=f"{__name__}:SignMomentum",
    takes="block_matrices",
    state_bytes=4,
    step_cost=_cost,
)
WAYS: list[dict[str, Any]] = [{}, {"kernels": "fused"}]
EVERYTHING: dict[str, Any] = {"untied_head": True, "embedding_lr": 3e-4, "bias": True}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIMIZERS, NAME, ENTRY)


@pytest.fixture
def job(data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]) -> Callable[..., TrainingJob]:
    def build(name: str, **changes: Any) -> TrainingJob:
        settings = {"optimizer": NAME, "learning_rate": 1e-3} | changes
        return TrainingJob(config(**settings), name, tmp_path / name, ("nanodyno", "train"), (), data_folder)

    return build


class Interrupted(Exception):
    """What Ctrl-C would be."""


def interrupt(event: RunEvent) -> None:
    if isinstance(event, StepRecord) and event.iteration == 6:
        raise Interrupted


def ignore(event: RunEvent) -> None:
    """For runs of which only the folder matters."""


def saved(job: TrainingJob) -> dict[str, Tensor]:
    """Every tensor of the newest checkpoint."""
    found = checkpoint.newest(job.folder / "checkpoints")
    assert found is not None
    files = (checkpoint.MODEL_FILE, checkpoint.OPTIMIZER_FILE)
    return {key: each for file in files for key, each in read_tensors(found.checkpoint.folder / file).items()}


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("takes", "changes"), [("block_matrices", {}), ("total", EVERYTHING)])
def test_it_trains_saves_and_resumes_exactly(
    job: Callable[..., TrainingJob],
    monkeypatch: pytest.MonkeyPatch,
    way: dict[str, Any],
    takes: Any,
    changes: Any,
) -> None:
    monkeypatch.setitem(OPTIMIZERS, NAME, replace(ENTRY, takes=takes))
    settings = way | changes
    run_training(job("whole", **settings), ignore)
    with pytest.raises(Interrupted):
        run_training(job("stopped", **settings), interrupt)
    run_training(job("stopped", init_from="resume", **settings), ignore)
    whole, resumed = (read_run(job(name).folder) for name in ("whole", "stopped"))
    assert [step.loss for step in whole.steps] == [step.loss for step in resumed.steps]
    assert whole.own_evals[-1].val_loss < whole.own_evals[0].val_loss - 0.1
    first, second = (saved(job(name)) for name in ("whole", "stopped"))
    assert first.keys() == second.keys()
    assert all(first[key].equal(second[key]) for key in first)
    kept = {key.partition("/")[2] for key in first} - {""}
    assert kept == ({"velocity"} if takes == "total" else {"velocity", "exp_avg", "exp_avg_sq", "step"})
    assert first["blocks.1.mlp.up.weight/velocity"].any()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("takes", ["block_matrices", "total"])
def test_both_engines_make_the_step_that_can_be_worked_out_by_hand(
    trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch, way: dict[str, Any], takes: Any
) -> None:
    monkeypatch.setitem(OPTIMIZERS, NAME, replace(ENTRY, takes=takes))
    engine = trainer(**way, optimizer=NAME, weight_decay=0.5, grad_clip=0.01).engine
    weights = dict(engine.model.named_parameters())
    before = {name: each.detach().clone() for name, each in weights.items()}
    batch = torch.arange(64).view(4, 16), torch.arange(1, 65).view(4, 16)
    found = engine.gradients(iter([batch]), 1)
    clip = 0.01 / (found.norm + 1e-6) if way else 1.0  # by autograd, they are clipped already
    assert found.norm > 0.1
    decays = {"blocks.0.mlp.up.weight": 0.5, "blocks.1.attention.qkv.weight": 0.5}
    decays |= {"norm.weight": 0.0, "tokens.weight": 0.5} if takes == "total" else {}
    gradients: dict[str, Tensor] = {}
    for name in decays:
        gradient = weights[name].grad
        assert gradient is not None
        gradients[name] = gradient.clone() * clip
    engine.update(1e-2)
    for name, decay in decays.items():
        expected = before[name] * (1 - 1e-2 * decay) - 1e-2 * gradients[name].sign()
        torch.testing.assert_close(weights[name].detach(), expected, msg=name)
        (velocity,) = engine.optimizer.state[weights[name]].values()
        torch.testing.assert_close(velocity, (1 - BETA) * gradients[name], msg=name)
    assert ("exp_avg" in engine.optimizer.state[weights["norm.weight"]]) == (takes == "block_matrices")


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("takes", ["block_matrices", "total"])
def test_a_plan_counts_its_memory_and_its_time(
    monkeypatch: pytest.MonkeyPatch, fused: bool, takes: Any
) -> None:
    monkeypatch.setitem(OPTIMIZERS, NAME, replace(ENTRY, takes=takes))
    kernels = "fused" if fused else "autograd"
    config = build_config({"optimizer": NAME, "batch_size": 8, "kernels": kernels})
    setup = settle(config, config.model_shape(50304), "bfloat16", None)
    adamw = replace(setup, optimizer="adamw")
    taken = getattr(parameters(setup.shape), takes)
    gpu = calibration_for(None)
    ours, theirs = (memory_of(each, gpu).optimizer for each in (setup, adamw))
    assert theirs - ours == 4 * taken
    ours, theirs = (per_iteration(each) for each in (setup, adamw))
    assert ours.kernels - theirs.kernels == 7
    # AdamW reads and writes a weight, its gradient and two moments, each of 4 bytes
    assert ours.moved_bytes - theirs.moved_bytes == 20 * 768 - 32 * taken
    assert iteration_time(setup, gpu).seconds < iteration_time(adamw, gpu).seconds
    assert (setup.was_measured, adamw.was_measured) == (False, True)


def test_it_is_named_in_a_report_and_others_are_refused() -> None:
    words = modern_words(build_config({"optimizer": NAME, "learning_rate": 3e-4}))
    assert words.startswith("Sign-Momentum")
    assert "3.00e-04" in words
    with pytest.raises(ConfigError) as refused:
        build_config({"optimizer": "sign"})
    assert [fault.partition(":")[0] for fault in refused.value.faults] == ["optimizer"]
