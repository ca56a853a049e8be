"""What costs/ says of the modern block, against the model itself and a walk over its products."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.costs.live import autograd_peaks_of_code, gpt, saved_by_a_compiled_step

from nanodyno.config import ModelShape, build_config
from nanodyno.costs.calibration import calibration_for
from nanodyno.costs.flops import flops_per_sequence, flops_per_token, nanogpt_flops_per_token
from nanodyno.costs.memory import memory_of
from nanodyno.costs.memory_autograd import autograd_peak, evaluation_bytes
from nanodyno.costs.memory_fused import fused_peak
from nanodyno.costs.parameters import parameters
from nanodyno.costs.plan import PlanRequest, make_plan
from nanodyno.costs.setup import Setup, settle
from nanodyno.costs.target import Target, named_target
from nanodyno.costs.work import micro_step, per_iteration
from nanodyno.errors import NanodynoError
from nanodyno.model.batched import make_optimizer
from nanodyno.model.modern import make_model

H200 = named_target("H200", None)


def drawn_shape(draw: random.Random) -> ModelShape:
    shared, groups, layers, block = (
        draw.randint(1, 4),
        draw.randint(1, 3),
        draw.randint(1, 6),
        draw.randint(1, 60),
    )
    heads = shared * groups
    return ModelShape(
        n_layer=layers,
        n_head=heads,
        n_embd=heads * draw.choice([2, 8, 14]),
        block_size=block,
        vocab_size=draw.randint(2, 900),
        bias=draw.random() < 0.5,
        dropout=0.0,
        gelu="exact",
        positions=draw.choice(["learned", "rope"]),
        norm=draw.choice(["layer", "rms"]),
        activation=draw.choice(["gelu", "relu2"]),
        qk_norm=draw.random() < 0.5,
        n_kv_head=draw.choice([None, shared]),
        window=draw.choice([None, draw.randint(1, block)]),
        window_pattern=draw.choice(["S", "SL", "SSSL"]),
        value_embeddings=draw.randint(0, layers // 2),
        untied_head=draw.random() < 0.5,
        logit_softcap=draw.choice([None, 15.0]),
    )


def test_40_random_modern_models_have_as_many_parameters_as_predicted() -> None:
    draw = random.Random(3)
    for _ in range(40):
        shape = drawn_shape(draw)
        with torch.device("meta"):
            model = make_model(shape)
        count = parameters(shape)
        assert count.total == sum(p.numel() for p in model.parameters()), shape
        blocks = (p for name, p in model.named_parameters() if name.startswith("blocks.") and p.ndim == 2)
        assert count.block_matrices == sum(p.numel() for p in blocks)
        looked_up = ("positions", "values", *(["tokens"] if shape.untied_head else []))
        rest = (p for name, p in model.named_parameters() if not name.startswith(looked_up))
        assert count.nanogpt == sum(p.numel() for p in rest)


def walk(shape: ModelShape) -> int:
    """FLOP of a sequence: every product of every position, head and layer, forward and twice backward."""
    C, K = shape.n_embd, shape.head_size
    forward = 0
    for position in range(shape.block_size):
        for window in shape.windows:
            forward += 2 * C * (C + 2 * shape.kv_heads * K)  # queries, keys and values
            seen = len(range(max(0, position + 1 - (window or position + 1)), position + 1))
            forward += shape.n_head * 2 * 2 * K * seen
            forward += 2 * C * C + 2 * 2 * C * 4 * C
        forward += 2 * C * shape.vocab_size
    return 3 * forward


def test_flops_agree_with_a_walk_over_50_random_modern_models() -> None:
    draw = random.Random(5)
    for _ in range(50):
        shape = drawn_shape(draw)
        assert flops_per_sequence(shape) == walk(shape), shape
        assert abs(flops_per_token(shape) * shape.block_size - walk(shape)) <= shape.block_size / 2


def test_a_window_and_shared_heads_save_flops_that_can_be_counted_by_hand() -> None:
    plain = gpt(12, 12, 1024, 50304)
    # Of 12 blocks 9 look at 256 positions: 256 x 257 / 2 + 768 x 256 = 229,504 a sequence in place of 524,800
    windowed = plain.replaced(window=256)
    assert flops_per_sequence(plain) - flops_per_sequence(windowed) == 9 * 12 * 768 * (524_800 - 229_504)
    # Keys and values of 4 heads in place of 12: 2 x 8 x 64 columns less in each of 12 products
    shared = plain.replaced(n_kv_head=4)
    assert flops_per_token(plain) - flops_per_token(shared) == 6 * 12 * 768 * 2 * 8 * 64
    tables = plain.replaced(value_embeddings=3)
    assert flops_per_token(tables) == flops_per_token(plain)
    assert nanogpt_flops_per_token(tables) == nanogpt_flops_per_token(plain) + 6 * 2 * 6


MODERN: dict[str, Any] = {
    "positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True, "value_embeddings": 1,
    "untied_head": True, "logit_softcap": 15.0,
}  # fmt: skip


def test_a_compiled_modern_micro_step_saves_what_is_predicted() -> None:
    """On a CPU's partitioner; no card has measured it."""
    shape = gpt(2, 4, 128, 2048).replaced(n_kv_head=2, **MODERN)
    setup = Setup(shape, 4, 4, kernels="autograd", compiled=True, cuda_graph=False)
    peak = autograd_peak(setup)
    alive = peak.casts + peak.activations + peak.logits_and_loss + peak.largest_temporary
    assert alive - setup.half * 2048 * 256 == pytest.approx(saved_by_a_compiled_step(setup), 0.03)


