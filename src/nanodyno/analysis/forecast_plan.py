"""What is ahead of a run: its learning rates, as they were and are planned, and the time they take."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from nanodyno.analysis.account import Account
from nanodyno.analysis.forecast_law import Array, Schedule
from nanodyno.analysis.forecast_points import Curve
from nanodyno.analysis.growth import BatchGrowth
from nanodyno.analysis.metrics import evaluation_seconds, evaluations_between
from nanodyno.config import accepts
from nanodyno.errors import NanodynoError
from nanodyno.records.imported import Setting
from nanodyno.records.store import Run
from nanodyno.records.types import SaveRecord
from nanodyno.schedule import batch_factor, learning_rate_at

MOST_UPDATES = 10_000_000
MOST_RATES = 100_000
"""Of a plan that are worked out; those between lie on the straight line."""


@dataclass(frozen=True)
class ForecastSchedule:
    """The settings of a schedule; all that is asked of a config here."""

    learning_rate: float
    min_lr: float
    warmup_iters: int
    lr_decay_iters: int
    max_iters: int
    decay_lr: bool = True
    schedule: str = "cosine"
    wsd_decay_fraction: float = 0.2


KEYS = tuple(each.name for each in fields(ForecastSchedule))


def plan_of(account: Account, changes: Mapping[str, Setting] | None = None) -> ForecastSchedule | None:
    """Return the schedule of the settings, with changes from here on; None where its shape is not known.

    A log may leave out what nanoGPT derives or defaults by rule: min_lr is a tenth of the peak there, and the
    decay ends with the run. Only the shape counts: a peak that is neither reported nor logged is taken as 1,
    or as ten times min_lr. Whether the rate falls at all must be reported.
    """
    reported = {key: value for key, value in account.settings.items() if key in KEYS}
    reported |= _checked(changes or {})
    if not account.foreign:
        return _made(reported)
    if logged := _logged_rates(account):
        reported.setdefault("learning_rate", max(rate for _, rate in logged))
    falls = reported.keys() & {"lr_decay_iters", "schedule", "wsd_decay_fraction"}
    if "max_iters" not in reported or not (falls or reported.get("decay_lr") is False):
        return None
    reported.setdefault("learning_rate", 10 * float(reported.get("min_lr") or 0) or 1.0)
    if "wsd_decay_fraction" in reported:
        reported.setdefault("schedule", "wsd")
    reported.setdefault("warmup_iters", 0)
    reported.setdefault("min_lr", float(reported["learning_rate"] or 0) / 10)
    reported.setdefault("lr_decay_iters", reported["max_iters"])
    return _made(reported)


def _checked(changes: Mapping[str, Setting]) -> dict[str, Setting]:
    for key, value in changes.items():
        if key not in KEYS:
            raise NanodynoError(
                f"--set {key}: a forecast can change only the schedule", f"one of {', '.join(KEYS)}"
            )
        if not accepts(key, value):
            raise NanodynoError(f"--set {key}={value} is not valid", "for example --set lr_decay_iters=20000")
    return dict(changes)


def _made(reported: Mapping[str, Setting]) -> ForecastSchedule:
    whole = {each.name for each in fields(ForecastSchedule) if each.type is int}
    values = {key: int(value) if key in whole else value for key, value in reported.items()}  # pyright: ignore[reportArgumentType]
    plan = ForecastSchedule(**values)  # pyright: ignore[reportArgumentType]
    if not 0 < plan.max_iters <= MOST_UPDATES:
        raise NanodynoError(f"{plan.max_iters:,} iterations are too many for a forecast")
    return (
        plan
        if plan.lr_decay_iters > plan.warmup_iters
        else replace(plan, lr_decay_iters=plan.warmup_iters + 1)
    )


def schedule_of(
    account: Account, plan: ForecastSchedule, updates: int, before: ForecastSchedule | None = None
) -> Schedule:
    """The rates that were recorded, or were planned before, and from here on those of the plan.

    Updates are even ones: of a batch that grew they are those of tokens_per_iter, as in `curve_of`.
    """
    growth = account.growth if account.growth and account.growth.stages else None
    planned = _planned(plan, max(updates, 1), growth).copy()
    if before is not None:
        if account.foreign and "learning_rate" not in account.settings and not _logged_rates(account):
            scale = plan.learning_rate / before.learning_rate  # its peak was not known, and is told now
            before = replace(before, learning_rate=plan.learning_rate, min_lr=scale * before.min_lr)
        done = min(int(even(account, account.iterations)), updates)
        planned[:done] = _planned(before, max(updates, 1), growth)[:done]
    logged = [each for each in _logged_rates(account) if each[0] < updates]
    if logged:
        first, last = math.ceil(logged[0][0]), math.floor(logged[-1][0])
        places, rates = zip(*logged, strict=True)
        planned[first : last + 1] = np.interp(np.arange(first, last + 1), places, rates)
        if account.foreign and not plan.warmup_iters:  # none was told: it lies before the first rate
            planned[:first] = rates[0] * np.arange(1, first + 1) / (first + 1)
    return Schedule(planned)


def schedules_open_to(account: Account, updates: int) -> list[Schedule]:
    """Where no plan is known: a rate that is held, one that falls all the way, one that falls at the end.

    From here on where rates were logged, else from the beginning.
    """
    so_far = logged_schedule(account, min(int(even(account, account.iterations)), updates))
    before = np.zeros(0) if so_far is None else so_far.rates
    rest = updates - len(before)
    flat = ForecastSchedule(
        float(before[-1]) if len(before) else 1.0, 0.0, 0, max(rest, 1), rest, schedule="constant"
    )
    return [
        Schedule(np.concatenate([before, _planned(each, rest, None)]))
        for each in (flat, replace(flat, schedule="cosine"), replace(flat, schedule="wsd"))
    ]


@lru_cache(maxsize=4)
def _planned(plan: ForecastSchedule, updates: int, growth: BatchGrowth | None) -> Array:
    if growth is None:
        return _rates(plan, updates)
    last = growth.iterations(updates * growth.unit)
    ends = np.cumsum([growth.size_at(iteration) for iteration in range(last + 1)]) / growth.unit
    return _rates(plan, last + 1)[np.searchsorted(ends, np.arange(updates), side="right")]


def _rates(plan: ForecastSchedule, updates: int) -> Array:
    held = round(plan.lr_decay_iters * (1 - plan.wsd_decay_fraction))
    turns = [plan.warmup_iters - 1, plan.warmup_iters, held, plan.lr_decay_iters, plan.lr_decay_iters + 1]
    known = [each for each in turns if 0 <= each < updates]
    places = np.unique(np.concatenate([np.linspace(0, updates - 1, min(updates, MOST_RATES)).round(), known]))
    return np.interp(np.arange(updates), places, [learning_rate_at(plan, int(each)) for each in places])


def even(account: Account, iterations: int) -> float:
    """As many tokens in iterations of tokens_per_iter: where a batch is below the noise scale and its rate
    goes by the root, the same tokens bring the same loss, whatever its size (docs/batch-size.md)."""
    growth = account.growth
    return iterations if growth is None or not growth.stages else growth.even(iterations)


def iterations_of(account: Account, updates: float) -> int:
    """As many even updates, in the run's own iterations."""
    growth = account.growth
    return int(updates) if growth is None else growth.iterations(round(updates * growth.unit))


