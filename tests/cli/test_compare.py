import json
from collections.abc import Callable
from typing import Any

import pytest

Nanodyno = Callable[..., Any]


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
    assert set(document["metrics"]["tokens_per_second"]["a"]) == {"value", "low", "high"}
    assert {"code", "numbers", "severity"} <= set(document["findings"][0])


def test_a_run_against_itself_shows_no_difference(trained: Nanodyno) -> None:
    document = json.loads(trained("compare", "a", "a", "--json").output)
    assert document["runs"] == ["a", "a (2)"]
    assert document["changes"] == []
    assert document["winners"] == {}


def test_one_run_is_no_comparison(trained: Nanodyno) -> None:
    result = trained("compare", "a")
    assert result.exit_code == 2
    assert "two runs at least" in result.output


def test_a_run_that_is_not_there_is_named(trained: Nanodyno) -> None:
    result = trained("compare", "a", "nobody")
    assert result.exit_code == 2
    assert "nobody" in result.output
