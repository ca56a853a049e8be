"""The page of a plan, as it is read."""

from typing import Any

import pytest
from rich.console import Console

from nanodyno.config import build_config
from nanodyno.costs.plan import Plan, Wishes, make_plan
from nanodyno.costs.target import GIB, Target, named_target
from nanodyno.report.plan import plan_page
from nanodyno.report.stacked import PARTS, memory_bars


def planned(**settings: Any) -> Plan:
    config = build_config({"batch_size": 8, "tokens_per_iter": 524_288, **settings})
    return make_plan(config, 50304, 50257, named_target("RTX 3060 12GB", None), Wishes())


def lines(piece: Any, width: int) -> list[str]:
    console = Console(width=width, record=True, file=None, force_terminal=False, no_color=True)
    with console.capture() as captured:
        console.print(piece)
    return captured.get().splitlines()


def bars(plan: Plan, width: int) -> list[str]:
    return lines(memory_bars(plan.candidates, 8, plan.target.memory_bytes, width), width)[
        1 : 1 + len(plan.candidates)
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_bars_fill_the_width_and_the_cards_line_stands_in_one_column(width: int) -> None:
    drawn = bars(planned(recompute="none"), width)
    assert {len(line) for line in drawn} == {width}
    assert len({line.index("│") for line in drawn}) == 1


def test_a_bar_ends_before_the_cards_line_exactly_where_it_fits() -> None:
    plan = planned(recompute="none")
    for line, each in zip(bars(plan, 80), plan.candidates, strict=True):
        beyond = line[line.index("│") + 1 : -11].strip()
        assert (beyond == "") == each.fits, line


def test_a_bar_has_each_component_in_proportion() -> None:
    plan = planned(recompute="none")
    line, memory = bars(plan, 120)[4], plan.candidates[4].memory
    bar = line[5 : line.index("│")].strip()
    for key, letter, _, _ in PARTS:
        assert bar.count(letter) == pytest.approx(len(bar) * memory.components[key] / memory.total, abs=1.01)


def test_a_bar_that_goes_on_beyond_the_picture_says_so() -> None:
    drawn = bars(planned(recompute="none"), 80)
    assert ["»" in line for line in drawn] == [False] * 5 + [True] * 3


def test_no_cell_of_the_page_is_cut_off_at_80_columns() -> None:
    large = planned(n_layer=48, n_embd=1600, n_head=25)
    for plan in (planned(), planned(batch_size=64, recompute="none"), large):
        assert "\u2026" not in "".join(lines(plan_page(plan, "gpt2", (), 80), 80))


def test_the_fastest_that_fits_is_named_where_it_is_another() -> None:
    page = "\n".join(lines(plan_page(planned(), "gpt2", (), 120), 120))
    assert "of those that fit: --batch_size=16 with 32 micro-steps" in page
    best = "\n".join(lines(plan_page(planned(batch_size=16), "gpt2", (), 120), 120))
    assert "of those that fit" not in best


def test_where_nothing_is_enough_the_page_says_to_make_the_model_smaller() -> None:
    page = " ".join(" ".join(lines(plan_page(planned(n_layer=96, n_embd=4096), "gpt2", (), 80), 80)).split())
    assert "make it smaller (--n_layer, --n_embd)" in page
    assert "if it fitted" in page


@pytest.mark.parametrize(("limit_gib", "words"), [(10.0, "yes: "), (6.4, "tightly: "), (5.0, "no: ")])
def test_what_fits_with_little_to_spare_is_told_from_what_fits_well(limit_gib: float, words: str) -> None:
    config = build_config({"batch_size": 8, "tokens_per_iter": 524_288, "recompute": "none"})
    plan = make_plan(config, 50304, 50257, Target(None, None, int(limit_gib * GIB)), Wishes())
    assert f" fits {words}" in " ".join(" ".join(lines(plan_page(plan, "it", (), 100), 100)).split())
