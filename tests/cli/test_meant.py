"""What the command line answers to a name that is nearly one."""

from collections.abc import Callable
from typing import Any

import pytest

from nanodyno.errors import did_you_mean

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("typed", "meant"), [("trian", "train"), ("bench", "probe"), ("sweep", "tune"), ("ls", "runs")]
)
def test_a_command_is_found_by_other_names(nanodyno: Run, typed: str, meant: str) -> None:
    done = nanodyno(typed)
    assert done.exit_code == 2
    assert did_you_mean([meant]) in done.stderr


def test_what_is_like_no_command_is_answered_with_all_of_them(nanodyno: Run) -> None:
    done = nanodyno("qqqq")
    assert done.exit_code == 2
    assert "did you mean" not in done.stderr
    assert "plan, tune" in done.stderr


def test_the_command_line_asks_back(nanodyno: Run) -> None:
    assert did_you_mean(["learning_rate"]) in nanodyno("plan", "gpt2-768", "--lr=3e-4").stderr
    assert did_you_mean(["gpt2-768"]) in nanodyno("plan", "gpt2-124m").stderr
