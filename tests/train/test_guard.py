"""The losses of a fixed run, so that a change of training's arithmetic is noticed.

When a change is meant, the new losses go into losses.json and the commit says why they moved.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.train.trainer import Trainer

STORED = json.loads(Path(__file__).with_name("losses.json").read_text())


def test_a_fixed_run_has_the_stored_losses(trainer: Callable[..., Trainer]) -> None:
    events = list(trainer(max_iters=5, bias=True, seed=1337).events())
    losses = [event.loss for event in events if isinstance(event, StepRecord)]
    val_losses = [event.val_loss for event in events if isinstance(event, EvalRecord)]
    # Other processors and versions of torch round otherwise.
    assert losses == pytest.approx(STORED["losses"], abs=1e-4)
    assert val_losses == pytest.approx(STORED["val_losses"], abs=1e-4)
