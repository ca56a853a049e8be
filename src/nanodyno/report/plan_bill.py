"""What a planned training takes: hours, energy, money, iterations."""

from nanodyno.costs.plan import Bill, Plan
from nanodyno.report import quantities
from nanodyno.report.language import Language


def bill_words(bill: Bill, plan: Plan, language: Language) -> str:
    if bill.hours is None:
        return language.say("how long depends on the card")
    duration = quantities.duration(bill.hours * 3600, language)
    parts = [
        language.say("about {duration}", duration=duration)
        if bill.hours < 1
        else language.say(
            "about {hours} hours ({duration})",
            hours=quantities.about(bill.hours, language=language),
            duration=duration,
        )
    ]
    if bill.kwh is not None and plan.target.card is not None:
        parts.append(
            language.say(
                "{kwh} kWh (an estimate: {watts} W throughout)",
                kwh=quantities.about(bill.kwh, language=language),
                watts=language.number(plan.target.card.tdp_watts, ".0f"),
            )
        )
    if bill.energy_cost is not None:
        amount = quantities.about(bill.energy_cost, language=language)
        parts.append(language.say("{amount} for energy", amount=amount))
    if bill.rent is not None:
        amount = quantities.about(bill.rent, language=language)
        parts.append(language.say("{amount} for rent", amount=amount))
    parts += [language.say("if it fitted")] if plan.asked.fits is False else []
    return language.joined(parts)


def iterations_words(plan: Plan, warmup_iters: int, language: Language) -> str:
    number = plan.bill.max_iters
    parts = [f"--max_iters={number}"]
    if plan.bill.hours is not None:
        parts.append(language.say("evaluations and saves come on top of the time"))
    if warmup_iters >= number:
        parts.append(
            language.say(
                "a warm-up of {number} is too long for it: lower --warmup_iters",
                number=language.number(warmup_iters, ","),
            )
        )
    return language.clauses(parts)
