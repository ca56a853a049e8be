from tests.analysis.accounts import AFTER, account

from nanodyno.analysis.audit import with_found_shape
from nanodyno.messages.language import ENGLISH
from nanodyno.report.behind import derivations, numbers_table
from nanodyno.report.page import Table


def test_numbers_stand_under_their_own_names_with_their_digits() -> None:
    table = numbers_table(
        {"ratio": 0.4185812, "count": 524288, "flops": 4.48e13, "fits": [{"n_layer": 12}], "same": True}
    )
    assert table is not None
    assert table.rows == (
        ("`ratio`", "0.418581"),
        ("`count`", "524,288"),
        ("`flops`", "44,800,000,000,000"),
        ("`fits`", "n_layer 12"),
        ("`same`", "true"),
    )


def test_what_is_not_known_is_no_row_and_nothing_is_no_table() -> None:
    assert numbers_table({"noise": [None, None], "words": "", "gpus": [], "value": None}) is None


def test_every_rate_is_worked_out_from_what_was_measured() -> None:
    """9.34 s an iteration of 524,288 tokens; 797.9 MFLOP exactly, 854.8 by nanoGPT's formula, 312 TFLOP/s."""
    folded = derivations([with_found_shape(AFTER)], ENGLISH)
    assert folded is not None
    (table,) = folded.parts
    assert isinstance(table, Table)
    assert [how for _, _, how in table.rows] == [
        "524,288 / 9.34 s = 56,134",
        ENGLISH.say_plural(
            "page.derivation.work-per-token-formula", 12, width="768", context="1024", work="797.9"
        ),
        "56,134 x 797.9 MFLOP = 44.8 TFLOP/s",
        "56,134 x 854.8 MFLOP / 312.0 TFLOP/s = 15.4%",
    ]


def test_without_times_nothing_is_worked_out() -> None:
    assert derivations([account("mute", steps=())], ENGLISH) is None
