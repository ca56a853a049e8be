"""How long a short training for the noise goes on; its gradients are made up."""

import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.config import RunConfig, build_config
from nanodyno.experiments import effective
from nanodyno.experiments.effective import LOOKED_EVERY, SOONEST, short_training

Builder = Callable[..., Any]


@pytest.fixture
def config() -> RunConfig:
    return build_config({"batch_size": 8, "max_iters": 4000})


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, step: Builder, config: RunConfig) -> Callable[..., Any]:
    """How many iterations were made, and the last words, of a noise that is wild for a while."""

    def train(wild: range, budget: float = 1e9) -> tuple[int, str]:
        def events() -> Iterator[Any]:
            """Squares of 1 + scale / tokens; while wild, a scale far above the batch, and chance."""
            dice = random.Random(1)
            for at in range(config.max_iters):
                scale, chance = (4e6, 0.5) if at in wild else (40e3, 0.01)
                square = (1 + scale / 65_536) * max(0.01, dice.gauss(1, chance))
                norms = {"micro_grad_norm": (1 + scale / 8192) ** 0.5, "micro_tokens": 8192}
                yield step(at, tokens=65_536, grad_norm=square**0.5, **norms)

        monkeypatch.setattr(effective, "_trainer", lambda *_: SimpleNamespace(events=events))
        said: list[str] = []
        clock = iter(range(10_000)).__next__
        steps, interrupted = short_training(config, budget, said.append, lambda: float(clock()))
        assert not interrupted
        return len(steps), said[-1]

    return train


def test_what_has_settled_is_trained_for_as_long_again(trained: Callable[..., Any]) -> None:
    assert trained(range(0))[0] == 2 * SOONEST
    later, _ = trained(range(550))
    assert later % (2 * LOOKED_EVERY) == 0
    assert 2 * 550 < later <= 4 * 550 + 4 * LOOKED_EVERY


def test_what_has_not_settled_goes_on_to_the_end_of_the_budget_or_of_the_run(
    trained: Callable[..., Any],
) -> None:
    assert trained(range(4000)) == (4000, "ended with the config's own 4000 iterations (--max_iters)")
    assert trained(range(4000), budget=1200.0) == (1201, "ended by the budget after 1201 iterations")


def test_what_is_no_longer_settled_by_then_goes_on(trained: Callable[..., Any]) -> None:
    assert trained(range(700, 4000))[0] == 4000
    assert 2 * SOONEST < trained(range(700, 1200))[0] < 4000
