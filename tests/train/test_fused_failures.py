"""The engine written by hand where memory or Triton fails, or an update is bad: as if that had not been."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from nanodyno.model.batched import BatchedOptimizer
from nanodyno.model.cublaslt import CublasError
from nanodyno.model.matmul import Units, by_torch
from nanodyno.records.types import SplitRecord, StepRecord
from nanodyno.train.device import choose
from nanodyno.train.fused import FusedEngine
from nanodyno.train.processes import Processes
from nanodyno.train.trainer import Trainer

Trainers = Callable[..., Trainer]
Spoil = Callable[[Callable[[Tensor], Tensor]], None]
OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB."


def losses_of(trainer: Trainer) -> list[float]:
    return [event.loss for event in trainer.events() if isinstance(event, StepRecord)]


def engine_of(trainer: Trainer) -> FusedEngine:
    assert isinstance(trainer.engine, FusedEngine)
    return trainer.engine


def state_of(trainer: Trainer) -> list[Tensor]:
    """Copies of the weights, moments, counts and gradients."""
    engine = trainer.engine
    tensors = list(engine.model.parameters())
    tensors += [p.grad for p in engine.model.parameters() if p.grad is not None]
    tensors += [tensor for entry in engine.optimizer.state.values() for tensor in entry.values()]
    return [tensor.detach().clone() for tensor in tensors]


def first_times(n: int) -> Callable[[Tensor], Tensor]:
    """Memory that runs out so many times."""
    left = [None] * n

    def refuse(out: Tensor) -> Tensor:
        if left:
            left.pop()
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return out

    return refuse


@pytest.mark.usefixtures("_deterministic")
def test_where_memory_runs_out_more_is_made_again(fused: Trainers, spoil: Spoil) -> None:
    undisturbed = losses_of(fused())
    ours = fused()
    for failures, level in enumerate(("none", "light", "mlp", "full")):
        ours = fused()
        spoil(first_times(failures))
        assert ours.warm_up().recompute == level
        assert engine_of(ours).step.plan.recompute == level
        assert not engine_of(ours).step.flat.gradients.any()
    assert losses_of(ours) == undisturbed


@pytest.mark.parametrize(
    ("recompute", "failures"), [("auto", 4), ("none", 1), ("light", 1), ("mlp", 1), ("full", 1)]
)
def test_memory_that_does_not_suffice_for_what_was_asked_is_reported(
    fused: Trainers, spoil: Spoil, recompute: str, failures: int
) -> None:
    ours = fused(recompute=recompute)
    spoil(first_times(failures))
    with pytest.raises(torch.OutOfMemoryError):
        ours.warm_up()


def test_an_error_that_is_not_memorys_is_raised(fused: Trainers) -> None:
    ours = fused()
    ours.engine.model.positions = torch.nn.Embedding(16, 31)  # a width that fits nothing
    with pytest.raises(RuntimeError, match="size of tensor"):
        ours.warm_up()


def test_muons_step_is_to_fit_beside_the_micro_step(fused: Trainers, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = losses_of(fused(optimizer="muon"))
    ours = fused(optimizer="muon")
    muon, rehearsals = engine_of(ours)._own, []
    assert muon is not None

    def refuse() -> None:
        rehearsals.append(engine_of(ours)._recompute)
        if len(rehearsals) == 2:  # the first is alone in memory
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        BatchedOptimizer.rehearse(muon)

    monkeypatch.setattr(muon, "rehearse", refuse)
    assert ours.warm_up().recompute == "light"
    assert rehearsals == ["none", "none", "light"]
    assert losses_of(ours) == pytest.approx(undisturbed, rel=1e-6)


def test_a_graph_of_muons_step_that_cannot_be_had_is_reported(
    fused: Trainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = losses_of(fused(optimizer="muon"))
    ours = fused(optimizer="muon")
    engine = engine_of(ours)

    def refuse(_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    graph = SimpleNamespace(fits=lambda _: False, and_then=refuse)
    monkeypatch.setattr(engine, "_capture", lambda _: setattr(engine, "_graph", graph))
    (note,) = ours.warm_up().notes
    assert note == "no CUDA graph of Muon's step, slower: operation not permitted when stream is capturing"
    assert losses_of(ours) == undisturbed


@pytest.mark.parametrize("here", [True, False])
def test_a_muon_that_does_not_compile_goes_without_in_every_process(
    fused: Trainers, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    undisturbed = losses_of(fused(optimizer="muon"))
    ours = fused(optimizer="muon")
    engine = engine_of(ours)
    assert engine._own is not None

    def broken(*_: object) -> None:
        raise RuntimeError("no compiler")

    if here:
        monkeypatch.setattr(engine._own, "_step_", broken)
    else:
        failures = chain([1], repeat(0))
        monkeypatch.setattr(engine.processes, "largest", lambda *_: next(failures))
    (note,) = ours.warm_up().notes
    assert note == "Muon runs without torch.compile, slower: " + (
        "no compiler" if here else "it failed in another process"
    )
    assert losses_of(ours) == undisturbed


@pytest.mark.parametrize(("fitting", "sizes", "warm"), [(2, [2], False), (1, [1], True)])
def test_memory_that_runs_out_in_mid_run_makes_the_micro_batch_smaller(
    fused: Trainers, spoil: Spoil, fitting: int, sizes: list[int], warm: bool
) -> None:
    undisturbed = losses_of(fused())
    ours = fused(recompute="none")
    if warm:
        ours.warm_up()
    calls = {3: 0}

    def limited(out: Tensor) -> Tensor:
        """From the second micro-step of iteration 3 on; a micro-step has an attention in each of 2 blocks."""
        if ours.engine.model.training and ours.iteration >= 3:
            calls[3] += 1
            if calls[3] > 2 and out.shape[0] > fitting:
                raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return out

    spoil(limited)
    events = list(ours.events())
    reported = [event for event in events if isinstance(event, SplitRecord)]
    assert [(event.iteration, event.batch_size) for event in reported] == [(3, size) for size in sizes]
    steps = [event for event in events if isinstance(event, StepRecord)]
    assert [step.micro_steps for step in steps] == [3] * 3 + [12 // fitting] * 5
    assert [step.loss for step in steps[:3]] == undisturbed[:3]
    assert [step.loss for step in steps] == pytest.approx(undisturbed, rel=1e-5)


@pytest.mark.parametrize(("where", "grad_clip"), [("loss", 1.0), ("gradient", 0.0)])
def test_a_bad_update_is_skipped_as_if_it_had_not_been(
    fused: Trainers, spoil: Spoil, where: str, grad_clip: float
) -> None:
    ours = fused(bad_update="skip", grad_clip=grad_clip, bias=True)

    def bad(out: Tensor) -> Tensor:
        if ours.iteration != 2 or not ours.engine.model.training:
            return out
        if where == "gradient":
            out.register_hook(lambda gradient: gradient * math.nan)
            return out
        return out * math.nan

    spoil(bad)
    steps: list[StepRecord] = []
    after: dict[int, list[Tensor]] = {}
    for event in ours.events():
        if isinstance(event, StepRecord):
            steps.append(event)
            after[event.iteration] = state_of(ours)
    assert [step.skipped for step in steps] == [None, None, "not-finite", *[None] * 5]
    assert math.isnan(steps[2].loss) == (where == "loss")
    assert all(mine.equal(before) for mine, before in zip(after[2], after[1], strict=True))
    assert not engine_of(ours).step.flat.gradients.any()
    assert not after[3][0].equal(after[2][0])
    assert steps[3].loss == pytest.approx(steps[1].loss, abs=0.5)


@pytest.fixture
def with_triton(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trainer], FusedEngine]:
    """An engine on Triton's kernels, which find no GPU here."""
    pytest.importorskip("triton")

    def build(ours: Trainer) -> FusedEngine:
        config, properties = ours.config, SimpleNamespace(multi_processor_count=2)
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
            return FusedEngine(config, ours.engine.model.shape, choose(config), Processes(), triton=True)

    return build


