"""A plan as a page to open: does it fit or what was chosen, pictures of memory and speed, the tables."""

from nanodyno.analysis.forecast import by_size
from nanodyno.analysis.sizing import SizeChoice
from nanodyno.costs.calibration import Predicted
from nanodyno.costs.plan import MicroBatchPlan, Plan
from nanodyno.messages import quantities as q
from nanodyno.messages.language import Language
from nanodyno.report.advice import advice_table
from nanodyno.report.figures import Bar, Bars, Estimate, Intervals, Stack, Stacks
from nanodyno.report.page import Page, PageElement, Section, Table, Tile, Tiles, from_terminal
from nanodyno.report.plan import candidates_table, remarks, title
from nanodyno.report.plan_facts import PlanSource, fact_rows, first_size_words, fits_words
from nanodyno.report.sizing import chosen_words, sizes_table, sizes_title

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("plan.memory-group.weights-and-optimizer", ("weights", "grads", "optimizer", "casts")),
    ("common.memory-part.activations", ("activations",)),
    ("common.memory-part.logits-and-loss", ("logits_and_loss",)),
    ("plan.memory-group.other", ("largest_temporary", "context", "fragmentation")),
)
COMPONENTS = {
    "weights": "common.memory-part.weights",
    "grads": "common.memory-part.gradients",
    "optimizer": "common.optimizer",
    "casts": "common.memory-part.casts",
    "activations": "common.memory-part.activations",
    "logits_and_loss": "common.memory-part.logits-and-loss",
    "largest_temporary": "plan.memory-part.largest-temporary",
    "context": "common.memory-part.cuda-context",
    "fragmentation": "common.memory-part.fragmentation",
}


def plan_report(plan: Plan, source: PlanSource, language: Language) -> Page:
    sections = [
        Section(title(plan, source, language), _answer(plan, source, language)),
        Section(
            language.say("common.memory"),
            (_by_micro_batch(plan, language), _by_component(plan.asked, language)),
        ),
        Section(language.say("common.speed"), (_speed(plan, language),)),
        Section(
            language.say("plan.section.facts"), (Table(("", ""), tuple(fact_rows(plan, source, language))),)
        ),
        *_sizes(source.choice, language),
        Section(
            language.say("plan.section.micro-batches"),
            from_terminal(candidates_table(plan, language)),
        ),
    ]
    if plan.asked.fits is False:
        sections.append(
            Section(
                language.say("plan.advice.title"),
                from_terminal(advice_table(plan.advice, plan.target.host_bytes, language)),
            )
        )
    notes = (*source.notes, *remarks(plan, language))
    if notes:
        sections.append(Section(language.say("page.section.notes"), notes))
    return Page(language.say("plan.page-title"), tuple(sections), (source.name,))


def _sizes(choice: SizeChoice | None, language: Language) -> list[Section]:
    if choice is None:
        return []
    return [Section(sizes_title(choice, language), from_terminal(sizes_table(choice, language)))]


def _answer(plan: Plan, source: PlanSource, language: Language) -> tuple[PageElement, ...]:
    choice, ramp = source.choice, source.ramp
    words = fits_words(plan, language) if choice is None else chosen_words(choice, language)
    first = first_size_words(ramp, language) if ramp is not None and ramp.grows else ""
    tiles = [Tile(language.say("plan.tile.memory"), q.gib(plan.asked.memory.total, language))]
    if (speed := plan.asked.tokens_per_second) is not None:
        tiles.append(
            Tile(
                language.say("plan.tile.tokens-per-second"),
                q.about(speed.value, language=language),
                language.clauses([interval_words(speed, language), *([first] if first else [])]),
            )
        )
    if (hours := plan.bill.hours) is not None:
        seconds = hours.times(3600)
        low, high = (q.duration(each, language) for each in (seconds.low, seconds.high))
        notes = [language.say("common.interval-80", low=low, high=high)] if low != high else []
        tiles.append(
            Tile(
                language.say("plan.tile.time-to-tokens", tokens=q.count(plan.bill.tokens, language)),
                q.duration(seconds.value, language),
                language.clauses([*notes, *([first] if first and plan.bill.grown else [])]),
            )
        )
    if choice is not None and choice.known_tokenizer and choice.expected is not None:
        loss = by_size(choice.expected)
        low, high = (language.number(each, ".2f") for each in (loss.low, loss.high))
        note = language.say("common.interval-80", low=low, high=high)
        tiles.append(
            Tile(language.say("common.expected-val-loss"), language.number(loss.median, ".2f"), note)
        )
    answer = f"{words[0].upper()}{words[1:]}"
    if choice is not None or plan.target.memory_bytes is None:
        return language.say("list.sentence-end", sentence=answer), Tiles(tuple(tiles))
    return language.say("plan.answer.fits", answer=answer), Tiles(tuple(tiles))


def interval_words(speed: Predicted, language: Language) -> str:
    low, high = (q.about(each, language=language) for each in (speed.low, speed.high))
    return language.say("common.interval-80", low=low, high=high)


def _by_micro_batch(plan: Plan, language: Language) -> Stacks:
    limit = plan.target.memory_bytes
    return Stacks(
        language.say("plan.picture.memory-title"),
        language.say("plan.picture.memory-note"),
        language.say("common.micro-batch"),
        tuple(language.say(name) for name, _ in GROUPS),
        tuple(
            Stack(
                str(each.setup.batch_size),
                tuple(float(sum(each.memory.components[key] for key in keys)) for _, keys in GROUPS),
                q.gib(each.memory.total, language),
                each.setup.batch_size == plan.asked.setup.batch_size,
            )
            for each in plan.candidates
        ),
        limit,
        "" if limit is None else language.say("plan.picture.memory-limit", size=q.gib(limit, language)),
    )


def _by_component(asked: MicroBatchPlan, language: Language) -> Bars:
    parts = {key: size for key, size in asked.memory.components.items() if size}
    rows = tuple(
        Bar(language.say(COMPONENTS[key]), (float(size),), (q.gib(size, language),), _group(key))
        for key, size in parts.items()
    )
    size = str(asked.setup.batch_size)
    return Bars(
        language.say("plan.picture.component-title", size=size),
        language.say("plan.picture.component-note"),
        rows,
    )


def _group(component: str) -> int:
    """The colour of the part that it is of."""
    return next(number for number, (_, keys) in enumerate(GROUPS) if component in keys)


def _speed(plan: Plan, language: Language) -> PageElement:
    rows = tuple(
        Estimate(
            str(each.setup.batch_size),
            speed.value,
            q.about(speed.value, language=language)
            + ("" if each.fits is not False else f" ({language.say('common.does-not-fit')})"),
            low=speed.low,
            high=speed.high,
            chosen=each.setup.batch_size == plan.asked.setup.batch_size,
            colour=0 if each.fits is not False else 1,
        )
        for each in plan.candidates
        if (speed := each.tokens_per_second) is not None
    )
    if not rows:
        return language.say("plan.picture.no-gpu")
    return Intervals(
        language.say("common.speed-over-micro-batch"),
        language.say("plan.picture.speed-note"),
        language.say("common.micro-batch"),
        lambda value: q.about(value, language=language),
        rows,
    )