def test_muon_keeps_one_moment_of_a_matrix_and_adamw_two() -> None:
    config = build_config({"optimizer": "muon", "n_layer": 2, "n_embd": 64, "n_head": 2, "block_size": 16})
    shape = config.model_shape(96)
    model = make_model(shape)
    optimizer = make_optimizer(model, config)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    kept = sum(each.nbytes for state in optimizer.state.values() for each in state.values() if each.ndim)
    setup = settle(config, shape, "bfloat16", None)
    assert autograd_peak(setup).optimizer == kept == 4 * (2 * parameters(shape).total - 2 * 12 * 64 * 64)


@pytest.mark.parametrize(
    ("changes", "dtype", "vocabulary"),
    [
        ({}, "bfloat16", 100),
        ({}, "float32", 100),
        ({}, "bfloat16", 1000),
        ({"qk_norm": False}, "bfloat16", 100),
        ({"value_embeddings": 0}, "float32", 1000),
        ({"n_kv_head": 2}, "bfloat16", 100),
        ({"positions": "learned", "qk_norm": False, "logit_softcap": None}, "bfloat16", 1000),
    ],
)
def test_an_evaluation_of_a_modern_model_peaks_where_torch_does(
    changes: dict[str, Any], dtype: Any, vocabulary: int
) -> None:
    """In the MLP, where keys are turned, or in the loss; the tables of values are held beside the former."""
    parts = {"positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True,
             "logit_softcap": 15.0, "value_embeddings": 1}  # fmt: skip
    shape = gpt(2, 4, 256, vocabulary).replaced(**(parts | changes))
    setup = Setup(shape, 16, 1, dtype=dtype, kernels="autograd", loss_chunk_size=256, cuda_graph=False)
    assert evaluation_bytes(setup) == pytest.approx(autograd_peaks_of_code(setup)[1], 0.01)


def test_muons_step_takes_memory_beside_a_graph_as_an_evaluation_does_and_else_of_the_micro_step() -> None:
    by_muon = Setup(gpt(12, 12, 1024, 50304), 8, 8, optimizer="muon", loss_chunk_size=1024)
    assert replace(by_muon, optimizer="adamw").step_cost.temporary_bytes == 0
    # Six bytes of each of 12 matrices of 3072 x 768
    assert by_muon.step_cost.temporary_bytes == 6 * 12 * 3072 * 768 == 169_869_312
    tiny = replace(by_muon, shape=by_muon.shape.replaced(block_size=8), batch_size=1, cuda_graph=False)
    peak = fused_peak(tiny, 4)
    assert peak.activations == 0
    assert peak.largest_temporary > tiny.step_cost.temporary_bytes
    assert fused_peak(by_muon, 4).activations > 0
    gpu = calibration_for(None)
    with_graph, without = (memory_of(replace(by_muon, cuda_graph=each), gpu) for each in (True, False))
    beside = with_graph.fragmentation - without.fragmentation
    assert beside == max(evaluation_bytes(by_muon), by_muon.step_cost.temporary_bytes)


