"""learning_rate = auto: short trainings at several rates, of which each is kept, and what they say."""

import gc
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nanodyno import __version__
from nanodyno.analysis.rates import (
    COARSE,
    Begun,
    Chosen,
    Lengths,
    RangeTestEvent,
    Trial,
    TrialEnded,
    TrialRequest,
    choose,
    least_left,
    lengths_for,
    next_trials,
)
from nanodyno.config import (
    COUNTED_IN_MICRO_BATCHES,
    PLACES,
    RunConfig,
    build_config,
    changed,
    keys_led_by,
    keys_where,
    padded_vocab_size,
)
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.shards import Dataset
from nanodyno.errors import RunFailed
from nanodyno.records.remembered import cache_file, recall, remember
from nanodyno.records.types import EvalRecord
from nanodyno.train.device import choose as choose_device
from nanodyno.train.device import free_cached_memory, take_threads
from nanodyno.train.job import DATA_FOLDER
from nanodyno.train.spike_guard import Diverged
from nanodyno.train.trainer import Trainer

EVAL_TOKENS = 65_536
OF_NO_MATTER = {
    "seed",
    *keys_led_by("learning_rate"),
    *keys_where(lambda each: each.group in ("evaluation", "record") and not each.affects),
    *COUNTED_IN_MICRO_BATCHES,
    *PLACES,
} - {"device"}
"""To what a trial says."""

Try = Callable[[RunConfig, Dataset], float | None]
WatchRangeTest = Callable[[str | RangeTestEvent], None]


@dataclass(frozen=True)
class RangeTest:
    chosen: Chosen
    trials: tuple[Trial, ...]
    lengths: Lengths


def range_test(
    settings: Mapping[str, object], watch: WatchRangeTest, attempt: Try | None = None
) -> RangeTest:
    """The settings' learning_rate is left out of account. Ctrl-C passes; what was trained by then is kept."""
    attempt = attempt or train_shortly
    config = build_config(settings, learning_rate=COARSE[0], min_lr=None, batch_ramp=None)
    dataset = resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size, watch)
    lengths = lengths_for(config.max_iters)
    kept = _Kept(config, dataset)
    watch(Begun(lengths))
    trials: list[Trial] = []
    while asks := next_trials(trials, with_long=lengths.long is not None):
        for number, ask in enumerate(asks, 1):
            iterations = lengths.of(ask.long)
            trials.append(kept.trial(ask, iterations, attempt))
            left = least_left(trials, asks[number:], lengths)
            watch(TrialEnded(trials[-1], iterations, left * kept.pace if left and kept.pace else None))
    chosen = choose(trials, lengths)
    if chosen is None:
        long = any(trial.val_loss is not None for trial in trials if not trial.long)
        which = f"all trainings of {lengths.long:,} iterations" if long else f"all {len(trials)} trainings"
        lowest = min(trial.learning_rate for trial in trials if trial.long is long)
        raise RunFailed(
            f"learning_rate=auto found no rate: {which} diverged, from {lowest:.2g} on",
            "give a --learning_rate, and check --grad_clip, --dtype and the data",
        )
    return RangeTest(chosen, tuple(trials), lengths)


def trial_config(config: RunConfig, ask: TrialRequest, iterations: int) -> RunConfig:
    """The run's own schedule in a short while, down to a tenth of the rate.

    Warm-up is as many iterations as the run's, up to half of the trial: how high a rate the beginning bears
    is a matter of their number, and a warm-up cut to its share speaks for lower rates (docs/log).
    """
    return changed(
        config,
        learning_rate=ask.learning_rate,
        min_lr=None,
        seed=config.seed + 1 + ask.repeat,
        max_iters=iterations,
        lr_decay_iters=iterations,
        warmup_iters=min(config.warmup_iters, iterations // 2),
        eval_interval=iterations,
        eval_tokens=min(config.eval_tokens, max(EVAL_TOKENS, config.block_size)),
        bad_update="stop",
        eval_only=False,
    )


def train_shortly(config: RunConfig, dataset: Dataset) -> float | None:
    """The val loss after the last iteration; None where it diverged. Nothing is saved."""
    take_threads(config.threads)
    choice = choose_device(config)
    vocab_size = config.vocab_size or padded_vocab_size(dataset.vocab_size)
    trainer = Trainer(config, dataset, vocab_size, choice)
    last: float | None = None
    try:
        if trainer.engine.needs_preparation:
            trainer.warm_up()
        for event in trainer.events():
            last = event.val_loss if isinstance(event, EvalRecord) else last
    except Diverged:
        return None
    finally:
        del trainer
        gc.collect()
        free_cached_memory(choice.device)
    return last


class _Kept:
    """Trials in the user's cache, so that a stopped test goes on and the same command finds the same rate."""

    def __init__(self, config: RunConfig, dataset: Dataset) -> None:
        self._config, self._dataset = config, dataset
        self._path = cache_file("rates.json")
        self.pace: float | None = None
        """Seconds an iteration, with all that goes with it, of the fastest training made now: the first one
        compiles."""
        settings = {key: value for key, value in config.model_dump().items() if key not in OF_NO_MATTER}
        reported = [__version__, dataset.fingerprint, settings, config.seed]
        self._question = hashlib.sha256(json.dumps(reported, sort_keys=True).encode()).hexdigest()[:16]

    def trial(self, ask: TrialRequest, iterations: int, attempt: Try) -> Trial:
        key = f"{self._question} {iterations} {ask.learning_rate:g} {ask.repeat}"
        known = recall(self._path, _is_sound)
        if key not in known:
            began = time.perf_counter()
            loss = attempt(trial_config(self._config, ask, iterations), self._dataset)
            pace = (time.perf_counter() - began) / iterations
            self.pace = min(pace, self.pace or pace)
            known = recall(self._path, _is_sound) | {key: {"val_loss": loss}}
            remember(self._path, known)
        return Trial(ask.learning_rate, ask.repeat, known[key]["val_loss"], ask.long)


def _is_sound(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("val_loss", ""), float | None)
