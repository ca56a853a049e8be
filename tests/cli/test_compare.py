import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.messages.language import ENGLISH
from nanodyno.messages.numbers import turn_words

Nanodyno = Callable[..., Any]
CASE = Path(__file__).parents[2] / "examples"


@pytest.fixture
def trained(nanodyno: Nanodyno, tiny: list[str]) -> Nanodyno:
    """Two runs that differ in the learning rate, one of which has a name that is markup elsewhere."""
    for name, rate in (("a", "0.01"), ("b|<b>", "0.02")):
        assert nanodyno(*tiny, f"--name={name}", f"--learning_rate={rate}").exit_code == 0
    return nanodyno


def test_two_runs_are_compared_on_a_page_in_markdown_and_as_a_document(
    trained: Nanodyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    page = trained("compare", "a", "b|<b>")
    assert page.exit_code == 0
    assert len(page.output.splitlines()) <= 30
    assert turn_words("learning_rate", 0.01, 0.02) in page.output
    assert ENGLISH.say("compare.summary.speed") in page.output
    assert ENGLISH.say("compare.section.metrics") in trained("compare", "a", "b|<b>", "--all").output
    markdown = trained("compare", "a", "b|<b>", "--markdown").output
    assert markdown.startswith("## a and b\\|\\<b\\>\n")
    assert "| learning\\_rate | 0.01 | 0.02 |" in markdown
    assert "<b>" not in markdown.replace("\\<b\\>", "")
    document = json.loads(trained("compare", "a", "b|<b>", "--json").output)
    first, follower = document["changes"]
    assert first == {"run": "b|<b>", "key": "learning_rate", "before": 0.01, "after": 0.02}
    assert (follower["key"], follower["before"], follower["after"]) == ("min_lr", 0.001, 0.002)
    assert set(document["metrics"]["tokens_per_second"]["a"]) == {"value", "low", "high", "n"}
    assert {"code", "numbers", "severity"} <= set(document["findings"][0])


def test_a_run_against_itself_shows_no_difference(trained: Nanodyno) -> None:
    document = json.loads(trained("compare", "a", "a", "--json").output)
    assert document["runs"] == ["a", "a (2)"]
    assert document["changes"] == []
    assert document["winners"] == {}


def test_a_copy_of_a_run_has_its_folders_name_and_is_left_out(trained: Nanodyno) -> None:
    shutil.copytree("runs/a", "runs/copied")
    compared = trained("compare", "a", "b|<b>", "copied", "--json")
    assert json.loads(compared.stdout)["groups"] == [["a"], ["b|<b>"]]
    assert "copied" in compared.stderr
    names = [each["run"]["name"] for each in json.loads(trained("runs", "--json").stdout)]
    assert sorted(names) == ["a", "b|<b>", "copied"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [(("a", "a,b|<b>"), "named twice"), (("a,b|<b>", "c"), "they differ in learning_rate")],
)
def test_runs_of_two_configs_or_one_run_twice_are_no_repeated_runs(
    trained: Nanodyno, tiny: list[str], names: tuple[str, str], problem: str
) -> None:
    assert trained(*tiny, "--name=c", "--learning_rate=0.01", "--seed=2").exit_code == 0
    result = trained("compare", *names)
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())
    assert trained("compare", "a,c", "b|<b>").exit_code == 0


def test_one_run_is_no_comparison(nanodyno: Nanodyno) -> None:
    result = nanodyno("compare", "a")
    assert result.exit_code == 2
    assert "two runs" in result.output


def test_a_comma_alone_names_no_run(nanodyno: Nanodyno) -> None:
    result = nanodyno("compare", ",", " , ")
    assert result.exit_code == 2
    assert "names no run" in result.output


def test_a_run_that_is_not_there_is_named(nanodyno: Nanodyno) -> None:
    assert nanodyno("import", str(CASE / "train1.log")).exit_code == 0
    result = nanodyno("compare", "train1", "nobody")
    assert result.exit_code == 2
    assert "nobody" in result.output


def test_the_two_logs_of_the_case_go_in_and_the_answer_comes_out(
    nanodyno: Nanodyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("train2", "train1"):
        assert nanodyno("import", str(CASE / f"{name}.log"), "--name", name).exit_code == 0
    found = [nanodyno("compare", "train2", "train1", *every).output for every in ([], ["--all"])]
    assert len(found[0].splitlines()) <= 30
    page, everything = (" ".join(each.split()) for each in found)
    for answer in ("2.4x", "56.1k vs 134.1k", "2.9x", "44.8 TFLOP/s vs 36.4 TFLOP/s", "4.450 vs 5.672"):
        assert answer in page
    assert "nanodyno attribute train2 train1" in page
    assert page.endswith("nanodyno compare train2 train1 --all")
    for fact in ("40.6M", "123.6M", "49.5", "n_head, dtype", "RTX 3060 Ti,"):
        assert fact in everything


def test_the_loss_at_equal_time_of_the_case_is_decided_from_training_losses(nanodyno: Nanodyno) -> None:
    for name in ("train2", "train1"):
        assert nanodyno("import", str(CASE / f"{name}.log"), "--name", name).exit_code == 0
    document = json.loads(nanodyno("compare", "train2", "train1", "--json").output)
    (decision,) = [each for each in document["decisions"] if each["metric"] == "train_loss_at_equal_seconds"]
    assert decision["call"] == "worse"
    assert decision["effect"]["low"] > 1
    assert document["winners"]["train_loss_at_equal_seconds"] == "train2"
    (found,) = [each for each in document["findings"] if each["code"] == "losses-at-equal-time"]
    assert (found["numbers"]["kind"], found["numbers"]["call"]) == ("train", "worse")
    assert found["numbers"]["at"] == pytest.approx(3914, abs=10)


def test_on_a_3060_the_case_is_more_than_one_can_do(nanodyno: Nanodyno) -> None:
    for name in ("train2", "train1"):
        log = str(CASE / f"{name}.log")
        assert nanodyno("import", log, "--name", name, "--gpu", "RTX 3060 12GB").exit_code == 0
    document = json.loads(nanodyno("compare", "train2", "train1", "--json").output)
    found = [each["numbers"] for each in document["findings"] if each["code"] == "more-than-one-gpu"]
    assert [(round(each["share"], 2), each["gpus"]) for each in found] == [(1.43, 2), (1.76, 2)]
