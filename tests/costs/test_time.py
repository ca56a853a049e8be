"""The work of a micro-step counted by hand, and predicted rates beside those that docs/log has of an H200."""

from dataclasses import replace

import pytest
from tests.costs.live import gpt

from nanodyno.costs.calibration import Calibration, calibration_for, class_numbers, measured
from nanodyno.costs.flops import flops_per_token
from nanodyno.costs.setup import Setup
from nanodyno.costs.time import device_seconds, iteration_time, unfilled_share
from nanodyno.costs.work import Work, micro_step, per_iteration
from nanodyno.hardware.gpus import find_gpu

GPT2 = gpt(12, 12, 1024, 50304)
NARROW = gpt(12, 6, 1024, 50304)


def compiled(setup: Setup) -> Setup:
    return replace(
        setup, kernels="autograd", compiled=True, attention="torch", loss_chunk_size=None, cuda_graph=False
    )


def test_the_products_of_a_micro_step_are_the_flops_of_its_tokens_but_for_attention() -> None:
    for setup in (Setup(GPT2, 4, 1), compiled(Setup(GPT2, 4, 1)), Setup(GPT2, 4, 1, fp8=True)):
        work = micro_step(setup)
        attention = 6 * 12 * 768 * 1025
        exact = 4096 * (flops_per_token(GPT2) - attention)
        assert work.product_flops + work.fp8_flops == exact
        assert work.attention_flops == 4096 * 6 * 12 * 768 * (1024 + 128)


def test_an_update_of_the_fused_way_moves_42_bytes_a_parameter() -> None:
    """Weights, gradients and moments read and written (32), the norm (4), the cast (6)."""
    setup = Setup(GPT2, 4, 1)
    assert per_iteration(setup).moved_bytes == 42 * 124_373_760
    away = per_iteration(replace(setup, offload_moments=True))
    assert (away.moved_bytes, away.host_bytes) == (26 * 124_373_760, 16 * 124_373_760)


def test_light_recomputation_writes_two_norms_and_gelu_again() -> None:
    setup = Setup(GPT2, 4, 1)
    more = micro_step(replace(setup, recompute="light")).moved_bytes - micro_step(setup).moved_bytes
    assert more == 12 * 4096 * 768 * (2 * 2 + 4 * 2)


def test_work_takes_as_long_as_its_parts_at_their_rates() -> None:
    rates = Calibration(
        multiprocessors=1,
        matmul_flops_per_second=100,
        matmul_traffic_share=0.5,
        fp8_gain=2,
        attention_flops_per_second={"flash": 10},
        attention_softmax_share=0.5,
        bandwidth_bytes_per_second=20,
        eager_bandwidth_share=0.5,
        host_bandwidth_bytes_per_second=4,
        kernel_seconds=0.25,
        launch_seconds={"eager": 1, "compiled": 1},
        workspace_bytes=0,
        context_bytes=0,
        fragmentation_share=0,
    )
    work = Work(
        product_flops=300,
        fp8_flops=200,
        product_bytes=80,
        attention_flops=50,
        moved_bytes=60,
        eager_bytes=30,
        host_bytes=8,
        kernels=2,
    )
    # (300 + 200 / 2) / 100 + 50 / 10 + (0.5 x 80 + 60 + 30 / 0.5) / 20 + 8 / 4 + 2 x 0.25
    setup = Setup(GPT2, 4, 1, attention="flash")
    assert device_seconds(work, setup, rates) == 4 + 5 + 8 + 2 + 0.5
    # Heads of 128 have half the scores for the half of attention's time that goes with them
    wide = replace(setup, shape=GPT2.replaced(n_head=6))
    assert device_seconds(work, wide, rates) == 4 + (2.5 + 1.25) + 8 + 2 + 0.5


def test_without_a_graph_a_micro_step_lasts_at_least_as_long_as_its_launches() -> None:
    small = Setup(gpt(12, 2, 64, 512), 1, 8, cuda_graph=False)
    time = iteration_time(small, measured())
    assert time.launch_bound
    assert time.micro_step_seconds == micro_step(small).kernels * measured().launch_seconds["eager"]
    assert not iteration_time(replace(small, cuda_graph=True), measured()).launch_bound


