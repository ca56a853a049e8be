"""Predicted peaks beside those that were measured on an H200 (docs/log)."""

from dataclasses import replace

import pytest
from tests.costs.live import gpt

from nanodyno.costs.calibration import measured
from nanodyno.costs.memory import memory_of
from nanodyno.costs.setup import Setup

GIB = 2**30
GPT2 = gpt(12, 12, 1024, 50304)
NARROW = gpt(12, 6, 1024, 50304)


def compiled(setup: Setup) -> Setup:
    return replace(setup, kernels="autograd", compiled=True, cuda_graph=False)


ALLOCATED = {
    "768/16": (Setup(GPT2, 16, 32, loss_chunk_size=16384), 8.93),
    "768/16 light, 4096 rows": (Setup(GPT2, 16, 32, loss_chunk_size=4096, recompute="light"), 6.09),
    "768/16 light, 3072 rows": (Setup(GPT2, 16, 32, loss_chunk_size=3072, recompute="light"), 6.03),
    "768/8 under 11.2 GiB": (Setup(GPT2, 8, 64, loss_chunk_size=3072), 5.13),
    "768/32 light under 11.2 GiB": (Setup(GPT2, 32, 16, loss_chunk_size=3072, recompute="light"), 9.56),
    "compiled 768/8": (compiled(Setup(GPT2, 8, 64)), 5.59),
    "compiled 768/16": (compiled(Setup(GPT2, 16, 32)), 8.91),
    "compiled 384/8": (compiled(Setup(NARROW, 8, 64)), 2.86),
    "compiled 384/16": (compiled(Setup(NARROW, 16, 32)), 4.90),
}


@pytest.mark.parametrize("name", ALLOCATED)
def test_the_peaks_of_the_log_are_predicted_within_one_percent(name: str) -> None:
    setup, gib = ALLOCATED[name]
    assert memory_of(setup, measured()).allocated / GIB == pytest.approx(gib, 0.01)


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("768/32 light under 11.2 GiB", 10.27),
        ("768/16 light, 3072 rows", 6.92),
        ("compiled 768/8", 5.85),
        ("compiled 768/16", 9.17),
        ("compiled 384/8", 3.25),
        ("compiled 384/16", 6.08),
    ],
)
def test_what_the_allocator_holds_is_predicted_within_a_tenth(name: str, gib: float) -> None:
    assert memory_of(ALLOCATED[name][0], measured()).reserved / GIB == pytest.approx(gib, 0.10)
