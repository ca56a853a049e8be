"""Runs beyond GPT-2: which way they go, exact resume, compilation, text, what several processes refuse."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nanodyno.config import RunConfig
from nanodyno.errors import NanodynoError
from nanodyno.model import loss
from nanodyno.model.batched import WithAdamW
from nanodyno.model.modern import ModernGPT
from nanodyno.records.types import EvalRecord, StepRecord
from nanodyno.train import autograd, checkpoint, kernels
from nanodyno.train.attention import FastestAttention
from nanodyno.train.autograd import AutogradEngine
from nanodyno.train.device import DeviceChoice
from nanodyno.train.kernels import Way, choose_way
from nanodyno.train.resuming import FIXED
from nanodyno.train.runner import refuse_together
from nanodyno.train.sampling import Dials, sample_text
from nanodyno.train.trainer import Trainer

Configs = Callable[..., RunConfig]
Trainers = Callable[..., Trainer]
Walk = Callable[..., Any]
ALL: dict[str, Any] = {
    "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "n_kv_head": 1, "window": 5,
    "window_pattern": "SL", "value_embeddings": 1, "untied_head": True, "logit_softcap": 15.0,
    "zero_init": True, "embedding_init": 0.5, "optimizer": "muon", "muon_lr": 2e-2, "embedding_lr": 1e-2,
    "cautious_decay": True, "schedule": "wsd",
}  # fmt: skip
BY_HAND = {key: value for key, value in ALL.items() if key != "n_kv_head" and "window" not in key}
GPU = DeviceChoice(torch.device("cuda"), "bfloat16")


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize(
    "changes", [ALL, {"optimizer": "muon"}, {**ALL, "dtype": "float16"}, {**BY_HAND, "kernels": "fused"}]
)
def test_a_resumed_run_goes_on_to_the_bit(
    trainer: Trainers, walk: Walk, tmp_path: Path, changes: dict[str, Any]
) -> None:
    whole = trainer(**changes)
    ended = [e for e in walk(whole, tmp_path / "whole") if isinstance(e, StepRecord | EvalRecord)]
    stopped = trainer(**changes)
    for event in walk(stopped, tmp_path / "stopped"):
        if isinstance(event, StepRecord) and event.iteration == 5:
            break
    torch.manual_seed(0)
    resumed = trainer(**(changes | {"seed": 1337}))
    found = checkpoint.newest(tmp_path / "stopped")
    assert found is not None
    resumed.restore(found.checkpoint)
    rest = [e for e in walk(resumed, tmp_path / "stopped") if isinstance(e, StepRecord | EvalRecord)]
    facts = {"iteration", "loss", "val_loss", "grad_norm", "learning_rate"}
    assert len(rest) == 5  # iterations 4 to 7 and the evaluation at the end
    assert [e.model_dump(include=facts) for e in rest] == [e.model_dump(include=facts) for e in ended[-5:]]
    pairs = zip(whole.engine.model.parameters(), resumed.engine.model.parameters(), strict=True)
    assert all(one.equal(other) for one, other in pairs)


def test_a_run_by_hand_has_the_losses_of_autograd_and_checkpoints_go_both_ways(
    trainer: Trainers, walk: Walk, tmp_path: Path
) -> None:
    changes = BY_HAND | {"zero_init": False, "grad_clip": 0.5}
    facts = [("loss", 1e-5), ("grad_norm", 1e-4)]
    theirs, ours = (
        [e for e in walk(trainer(**changes, kernels=each), tmp_path / each) if isinstance(e, StepRecord)]
        for each in ("autograd", "fused")
    )
    for fact, rel in facts:
        assert [getattr(e, fact) for e in ours] == pytest.approx([getattr(e, fact) for e in theirs], rel=rel)
    ends = []
    for saved, each in itertools.product(("autograd", "fused"), repeat=2):
        found = checkpoint.newest(tmp_path / saved)
        assert found is not None
        going_on = trainer(**changes | {"max_iters": 10, "kernels": each, "lr_decay_iters": 8})
        going_on.restore(found.checkpoint)
        on = walk(going_on, tmp_path / f"{saved}-{each}")
        ends.append([e.loss for e in on if isinstance(e, StepRecord)])
    assert len(ends[0]) == 2
    assert all(end == pytest.approx(ends[0], rel=1e-5) for end in ends)


def test_it_learns_and_its_checkpoint_writes_text(trainer: Trainers, walk: Walk, tmp_path: Path) -> None:
    ours = trainer(**ALL, max_iters=12, eval_interval=12)
    losses = [event.loss for event in walk(ours, tmp_path / "checkpoints") if isinstance(event, StepRecord)]
    assert losses[-1] < losses[0] - 0.5
    drawn = sample_text(tmp_path / "checkpoints", Dials("1 times", 8, 1.0, None, 3), "cpu")
    assert isinstance("".join(drawn), str)
    saved = checkpoint.newest(tmp_path / "checkpoints")
    assert saved is not None
    assert saved.checkpoint.shape == ours.engine.model.shape
    assert isinstance(ours.engine.model, ModernGPT)


def test_moments_of_another_optimizer_are_no_use(trainer: Trainers, walk: Walk, tmp_path: Path) -> None:
    for _ in walk(trainer(max_iters=2, eval_interval=2), tmp_path):
        pass
    found = checkpoint.newest(tmp_path)
    assert found is not None
    with pytest.raises(NanodynoError, match="does not hold the moments of blocks"):
        trainer(optimizer="muon").restore(found.checkpoint)
    assert {"optimizer", "positions", "n_kv_head", "zero_init"} <= set(FIXED)  # so that this is told before


@pytest.mark.parametrize("change", [{"positions": "rope"}, {"optimizer": "muon"}, BY_HAND])
def test_on_a_gpu_it_goes_by_hand(
    config: Configs, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "why_no_triton", lambda _: None)
    assert choose_way(config(**change), GPU) == Way("fused", True)


@pytest.mark.parametrize("change", [{"window": 5}, {"n_kv_head": 1}])
def test_what_the_fused_way_does_not_know_goes_by_autograd_and_is_reported(
    config: Configs, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    ((key, value),) = change.items()
    note = f"the fused kernels do not support {key}={value}: kernels=autograd runs"
    assert choose_way(config(**change), GPU) == Way("autograd", False, note)


def test_a_switch_of_the_fused_way_is_refused_by_name(config: Configs) -> None:
    with pytest.raises(NanodynoError, match=r"fp8=True .* window=5"):
        choose_way(config(window=5, fp8=True), GPU)


def test_a_modern_model_has_a_bf16_stream_in_training_only(trainer: Trainers, config: Configs) -> None:
    parts = {"dtype": "bfloat16", "positions": "rope", "norm": "rms", "untied_head": True}
    models = [trainer(**parts, residual_dtype=each).engine.model for each in ("float32", "bfloat16")]
    inputs = torch.randint(320, (2, 17), generator=torch.Generator().manual_seed(1))
    seen: list[torch.dtype] = []
    models[1].blocks[1].register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        training = [model(inputs[:, :-1], inputs[:, 1:]).item() for model in models]
        looking = [model.eval()(inputs[:, :-1], inputs[:, 1:]).item() for model in models]
    assert seen == [torch.bfloat16, torch.float32]
    assert 0 < abs(training[0] - training[1]) < 0.02
    assert looking[0] == looking[1] == training[0]
    with pytest.raises(NanodynoError, match=r"residual_dtype=bfloat16 .* dropout"):
        choose_way(config(residual_dtype="bfloat16", dropout=0.1), GPU)


def test_muon_does_not_divide_matrices_among_processes(config: Configs) -> None:
    shared = {"gradient_accumulation_steps": 4, "optimizer": "muon"}
    with pytest.raises(NanodynoError, match="needs them whole"):
        refuse_together(config(parallel="fsdp", **shared), GPU, 2)
    refuse_together(config(parallel="ddp", **shared), GPU, 2)


def chosen(ours: Trainer, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """On a card where cuDNN, fed by hand, is the fastest, and FA3 the next."""
    names = ("cudnn-packed", "fa3", "cudnn", "flash")
    measured = tuple((name, float(number)) for number, name in enumerate(names))
    monkeypatch.setattr(autograd, "fastest_attention", lambda *_: FastestAttention(names[0], measured))
    engine = ours.engine
    assert isinstance(engine, AutogradEngine)
    engine.device, engine.dtype = torch.device("cuda"), torch.bfloat16
    engine._choose_attention(4)
    return engine._attention


@pytest.mark.parametrize(
    ("changes", "backend"),
    [
        ({}, None),
        ({"positions": "rope"}, "cudnn"),
        ({"positions": "rope", "attention": "math"}, "math"),
        ({"positions": "rope", "dropout": 0.1}, None),
        ({"window": 5}, "flex"),
    ],
)
def test_attention_on_a_gpu_is_the_fastest_that_compiles_or_flex_for_a_window(
    trainer: Trainers, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], backend: str | None
) -> None:
    assert chosen(trainer(**changes), monkeypatch) == backend


@pytest.mark.parametrize("loss_chunk_size", [None, 24])
def test_a_micro_step_is_one_graph_for_a_compiler_and_gives_the_same_gradients(
    trainer: Trainers, monkeypatch: pytest.MonkeyPatch, loss_chunk_size: int | None
) -> None:
    """With torch's own tracer and partitioner; only the code generator is left out, which takes minutes."""
    monkeypatch.setattr(loss, "_compiled_cross_entropy", loss._cross_entropy)
    model = trainer(**(ALL | {"zero_init": False})).engine.model
    model.loss_chunk_size = loss_chunk_size
    inputs = torch.randint(320, (2, 17), generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend="aot_eager_decomp_partition")
    found = []
    for each in (model, compiled):
        model.zero_grad()
        value = each(inputs[:, :-1], inputs[:, 1:])
        value.backward()
        found.append([value.detach(), *(p.grad for p in model.parameters())])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)


def test_muon_warms_up_without_a_trace(trainer: Trainers) -> None:
    ours = trainer(**ALL)
    optimizer = ours.engine.optimizer
    assert isinstance(optimizer, WithAdamW)
    weights = [p.detach().clone() for p in ours.engine.model.parameters()]
    optimizer.own.warm_up()
    assert all(p.equal(before) for p, before in zip(ours.engine.model.parameters(), weights, strict=True))
    assert not optimizer.state
