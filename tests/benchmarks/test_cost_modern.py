"""Predictions beside nine trainings on an H200, kept as data: benchmarks/cost_modern_h200.jsonl.

No number of the calibration is fitted to them.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def rows(benchmark_module: Callable[[str], ModuleType]) -> list[Any]:
    modern = benchmark_module("cost_modern")
    return modern.compared(modern.DATA)


def test_eight_of_the_nine_are_beyond_gpt2_and_all_go_by_hand(rows: list[Any]) -> None:
    assert [row.setup.kernels for row in rows] == ["fused"] * 9
    assert [row.name for row in rows if row.setup.is_plain] == ["plain-adamw"]


def test_tokens_per_second_of_modern_trainings_are_predicted_within_5_percent(rows: list[Any]) -> None:
    assert [row.name for row in rows if abs(row.speed_error) > 0.05] == []


def test_what_modern_parts_cost_beside_plain_gpt2_is_predicted_within_2_percent(rows: list[Any]) -> None:
    """In one process on one card, so that its day counts for both."""
    plain = next(row.speed_error for row in rows if row.setup.is_plain)
    assert max(abs((1 + row.speed_error) / (1 + plain) - 1) for row in rows) < 0.02


def test_allocated_memory_is_predicted_to_a_thousandth_and_32_mib_for_each_trial_before(
    rows: list[Any],
) -> None:
    """From the third on one workspace more."""
    for before, row in enumerate(rows):
        alone = row.peak_gib - (before + (before > 1)) * 32 / 1024
        assert row.predicted_gib == pytest.approx(alone, 0.001), row.name
