"""Why a change moved the speed, from breakdowns made up so that every figure can be worked out by hand."""

from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.findings import Finding
from nanodyno.analysis.mechanisms import mechanisms
from nanodyno.config import RunConfig
from nanodyno.records.probe import Measured, MemoryRecord, ProbeResult

SHARES: dict[int, dict[Any, float]] = {
    4: {"matmul": 0.5, "optimizer": 0.1, "attention": 0.4},
    2: {"matmul": 0.8, "optimizer": 0.2},
}
"""Of the time of an iteration, by micro-batch."""


@pytest.fixture
def found(attributions: Any, tmp_path: Path) -> dict[str, Finding]:
    """The micro-batch alone: 1.00 s an iteration with 4, 1.25 s with 2; the memory of both has gaps."""
    surface = attributions.surface({(128, 4): 100.0, (128, 2): 80.0}, noise=1e-4)

    def answer(config: RunConfig) -> ProbeResult:
        repetition = surface(config)
        assert isinstance(repetition, Measured)
        assert repetition.breakdown is not None
        wall = repetition.breakdown.wall_seconds
        parts = {part: share * wall for part, share in SHARES[config.batch_size].items()}
        held = 10 * 2**30 if config.batch_size == 4 else 8 * 2**30
        memory = MemoryRecord(
            peak_reserved_bytes=held,
            peak_allocated_bytes=8 * 2**30,
            alloc_retries=3 if config.batch_size == 2 else 0,
        )
        breakdown = repetition.breakdown.model_copy(update={"part_seconds": parts})
        return repetition.model_copy(update={"breakdown": breakdown, "memory": memory})

    inquiry = attributions.inquiry({"batch_size": 2})
    return {each.code: each for each in mechanisms(attributions.measure(inquiry, tmp_path, answer)[0])}


def test_the_rate_within_products_is_their_flops_over_their_time(found: dict[str, Finding]) -> None:
    """Two layers of 128 over 1024 positions and 50257 tokens: 6 (24 x 128^2 + 128 x 50257) FLOPs a token.

    16,384 tokens in 1 s, half of it products; then in 1.25 s, 0.8 of it.
    """
    flops = 6 * (2 * 12 * 128**2 + 128 * 50257) * 16_384
    numbers = found["matmul-moved"].numbers
    assert numbers["rates"] == pytest.approx([flops / 0.5, flops / (0.8 * 1.25)], rel=0.003)
    assert numbers["ceiling"] == 797e12
    assert numbers["combinations"] == [{"batch_size": 4}, {"batch_size": 2}]


def test_the_parts_of_a_change_of_time_add_up_to_it(found: dict[str, Finding]) -> None:
    """Per token 1.25 of the time before: of it 1.00 in products (0.5 before), 0.25 in updates (0.1), and none
    in attention (0.4)."""
    numbers: Any = found["token-time-moved"].numbers
    assert numbers["moved"] == pytest.approx(0.25, rel=0.003)
    reported = {each["part"]: each["moved"] for each in numbers["parts"]}
    assert list(reported) == ["matmul", "attention", "optimizer"]
    assert reported == pytest.approx({"matmul": 0.5, "attention": -0.4, "optimizer": 0.15}, rel=0.003)
    assert sum(reported.values()) == pytest.approx(numbers["moved"])


def test_the_optimizers_share_and_the_memory_are_reported(found: dict[str, Finding]) -> None:
    assert found["optimizer-moved"].numbers["shares"] == pytest.approx([0.1, 0.2])
    assert found["fragmented"].numbers == {
        "combination": {"batch_size": 4},
        "held_bytes": 10 * 2**30,
        "used_bytes": 8 * 2**30,
    }
    assert found["allocator-starts-over"].numbers["times"] == 3
    assert "idle-moved" not in found
