"""learning_rate=auto: real trainings of the tiniest model, a stop on the way, and one that finds nothing."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.analysis.rates import Begun, TrialEnded, TrialRequest
from nanodyno.config import RunConfig, build_config
from nanodyno.errors import RunFailed
from nanodyno.experiments import rates
from nanodyno.experiments.rates import range_test, train_shortly, trial_config

TINY: dict[str, object] = {
    "n_layer": 1, "n_head": 1, "n_embd": 16, "block_size": 16, "batch_size": 2, "tokens_per_iter": 64,
    "max_iters": 1000, "warmup_iters": 30, "dataset": "python", "tokenizer": "bytes", "device": "cpu",
    "eval_tokens": 64, "compile": False, "learning_rate": "auto",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def bowl(config: RunConfig, _: object) -> float:
    return 3 + (math.log2(config.learning_rate / 1e-3)) ** 2


def test_trials_are_the_run_in_short_with_seeds_of_their_own() -> None:
    seen: list[RunConfig] = []
    found = range_test(TINY, lambda _: None, lambda config, _: seen.append(config) or bowl(config, None))
    assert found.chosen.learning_rate == pytest.approx(1e-3)
    assert (found.lengths.short, found.lengths.long) == (200, 500)  # a 200th of 1000 is less
    assert {config.seed for config in seen} == {1338, 1339, 1340}  # the run itself has 1337
    assert {(c.max_iters, c.lr_decay_iters, c.warmup_iters, c.tokens_per_iter) for c in seen} == {
        (200, 200, 30, 64), (500, 500, 30, 64),
    }  # fmt: skip
    assert all(config.min_lr == pytest.approx(config.learning_rate / 10) for config in seen)


@pytest.mark.parametrize(
    ("whole", "short", "long"),
    [
        (60, 60, None),
        (799, 200, None),
        (800, 200, 400),
        (1000, 200, 500),
        (60_000, 300, 1200),
        (999_999, 800, 3200),
    ],
)
def test_a_trial_is_a_200th_of_the_run_within_bounds_and_a_long_one_four_times_that_or_half_of_the_run(
    whole: int, short: int, long: int | None
) -> None:
    reported: list[object] = []
    lengths = range_test(TINY | {"max_iters": whole}, reported.append, bowl).lengths
    assert (lengths.short, lengths.long, lengths.whole) == (short, long, whole)
    (begun,) = (event for event in reported if isinstance(event, Begun))
    assert begun.work == 15 * short + 9 * (long or 0)


def test_the_time_left_is_that_of_the_fewest_trials_at_the_pace_of_those_made_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An iteration takes half a second here, the first and the third training 100 more, and what the
    cache has none."""
    now, made = [0.0], list[RunConfig]()
    monkeypatch.setattr(rates, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def attempt(config: RunConfig, data: Any) -> float:
        now[0] += config.max_iters / 2 + (100 if len(made) in (0, 2) else 0)
        made.append(config)
        return bowl(config, data)

    def left() -> list[float | None]:
        reported: list[object] = []
        range_test(TINY, reported.append, attempt)
        return [event.seconds_left for event in reported if isinstance(event, TrialEnded)]

    first = left()
    assert first[:3] == [14 * 200 + 9 * 500, (13 * 200 + 9 * 500) / 2, (12 * 200 + 9 * 500) / 2]
    assert first[-3:] == [2 * 500 / 2, 500 / 2, None]
    assert left() == [None] * len(first)


@pytest.mark.parametrize(("own", "of_a_trial"), [(0, 0), (7, 7), (50, 50), (700, 50)])
def test_warm_up_is_the_runs_own_and_at_most_half_of_a_trial(own: int, of_a_trial: int) -> None:
    config = build_config({**TINY, "learning_rate": 1e-3, "warmup_iters": own})
    assert trial_config(config, TrialRequest(1e-3, 0), 100).warmup_iters == of_a_trial


def test_a_test_that_was_stopped_goes_on_with_what_it_has() -> None:
    asked: list[float] = []

    def stopped(config: RunConfig, data: Any) -> float:
        asked.append(config.learning_rate)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return bowl(config, data)

    with pytest.raises(KeyboardInterrupt):
        range_test(TINY, lambda _: None, stopped)
    first = range_test(TINY, lambda _: None, stopped)
    assert len(asked) == 1 + len(first.trials)  # the one that was stopped was trained again, no other
    again = range_test(TINY, lambda _: None, stopped)
    assert len(asked) == 1 + len(first.trials)
    assert again.chosen == first.chosen


def test_other_settings_ask_anew() -> None:
    count: list[int] = []
    for changes in ({}, {"n_embd": 32}, {"min_lr": 1e-5}):
        before = len(count)
        range_test(TINY | changes, lambda _: None, lambda config, data: count.append(1) or bowl(config, data))
        anew = len(count) > before
        assert anew == ("min_lr" not in changes)


def test_where_all_long_ones_diverge_it_fails_and_says_so() -> None:
    with pytest.raises(RunFailed, match=r"all trainings of 500 iterations diverged, from 0\.00014 on"):
        range_test(
            TINY, lambda _: None, lambda config, _: bowl(config, None) if config.max_iters == 200 else None
        )


def test_where_all_diverge_it_fails_and_says_so() -> None:
    with pytest.raises(RunFailed, match="all 5 trainings diverged"):
        range_test(TINY, lambda _: None, lambda *_: None)


def test_a_real_trial_learns_and_one_that_diverges_is_none() -> None:
    kept: list[Any] = []
    configs: list[RunConfig] = []
    range_test(
        TINY | {"max_iters": 10},
        lambda _: None,
        lambda config, data: configs.append(config) or kept.append(data) or bowl(config, data),
    )
    dataset = kept[0]
    good = train_shortly(trial_config(configs[0], TrialRequest(1e-1, 0), 12), dataset)
    bad = train_shortly(trial_config(configs[0], TrialRequest(1e-9, 0), 12), dataset)
    assert good is not None
    assert bad is not None
    assert good < bad - 0.5
    wild = configs[0].model_copy(update={"learning_rate": 1e38, "weight_decay": 0.0, "grad_clip": 0.0})
    assert train_shortly(wild, dataset) is None
