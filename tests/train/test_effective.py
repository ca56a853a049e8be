"""The norm that is taken half-way, and an effective batch that grows: the same after a resume, to the bit."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nanodyno.config import RunConfig
from nanodyno.data.loader import Windows
from nanodyno.hardware.gpus import all_gpus
from nanodyno.model.modern import make_model
from nanodyno.noise import KEPT, WINDOW, NoiseScale
from nanodyno.records.types import StepRecord
from nanodyno.schedule import learning_rate_at
from nanodyno.train import checkpoint
from nanodyno.train.effective import MEASURED_TOKENS, EffectiveBatch
from nanodyno.train.trainer import SavePoint, Trainer

Trainers = Callable[..., Trainer]
Builder = Callable[..., Any]
MODERN: dict[str, Any] = {
    "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "value_embeddings": 1,
    "logit_softcap": 15.0, "optimizer": "muon", "muon_lr": 6e-3, "embedding_lr": 1e-2,
}  # fmt: skip


def steps_of(trainer: Trainer) -> list[StepRecord]:
    return [event for event in trainer.events() if isinstance(event, StepRecord)]


def norm_of(trainer: Trainer, sequences: int) -> float:
    """Of the mean gradient over the run's first sequences at its first weights, by autograd alone."""
    config = trainer.config
    torch.manual_seed(config.seed)
    model = make_model(config.model_shape(320))
    windows = Windows(trainer.dataset.split("train"), config.block_size, 320, config.seed)
    inputs, targets = map(torch.from_numpy, windows.batch(np.arange(sequences)))
    model(inputs, targets).backward()
    gradients = [p.grad.double() for p in model.parameters() if p.grad is not None]
    return math.sqrt(sum(float(each.square().sum()) for each in gradients))


