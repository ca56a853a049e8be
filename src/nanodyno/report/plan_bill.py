"""What a planned training takes: hours, energy, money, iterations."""

from nanodyno.analysis.rates import Begun
from nanodyno.costs.calibration import Predicted
from nanodyno.costs.plan import Bill, Plan
from nanodyno.messages import quantities
from nanodyno.messages.language import Language


def bill_words(bill: Bill, plan: Plan, language: Language) -> str:
    if bill.hours is None:
        return language.say("plan.bill.no-duration")
    parts = [_time_words(bill.hours, language)]
    if bill.tokens_within is not None:
        low, high = (quantities.count(each, language) for each in _bounds(bill.tokens_within))
        parts = [
            quantities.duration(bill.hours.value * 3600, language),
            language.say("plan.bill.tokens-within", low=low, high=high),
        ]
    if bill.kwh is not None and bill.watts is not None:
        parts.append(
            language.say(
                "plan.bill.energy",
                kwh=_with_interval(bill.kwh, language),
                watts=quantities.about(bill.watts, 2, language),
            )
        )
    if bill.energy_cost is not None:
        amount = _with_interval(bill.energy_cost, language)
        parts.append(language.say("plan.bill.energy-cost", amount=amount))
    if bill.rent is not None:
        amount = _with_interval(bill.rent, language)
        parts.append(language.say("plan.bill.rent", amount=amount))
    parts += [language.say("plan.if-it-fitted")] if plan.asked.fits is False else []
    return language.joined(parts)


def _time_words(hours: Predicted, language: Language) -> str:
    if hours.value < 1:
        durations = [quantities.duration(each * 3600, language) for each in (hours.value, *_bounds(hours))]
        return language.say("plan.bill.short", duration=durations[0], low=durations[1], high=durations[2])
    value, low, high = (quantities.about(each, language=language) for each in (hours.value, *_bounds(hours)))
    return language.say("plan.bill.hours", hours=value, low=low, high=high)


def _with_interval(value: Predicted, language: Language) -> str:
    """Return `3.2 (2.6 to 3.9)`; of a value that is certain, the value alone."""
    number = quantities.about(value.value, 2, language)
    if value.low == value.high:
        return number
    low, high = (quantities.about(each, 2, language) for each in _bounds(value))
    return language.say("plan.bill.interval", number=number, low=low, high=high)


def _bounds(value: Predicted) -> tuple[float, float]:
    return value.low, value.high


def growth_words(plan: Plan, language: Language) -> str | None:
    grown = plan.bill.grown
    if grown is None:
        return None
    words = language.say(
        "plan.bill.growing-batch",
        first=language.number(plan.asked.setup.tokens_per_iter, ","),
        most=language.number(grown.tokens_per_iter, ","),
        tokens=quantities.count(grown.tokens, language),
    )
    return words if grown.hours is None else language.joined([words, _time_words(grown.hours, language)])


def range_test_hours(test: Begun, plan: Plan) -> Predicted | None:
    """Return the hours that it takes at least: its iterations have the first size."""
    speed = plan.asked.tokens_per_second
    return None if speed is None else speed.under(test.work * plan.asked.setup.tokens_per_iter / 3600)


def range_test_words(test: Begun, plan: Plan, language: Language) -> str:
    words = language.say_plural(
        "plan.bill.range-test",
        test.work,
    )
    hours = range_test_hours(test, plan)
    return words if hours is None else language.joined([words, _time_words(hours, language)])


def iterations_words(plan: Plan, warmup_iters: int, language: Language) -> str:
    number = plan.bill.max_iters
    parts = [f"--max_iters={number}"]
    if plan.bill.hours is not None:
        parts.append(language.say("plan.iterations.without-evaluations"))
    if warmup_iters >= number:
        parts.append(
            language.say(
                "plan.iterations.warmup-too-long",
                number=language.number(warmup_iters, ","),
            )
        )
    return language.clauses(parts)
