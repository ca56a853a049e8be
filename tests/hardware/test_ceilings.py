import pytest

from nanodyno.hardware.ceilings import Ceilings, DeviceIdentity, Matmul, Timing


def product(flops: float, *seconds: float) -> Matmul:
    return Matmul(1, 1, 1, Timing(flops, seconds))


def ceilings(gpt: dict[int, dict[str, Matmul]]) -> Ceilings:
    large = {"bfloat16": product(8e12, 0.01, 0.02, 0.03)}
    return Ceilings(DeviceIdentity("a card"), "2.13", 0.0, 1.0, large, "bfloat16", gpt)


def test_a_rate_is_that_of_the_median() -> None:
    timing = Timing(600.0, (1.0, 2.0, 30.0))
    assert (timing.rate, timing.best_rate, timing.each_seconds) == (300.0, 600.0, 2 / 600)


def test_the_spread_is_the_middle_half_of_the_times() -> None:
    # Quartiles of 1 ... 9 are 3, 5 and 7.
    assert Timing(1.0, tuple(map(float, range(9, 0, -1)))).spread == pytest.approx(4 / 5)


def test_three_times_have_no_spread() -> None:
    assert Timing(1.0, (1.0, 2.0, 3.0)).spread is None


def test_large_products_have_a_rate_in_what_was_measured_only() -> None:
    measured = ceilings({})
    assert measured.matmul_flops("bfloat16") == pytest.approx(400e12)
    assert measured.matmul_flops("float32") is None


def test_the_rate_of_a_gpt_counts_twelve_blocks_and_one_head() -> None:
    # 12 x 100 + 600 FLOP in 12 x 2 + 6 s.
    measured = ceilings({768: {"fc forward": product(100.0, 2.0), "head forward": product(600.0, 6.0)}})
    assert measured.gpt_flops(768) == pytest.approx(1800 / 30)
    assert measured.gpt_flops(384) is None
