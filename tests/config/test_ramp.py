"""batch_ramp as it is written, and the sums that plans and times left are made of."""

import pytest

from nanodyno.config import ConfigError, build_config
from nanodyno.config.ramp import Ramp, read_ramp, whole_micro_batches

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


def test_noise_grows_to_sixteen_times_or_as_far_as_it_is_reported() -> None:
    assert build_config({"batch_ramp": "noise", "tokens_per_iter": 12 * 1024 * 2}).ramp.most == 12 * 1024 * 32
    assert build_config({"batch_ramp": "noise:100k", "tokens_per_iter": 24576}).ramp.most == 98_304


def test_doubling_by_noise_ends_at_the_last_size_that_it_may_have() -> None:
    """100,000 is more than 2 times 32,768 and less than 4 times."""
    assert read_ramp("noise", 32768).most == 16 * 32768
    limited = read_ramp("noise:100k", 32768)
    assert (limited.most, limited.grows) == (2 * 32768, True)
    assert (Ramp(32768, ((10**6, 65536),)).most, Ramp(32768).grows) == (None, False)


def test_a_step_that_does_not_divide_is_reported_with_what_would() -> None:
    """Of 400, 1050 and 2200 tokens 50 is the greatest part in common: a sequence."""
    reported = fault(batch_ramp="1M:1050, 2M:2200")
    assert reported == (
        "batch_ramp: step 1 (1M:1050) has 1050 tokens per iteration, not a multiple of batch_size * "
        "block_size = 100; use 1000 or 1100, or keep it with batch_size=1"
    )
    alone = fault(batch_ramp="1M:800,2M:1725", batch_size=1)
    assert "step 2 (2M:1725) has 1725 tokens per iteration, not a multiple of block_size = 50; use 1" in alone


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1M:800,1M:1600", "step 2 (1M:1600) starts at 1000000 tokens, not later than step 1 (1000000)"),
        ("1M:800, 2M:700", "step 2 (2M:700) has 700 tokens per iteration, not more than step 1's 800"),
        ("0:512", "step 1 (0:512) starts at 0 tokens, where tokens_per_iter is the size"),
        ("1M:400", "not more than tokens_per_iter=400; make it larger, or tokens_per_iter smaller"),
        ("soon", "must be steps such as 10M:131072"),
        ("1M:800:3", "must be steps such as"),
        ("1M:", "must be steps such as"),
        ("1.5:800", "1.5 is not a whole number of tokens"),
        ("noise:700", "ends at 700, and the first doubling is 800"),
        ("noise:", "must be steps such as"),
    ],
)
def test_what_is_no_ramp_is_refused(text: str, words: str) -> None:
    assert words in fault(batch_ramp=text)


def test_noise_cannot_be_seen_with_one_micro_step() -> None:
    reported = fault(batch_ramp="noise", batch_size=6, tokens_per_iter=300)
    assert reported == (
        "batch_ramp: noise is measured between micro-steps, and batch_size=6 makes one of "
        "tokens_per_iter=300; use batch_size=3, or make tokens_per_iter larger"
    )
    assert "=50; make tokens_per_iter larger" in fault(batch_ramp="noise", batch_size=1, tokens_per_iter=50)


def test_a_micro_batch_divides_every_size_and_leaves_two_steps_to_noise() -> None:
    """Of 12 sequences and 18 in common: 6. Of 12 and their doubles, 12 itself would be one micro-step."""
    assert whole_micro_batches(6, 1, 100) == [1, 2, 3, 6]
    assert whole_micro_batches(12, 2, 100) == [1, 2, 3, 4, 6]
    assert whole_micro_batches(12, 1, 5) == [1, 2, 3, 4]
    assert (Ramp(100, ((10, 200),)).fewest_steps, Ramp(100, most=800).fewest_steps) == (1, 2)
