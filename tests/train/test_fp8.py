"""fp8 in a whole run: exact resume, and factors that one bad number does not spoil."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanodyno.records.types import StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.fused import FusedEngine
from nanodyno.train.trainer import Trainer, TrainerEvent

Trainers = Callable[..., Trainer]
Walk = Callable[[Trainer, Path], Iterator[TrainerEvent]]
FP8 = {"fp8": True, "dtype": "bfloat16"}


@pytest.mark.usefixtures("_deterministic")
def test_a_resumed_run_goes_on_to_the_bit(fused: Trainers, walk: Walk, tmp_path: Path) -> None:
    whole = fused(**FP8)
    whole.warm_up()
    losses = [event.loss for event in walk(whole, tmp_path) if isinstance(event, StepRecord)]
    resumed = fused(**FP8)
    resumed.restore(checkpoint.read(tmp_path / "iter-00000004"))
    resumed.warm_up()
    assert [event.loss for event in resumed.events() if isinstance(event, StepRecord)] == losses[4:]


def test_an_infinite_value_does_not_spoil_the_factors(fused: Trainers) -> None:
    ours = fused(**FP8)
    ours.warm_up()
    assert isinstance(ours.engine, FusedEngine)
    matmuls = ours.engine.step.matmuls
    before = matmuls.factors()
    matmuls.take_factors({key: math.inf if "largest" in key else each for key, each in before.items()})
    matmuls.begin()
    after = matmuls.factors()
    assert {key: after[key] for key in after if "scale" in key} == {
        key: before[key] for key in before if "scale" in key
    }


def test_losses_are_near_those_without(fused: Trainers) -> None:
    def losses(**changes: object) -> list[float]:
        ours = fused(**changes)
        ours.warm_up()
        return [event.loss for event in ours.events() if isinstance(event, StepRecord)]

    ours = losses(**FP8)
    assert ours != losses(dtype="bfloat16")
    assert ours == pytest.approx(losses(dtype="bfloat16"), rel=0.01)
