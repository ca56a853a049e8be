"""A short training of which the loss is all that is wanted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nanodyno.config import RunConfig
from nanodyno.experiments.lesson import Learnt, LessonJob, learn
from nanodyno.train import checkpoint


def test_a_lesson_saves_nothing(
    data_folder: Path, config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("a checkpoint that nobody will read")

    monkeypatch.setattr(checkpoint, "save", refuse)
    learnt = learn(LessonJob(config=config(), data_folder=data_folder), lambda _: None)
    assert isinstance(learnt, Learnt)
    assert 0 < learnt.val_loss < 10
    assert learnt.training_seconds > 0
