"""float16: an overflow is recorded, leaves the weights alone and halves the scale."""

from collections.abc import Callable

import pytest
import torch

from nanodyno.records.types import StepRecord
from nanodyno.train.trainer import Trainer


@pytest.mark.parametrize("grad_clip", [1.0, 0.0])
def test_an_overflow_skips_the_update_and_says_so(trainer: Callable[..., Trainer], grad_clip: float) -> None:
    ours = trainer(dtype="float16", grad_clip=grad_clip, max_iters=4)
    ours.engine.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-30)
    before = {name: p.detach().clone() for name, p in ours.engine.model.named_parameters()}
    steps = []
    for event in ours.events():
        if not isinstance(event, StepRecord):
            continue
        steps.append(event)
        unchanged = all(p.equal(before[name]) for name, p in ours.engine.model.named_parameters())
        assert unchanged is (event.iteration == 0)
    assert [step.skipped for step in steps] == ["overflow", None, None, None]
    assert ours.engine.scaler.get_scale() == 2.0**10
    # A skipped update is no update: Adam's count starts with the second iteration.
    assert {float(state["step"]) for state in ours.engine.optimizer.state.values()} == {3.0}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_precisions_have_no_scaler(trainer: Callable[..., Trainer], dtype: str) -> None:
    ours = trainer(dtype=dtype, max_iters=1)
    steps = [event for event in ours.events() if isinstance(event, StepRecord)]
    assert not ours.engine.scaler.is_enabled()
    assert [step.skipped for step in steps] == [None]


def test_weights_gradients_and_moments_stay_float32(trainer: Callable[..., Trainer]) -> None:
    for dtype in ("bfloat16", "float16"):
        ours = trainer(dtype=dtype, max_iters=1)
        list(ours.events())
        kept = [
            *ours.engine.model.parameters(),
            *(t for s in ours.engine.optimizer.state.values() for t in s.values()),
        ]
        assert {tensor.dtype for tensor in kept} == {torch.float32}
