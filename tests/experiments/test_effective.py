"""How a config is divided into micro-steps for a short training that measures noise."""

import pytest

from nanodyno.config import build_config
from nanodyno.experiments.effective import measurable


@pytest.mark.parametrize(
    ("batch_size", "micro_steps", "divided"),
    [
        (8, 2, (2, 8)),  # the demo's
        (12, 1, (1, 12)),  # 8 micro-steps do not divide it
        (2, 2, (1, 4)),  # as many as there are
        (12, 40, (12, 40)),
    ],
)
def test_micro_batches_are_divided_until_there_are_eight_and_the_batch_stays(
    batch_size: int, micro_steps: int, divided: tuple[int, int]
) -> None:
    config = build_config({"batch_size": batch_size, "gradient_accumulation_steps": micro_steps})
    found = measurable(config)
    assert (found.batch_size, found.gradient_accumulation_steps) == divided
    assert found.tokens_per_iter == config.tokens_per_iter


def test_a_ramp_is_divided_with_it() -> None:
    config = build_config({"batch_size": 6, "tokens_per_iter": 12 * 1024, "batch_ramp": "1M:18432"})
    assert measurable(config).batch_size == 1  # 12 and 18 sequences; of 6 its third would make 6 of them