@pytest.mark.usefixtures("_deterministic")
def test_where_triton_fails_torchs_own_kernels_run_and_that_is_said(
    fused: Trainers, spoil: Spoil, with_triton: Callable[[Trainer], FusedEngine]
) -> None:
    undisturbed = losses_of(fused())
    ours = fused()
    ours.engine = with_triton(ours)
    spoil(first_times(2))  # which they answer as Triton's do
    how = ours.warm_up()
    (note,) = how.notes
    assert note.startswith("a kernel failed, so torch's own run instead, slower: ")
    assert "driver" in note
    assert how.recompute == "mlp"
    assert losses_of(ours) == undisturbed


def test_an_assembler_that_does_not_know_the_gpu_is_a_fallback_too(
    fused: Trainers, with_triton: Callable[[Trainer], FusedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime.errors import PTXASError

    def refuse(*_: object, **__: object) -> None:
        raise PTXASError("Value 'sm_999a' is not defined for option 'gpu-name'")

    ours = fused()
    ours.engine = with_triton(ours)
    monkeypatch.setattr("triton.runtime.jit.JITFunction.run", refuse)
    (note,) = ours.warm_up().notes
    assert "PTXAS error: Value 'sm_999a'" in note


def test_what_is_made_again_after_memory_ran_out_is_reported(fused: Trainers, spoil: Spoil) -> None:
    ours = fused(recompute="auto")
    ours.warm_up()
    failures = iter([True, True])  # the iteration's, and the first trial's of the smaller micro-batch

    def limited(out: Tensor) -> Tensor:
        if ours.engine.model.training and ours.iteration >= 3 and next(failures, False):
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return out

    spoil(limited)
    (split,) = [event for event in ours.events() if isinstance(event, SplitRecord)]
    assert (split.batch_size, split.recompute) == (2, "light")


class Products:
    """Stands in for those measured on a card: torch's own, but for what a test has fail."""

    def __init__(self, fails_in: str, error: Exception) -> None:
        self._fails_in = fails_in
        self._error = error
        self._stage = "the run"
        self.has_learnt = True

    def __call__(self, a: Tensor, b: Tensor, out: Tensor, add: bool, units: Units | None = None) -> None:
        if self._stage == self._fails_in:
            raise self._error
        by_torch(a, b, out, add, units)

    @contextmanager
    def learning(self) -> Iterator[None]:
        self._stage = "learning"
        try:
            yield
        finally:
            self._stage = "the run"


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize(
    ("fails_in", "error", "used", "notes"),
    [
        ("nothing", CublasError("status 15"), "measured", ()),
        ("learning", torch.OutOfMemoryError(OUT_OF_MEMORY), "measured", ()),
        ("learning", CublasError("status 15"), "torch", ("status 15",)),
        ("the run", CublasError("status 15"), "torch", ("status 15",)),
    ],
)
def test_measured_products_that_fail_leave_all_else_as_it_was(
    fused: Trainers,
    monkeypatch: pytest.MonkeyPatch,
    fails_in: str,
    error: Exception,
    used: str,
    notes: tuple[str, ...],
) -> None:
    undisturbed = losses_of(fused())
    ours = fused()
    monkeypatch.setattr(engine_of(ours), "_products", Products(fails_in, error))
    how = ours.warm_up()
    assert (how.gemm_algorithm, how.recompute) == (used, "none")
    assert len(how.notes) == len(notes)
    for said, cause in zip(how.notes, notes, strict=True):
        assert said == f"a measured matrix product failed, so torch chooses them, slower: {cause}"
    assert losses_of(ours) == undisturbed
