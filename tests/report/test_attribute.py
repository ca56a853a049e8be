"""Pages of attributions on a made-up card: what a person reads, at any width."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.attribution_findings import attribution_findings
from nanodyno.config import RunConfig
from nanodyno.messages.findings import words
from nanodyno.messages.language import ENGLISH
from nanodyno.messages.numbers import change_words, turn_words
from nanodyno.records.probe import ProbeResult
from nanodyno.report.attribute import answer_words, attribution_page
from nanodyno.report.attribute_document import attribution_document
from nanodyno.report.attribute_picture import waterfall_bars
from tunings import build_repetition


@pytest.fixture
def found(attributions: Any, tmp_path: Path) -> Attribution:
    names = ("train2", "train1")
    return attributions.measure(attributions.inquiry(names=names), tmp_path)[0]


@pytest.fixture
def gappy(attributions: Any, tmp_path: Path) -> Attribution:
    """Without one of the combinations."""
    surface = attributions.surface(too_large=((256, 4),))
    return attributions.measure(attributions.inquiry(), tmp_path, surface)[0]


def page(found: Attribution, width: int, everything: bool = True) -> list[str]:
    paper = StringIO()
    shown = attribution_page(found, width, everything=everything)
    Console(width=width, file=paper).print(shown)
    return [line.rstrip() for line in paper.getvalue().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_window(width: int, found: Attribution, gappy: Attribution) -> None:
    for each in (found, gappy):
        assert max(map(len, page(each, width))) <= width


def test_a_change_keeps_its_words_whole_beside_a_long_verdict(attributions: Any, tmp_path: Path) -> None:
    """A verdict is broken first: the names of changes are what the table is read by."""
    after = {"n_embd": 256, "batch_size": 2, "bias": True}
    found = attributions.measure(attributions.inquiry(after), tmp_path)[0]
    lines = page(replace(found, metric="val_loss"), 80)
    assert any(line.startswith(turn_words("bias", False, True)) for line in lines)
    assert any(line.startswith("batch_size") for line in lines)


def test_groups_of_many_settings_have_a_column_each_where_all_of_them_do_not_fit(
    attributions: Any, tmp_path: Path
) -> None:
    group = {"positions": "rope", "norm": "rms", "activation": "relu2", "qk_norm": True}
    inquiry = attributions.inquiry({"n_embd": 256, **group}, groups=(tuple(group),))
    found = attributions.measure(inquiry, tmp_path)[0]
    wide, narrow = (combinations(page(found, width)) for width in (80, 60))
    assert wide[0][:6] == ["n_embd", "positions", "norm", "activation", "qk_norm", "tok/s"]
    assert wide[1][:6] == ["before", "128", "learned", "layer", "gelu", "False"]
    assert [*narrow[0], *narrow[1][:3]] == ["positions", "n_embd", "+3", "tok/s"]
    assert [row[:3] for row in (narrow[2], narrow[5])] == [
        ["before", "128", "learned"],
        ["after", "256", "rope"],
    ]


def combinations(lines: list[str]) -> list[list[str]]:
    """The table with a row each, with two lines of titles where a group has a column."""
    ends = [number for number, line in enumerate(lines) if line.startswith("before   ")]
    first = next(number for number in ends if "█" not in lines[number])
    title = min(number for number in range(first) if all(lines[number : first + 1]))
    return [line.split() for line in lines[title : first + 4]]


def numbers_of(found: Attribution) -> dict[str, Any]:
    return {each.code: each.numbers for each in attribution_findings(found)}


def test_both_orders_stand_on_the_page(found: Attribution) -> None:
    lines = page(found, 100)
    reported = " ".join(" ".join(lines).split())
    orders = numbers_of(found)["paths-disagree"]
    assert orders["one"] == "n_embd"
    assert orders["one_first"] == pytest.approx(0.386, abs=0.01)
    for key in ("one_first", "one_then", "other_first", "other_then"):
        assert reported.count(change_words(orders[key], found.metric)) >= 2  # in the table and below it
    assert turn_words("n_embd", 128, 256) in reported
    assert numbers_of(found)["combination-idles"]["idle"] == pytest.approx(0.4)


def test_the_answer_comes_first_and_fits_a_screen(found: Attribution) -> None:
    """Widening is +78.7% and halving the micro-batch -28.1%, far beyond what noise could turn round."""
    lines = page(found, 100, everything=False)
    assert turn_words("n_embd", 128, 256) in lines[2]
    assert "+78." in lines[2]
    assert len(lines) <= 30
    assert len(page(found, 100)) > len(lines)


def test_no_effect_is_called_the_largest_where_two_could_be(attributions: Any, tmp_path: Path) -> None:
    after = {"n_embd": 256, "bias": True}

    def answer(config: RunConfig) -> ProbeResult:
        changed = (config.n_embd == 256) + config.bias
        return build_repetition(config, 1.2**changed, 2**30)

    found = attributions.measure(attributions.inquiry(after), tmp_path, answer)[0]
    (answered, *_) = answer_words(found, attribution_findings(found), ENGLISH)
    said = {"change": turn_words("n_embd", 128, 256), "size": "-16.7%", "metric": "throughput"}
    unclear = ENGLISH.say("attribute.answer.unclear", **said, interval="").split("(")[0]
    assert answered.startswith(unclear)


def test_a_ramp_is_reported_as_what_was_not_timed(attributions: Any, tmp_path: Path) -> None:
    after = {"n_embd": 256, "batch_size": 2, "batch_ramp": "1M:32768", "learning_rate": 1e-3}
    found = attributions.measure(attributions.inquiry(after), tmp_path)[0]
    keys = {
        code: [each["key"] for each in numbers_of(found)[code]["changes"]] for code in ("untimed", "inert")
    }
    assert keys["untimed"] == ["batch_ramp"]
    assert "learning_rate" in keys["inert"]
    reported = " ".join(" ".join(page(found, 100)).split())
    assert turn_words("batch_ramp", None, "1M:32768") in reported


def test_a_waterfall_goes_from_before_to_after(found: Attribution) -> None:
    before, *parts, after = waterfall_bars(found)
    assert (before.label, after.label) == ("train2", "train1")
    assert parts[0].begin == before.end
    assert parts[1].begin == parts[0].end
    assert parts[-1].end == pytest.approx(after.end)
    assert before.end == pytest.approx(308 / 100 * 16_384, rel=0.01)


@pytest.mark.parametrize("width", [60, 80])
def test_a_missing_combination_takes_no_room_from_settings(width: int, gappy: Attribution) -> None:
    assert not any("…" in line for line in page(gappy, width))


def test_a_missing_combination_is_a_row_and_there_is_no_waterfall(gappy: Attribution) -> None:
    lines = page(gappy, 100)
    assert any(ENGLISH.say("common.does-not-fit") in line and "256" in line for line in lines)
    assert not any("█" in line for line in lines)
    first, then = numbers_of(gappy)["path"]["steps"]
    assert (first["change"], then["change"]) == ("batch_size", "n_embd")
    assert (first["size"], then["size"]) == (pytest.approx(-0.44, abs=0.01), pytest.approx(1.30, abs=0.01))
    assert "+130%" in " ".join(lines)


def test_the_document_has_every_step_and_every_finding(found: Attribution) -> None:
    document: Any = attribution_document(found)
    assert len(document["steps"]) == 4
    assert len(document["findings"]) == len(attribution_findings(found))
    assert all(words(each) for each in attribution_findings(found))


def test_changes_in_words() -> None:
    assert change_words(0.386, "tokens_per_second") == "+38.6%"
    assert change_words(-0.004, "tokens_per_second") == "-0.4%"
    assert change_words(1.302, "achieved_flops_per_second") == "+130%"
    assert change_words(0.01234, "val_loss") == "+0.0123"


def test_five_changes_are_screened_with_what_that_leaves_open(attributions: Any, tmp_path: Path) -> None:
    """Each of five slows it by a fifth, and the first two together by a tenth more."""
    after = {"n_embd": 256, "batch_size": 2, "n_layer": 4, "bias": True, "dropout": 0.1}

    def answer(config: RunConfig) -> ProbeResult:
        made = [getattr(config, key) == value for key, value in after.items()]
        seconds = 1.2 ** sum(made) * (1.1 if made[0] and made[1] else 1.0)
        return build_repetition(config, seconds, 2**30)

    found, bench = attributions.measure(attributions.inquiry(after), tmp_path, answer)
    assert all(len(names) == 16 for _, _, names in bench.asked)
    lines = page(found, 100)
    assert any(ENGLISH.say("attribute.parts.average") in line for line in lines)
    assert numbers_of(found)["screened"]["changes"] == 5
    assert ["n_embd", "batch_size"] in numbers_of(found)["some-pair-interacts"]["pairs"]
    assert ENGLISH.say("attribute.value.pair", one="n_embd", other="batch_size") in " ".join(
        " ".join(lines).split()
    )
    assert sum(bar.change is not None for bar in waterfall_bars(found)) == 6


@pytest.mark.parametrize(("there", "variant"), [(None, ".gpus-unknown"), ("RTX 4070", ".both-elsewhere")])
def test_what_holds_for_both_runs_is_said_once(
    attributions: Any, tmp_path: Path, there: Any, variant: str
) -> None:
    asked = attributions.inquiry(names=("a", "b"), elsewhere=(("a", there), ("b", there)))
    found, _ = attributions.measure(asked, tmp_path)
    [finding] = [each for each in attribution_findings(found) if each.code == "measured-here"]
    said = {"run": "a", "other": "b", "there": str(there), "here": "NVIDIA H200"}
    assert words(finding) == ENGLISH.say(f"finding.measured-here{variant}", **said)