def test_an_update_by_muon_takes_products_of_about_three_percent_of_65536_tokens() -> None:
    """5 x (4 x 768^2 x n + 2 x 768^3) for each matrix, of n = 768 or 3072, two of the latter in a block."""
    setup = settle(build_config({"optimizer": "muon"}), gpt(12, 12, 1024, 50304), "bfloat16", None)
    flops = per_iteration(setup).product_flops
    assert flops == 12 * 5 * (4 * (6 * 768**3) + 2 * (16 * 768**3 + 2 * 768**3))
    assert 0.02 < flops / (65_536 * flops_per_token(setup.shape)) < 0.04


def test_what_an_update_by_muon_moves_can_be_counted_by_hand() -> None:
    """A block of width 64: 4 matrices of 64 x 64 and 2 of 64 x 256 are 12 x 4,096 numbers, and 6 squares."""
    by_muon = Setup(gpt(1, 1, 16, 96), 1, 1, optimizer="muon")
    own, rest = 12 * 4096, parameters(by_muon.shape).total - 12 * 4096
    adamw = own * 4 + rest * 36 + (own + rest) * 6  # the norm of all, the update of the rest, casts of all
    work = per_iteration(by_muon)
    # Momentum and update 14, divided by the norm 6, step 10, zeros 4; copies of both, five times
    assert work.moved_bytes == adamw + own * 34 + 5 * 4 * (12 + 6) * 4096
    # x x^T reads x twice and writes a square; its square reads three and writes one; the last product reads
    # it, and x as factor and as summand, and writes x
    assert work.product_bytes == 5 * 2 * ((2 * 12 + 6) + 4 * 6 + (6 + 3 * 12)) * 4096
    by_autograd = per_iteration(replace(by_muon, kernels="autograd", cuda_graph=False))
    assert by_autograd.moved_bytes == work.moved_bytes + own * 44 - (own + rest) * 6


def test_weights_in_fp8_are_cast_once_an_iteration_and_tables_are_not() -> None:
    setup = Setup(gpt(2, 1, 16, 96).replaced(value_embeddings=1, untied_head=True), 1, 1)
    more = per_iteration(replace(setup, fp8=True)).moved_bytes - per_iteration(setup).moved_bytes
    assert more == 11 * (2 * 11 * 64 * 64 + 96 * 64)


def test_a_window_takes_less_of_the_attentions_time() -> None:
    config = build_config({"positions": "rope"})
    whole = settle(config, config.model_shape(50304), "bfloat16", None)
    windowed = replace(whole, shape=whole.shape.replaced(window=128, window_pattern="S"))
    share = micro_step(windowed).attention_flops / micro_step(whole).attention_flops
    seen = (128 * 129 / 2 + 896 * 128) / 1024
    assert share == pytest.approx((2 * seen - 1 + 128) / (1024 + 128))


@pytest.mark.parametrize(
    ("changes", "way", "measured"),
    [({}, ("fused", "cudnn-packed"), True), ({"window": 256}, ("autograd", "flex"), False)],
)
def test_a_plan_of_it_goes_the_trainers_way_and_knows_whether_that_was_measured(
    changes: dict[str, Any], way: tuple[str, str], measured: bool
) -> None:
    config = build_config(
        MODERN | changes | {"optimizer": "muon", "batch_size": 8, "tokens_per_iter": 65_536}
    )
    plan = make_plan(config, 50304, 50257, H200, PlanRequest())
    assert (plan.asked.setup.kernels, plan.asked.setup.attention) == way
    assert plan.verified == measured
    assert not make_plan(config, 50304, 50257, named_target("RTX 4090", None), PlanRequest()).verified
    small = Target("small", None, plan.asked.memory.total // 2, host_bytes=2**40)
    settings = {
        key
        for each in make_plan(config, 50304, 50257, small, PlanRequest()).advice
        for key in dict(each.settings)
    }
    assert settings
    assert not settings & {"kernels", "offload_moments", "moments_dtype"}


def test_a_plan_refuses_what_training_would() -> None:
    config = build_config({"window": 256, "fp8": True})
    with pytest.raises(NanodynoError, match=r"fp8=True .* window=256"):
        make_plan(config, 50304, 50257, H200, PlanRequest())
