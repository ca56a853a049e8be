"""What a plan says of a batch that grows, and of a learning rate that is to be found."""

from tests.plan_words import says

from nanodyno.analysis.rates import Begun, Lengths
from nanodyno.config import build_config
from nanodyno.costs.plan import Plan, PlanRequest, make_plan
from nanodyno.costs.target import Target, named_target
from nanodyno.messages.language import ENGLISH
from nanodyno.report.page import Tiles
from nanodyno.report.pages.plan import plan_report
from nanodyno.report.plan_facts import PlanSource, fact_rows

GPU = named_target("RTX 3060 12GB", None)


def growing(ramp: str | None, target: Target = GPU) -> tuple[Plan, PlanSource]:
    settings = {"tokens_per_iter": 65_536, "batch_size": 8, "batch_ramp": ramp, "max_iters": 100}
    config = build_config(settings)
    return make_plan(config, 50304, 50257, target, PlanRequest()), PlanSource("it", ramp=config.ramp)


def text(plan: Plan, source: PlanSource) -> str:
    return " ".join(f"{title} {words}" for title, words in fact_rows(plan, source))


def test_the_speed_of_a_batch_that_grows_is_reported_from_that_of_its_run() -> None:
    """Half of 100 iterations have 65,536 tokens and half twice as many: 9.83M."""
    plan, source = growing("3276800:131072")
    assert plan.bill.hours is not None
    mean = round(9_830_400 / (plan.bill.hours.value * 3600), -2)
    first, whole = "plan.speed.at-first-size", "plan.speed.whole-run"
    assert says(text(plan, source), first, number="65,536")
    assert says(text(plan, source), whole, rate=f"{mean:,.0f}")
    assert not says(text(*growing(None)), first)
    by_noise = text(*growing("noise"))
    assert says(by_noise, first)
    assert not says(by_noise, whole)


def test_what_the_noise_may_make_of_a_bill_is_reported_below_it() -> None:
    """65,536 doubled four times are 1,048,576, and a hundred of them 104.9M."""
    plan, source = growing("noise")
    assert plan.bill.grown is not None
    assert plan.bill.grown.hours is not None
    grows = "plan.bill.growing-batch"
    figures = {"first": "65,536", "most": "1,048,576", "tokens": "104.9M"}
    reported = ENGLISH.say(grows, **figures)
    assert f"{reported}, about {plan.bill.grown.hours.value:.2f} hours (" in text(plan, source)
    assert not says(text(*growing("3276800:131072")), grows)
    assert f"{reported} {ENGLISH.say('common.iterations')} " in text(
        *growing("noise", Target(None, None, None))
    )


def test_figures_of_the_first_size_are_marked_on_the_page_to_open() -> None:
    def notes(ramp: str | None) -> list[str]:
        (tiles,) = (
            part for part in plan_report(*growing(ramp), ENGLISH).sections[0].parts if isinstance(part, Tiles)
        )
        return [tile.note for tile in tiles.tiles]

    first = ENGLISH.say("plan.speed.at-first-size", number="65,536")
    assert [each.endswith(first) for each in notes("noise")] == [False, True, True]
    assert [each.endswith(first) for each in notes("1M:131072")] == [False, True, False]
    assert not any(each.endswith(first) for each in notes(None))


def test_what_a_range_test_takes_is_reported_by_the_predicted_speed() -> None:
    """15 trainings of 200 iterations and 9 of 800 are 10,200."""
    plan, _ = growing(None)
    assert plan.asked.time is not None
    hours = 10_200 * plan.asked.time.seconds / 3600
    source = PlanSource("it", range_test=Begun(Lengths(200, 800, 4272)))
    reported = ENGLISH.say_plural("plan.bill.range-test", 10_200)
    assert f"{reported}, about {hours:.2f} hours (" in text(plan, source)
