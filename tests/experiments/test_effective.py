"""How long a short training for the noise goes on; the training itself is made up."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.config import RunConfig, build_config
from nanodyno.experiments import effective
from nanodyno.experiments.effective import ENOUGH, SHOWN_EVERY, short_training
from nanodyno.noise import NoiseScale

Builder = Callable[..., Any]
SETTLED = NoiseScale(1000.0, 900.0, 1100.0, 200)
UNSETTLED = NoiseScale(1000.0, 100.0, None, 200)


@pytest.fixture
def config() -> RunConfig:
    return build_config({"batch_size": 8, "max_iters": 1500})


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, step: Builder, config: RunConfig) -> Callable[..., Any]:
    """How many iterations were made, and the last words, with a scale that settles after so many."""

    def events() -> Iterator[Any]:
        yield from (step(at) for at in range(config.max_iters))

    def train(settles: int, budget: float = 1e9) -> tuple[int, str]:
        monkeypatch.setattr(effective, "_trainer", lambda *_: SimpleNamespace(events=events))
        monkeypatch.setattr(
            effective, "latest", lambda steps: SETTLED if len(steps) >= settles else UNSETTLED
        )
        said: list[str] = []
        clock = iter(range(10_000)).__next__
        steps, interrupted = short_training(config, budget, said.append, lambda: float(clock()))
        assert not interrupted
        return len(steps), said[-1]

    return train


def test_it_ends_when_it_has_settled_and_not_before_there_is_enough(trained: Callable[..., Any]) -> None:
    assert trained(settles=100)[0] == ENOUGH
    assert trained(settles=ENOUGH + 1)[0] == ENOUGH + SHOWN_EVERY


def test_what_has_not_settled_goes_on_to_the_end_of_the_budget_or_of_the_run(
    trained: Callable[..., Any],
) -> None:
    assert trained(settles=10_000) == (1500, "ended with the config's own 1500 iterations (--max_iters)")
    assert trained(settles=10_000, budget=1200.0) == (1201, "ended by the budget after 1201 iterations")
