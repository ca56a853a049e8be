"""batch_ramp as it is written, and the sums that plans and times left are made of."""

import pytest

from nanodyno.config import ConfigError, build_config
from nanodyno.config.ramp import Ramp

RAMP = Ramp(100, ((250, 200), (1000, 400)))
"""Iterations of 100 at 0, 100, 200; of 200 at 300, 500, 700, 900; of 400 from 1100 on."""


def fault(**settings: object) -> str:
    with pytest.raises(ConfigError) as error:
        build_config({"batch_size": 2, "block_size": 50, "tokens_per_iter": 400, **settings})
    return str(error.value)


def test_a_schedule_is_read_with_its_units() -> None:
    config = build_config({"batch_size": 8, "block_size": 128, "tokens_per_iter": 4096,
                           "batch_ramp": "10k:8192, 1.5M:16_384"})  # fmt: skip
    assert config.ramp == Ramp(4096, ((10_000, 8192), (1_500_000, 16_384)))
    assert config.sequences_divided == 32


def test_without_a_ramp_it_does_not_rise() -> None:
    config = build_config({"batch_size": 8, "block_size": 128, "tokens_per_iter": 4096})
    assert config.ramp == Ramp(4096)
    assert config.ramp.tokens_after(7) == 7 * 4096


def test_an_iteration_has_the_size_of_where_it_begins() -> None:
    assert [RAMP.at(seen) for seen in (0, 249, 250, 900, 1000)] == [100, 100, 200, 200, 400]


@pytest.mark.parametrize(("iterations", "tokens"), [(0, 0), (3, 300), (4, 500), (7, 1100), (9, 1900)])
def test_iterations_and_tokens_follow_from_each_other(iterations: int, tokens: int) -> None:
    assert RAMP.tokens_after(iterations) == tokens
    assert RAMP.iterations_for(tokens) == iterations


def test_a_token_more_takes_one_more_iteration() -> None:
    assert RAMP.iterations_for(1101) == 8


def test_in_a_shorter_run_a_ramp_keeps_its_shares() -> None:
    assert RAMP.in_share(0.1) == "25:200, 100:400"
    assert RAMP.in_share(1e-6) == "1:400"  # what falls together is the last of it
    assert Ramp(100).in_share(0.5) is None
    assert Ramp(100, most=800).in_share(0.5) == "noise:800"


def test_noise_grows_to_sixteen_times_or_as_far_as_it_is_told() -> None:
    assert build_config({"batch_ramp": "noise", "tokens_per_iter": 12 * 1024 * 2}).ramp.most == 12 * 1024 * 32
    assert build_config({"batch_ramp": "noise:100k", "tokens_per_iter": 24576}).ramp.most == 100_000


def test_a_ramp_that_does_not_divide_is_told_with_what_would() -> None:
    told = fault(batch_ramp="1M:1050")
    assert "batch_ramp: 1050 is not a multiple of batch_size * block_size = 100; use 1000 or 1100" in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1M:800,1M:1600", "grows from step to step, and 1000000:1600 comes after 1000000:800"),
        ("1M:400", "1000000:400 comes after 0:400"),
        ("soon", "must be steps such as 10M:131072"),
        ("1M:800:3", "must be steps such as"),
        ("1M:", "must be steps such as"),
        ("1.5:800", "1.5 is no whole number of tokens"),
        ("noise:700", "ends at 700, and the first doubling is 800"),
        ("noise:", "must be steps such as"),
    ],
)
def test_what_is_no_ramp_is_refused(text: str, words: str) -> None:
    assert words in fault(batch_ramp=text)


def test_noise_cannot_be_seen_with_one_micro_step() -> None:
    assert "noise is measured between micro-steps" in fault(batch_ramp="noise", tokens_per_iter=100)
