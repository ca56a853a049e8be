"""The answer of three runs and more: the best of all, or that none is shown to be."""

import pytest
from tests.analysis.accounts import account, curve

from nanodyno.analysis.account import Account
from nanodyno.analysis.compare import compare
from nanodyno.hardware.gpus import gpu_named
from nanodyno.messages.language import ENGLISH
from nanodyno.report.compare_tables import answer_of_several


def run(name: str, seconds: float, start: float) -> Account:
    """One of its own seed-free config, with the loss at the end that `start` gives."""
    settings = {"dropout": start / 100, "variant": name}
    return account(name, seconds, settings=settings, evals=curve(start), gpu=gpu_named("H200"))


def answer(*runs: Account) -> list[str]:
    return answer_of_several(compare(runs))


def test_the_best_of_three_is_named_with_the_next() -> None:
    fastest, lowest = answer(run("a", 8.0, 6.0), run("b", 4.0, 6.5), run("c", 6.0, 5.0))
    assert fastest == ENGLISH.say(
        "compare.several.fastest", run="b", value="131,072", next="c", next_value="87,381"
    )
    assert lowest.index("c ") < lowest.index("3.7082") < lowest.index("a (4.8820)")


@pytest.mark.parametrize("order", ["abc", "cab"])
def test_of_two_equally_fast_neither_is_the_fastest(order: str) -> None:
    runs = {"a": run("a", 4.0, 6.0), "b": run("b", 4.001, 5.5), "c": run("c", 6.0, 5.0)}
    fastest, _ = answer(*(runs[name] for name in order))
    assert "131,072" not in fastest
    assert "a and b" in fastest