LOGGED = {
    "768/64": (Setup(GPT2, 64, 8, loss_chunk_size=16384), 606_972),
    "768/32": (Setup(GPT2, 32, 16, loss_chunk_size=16384), 577_461),
    "768/8": (Setup(GPT2, 8, 64, loss_chunk_size=16384), 558_169),
    "768/4": (Setup(GPT2, 4, 128, loss_chunk_size=16384), 522_570),
    "768/64 bf16": (Setup(GPT2, 64, 8, loss_chunk_size=16384, residual_dtype="bfloat16"), 623_120),
    "768/16 light": (Setup(GPT2, 16, 32, loss_chunk_size=3072, recompute="light"), 560_881),
    "768/32 light": (Setup(GPT2, 32, 16, loss_chunk_size=3072, recompute="light"), 552_581),
    "384/64": (Setup(NARROW, 64, 8, loss_chunk_size=16384), 1_416_451),
    "384/8": (Setup(NARROW, 8, 64, loss_chunk_size=16384), 1_194_981),
    "compiled 768/8": (compiled(Setup(GPT2, 8, 64)), 476_671),
    "compiled 768/16": (compiled(Setup(GPT2, 16, 32)), 518_229),
    "compiled 384/8": (compiled(Setup(NARROW, 8, 64)), 558_263),
    "compiled 384/16": (compiled(Setup(NARROW, 16, 32)), 1_068_871),
}
"""Tokens per second of docs/log, on some of which the calibration rests."""


@pytest.mark.parametrize("name", LOGGED)
def test_the_speeds_of_the_log_are_predicted_within_7_percent(name: str) -> None:
    setup, tokens_per_second = LOGGED[name]
    assert iteration_time(setup, measured()).tokens_per_second == pytest.approx(tokens_per_second, 0.07)


FP8 = {(768, 16): 1.140, (768, 64): 1.135, (1600, 16): 1.192, (2048, 8): 1.186}
"""Of the bf16 micro-step's speed, by width and micro-batch (docs/log)."""


@pytest.mark.parametrize(("width", "batch_size"), FP8)
def test_what_fp8_gains_is_predicted_within_2_percent(width: int, batch_size: int) -> None:
    setup = Setup(gpt(12, width // 64, 1024, 50304), batch_size, 8, loss_chunk_size=16384)
    slow, fast = (iteration_time(replace(setup, fp8=fp8), measured()) for fp8 in (False, True))
    gain = slow.micro_step_seconds / fast.micro_step_seconds
    assert gain == pytest.approx(FP8[width, batch_size], 0.02)


def test_another_gpu_has_the_rates_of_its_class_and_is_not_verified() -> None:
    """An A100 has 312 TFLOP/s, 2,039 GB/s, 108 multiprocessors at 1,410 MHz and 400 W."""
    classes, scaled = class_numbers(), calibration_for(find_gpu("NVIDIA A100-SXM4-80GB", None))
    entry = next(each for each in classes["rates"] if "Ampere HBM" in each["of"])
    assert scaled.matmul_flops_per_second == pytest.approx(312e12 * classes["matmul_share"]["other"])
    assert scaled.bandwidth_bytes_per_second == pytest.approx(2039e9 * entry["bandwidth_share"])
    numbers = classes["attention"]
    by_flops = 1 / (numbers["matmul_share"] * 312e12)
    by_scores = numbers["cycles_per_score"] / (12 * 64 * 108 * 1.41e9)
    rates = scaled.attention_flops_per_second
    assert rates["flash"] == rates["torch"] == pytest.approx(1 / (by_flops + by_scores))
    assert scaled.attention_softmax_share == pytest.approx(by_scores / (by_flops + by_scores))
    of_reference = (400 / 108 / classes["power"]["reference_watts"]) ** classes["power"]["watts_exponent"]
    assert scaled.power_flops_per_second == pytest.approx(400 / entry["joules_per_flop"] / of_reference)
    assert (scaled.verified, calibration_for(find_gpu("NVIDIA H200", None)).verified) == (False, True)


@pytest.mark.parametrize("graph", [True, False])
def test_what_is_left_unfilled_is_gone_where_kernels_begin_and_launch_in_no_time(graph: bool) -> None:
    setup = Setup(NARROW, 1, 512, cuda_graph=graph)
    rates = measured()
    none = dict.fromkeys(rates.launch_seconds, 0.0)
    full = replace(rates, kernel_seconds=0.0, launch_seconds=none)
    assert unfilled_share(setup, full) == pytest.approx(0.0)
    spared = iteration_time(setup, full).micro_step_seconds / iteration_time(setup, rates).micro_step_seconds
    assert unfilled_share(setup, rates) == pytest.approx(1 - spared)
    assert 0.4 < unfilled_share(setup, rates) < 1
