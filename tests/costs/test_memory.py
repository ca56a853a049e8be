"""Predicted peaks against the trainer's own code, run on tensors without memory."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.costs.live import (
    MULTIPROCESSORS,
    autograd_peaks_of_code,
    fused_peak_of_code,
    gpt,
    peak_of_a_compiled_loss,
    saved_by_a_compiled_step,
    without_launches,
)

from nanodyno.config import ModelShape
from nanodyno.costs.calibration import measured
from nanodyno.costs.memory import memory_of
from nanodyno.costs.memory_autograd import autograd_peak, evaluation_bytes, idle_bytes
from nanodyno.costs.memory_fused import fused_peak
from nanodyno.costs.setup import RECOMPUTE, Setup

CLOSE = 0.002
"""The micro-steps' handful of single numbers and the rounding of fp8's slots are not counted."""


def drawn_shape(draw: random.Random) -> ModelShape:
    return gpt(
        draw.randint(1, 5),
        draw.choice([1, 2, 6, 12]),
        draw.choice([256, 512, 1024]),
        draw.choice([512, 8192, 50304]),
        draw.random() < 0.5,
    )


def fused_setup(seed: int) -> Setup:
    draw = random.Random(seed)
    shape = drawn_shape(draw)
    return Setup(
        shape=shape,
        batch_size=draw.choice([1, 2, 8, 32]),
        micro_steps=4,
        dtype="bfloat16" if draw.random() < 0.8 else "float32",
        loss_chunk_size=draw.choice([512, 3072, 16384]),
        recompute=draw.choice(RECOMPUTE),
        residual_dtype=draw.choice(["float32", "bfloat16"]),
        fp8=draw.random() < 0.3,
        offload_moments=True,
    )


def modern_setup(seed: int) -> Setup:
    """Of parts drawn at random."""
    draw, setup = random.Random(seed), fused_setup(seed)
    layers = setup.shape.n_layer
    shape = setup.shape.replaced(
        positions=draw.choice(["learned", "rope"]),
        norm=draw.choice(["layer", "rms"]),
        activation=draw.choice(["gelu", "relu2"]),
        qk_norm=draw.random() < 0.5,
        value_embeddings=draw.randint(0, layers // 2),
        untied_head=draw.random() < 0.5,
        logit_softcap=draw.choice([None, 15.0]),
    )
    return replace(setup, shape=shape)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Any:
    return without_launches(monkeypatch)


@pytest.mark.parametrize("build", [fused_setup, modern_setup])
@pytest.mark.parametrize("seed", range(24))
def test_a_fused_micro_step_peaks_where_the_code_does(
    seed: int, build: Callable[[int], Setup], kernels: Any
) -> None:
    setup = build(seed)
    assert fused_peak(setup, MULTIPROCESSORS).total == pytest.approx(
        fused_peak_of_code(setup, kernels), CLOSE
    )


@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_gpt2_at_micro_batch_16_peaks_where_the_code_does(recompute: Any, kernels: Any) -> None:
    setup = Setup(
        gpt(12, 12, 1024, 50304), 16, 32, loss_chunk_size=3072, recompute=recompute, offload_moments=True
    )
    assert fused_peak(setup, MULTIPROCESSORS).total == pytest.approx(fused_peak_of_code(setup, kernels), 1e-4)


@pytest.mark.parametrize("seed", range(16))
def test_an_eager_micro_step_and_an_evaluation_peak_where_torch_does(seed: int) -> None:
    draw = random.Random(seed)
    shape = drawn_shape(draw)
    setup = Setup(
        shape=shape,
        batch_size=draw.choice([1, 2, 8, 32]),
        micro_steps=4,
        dtype=draw.choice(["float32", "bfloat16"]),
        kernels="autograd",
        loss_chunk_size=draw.choice([None, 64, 1024, 4096]),
        cuda_graph=False,
    )
    peak, evaluation = autograd_peaks_of_code(setup)
    predicted = autograd_peak(setup)
    assert predicted.total - predicted.optimizer == pytest.approx(peak, 0.01)
    assert evaluation_bytes(setup) == pytest.approx(evaluation, 0.01)


@pytest.mark.parametrize(("dtype", "dropout"), [("bfloat16", 0.0), ("bfloat16", 0.1), ("float32", 0.0)])
def test_a_compiled_micro_step_saves_what_is_predicted(dtype: Any, dropout: float) -> None:
    """All that is alive at the loss but the gradient of the head."""
    shape = gpt(2, 2, 128, 1024).replaced(dropout=dropout)
    setup = Setup(shape, 8, 4, dtype=dtype, kernels="autograd", compiled=True, cuda_graph=False)
    peak = autograd_peak(setup)
    alive = peak.casts + peak.activations + peak.logits_and_loss + peak.largest_temporary
    assert alive - setup.half * 1024 * 128 == pytest.approx(saved_by_a_compiled_step(setup), 0.01)


MULTIPLIES_BFLOAT16 = pytest.mark.skipif(
    not torch.cpu._is_avx512_bf16_supported(), reason="this CPU multiplies bfloat16 through copies in float32"
)


@pytest.mark.parametrize(
    ("dtype", "batch_size"), [pytest.param("bfloat16", 4, marks=MULTIPLIES_BFLOAT16), ("float32", 3)]
)
def test_a_compiled_loss_by_rows_peaks_where_inductors_does(dtype: Any, batch_size: int) -> None:
    """Some rows of logits, and their softmax in fp32."""
    setup = Setup(gpt(1, 1, 512, 4096), batch_size, 4, dtype=dtype, kernels="autograd", compiled=True)
    setup = replace(setup, loss_chunk_size=1024, cuda_graph=False)
    assert autograd_peak(setup).logits_and_loss == pytest.approx(peak_of_a_compiled_loss(setup), 0.03)


def test_what_a_block_keeps_is_36_24_16_and_4_bytes_times_the_width() -> None:
    """Besides two norms' statistics of 8 bytes and 4 bytes a head of the attention."""
    setup = Setup(gpt(7, 12, 1024, 50304), 2, 1, loss_chunk_size=1024)
    kept = [fused_peak(replace(setup, recompute=each), 1).activations for each in RECOMPUTE]
    besides = 2 * 8 + 4 * 12
    assert kept == [
        7 * 2048 * (36 * 768 + besides),
        7 * 2048 * (24 * 768 + besides),
        7 * 2048 * (16 * 768 + besides),
        7 * 2048 * (4 * 768 + 8),
    ]


