"""A forecast as findings: what is expected, on what ground, and what stands against it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nanodyno.analysis.account import Account
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import audit, with_found_shape
from nanodyno.analysis.curves import are_of_other_text
from nanodyno.analysis.findings import Code, Finding, Number, Severity
from nanodyno.analysis.forecast import Forecast, ForecastBasis, ForecastLoss, ForecastQuestion, forecast
from nanodyno.analysis.forecast_far import NEAR
from nanodyno.analysis.forecast_plan import IterationTimes, pace_of, pace_of_run, plan_of
from nanodyno.analysis.forecast_siblings import siblings_of
from nanodyno.analysis.forecast_size import without_biases
from nanodyno.analysis.forecast_warnings import Sign
from nanodyno.analysis.growth import is_by_noise
from nanodyno.config import keys_led_by
from nanodyno.costs.parameters import parameters
from nanodyno.errors import NanodynoError
from nanodyno.records.imported import Setting
from nanodyno.records.store import Run

CONCERNING = ("another-schedule", "perplexity-as-loss")
"""Findings of an audit that a forecast's reader must know."""
EVEN = 0.6
"""A probability below this says that either may end lower."""
ENDS: dict[ForecastBasis, Code] = {
    "curve": "forecast-end",
    "curve-without-schedule": "forecast-end",
    "siblings": "forecast-end",
    "overfitting": "forecast-overfitting",
    "size": "forecast-by-size",
    "ended": "forecast-ended",
    "dead": "forecast-dead",
}
SIGNS: dict[Sign, Code] = {
    "diverging": "warning-diverging",
    "plateau": "warning-plateau",
    "spikes": "warning-spikes",
    "parting": "warning-parting",
    "repeating": "warning-repeating",
    "not-finite": "warning-not-finite",
    "uneven-evaluations": "warning-uneven-evaluations",
}


@dataclass(frozen=True)
class Forecasts:
    """Of one run or of two side by side."""

    accounts: tuple[Account, ...]
    forecasts: tuple[Forecast, ...]
    findings: tuple[Finding, ...]


def forecasts_of(
    runs: Sequence[Run], question: ForecastQuestion, others: Sequence[Account] | None = None
) -> Forecasts:
    """Forecast one run or two; among these and the others are looked for finished siblings, if any are given.

    Two at a place that was asked for are compared as if the schedule of each ended there.
    """
    accounts = tuple(with_found_shape(account_of(run)) for run in runs)
    paces = [pace_of_run(run, account) for run, account in zip(runs, accounts, strict=True)]
    rough = len(runs) == 2 and question.place is not None
    made: list[Forecast] = []
    findings: list[Finding] = []
    for account, pace in zip(accounts, paces, strict=True):
        asked = stretched(account, question, pace) if rough else question
        siblings = ()
        if others is not None and asked.place is None:
            siblings = siblings_of(account, [*accounts, *others], asked.changes)
        made.append(forecast(account, asked, pace, siblings=siblings))
        findings += findings_of(made[-1], account, as_planned(account, question, pace))
    if len(made) == 2 and _on_other_data(*accounts):
        findings.append(Finding("ends-on-other-data", "caution", (made[0].name, made[1].name)))
    elif len(made) == 2:
        findings = [*lower_of(made[0], made[1], rough), *findings]
    return Forecasts(accounts, tuple(made), tuple(findings))


def as_planned(account: Account, question: ForecastQuestion, pace: IterationTimes | None) -> Forecast | None:
    """Without the changes that were asked about; None where they change nothing or tell the unknown."""
    before, after = plan_of(account), plan_of(account, question.changes)
    if before is None or after is None:
        return None
    if question.place is not None:  # then where a run is to end says nothing
        before = replace(before, max_iters=after.max_iters)
    if before == after:
        return None
    return forecast(account, replace(question, changes={}), pace)


def findings_of(made: Forecast, account: Account, planned: Forecast | None = None) -> tuple[Finding, ...]:
    """planned is the forecast without the changes that were asked about."""
    parts = (
        _ends(made), _changed(made, planned), _target(made), _time(made), _ground(made),
        _size(made, account), _batch(made, account), _signs(made),
    )  # fmt: skip
    found = [finding for part in parts for finding in part]
    return (*found, *(each for each in audit(account) if each.code in CONCERNING))