@pytest.mark.parametrize(
    ("batch_size", "half"), [(4, 4), (3, 6), (2, 6)]
)  # 1 of 3, 2 of 4, 3 of 6 micro-steps
@pytest.mark.parametrize(
    "changes",
    [{}, {"kernels": "fused"}, {"kernels": "fused", "bias": True}, MODERN, MODERN | {"kernels": "fused"}],
)
def test_the_first_half_of_the_micro_steps_has_the_norm_of_its_own_gradient(
    trainer: Trainers, changes: dict[str, Any], batch_size: int, half: int
) -> None:
    split = {"batch_size": batch_size, "gradient_accumulation_steps": 12 // batch_size}
    ours = trainer(max_iters=1, grad_clip=0.01, **split, **changes)
    first = steps_of(ours)[0]
    assert first.micro_tokens == half * 16
    assert first.micro_grad_norm == pytest.approx(norm_of(ours, half), rel=1e-5)
    assert first.grad_norm == pytest.approx(norm_of(ours, 12), rel=1e-5)


def test_fp16_norms_are_those_before_the_losses_were_scaled(trainer: Trainers) -> None:
    ours = trainer(max_iters=1, dtype="float16")
    assert steps_of(ours)[0].micro_grad_norm == pytest.approx(norm_of(ours, 4), rel=0.02)


def test_one_micro_step_is_not_measured(trainer: Trainers) -> None:
    step = steps_of(trainer(max_iters=1, gradient_accumulation_steps=1))[0]
    assert (step.micro_grad_norm, step.micro_tokens) == (None, None)


def test_a_gpu_reads_its_gradients_once_more_in_32k_tokens(config: Builder) -> None:
    on_gpu, on_cpu = (EffectiveBatch(config(), device) for device in ("cuda", "cpu"))
    # Iterations of 4 x 1024 tokens: every eighth.
    assert [at for at in range(20) if on_gpu.is_measured(at, 4, 1024)] == [0, 8, 16]
    assert all(on_gpu.is_measured(at, 32, 1024) for at in range(3))
    assert all(on_cpu.is_measured(at, 2, 1024) for at in range(3))


def test_that_takes_under_1_percent_of_any_gpu_in_the_table() -> None:
    peaks = [(gpu.peak_flops_per_second("bfloat16"), gpu.bandwidth_bytes_per_second) for gpu in all_gpus()]
    shares = [2 / 3 * flops / bandwidth / MEASURED_TOKENS for flops, bandwidth in peaks if flops]
    assert max(shares) < 0.01


def test_a_schedule_grows_the_batch_and_the_rate_by_the_root(trainer: Trainers) -> None:
    # Iterations of 192 tokens at 0 and 192; of 768 at 384 and 1152; and so on.
    ours = trainer(batch_ramp="300:768", schedule="constant", warmup_iters=0, max_iters=4)
    steps = steps_of(ours)
    assert [(step.tokens, step.micro_steps) for step in steps] == [(192, 3), (192, 3), (768, 12), (768, 12)]
    assert [step.learning_rate for step in steps] == pytest.approx([3e-3, 3e-3, 6e-3, 6e-3])
    assert ours.sequences * 16 == 192 + 192 + 768 + 768


def test_every_rate_of_its_own_grows_by_the_root_too(trainer: Trainers) -> None:
    ours = trainer(**MODERN, batch_ramp="300:768", schedule="constant", warmup_iters=0, max_iters=3)
    assert [step.tokens for step in steps_of(ours)] == [192, 192, 768]
    assert {round(group["lr"], 6) for group in ours.engine.optimizer.param_groups} == {6e-3, 12e-3, 2e-2}


def test_a_grown_iteration_is_over_the_sequences_that_follow(trainer: Trainers) -> None:
    """At a rate of next to nothing, iteration 2 of the ramp has the gradient of sequences 12 to 36."""
    ramped = steps_of(trainer(batch_ramp="100:384", learning_rate=1e-30, min_lr=0.0, max_iters=2))
    plain = steps_of(trainer(learning_rate=1e-30, min_lr=0.0, max_iters=3))
    assert ramped[1].loss == pytest.approx((plain[1].loss + plain[2].loss) / 2, rel=1e-5)


def facts(step: StepRecord) -> tuple[object, ...]:
    return step.iteration, step.tokens, step.loss, step.grad_norm, step.micro_grad_norm


@pytest.mark.parametrize(
    "changes", [{"batch_ramp": "500:384,1500:768"}, {"batch_ramp": "noise"}, MODERN | {"batch_ramp": "noise"}]
)
def test_a_resumed_ramp_goes_on_to_the_bit(
    trainer: Trainers, tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanodyno.train.effective.WINDOW", 2)
    monkeypatch.setattr("nanodyno.train.effective.LOOKS", 1)
    monkeypatch.setattr("nanodyno.train.effective.ENOUGH", 2)
    monkeypatch.setattr(
        "nanodyno.train.effective.noise_scale", lambda samples: NoiseScale(1e9, 1e9, None, len(samples))
    )
    changes = changes | {"max_iters": 8, "eval_interval": 4}
    whole = trainer(**changes)
    expected: list[StepRecord] = []
    for event in whole.events():
        if isinstance(event, StepRecord):
            expected.append(event)
        elif isinstance(event, SavePoint) and whole.iteration == 4:
            whole.save(tmp_path, event.reason)
    found = checkpoint.newest(tmp_path)
    assert found is not None
    again = trainer(**changes)
    again.restore(found.checkpoint)
    rest = steps_of(again)
    assert [facts(step) for step in rest] == [facts(step) for step in expected[4:]]
    assert again.stepper.effective.growth() == whole.stepper.effective.growth()
    sizes = [step.tokens for step in expected]
    assert sizes[0] < sizes[3] <= sizes[4] < sizes[7]  # it had grown before, and grew after


def measured(build: Builder, config: RunConfig, at: int, big: float, micro: float = 8.0) -> StepRecord:
    rate = learning_rate_at(config, at)
    return build(at, grad_norm=big, micro_grad_norm=micro, micro_tokens=64, tokens=192, learning_rate=rate)


def fed(config: RunConfig, build: Builder, micro: float, big: float, count: int) -> EffectiveBatch:
    batch = EffectiveBatch(config, "cpu")
    for at in range(count):
        wobble = 1 + 0.01 * math.sin(at)
        batch.learn(measured(build, config, at, big * wobble, micro))
    return batch


def test_noise_doubles_the_batch_once_in_a_window(config: Builder, step: Builder) -> None:
    # Squares of 17 at 64 and 17 - 2 x 16/3 = 6.333 at 192: a signal of 1 and a noise of 16 x 64 = 1024.
    settings = config(batch_ramp="noise", schedule="constant")
    before, after = (fed(settings, step, math.sqrt(17), math.sqrt(19 / 3), n) for n in (WINDOW - 1, WINDOW))
    assert before.sequences(0) * 16 == 192
    assert after.sequences(0) * 16 == 384  # 0.71 of 1024 is 724, and 768 would not be under it
    assert after.sequences(0) * 16 == 384


@pytest.mark.parametrize(("scale", "size"), [(535, 192), (550, 384)])
def test_it_doubles_where_twice_of_it_is_the_middle_of_what_serves(
    config: Builder, step: Builder, scale: float, size: int
) -> None:
    """384 beside 378 and 389, 0.71 of the scale."""
    settings = config(batch_ramp="noise", schedule="constant")
    batch = fed(settings, step, math.sqrt(1 + scale / 64), math.sqrt(1 + scale / 192), WINDOW)
    assert batch.sequences(0) * 16 == size


@pytest.mark.parametrize(("low", "size"), [(380.0, 192), (390.0, 384)])
def test_it_does_not_double_beyond_the_lower_end_of_the_interval(
    config: Builder, step: Builder, monkeypatch: pytest.MonkeyPatch, low: float, size: int
) -> None:
    monkeypatch.setattr(
        "nanodyno.train.effective.noise_scale", lambda samples: NoiseScale(600.0, low, 900.0, len(samples))
    )
    batch = fed(
        config(batch_ramp="noise", schedule="constant"), step, math.sqrt(17), math.sqrt(19 / 3), WINDOW
    )
    assert batch.sequences(0) * 16 == size


def test_a_lower_end_is_enough_where_the_noise_drowns_the_signal(config: Builder, step: Builder) -> None:
    """Squares of 64/3 x (1 + 2/3 sin) over 192 tokens, where noise alone has 64/3: a signal around 0."""
    settings = config(batch_ramp="noise", schedule="constant")
    batch = EffectiveBatch(settings, "cpu")
    for at in range(2 * KEPT):
        square = 64 / 3 * (1 + 2 / 3 * math.sin(2.4 * at))
        batch.learn(measured(step, settings, at, square**0.5))
    assert batch.sequences(0) * 16 == 384


def test_noise_that_is_not_settled_or_no_number_grows_nothing(config: Builder, step: Builder) -> None:
    settings = config(batch_ramp="noise", schedule="constant")
    assert fed(settings, step, math.nan, 1.0, 200).sequences(0) * 16 == 192
    wild = EffectiveBatch(settings, "cpu")
    for at in range(KEPT):
        norm = 1.0 if at % 2 else 8.0
        wild.learn(measured(step, settings, at, norm))
    assert wild.sequences(0) * 16 == 192


def test_a_rate_that_falls_raises_the_noise_and_not_the_batch(config: Builder, step: Builder) -> None:
    """The signal and noise that double it at a held rate, of which the first half of a decay has 40 steps."""
    settings = config(batch_ramp="noise", schedule="linear", min_lr=0.0, warmup_iters=0, max_iters=80)
    assert fed(settings, step, math.sqrt(17), math.sqrt(19 / 3), 80).sequences(0) * 16 == 192
    longer = config(batch_ramp="noise", schedule="linear", min_lr=0.0, warmup_iters=0, max_iters=160)
    assert fed(longer, step, math.sqrt(17), math.sqrt(19 / 3), 80).sequences(0) * 16 == 384


def test_a_smaller_micro_batch_divides_every_size_of_the_ramp(trainer: Trainers) -> None:
    # Iterations of 12 and of 20 sequences: 2 divides both, 3 (half of 6, and a divisor of 12) does not.
    ours = trainer(batch_size=4, tokens_per_iter=192, gradient_accumulation_steps=None, batch_ramp="1k:320")
    assert ours.batches.smaller == 2
    ours.batches.size = 6
    assert ours.batches.smaller == 2
