"""A short training of which the loss is all that is wanted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nanodyno.config import RunConfig
from nanodyno.errors import RunFailed
from nanodyno.experiments.short_training import ShortTraining, train_short
from nanodyno.train import checkpoint, runner


def test_a_short_training_saves_nothing(
    data_folder: Path, config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("a checkpoint that nobody will read")

    monkeypatch.setattr(checkpoint, "save", refuse)
    reported: list[tuple[str, object]] = []
    request = ShortTraining(config=config(), data_folder=data_folder).model_dump_json().encode()
    (trained,) = train_short(iter([request]), lambda stage, value=None: reported.append((stage, value)))
    assert 0 < trained.val_loss < 10
    assert trained.training_seconds > 0
    assert reported[0] == ("training", 0)


def test_a_short_training_that_ends_without_a_val_loss_has_failed(
    data_folder: Path, config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanodyno.train.runner.run_training", _interrupted(runner.run_training))
    request = ShortTraining(config=config(), data_folder=data_folder).model_dump_json().encode()
    with pytest.raises(RunFailed, match=r"\(interrupted\)"):
        next(train_short(iter([request]), lambda *_, **__: None))


def _interrupted(train: Callable[..., str]) -> Callable[..., str]:
    def run(*arguments: object) -> str:
        train(*arguments)
        return "interrupted"

    return run
