"""When a run saves and stops: limits of time that no clock confuses, between iterations, in evaluations."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nanodyno.config import RunConfig
from nanodyno.records.store import read_run
from nanodyno.records.types import EvalRecord, SaveReason, SaveRecord, StepRecord
from nanodyno.train import checkpoint
from nanodyno.train.evaluate import summed_loss
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import run_training
from nanodyno.train.stops import Limits, Stops
from nanodyno.train.trainer import SavePoint, Trainer

Trainers = Callable[..., Trainer]
Walk = Callable[..., Iterator[Any]]


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_hours_count_from_the_start_and_saves_from_the_last_one() -> None:
    clock = Watch()
    stops = Stops(Limits(max_seconds=100.0, autosave_seconds=30.0), clock)
    assert (stops.reason(), stops.autosave_due()) == (None, False)
    clock.now += 31
    assert (stops.reason(), stops.autosave_due()) == (None, True)
    stops.saved(a_save("autosave", 0.1))
    clock.now += 29
    assert not stops.autosave_due()
    clock.now += 40
    assert (stops.reason(), stops.autosave_due()) == ("max-hours", True)


def a_save(reason: SaveReason, seconds: float) -> SaveRecord:
    return SaveRecord(iteration=1, reason=reason, save_seconds=seconds, saved_bytes=1, wall_time=0.0)


def test_a_long_save_at_an_evaluation_waits_for_twenty_times_its_length_and_a_short_one_never() -> None:
    clock = Watch()
    stops = Stops(Limits(), clock)
    assert stops.save_worthwhile()
    stops.saved(a_save("evaluation", 6.0))
    clock.now += 119
    assert not stops.save_worthwhile()
    clock.now += 1
    assert stops.save_worthwhile()
    stops.saved(a_save("evaluation", 1.9))
    assert stops.save_worthwhile()


def test_autosaves_do_not_keep_evaluations_from_being_saved() -> None:
    """Saves of 4 s: 80 s pass between two at evaluations, however many autosaves there are."""
    clock = Watch()
    stops = Stops(Limits(autosave_seconds=60.0), clock)
    stops.saved(a_save("evaluation", 4.0))
    clock.now += 59
    assert not stops.save_worthwhile()
    clock.now += 1
    assert stops.save_worthwhile()  # else the autosave that is due would come without a val loss
    stops.saved(a_save("autosave", 4.0))
    clock.now += 19
    assert not stops.save_worthwhile()
    clock.now += 1
    assert stops.save_worthwhile()


def test_a_run_with_long_saves_is_saved_at_its_first_evaluation_and_at_its_end(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanodyno.train.stops.SHORT_SAVE_SECONDS", 0.0)
    monkeypatch.setattr("nanodyno.train.stops.TIMES_ITS_LENGTH", 1e9)
    job = TrainingJob(config(max_iters=8, eval_interval=2), "run", tmp_path / "run", data_folder=data_folder)
    assert run_training(job, lambda _: None) == "finished"
    run = read_run(tmp_path / "run")
    assert [entry.iteration for entry in run.own_evals] == [0, 2, 4, 6, 8]
    assert [entry.iteration for entry in run.history if isinstance(entry, SaveRecord)] == [2, 8]


def test_whether_an_evaluation_is_saved_is_for_the_first_process_to_say(trainer: Trainers) -> None:
    """Another one, alone here, never does by its own clock; at the end all of them know."""
    other = trainer(max_iters=8, eval_interval=2)
    other.processes.rank = 1
    saved = [other.iteration for event in other.events() if isinstance(event, SavePoint)]
    assert saved == [8]


def test_an_hour_of_the_day_is_the_only_thing_that_the_wall_clock_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stops = Stops(Limits(max_seconds=100.0, stop_at=5000.0))
    monkeypatch.setattr(time, "time", lambda: 4999.0)
    assert stops.reason() is None
    monkeypatch.setattr(time, "time", lambda: 5000.0)
    assert stops.reason() == "stop-at"


def test_a_run_stops_at_its_hour_and_says_so(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]
) -> None:
    limits = Limits(stop_at=time.time() - 1)
    job = TrainingJob(config(), "run", tmp_path / "run", data_folder=data_folder, limits=limits)
    assert run_training(job, lambda _: None) == "stop-at"
    run = read_run(tmp_path / "run")
    assert run.stop is not None
    assert (run.stop.reason, run.iterations_done) == ("stop-at", 1)  # one iteration in any case


def test_a_clock_that_jumps_changes_no_decision(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: 1e9 + (-1) ** next(jumps) * 1e8)
    limits = Limits(max_seconds=3600.0, autosave_seconds=900.0)
    job = TrainingJob(config(), "run", tmp_path / "run", data_folder=data_folder, limits=limits)
    assert run_training(job, lambda _: None) == "finished"
    run = read_run(tmp_path / "run")
    assert [entry.reason for entry in run.history if isinstance(entry, SaveRecord)] == ["evaluation"] * 2
    assert all(0 < step.step_seconds < 60 for step in run.own_steps)


@pytest.mark.usefixtures("_deterministic")
def test_a_stop_during_an_evaluation_gives_it_up_saves_and_evaluates_when_resumed(
    trainer: Trainers, walk: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [
        event for event in walk(trainer(), tmp_path / "whole") if isinstance(event, StepRecord | EvalRecord)
    ]
    ours, stops = trainer(), Stops(Limits(autosave_seconds=None))

    def stopping(*arguments: Any) -> Any:
        if ours.iteration == 4:
            stops.asked = "interrupted"
        return summed_loss(*arguments)

    monkeypatch.setattr("nanodyno.train.engine.summed_loss", stopping)
    events = list(walk(ours, tmp_path / "ours", stops))
    assert [event.iteration for event in events if isinstance(event, EvalRecord)] == [0]
    assert isinstance(events[-1], SaveRecord)
    assert (events[-1].iteration, events[-1].reason) == (4, "stop")
    resumed = trainer()
    found = checkpoint.newest(tmp_path / "ours")
    assert found is not None
    resumed.restore(found.checkpoint)
    events += list(walk(resumed, tmp_path / "ours"))
    losses = [event for event in events if isinstance(event, StepRecord | EvalRecord)]
    facts = {"iteration", "loss", "val_loss"}
    assert [each.model_dump(include=facts) for each in losses] == [e.model_dump(include=facts) for e in whole]


@pytest.mark.compiled
@pytest.mark.usefixtures("_deterministic")
def test_a_resumed_compiled_run_goes_on_to_the_bit(trainer: Trainers, walk: Walk, tmp_path: Path) -> None:
    changes = {"compile": True, "n_layer": 1, "dropout": 0.1}

    def compiled() -> Trainer:
        torch._dynamo.reset()
        ours = trainer(**changes)
        assert ours.warm_up().compiled
        return ours

    whole = [event.loss for event in walk(compiled(), tmp_path / "whole") if isinstance(event, StepRecord)]
    stopped = walk(compiled(), tmp_path / "ours")
    while not (isinstance(event := next(stopped), StepRecord) and event.iteration == 6):
        pass
    resumed = compiled()
    found = checkpoint.newest(tmp_path / "ours")
    assert found is not None
    resumed.restore(found.checkpoint)
    rest = [event.loss for event in walk(resumed, tmp_path / "ours") if isinstance(event, StepRecord)]
    assert rest == whole[4:]
