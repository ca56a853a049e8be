"""What a planned training takes: hours, energy, money, iterations."""

from nanodyno.analysis.rates import Begun
from nanodyno.costs.plan import Bill, Plan
from nanodyno.messages import quantities
from nanodyno.messages.language import Language


def bill_words(bill: Bill, plan: Plan, language: Language) -> str:
    if bill.hours is None:
        return language.say("plan.bill.no-duration")
    parts = [_time_words(bill.hours, language)]
    if bill.kwh is not None and plan.target.gpu is not None:
        parts.append(
            language.say(
                "plan.bill.energy",
                kwh=quantities.about(bill.kwh, language=language),
                watts=language.number(plan.target.gpu.tdp_watts, ".0f"),
            )
        )
    if bill.energy_cost is not None:
        amount = quantities.about(bill.energy_cost, language=language)
        parts.append(language.say("plan.bill.energy-cost", amount=amount))
    if bill.rent is not None:
        amount = quantities.about(bill.rent, language=language)
        parts.append(language.say("plan.bill.rent", amount=amount))
    parts += [language.say("plan.if-it-fitted")] if plan.asked.fits is False else []
    return language.joined(parts)


def _time_words(hours: float, language: Language) -> str:
    duration = quantities.duration(hours * 3600, language)
    if hours < 1:
        return language.say("plan.bill.duration", duration=duration)
    return language.say(
        "plan.bill.hours",
        hours=quantities.about(hours, language=language),
        duration=duration,
    )


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


def range_test_hours(test: Begun, plan: Plan) -> float | None:
    """At least. Its iterations have the first size."""
    return None if plan.asked.time is None else test.work * plan.asked.time.seconds / 3600


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
