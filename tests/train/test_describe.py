from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.records.types import RunRecord
from nanodyno.train.describe import speed_setup


def used(record: RunRecord, **arithmetic: Any) -> RunRecord:
    return record.model_copy(update={"arithmetic": record.arithmetic.model_copy(update=arithmetic)})


@pytest.mark.parametrize(
    "fallback",
    [
        {"compiled": False},
        {"triton": True},
        {"recompute": "full"},
        {"attention": "math"},
        {"cuda_graph": True},
    ],
)
def test_a_fallback_is_another_setup(record: Callable[..., RunRecord], fallback: dict[str, Any]) -> None:
    assert speed_setup(record()) != speed_setup(used(record(), **fallback))


def test_how_long_it_took_to_prepare_is_not(record: Callable[..., RunRecord]) -> None:
    again = used(record(), compile_seconds=9.0, attention_seconds={"flash": 0.1})
    assert speed_setup(record()) == speed_setup(again)


@pytest.mark.parametrize(("before", "after", "same"), [(1.0, 0.5, True), (1.0, 0.0, False)])
def test_clipping_counts_and_its_amount_does_not(
    record: Callable[..., RunRecord], before: float, after: float, same: bool
) -> None:
    setups = [speed_setup(record({"grad_clip": each})) for each in (before, after)]
    assert (setups[0] == setups[1]) is same


def test_what_no_iteration_takes_longer_for_is_no_part_of_it(record: Callable[..., RunRecord]) -> None:
    assert not {"learning_rate", "seed", "max_iters", "batch_size"} & speed_setup(record()).keys()