def _ends(made: Forecast) -> Iterator[Finding]:
    if made.expected is None:
        yield from _dead(made)
        return
    numbers: dict[str, Number] = _loss(made.final) | {
        "iterations": made.iterations,
        "tokens": made.tokens,
        "iterations_done": made.iterations_done,
    }
    over = made.is_over and made.iterations >= made.iterations_done
    if made.basis == "overfitting" and made.lowest is not None:
        numbers |= {"best": made.lowest.loss, "iteration": made.lowest.iterations}
    if not over:
        numbers["iterations"] = made.at
    yield _of(made, "forecast-over" if over else ENDS[made.basis], "fact", **numbers)
    if made.siblings:
        yield _of(made, "forecast-siblings", "fact", count=len(made.siblings), names=list(made.siblings))


def _dead(made: Forecast) -> Iterator[Finding]:
    dead = made.dead
    if dead is None:
        return
    good, at = dead.last_good, int(dead.updates)
    if dead.untrained_loss is not None:
        yield _of(made, "forecast-stuck", "wrong", iteration=at, untrained=dead.untrained_loss)
    elif good is None:
        yield _of(made, "forecast-dead-from-start", "wrong")
    else:
        yield _of(
            made, "forecast-dead", "wrong", iteration=at, best=good.loss, good_iteration=int(good.updates)
        )


def _changed(made: Forecast, planned: Forecast | None) -> Iterator[Finding]:
    if planned is not None and planned.expected is not None and made.expected is not None:
        yield _of(
            made, "forecast-changed", "fact",
            losses=[planned.final.median, made.final.median],
            difference=made.final.median - planned.final.median, iterations=planned.iterations,
        )  # fmt: skip


def _target(made: Forecast) -> Iterator[Finding]:
    reached = made.reached
    if reached is None:
        return
    if reached.seen_loss is not None and reached.iterations is not None:
        yield _of(
            made, "target-behind", "fact",
            target=reached.loss, iterations=reached.iterations, loss=reached.seen_loss,
            tokens=None if made.growth is None else float(made.growth.tokens(reached.iterations)),
            seconds=_seconds(made, 0, reached.iterations),
        )  # fmt: skip
        return
    if made.basis == "ended" and made.lowest is not None:
        yield _of(
            made, "target-missed", "fact",
            target=reached.loss, loss=made.lowest.loss, iterations=made.lowest.iterations,
            iterations_done=made.iterations_done,
        )  # fmt: skip
        return
    if reached.iterations is None and made.expected is not None:
        yield _of(
            made, "target-not-reached", "fact",
            target=reached.loss, loss=made.final.median, iterations=made.iterations,
        )  # fmt: skip
        return
    if reached.iterations is None:
        return
    yield _of(
        made, "target-reached" if reached.likely_iterations else "target-reached-perhaps", "fact",
        target=reached.loss, iterations=reached.iterations,
        tokens=None if made.growth is None else float(made.growth.tokens(reached.iterations)),
        seconds=_seconds(made, made.iterations_done, reached.iterations),
        likely_iterations=reached.likely_iterations,
    )  # fmt: skip


def _time(made: Forecast) -> Iterator[Finding]:
    if made.seconds and made.pace is not None and made.dead is None:
        whole = made.pace.eval_seconds is not None and bool(made.pace.eval_interval)
        yield _of(
            made, "forecast-time" if whole else "forecast-time-training-only", "fact",
            seconds=made.seconds, iterations=made.iterations,
            per_iteration=made.seconds / (made.iterations - made.iterations_done),
        )  # fmt: skip


def _ground(made: Forecast) -> Iterator[Finding]:
    """What the answer rests on, where that is less than a curve with its schedule."""
    if made.basis == "size" and made.size is not None:
        yield _of(made, "forecast-few-points", "caution", points=made.points, data=made.size.data)
    if made.basis == "curve-without-schedule":
        yield _of(made, "forecast-schedule-unknown", "caution")
    if made.of_train:
        yield _of(made, "forecast-of-train-loss", "caution")
    plan = made.plan
    if plan is not None and made.iterations > plan.lr_decay_iters and plan.decay_lr and made.band is not None:
        yield _of(
            made, "forecast-beyond-schedule", "caution",
            lr_decay_iters=plan.lr_decay_iters, min_lr=plan.min_lr, iterations=made.iterations,
            share=plan.min_lr / plan.learning_rate,
        )  # fmt: skip
    if made.far is not None:
        numbers: dict[str, Number] = {"times": made.iterations / made.iterations_done, "tried": int(NEAR)}
        if made.far.size is None:
            yield _of(made, "forecast-far", "caution", **numbers)
        else:
            yield _of(made, "forecast-far-by-size", "caution", loss=made.far.size.median, **numbers)
    if made.band is not None and made.prediction is not None and made.prediction.spikes:
        yield _of(made, "forecast-spikes-left-out", "fact", count=made.prediction.spikes)


