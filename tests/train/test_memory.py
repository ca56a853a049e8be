"""Memory that runs out in mid-run: smaller micro-batches, the iteration anew, the losses as before."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nanodyno.records.types import SplitRecord, StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A card on which, from an iteration on, only so many sequences fit into a micro-step."""

    def shrink(ours: Trainer, iteration: int, fitting: int, micro_step: int = 2) -> None:
        backward, micro_steps = torch.Tensor.backward, {}

        def limited(loss: torch.Tensor, *arguments: Any, **options: Any) -> None:
            done = micro_steps[ours.iteration] = micro_steps.get(ours.iteration, 0) + 1
            late = ours.iteration > iteration or (ours.iteration == iteration and done >= micro_step)
            if late and ours.batches.size > fitting:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            backward(loss, *arguments, **options)

        monkeypatch.setattr(torch.Tensor, "backward", limited)

    return shrink


def steps_of(events: list[Any]) -> list[StepRecord]:
    return [event for event in events if isinstance(event, StepRecord)]


@pytest.mark.parametrize(("fitting", "splits"), [(2, [(2, 4)]), (1, [(2, 4), (1, 2)])])
def test_the_iteration_is_redone_in_smaller_micro_batches(
    trainer: Trainers, shrink: Callable[..., None], fitting: int, splits: list[tuple[int, int]]
) -> None:
    undisturbed = steps_of(list(trainer().events()))
    ours = trainer()
    shrink(ours, 3, fitting)
    events = list(ours.events())
    steps = steps_of(events)
    reported = [event for event in events if isinstance(event, SplitRecord)]
    assert [(event.batch_size, event.batch_size_before) for event in reported] == splits
    assert {event.iteration for event in reported} == {3}
    assert [step.micro_steps for step in steps] == [3] * 3 + [12 // fitting] * 5
    assert [step.tokens for step in steps] == [4 * 3 * 16] * 8
    assert [step.loss for step in steps[:3]] == [step.loss for step in undisturbed[:3]]
    assert [step.loss for step in steps] == pytest.approx([step.loss for step in undisturbed], rel=1e-5)
    assert [step.iteration for step in steps] == list(range(8))


def test_a_micro_batch_that_cannot_be_halved_is_cut_to_what_fills_the_iteration(
    trainer: Trainers, shrink: Callable[..., None]
) -> None:
    # Twenty sequences: of at most two at a time, two fill it; 5 // 2 = 2.
    ours = trainer(batch_size=5, gradient_accumulation_steps=4)
    shrink(ours, 1, 4)
    assert [e.batch_size for e in ours.events() if isinstance(e, SplitRecord)] == [2]
    # Fifteen: two do not fill it, one does.
    ours = trainer(batch_size=5, gradient_accumulation_steps=3)
    shrink(ours, 1, 4)
    assert [e.batch_size for e in ours.events() if isinstance(e, SplitRecord)] == [1]


def test_a_run_that_begins_like_this_is_reported_what_to_change(
    trainer: Trainers, shrink: Callable[..., None]
) -> None:
    ours = trainer()
    shrink(ours, 0, 2)
    with pytest.raises(torch.OutOfMemoryError):
        list(ours.events())


def test_when_a_single_sequence_does_not_fit_the_run_fails(
    trainer: Trainers, shrink: Callable[..., None]
) -> None:
    ours = trainer()
    shrink(ours, 2, 0)
    with pytest.raises(torch.OutOfMemoryError):
        list(ours.events())


def test_an_update_that_runs_out_of_memory_is_not_done_twice(
    trainer: Trainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = trainer()
    step = ours.engine.optimizer.step

    def full(*arguments: Any, **options: Any) -> Any:
        if ours.iteration == 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return step(*arguments, **options)

    monkeypatch.setattr(ours.engine.optimizer, "step", full)
    with pytest.raises(torch.OutOfMemoryError):
        list(ours.events())


def test_it_grows_back_at_a_resume(
    trainer: Trainers, walk: Callable[..., Iterator[Any]], shrink: Callable[..., None], tmp_path: Path
) -> None:
    ours = trainer(max_iters=6)
    shrink(ours, 2, 2)
    list(walk(ours, tmp_path))
    assert ours.batches.size == 2
    found = checkpoint.newest(tmp_path)
    assert found is not None
    resumed = trainer(max_iters=8)
    resumed.restore(found.checkpoint)
    assert (resumed.batches.size, resumed.sequences) == (4, 6 * 12)


def test_an_evaluation_that_does_not_fit_is_redone_smaller(
    trainer: Trainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = trainer(max_iters=4)
    evaluate, sizes = ours.evaluate, []

    def limited(*arguments: Any) -> Any:
        sizes.append(ours.batches.size)
        if ours.iteration == 4 and ours.batches.size > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return evaluate(*arguments)

    monkeypatch.setattr(ours, "evaluate", limited)
    events = list(ours.events())
    assert sizes == [4, 4, 2, 1]
    assert [e.batch_size for e in events if isinstance(e, SplitRecord)] == [2, 1]


@pytest.mark.compiled
def test_a_compiled_run_compiles_again_for_the_smaller_micro_batch(
    trainer: Trainers, shrink: Callable[..., None]
) -> None:
    undisturbed = steps_of(list(trainer(n_layer=1).events()))
    ours = trainer(compile=True, n_layer=1)
    assert ours.warm_up().compiled
    shrink(ours, 3, 2, micro_step=1)
    steps = steps_of(list(ours.events()))
    assert [step.loss for step in steps] == pytest.approx([step.loss for step in undisturbed], rel=1e-4)
    assert ours.batches.size == 2
