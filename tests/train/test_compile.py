"""Compilation: the same losses, a warm-up that leaves no trace, and a fallback that says why."""

from collections.abc import Callable

import pytest
import torch
from torch._inductor import config as inductor
from torch._inductor.utils import fresh_cache

from nanodyno.records.types import StepRecord
from nanodyno.train.autograd import AutogradEngine
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]


def losses_of(trainer: Trainer) -> list[float]:
    return [event.loss for event in trainer.events() if isinstance(event, StepRecord)]


@pytest.mark.compiled
def test_a_compiled_run_has_the_losses_of_an_eager_one_and_its_warm_up_leaves_no_trace(
    trainer: Trainers,
) -> None:
    compiled = trainer(compile=True, n_layer=1)
    weights = [p.detach().clone() for p in compiled.engine.model.parameters()]
    how = compiled.warm_up()
    assert (how.compiled, how.notes) == (True, ())
    assert how.seconds > 0
    assert isinstance(compiled.engine, AutogradEngine)
    assert compiled.engine.loss is not compiled.engine.model
    assert all(p.equal(before) for p, before in zip(compiled.engine.model.parameters(), weights, strict=True))
    assert all(p.grad is None for p in compiled.engine.model.parameters())
    assert not compiled.engine.optimizer.state
    assert (compiled.iteration, compiled.sequences) == (0, 0)
    assert losses_of(compiled) == pytest.approx(losses_of(trainer(n_layer=1)), rel=1e-4)


def test_where_nothing_compiles_the_run_is_eager_and_says_why(trainer: Trainers) -> None:
    ours = trainer(compile=True, n_layer=1, dropout=0.1, max_iters=2)
    torch._dynamo.reset()
    with inductor.patch({"cpp.cxx": ("no-such-compiler",)}), fresh_cache():
        how = ours.warm_up()
    torch._dynamo.reset()
    assert not how.compiled
    (note,) = how.notes
    assert "No working C++ compiler found" in note
    assert "\n" not in note
    assert isinstance(ours.engine, AutogradEngine)
    assert ours.engine.loss is ours.engine.model
    assert all(p.grad is None for p in ours.engine.model.parameters())
    assert losses_of(ours) == losses_of(trainer(n_layer=1, dropout=0.1, max_iters=2))


def test_a_torch_that_cannot_compile_at_all_is_a_fallback_too(
    trainer: Trainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("torch.compile is not supported on this Python")

    monkeypatch.setattr(torch, "compile", refuse)
    ours = trainer(compile=True)
    how = ours.warm_up()
    (note,) = how.notes
    assert "torch.compile is not supported on this Python" in note
    assert isinstance(ours.engine, AutogradEngine)
    assert ours.engine.loss is ours.engine.model


def test_an_error_that_is_not_the_compilers_is_raised(trainer: Trainers) -> None:
    ours = trainer(compile=True)
    ours.engine.model.positions = torch.nn.Embedding(16, 31)  # a width that fits nothing
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="size of tensor"):
        ours.warm_up()