def _size(made: Forecast, account: Account) -> Iterator[Finding]:
    shape = without_biases(account)
    if shape is not None and made.basis not in ("ended", "dead"):
        more = parameters(shape.replaced(bias=True)).nanogpt / parameters(shape).nanogpt - 1
        yield _of(made, "forecast-without-biases", "caution", more=more)


def _batch(made: Forecast, account: Account) -> Iterator[Finding]:
    growth = made.growth
    if growth is None or made.basis in ("ended", "dead"):
        return
    last = growth.size_at(max(0, made.iterations - 1))
    if is_by_noise(account.settings.get("batch_ramp")):
        yield _of(made, "forecast-batch-by-noise", "caution", tokens=last)
    elif last != growth.unit:
        yield _of(made, "forecast-batch-grows", "caution", tokens_per_iter=growth.unit, tokens=last)


def _signs(made: Forecast) -> Iterator[Finding]:
    for each in made.warned if made.dead is None else ():
        yield _of(made, SIGNS[each.sign], "caution", **each.numbers)


def lower_of(one: Forecast, other: Forecast, rough: bool = False) -> tuple[Finding, ...]:
    """Which of two ends lower, with the probability; rough where they are of different sizes.

    Nothing where one of them is dead.
    """
    if one.expected is None or other.expected is None:
        return ()
    spread = math.hypot(one.final.spread, other.final.spread)
    apart = other.final.median - one.final.median
    chance = 0.5 * math.erfc(-apart / (spread * math.sqrt(2))) if spread > 0 else float(apart > 0)
    first, second = (one, other) if chance >= 0.5 else (other, one)
    ends = (one.final, other.final) if chance >= 0.5 else (other.final, one.final)
    chance = max(chance, 1 - chance)
    numbers: dict[str, Number] = {
        "probability": chance,
        "losses": [ends[0].median, ends[1].median],
        "lows": [ends[0].low, ends[1].low],
        "highs": [ends[0].high, ends[1].high],
        "iterations": [first.at, second.at],
    }
    names = (first.name, second.name)
    if one.basis == other.basis == "ended":
        return (Finding("measured-lower" if apart else "measured-alike", "fact", names, numbers),)
    found = [Finding("ends-lower" if chance >= EVEN else "ends-alike", "fact", names, numbers)]
    if rough or "size" in (one.basis, other.basis):
        found.append(Finding("ends-rough", "caution", names))
    return tuple(found)


def _on_other_data(one: Account, other: Account) -> bool:
    """By what both tell."""
    names = (one.settings.get("dataset"), other.settings.get("dataset"))
    return are_of_other_text(one, other) or (None not in names and names[0] != names[1])


def ends_of(accounts: Sequence[Account], others: Sequence[Account] = ()) -> tuple[Finding, ...]:
    """For a comparison of two runs that are not both at their end; nothing where one cannot be foretold.

    Finished siblings are looked for among these two and the others.
    """
    if len(accounts) != 2:
        return ()
    made: list[Forecast] = []
    for account in accounts:
        try:
            siblings = siblings_of(account, [*accounts, *others])
            made.append(forecast(account, ForecastQuestion(), pace_of(account), siblings=siblings))
        except NanodynoError:
            return ()
    settled = [each.basis in ("curve", "siblings", "ended") for each in made]
    if not all(settled) or all(each.basis == "ended" for each in made):
        return ()
    one, other = accounts
    named_alike = one.settings.get("dataset") == other.settings.get("dataset")
    return lower_of(made[0], made[1]) if named_alike and not are_of_other_text(one, other) else ()


def stretched(account: Account, question: ForecastQuestion, pace: IterationTimes | None) -> ForecastQuestion:
    """The same question with a schedule that ends there: sizes are compared at their best."""
    made = forecast(account, question, pace)
    changes: dict[str, Setting] = dict.fromkeys(keys_led_by("max_iters"), made.iterations)
    ahead = made.iterations > made.iterations_done
    if ahead and made.plan is not None:
        question = replace(question, changes=changes | dict(question.changes))
    return replace(question, tokens=None, hours=None, iterations=made.iterations)


def _seconds(made: Forecast, since: int, until: int) -> float | None:
    return None if made.pace is None else made.pace.seconds_between(since, until, made.growth)


def _loss(loss: ForecastLoss) -> dict[str, Number]:
    numbers: dict[str, Number] = {"loss": loss.median, "low": loss.low, "high": loss.high}
    for name, value in (("", loss.median), ("_low", loss.low), ("_high", loss.high)):
        numbers[f"perplexity{name}"] = math.exp(min(value, 50.0))
    return numbers


def _of(made: Forecast, code: Code, severity: Severity, **numbers: Number) -> Finding:
    return Finding(code, severity, (made.name,), numbers)