def logged_schedule(account: Account, updates: int) -> Schedule | None:
    """As it was, of a run that is over; before the first rate that was logged it climbs to that one."""
    logged = _logged_rates(account)
    if not logged:
        return None
    places, rates = zip(*logged, strict=True)
    return Schedule(np.interp(np.arange(updates), [-1.0, *places], [0.0, *rates]))


def _logged_rates(account: Account) -> list[tuple[float, float]]:
    """Each as it would be for tokens_per_iter."""
    unit = account.tokens_per_iter
    return [
        (
            even(account, step.iteration),
            step.learning_rate / (batch_factor(step.tokens, unit) if step.tokens and unit else 1.0),
        )
        for step in account.steps
        if step.learning_rate is not None
    ]


def curve_of(account: Account) -> Curve:
    """Losses by the updates made before them; without evaluations, those of the training batches."""
    trained = [(even(account, step.iteration), step.loss) for step in account.steps if step.loss is not None]
    evals = [(even(account, each.iteration), each.val_loss) for each in account.evals]
    if not evals:
        return Curve(_column(trained, 0), _column(trained, 1))
    return Curve(*(_column(evals, 0), _column(evals, 1), _column(trained, 0), _column(trained, 1)))


def _column(rows: list[tuple[float, float]], place: int) -> Array:
    return np.array([row[place] for row in rows], dtype=np.float64)


@dataclass(frozen=True)
class IterationTimes:
    """What an iteration takes, and an evaluation with the save after it every so many."""

    iteration_seconds: float
    """Of tokens_per_iter."""
    eval_seconds: float | None
    """None where no record has it; then times are of training alone."""
    eval_interval: int | None
    last_eval: int | None = None
    """The iteration of the latest evaluation; None takes the one that is counted from."""

    def seconds_between(self, done: int, end: int, growth: BatchGrowth | None) -> float:
        """From one number of iterations to another; a batch that has grown takes its share longer."""
        if end <= done:
            return 0.0
        even = end - done if growth is None else growth.even(end) - growth.even(done)
        training = even * self.iteration_seconds
        if self.eval_seconds is None or not self.eval_interval:
            return training
        last_eval = done if self.last_eval is None else self.last_eval
        evaluations = evaluations_between(done, end, self.eval_interval, last_eval)
        return training + evaluations * self.eval_seconds


def pace_of(account: Account, eval_seconds: float | None = None) -> IterationTimes | None:
    """By the run's own times; a log's evaluations are in the time of the iteration they follow."""
    seconds, interval = account.pace_seconds, account.settings.get("eval_interval")
    if seconds is None:
        return None
    if eval_seconds is None and account.foreign:
        odd = [step.seconds for step in account.steps if step.seconds and not step.steady and step.iteration]
        extra = [each - seconds for each in odd if each > seconds]
        eval_seconds = statistics.median(extra) if extra else None
    return IterationTimes(
        account.in_tokens_per_iter(seconds),
        eval_seconds,
        int(interval) if isinstance(interval, int | float) else None,
        max((each.iteration for each in account.evals), default=None),
    )


def pace_of_run(run: Run, account: Account) -> IterationTimes | None:
    saves = [entry.save_seconds for entry in run.history if isinstance(entry, SaveRecord)]
    return pace_of(account, evaluation_seconds([entry.eval_seconds for entry in run.own_evals], saves))