def test_the_moments_are_8_bytes_a_parameter_4_in_bf16_and_none_on_the_host() -> None:
    setup = Setup(gpt(2, 2, 256, 512), 1, 1)
    elements = fused_peak(setup, 1).weights // 4
    found = [
        fused_peak(each, 1).optimizer
        for each in (setup, replace(setup, moments_dtype="bfloat16"), replace(setup, offload_moments=True))
    ]
    assert found == [8 * elements, 4 * elements, 0]


def test_one_micro_step_an_iteration_needs_no_gradients_beside_its_activations() -> None:
    setup = Setup(gpt(4, 4, 512, 8192), 16, 2, kernels="autograd", compiled=True, cuda_graph=False)
    saved = autograd_peak(setup).total - autograd_peak(replace(setup, micro_steps=1)).total
    assert saved == autograd_peak(setup).grads > 0


def test_what_gradients_and_moments_leave_of_the_first_logits_is_held_in_vain() -> None:
    """In a compiled micro-step 2 bytes a logit; in an eager one 10, but at most the largest buffer, of 4."""
    setup = Setup(gpt(4, 4, 512, 8192), 16, 2, kernels="autograd", compiled=True, cuda_graph=False)
    peak = autograd_peak(setup)
    logits = 16 * 512 * 8192
    stay = peak.grads + peak.optimizer
    assert idle_bytes(setup, peak) == 2 * logits - stay > 0
    assert idle_bytes(replace(setup, batch_size=1), peak) == 0
    assert idle_bytes(replace(setup, compiled=False), peak) == 4 * logits < 10 * logits - stay
    assert idle_bytes(replace(setup, loss_chunk_size=512), peak) == 0


def test_a_dropped_activation_is_a_byte_more_on_a_gpu() -> None:
    setup = Setup(gpt(3, 2, 256, 512), 2, 2, kernels="autograd", cuda_graph=False)
    dropping = replace(setup, shape=setup.shape.replaced(dropout=0.1))
    more = autograd_peak(dropping).activations - autograd_peak(setup).activations
    assert more == 512 * 128 * (3 * 2 + 1)


def test_the_components_add_up_to_the_total() -> None:
    memory = memory_of(fused_setup(3), measured())
    assert (
        memory.total
        == sum(memory.components.values())
        == memory.allocated + memory.context + memory.fragmentation
    )
    assert set(memory.components) == {
        "weights", "grads", "optimizer", "casts", "activations", "logits_and_loss", "largest_temporary",
        "context", "fragmentation",
    }  # fmt: skip


def test_the_constants_that_costs_repeats_are_the_trainers() -> None:
    """costs/ may not import torch, so it states them again."""
    from nanodyno.costs import memory, memory_autograd, memory_fused, setup
    from nanodyno.data import loader
    from nanodyno.model import flat
    from nanodyno.model import fused as model_fused
    from nanodyno.train import evaluate, fused

    assert setup.RECOMPUTE == model_fused.RECOMPUTE
    assert (setup.LOGITS_SHARE, setup.FEWEST_ROWS, setup.MOST_ROWS) == (
        fused.LOGITS_SHARE, fused.FEWEST_ROWS, fused.MOST_ROWS,
    )  # fmt: skip
    assert memory_fused.ALIGNED == flat.ALIGNED
    assert memory_autograd.EVALUATED_LOGITS == evaluate.LOGITS_AT_ONCE
    assert (memory.LOADED_TOKENS, memory.LOADED_BATCHES) == (loader.TOKENS_AT_ONCE, loader.BATCHES_AT_ONCE)
    norm = pytest.importorskip("nanodyno.model.kernels.norm")
    assert {dtype.itemsize: lanes for dtype, lanes in norm.LANES_PER_PROCESSOR.items()} == memory_fused.LANES
    assert torch.bfloat16 in norm.LANES_PER_PROCESSOR
