"""What is judged bad never reaches the weights, and is told or skipped."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nanodyno.records.types import StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.spike_guard import Diverged, SpikeGuard, SpikeGuardState
from nanodyno.train.stops import Limits, Stops
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]
Walk = Callable[..., Iterator[Any]]

# Mean 2 and standard deviation 1: a z-score of 3 begins above 5.
STEADY = SpikeGuardState(losses=(1.0, 3.0) * 20, norms=(1.0, 3.0) * 20)


@pytest.mark.parametrize(
    ("loss", "norm", "judged"),
    [
        (4.99, 4.99, None),
        (5.01, 2.0, "loss-spike"),
        (2.0, 5.01, "norm-spike"),
        (-50.0, 0.0, None),  # a fall is no fault
        (2.0, None, None),
        (math.nan, 2.0, "not-finite"),
        (math.inf, 2.0, "not-finite"),
        (2.0, math.inf, "not-finite"),
    ],
)
def test_a_leap_is_more_than_so_many_deviations_above_the_latest(
    loss: float, norm: float | None, judged: str | None
) -> None:
    assert SpikeGuard(3.0, STEADY).judge(loss, norm) == judged


def test_without_a_z_score_only_what_is_no_number_is_bad() -> None:
    spike_guard = SpikeGuard(0.0, STEADY)
    assert spike_guard.judge(1e30, 1e30) is None
    assert spike_guard.judge(math.nan, 1.0) == "not-finite"


def test_too_few_values_say_nothing_yet() -> None:
    few = SpikeGuardState(losses=(1.0, 3.0) * 15 + (1.0,))
    assert SpikeGuard(3.0, few).judge(1000.0, None) is None
    assert SpikeGuard(3.0, SpikeGuardState(losses=(*few.losses, 3.0))).judge(1000.0, None) == "loss-spike"


def test_what_was_skipped_does_not_enter_the_window() -> None:
    spike_guard = SpikeGuard(3.0, STEADY)
    spike_guard.skip()
    assert spike_guard.seen() == SpikeGuardState(losses=STEADY.losses, norms=STEADY.norms, skipped_in_a_row=1)
    spike_guard.accept(2.0, 2.0)
    assert spike_guard.seen() == SpikeGuardState(losses=(*STEADY.losses, 2.0), norms=(*STEADY.norms, 2.0))


def test_the_window_forgets_the_oldest() -> None:
    spike_guard = SpikeGuard(3.0)
    for value in range(200):
        spike_guard.accept(float(value), None)
    assert spike_guard.seen().losses == tuple(float(value) for value in range(72, 200))


def poison(ours: Trainer, iterations: set[int], gradient: float = math.nan) -> None:
    """Makes one gradient bad in these iterations: what a flipped bit on a card would do."""

    def hook(value: torch.Tensor) -> torch.Tensor:
        return value * gradient if ours.iteration in iterations else value

    ours.engine.model.norm.weight.register_hook(hook)


def test_a_bad_gradient_stops_the_run_with_the_state_before_it(
    trainer: Trainers, walk: Walk, tmp_path: Path
) -> None:
    ours = trainer(eval_interval=2)
    poison(ours, {3})
    steps: list[StepRecord] = []
    with pytest.raises(Diverged, match="the gradient's norm became nan in iteration 4") as caught:
        steps.extend(event for event in walk(ours, tmp_path) if isinstance(event, StepRecord))
    assert "the state of iteration 2" in (caught.value.hint or "")
    assert [step.skipped for step in steps] == [None, None, None, "not-finite"]
    assert all(p.isfinite().all() for p in ours.engine.model.parameters())
    assert {float(state["step"]) for state in ours.engine.optimizer.state.values()} == {3.0}
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.checkpoint.progress.iteration == 2


def test_when_asked_the_update_is_skipped_and_recorded_and_the_data_goes_on(trainer: Trainers) -> None:
    ours = trainer(bad_update="skip")
    poison(ours, {2, 5})
    before: dict[int, list[torch.Tensor]] = {}
    steps: list[StepRecord] = []
    for event in ours.events():
        if isinstance(event, StepRecord):
            steps.append(event)
            before[event.iteration] = [p.detach().clone() for p in ours.engine.model.parameters()]
    assert [step.skipped for step in steps] == [
        None,
        None,
        "not-finite",
        None,
        None,
        "not-finite",
        None,
        None,
    ]
    for skipped in (2, 5):
        pairs = zip(before[skipped], before[skipped - 1], strict=True)
        assert all(after.equal(earlier) for after, earlier in pairs)
    assert not before[3][0].equal(before[2][0])
    assert ours.sequences == 8 * 12
    assert {float(state["step"]) for state in ours.engine.optimizer.state.values()} == {6.0}


def test_a_spike_is_skipped_when_asked(trainer: Trainers) -> None:
    ours = trainer(bad_update="skip", spike_zscore=8.0, max_iters=40, eval_interval=100)
    poison(ours, {37}, gradient=1e6)
    steps = [event for event in ours.events() if isinstance(event, StepRecord)]
    assert [step.iteration for step in steps if step.skipped] == [37]
    assert steps[37].skipped == "norm-spike"
    assert steps[-1].loss < steps[0].loss


def test_a_run_that_skips_everything_gives_up(trainer: Trainers) -> None:
    ours = trainer(bad_update="skip", max_iters=40, eval_interval=100)
    poison(ours, set(range(5, 40)))
    with pytest.raises(Diverged, match="10 updates in a row") as caught:
        list(ours.events())
    assert "bad_update" not in (caught.value.hint or "")
    assert ours.iteration == 5 + 10 - 1


def test_fp16_that_overflows_is_not_divergence(trainer: Trainers) -> None:
    ours = trainer(dtype="float16", max_iters=3)
    ours.engine.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-30)
    steps = [event for event in ours.events() if isinstance(event, StepRecord)]
    assert [step.skipped for step in steps] == ["overflow", None, None]


def test_without_clipping_a_bad_gradient_does_not_reach_the_weights_either(trainer: Trainers) -> None:
    ours = trainer(grad_clip=0.0)
    poison(ours, {3})
    with pytest.raises(Diverged, match="in iteration 4"):
        list(ours.events())
    assert all(p.isfinite().all() for p in ours.engine.model.parameters())


def test_weights_that_are_no_numbers_are_never_saved(trainer: Trainers, walk: Walk, tmp_path: Path) -> None:
    ours = trainer(eval_interval=100)
    events = walk(ours, tmp_path, Stops(Limits(autosave_seconds=0.0)))
    while not (isinstance(event := next(events), StepRecord) and event.iteration == 2):
        pass
    torch.nn.init.constant_(ours.engine.model.norm.weight, math.inf)
    with pytest.raises(Diverged, match=r"weights .* NaN/inf at iteration 3"):
        list(events)
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.checkpoint.progress.iteration == 2


def test_fp16_whose_gradients_are_no_numbers_for_good_stops(trainer: Trainers) -> None:
    ours = trainer(dtype="float16", max_iters=100, eval_interval=1000)
    poison(ours, set(range(100)))
    with pytest.raises(Diverged):
        list(ours.events())
    assert ours.iteration == 22  # from 2^16 to 2^-6 the scale is halved 22 times; the next is too many


def test_fp16_can_skip_and_go_on(trainer: Trainers) -> None:
    ours = trainer(dtype="float16", bad_update="skip", spike_zscore=8.0, max_iters=40, eval_interval=100)
    poison(ours, {37}, gradient=1e3)
    steps = [event for event in ours.events() if isinstance(event, StepRecord)]
    assert [(step.iteration, step.skipped) for step in steps if step.skipped] == [(37, "norm-spike")]
