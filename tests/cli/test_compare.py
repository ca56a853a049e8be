import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Nanodyno = Callable[..., Any]
CASE = Path(__file__).parents[2] / "examples"


@pytest.fixture
def trained(nanodyno: Nanodyno, tiny: list[str]) -> Nanodyno:
    """Two runs that differ in the learning rate, one of which has a name that is markup elsewhere."""
    for name, rate in (("a", "0.01"), ("b|<b>", "0.02")):
        assert nanodyno(*tiny, f"--name={name}", f"--learning_rate={rate}").exit_code == 0
    return nanodyno


def test_two_runs_are_compared_on_a_page_in_markdown_and_as_a_document(trained: Nanodyno) -> None:
    page = trained("compare", "a", "b|<b>")
    assert page.exit_code == 0
    assert "One thing changed (learning_rate)" in " ".join(page.output.split())
    assert "side by side" in page.output
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
    assert "two runs at least" in result.output


def test_a_comma_alone_names_no_run(nanodyno: Nanodyno) -> None:
    result = nanodyno("compare", ",", " , ")
    assert result.exit_code == 2
    assert "names no run" in result.output


def test_a_run_that_is_not_there_is_named(nanodyno: Nanodyno) -> None:
    assert nanodyno("import", str(CASE / "train1.log")).exit_code == 0
    result = nanodyno("compare", "train1", "nobody")
    assert result.exit_code == 2
    assert "nobody" in result.output


def test_the_two_logs_of_the_case_go_in_and_the_answer_comes_out(nanodyno: Nanodyno) -> None:
    for name in ("train2", "train1"):
        assert nanodyno("import", str(CASE / f"{name}.log"), "--name", name).exit_code == 0
    page = " ".join(nanodyno("compare", "train2", "train1").output.split())
    assert "train1 trains 58.1% fewer tokens per second than train2" in page
    assert "23.0% more arithmetic (44.8 TFLOP/s against 36.4 TFLOP/s)" in page
    assert (
        "4 settings changed at once (n_embd, batch_size, gradient_accumulation_steps, learning_rate)" in page
    )
    assert "12 layers of 384, 40.6M parameters" in page
    assert "12 layers of 768, 123.6M parameters" in page
    assert "none was halved or doubled" in page
    assert "At the speed of train1, 10.0B tokens take 49.5 hours of training" in page
    assert "may have changed as well: n_head, dtype" in page
    assert "If that was one GPU, it was none of" in page
    assert "RTX 3060," in page


def test_on_a_3060_the_case_is_more_than_one_can_do(nanodyno: Nanodyno) -> None:
    for name in ("train2", "train1"):
        log = str(CASE / f"{name}.log")
        assert nanodyno("import", log, "--name", name, "--gpu", "RTX 3060 12GB").exit_code == 0
    document = json.loads(nanodyno("compare", "train2", "train1", "--json").output)
    found = [each["numbers"] for each in document["findings"] if each["code"] == "more-than-one-gpu"]
    assert [(round(each["share"], 2), each["gpus"]) for each in found] == [(1.43, 2), (1.76, 2)]
