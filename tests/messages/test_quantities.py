import pytest

from nanodyno.messages import quantities
from nanodyno.messages.language import LANGUAGES


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (850, "850"),
        (999.6, "1.00k"),
        (844_928, "844.9k"),
        (123_587_328, "123.6M"),
        (9_999_220_736, "10.0B"),
    ],
)
def test_counts_are_spoken_with_three_or_four_digits(value: float, words: str) -> None:
    assert quantities.count(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(989e12, "989.0 TFLOP/s"), (51.6e9, "51.6 GFLOP/s"), (1.2e15, "1.20 PFLOP/s"), (40, "40 FLOP/s")],
)
def test_rates_of_work_take_the_nearest_prefix(value: float, words: str) -> None:
    assert quantities.flop_rate(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1_234_567, "1,230,000"),
        (18_825, "18,800"),
        (999.6, "1,000"),
        (147.6, "148"),
        (25.14, "25.1"),
        (9.999, "10.0"),
        (7.534, "7.53"),
        (0.01234, "0.0123"),
        (0, "0"),
    ],
)
def test_what_is_predicted_has_three_digits(value: float, words: str) -> None:
    assert quantities.about(value) == words


def test_predicted_shares_have_two_digits() -> None:
    assert [quantities.about_percent(share) for share in (0.589, 0.0534, 1.01)] == ["59%", "5.3%", "100%"]


@pytest.mark.parametrize(
    ("share", "words"), [(0.0164, "±1.6%"), (0.00057, "±0.1%"), (0.0004, "<0.1%"), (0.166, "±16.6%")]
)
def test_spreads_have_one_digit_after_the_point(share: float, words: str) -> None:
    assert quantities.spread(share) == words


def test_memory_is_in_gib_of_two_to_the_thirty() -> None:
    assert quantities.gib(12_863_427_051) == "11.98 GiB"
    assert quantities.gib(50 * 2**20) == "50 MiB"
    assert quantities.gib(340 * 2**10) == "340 KiB"


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.458, "45.8%"),
        (1.88, "188.0%"),
        (0.00023, "0.023%"),
        (0.0003, "0.030%"),
        (0, "0.0%"),
        (1e-9, "<0.0001%"),
    ],
)
def test_small_shares_keep_digits_that_say_something(share: float, words: str) -> None:
    assert quantities.percent(share) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0.00"), (0.00529, "0.0053"), (0.5, "0.50"), (1.254, "1.25"), (1e-6, "<0.0001")]
)
def test_less_than_an_epoch_keeps_two_digits(value: float, words: str) -> None:
    assert quantities.epochs(value) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.58, "580 ms"),
        (12.34, "12.3 s"),
        (59.97, "1 min"),
        (245, "4 min 5 s"),
        (3599.8, "1 h"),
        (178_200, "2 d 2 h"),
        (None, "?"),
        (float("inf"), "?"),
    ],
)
def test_durations_show_their_two_largest_units(seconds: float | None, words: str) -> None:
    assert quantities.duration(seconds) == words


def test_the_time_left_needs_no_fractions_of_a_second() -> None:
    assert quantities.clock(0.4) == "0 s"
    assert quantities.clock(59.6) == "1 min"
    assert quantities.clock(None) == "?"


@pytest.mark.parametrize(
    ("seconds", "words"), [(9.34, "9,340 ms"), (0.1219, "121.9 ms"), (0.00382, "3.82 ms")]
)
def test_milliseconds_keep_three_digits(seconds: float, words: str) -> None:
    assert quantities.milliseconds(seconds) == words


def test_one_layer_is_no_layers() -> None:
    assert (quantities.layers(1, 32), quantities.layers(12, 768)) == ("1 layer of 32", "12 layers of 768")
    assert (quantities.heads(1), quantities.heads(12)) == ("1 head", "12 heads")
    assert quantities.layers(2, 32, LANGUAGES["ar"]).startswith("طبقتان")
