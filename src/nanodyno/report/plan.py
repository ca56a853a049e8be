"""A plan as a page for people and as a document for programs."""

import dataclasses
import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.analysis.rates import Begun
from nanodyno.costs.calibration import LAPTOP, REFERENCE, Predicted, SpeedBasis
from nanodyno.costs.plan import CHINCHILLA_TOKENS_PER_PARAMETER, MEASURED_DTYPE, MicroBatchPlan, Plan
from nanodyno.hardware.gpus import NOT_NVIDIA
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.advice import advice_table
from nanodyno.report.plan_bill import range_test_hours
from nanodyno.report.plan_facts import PlanRows, PlanSource, answer_rows, fact_rows
from nanodyno.report.prose import Prose
from nanodyno.report.sizing import choice_document, sizes_table, sizes_title
from nanodyno.report.stacked import memory_bars

UNKNOWN = "-"
TITLES: dict[SpeedBasis, str] = {
    "training": "plan.title.training",
    "measured": "plan.title.measured",
    "public": "plan.title.public",
    "ceilings": "plan.title.ceilings",
    "class": "plan.title.class",
    "datasheet": "plan.title.datasheet",
}
BASES: dict[SpeedBasis, str] = {
    "measured": "plan.basis.measured",
    "public": "plan.basis.public",
    "ceilings": "plan.basis.ceilings",
    "class": "plan.basis.class",
    "datasheet": "plan.basis.datasheet",
}
MOST_LINES, AT_WIDTH = 30, 100
MOST_ROWS, FEWEST_ROWS = 8, 3
MOST_NOTES = 5
MOST_ADVICE = 4


def short_page(plan: Plan, source: PlanSource, width: int, language: Language = ENGLISH) -> RenderableType:
    """The answer, a table and the notes that matter most, on 30 lines of 100 columns: the table is cut first,
    then the notes. A narrower window has the same on more lines."""
    screen = Console(file=io.StringIO(), width=max(width, AT_WIDTH))
    page: RenderableType = Text()
    sizes = [(rows, MOST_NOTES) for rows in range(MOST_ROWS, FEWEST_ROWS, -1)]
    for rows, notes in [*sizes, *((FEWEST_ROWS, notes) for notes in range(MOST_NOTES, 0, -1))]:
        page = _short_page(plan, source, rows, notes, language)
        if len(screen.render_lines(page, pad=False)) <= MOST_LINES:
            break
    return page


def _short_page(plan: Plan, source: PlanSource, rows: int, notes: int, language: Language) -> RenderableType:
    facts = _facts(plan, answer_rows(plan, source, language), language)
    pieces: list[RenderableType] = [Prose(title(plan, source, language), style="bold"), Text(), facts, Text()]
    if plan.asked.fits is False:
        pieces += [advice_table(plan.advice[:MOST_ADVICE], plan.target.host_bytes, language), Text()]
    if source.choice is None:
        pieces += [candidates_table(plan, language, rows), Text()]
    else:
        pieces += [sizes_table(source.choice, language, rows), Text()]
    rates, *others = remarks(plan, language) or [""]
    reported = [each for each in (rates, *source.notes, *others) if each]
    pieces += [Prose(each, style="dim") for each in reported[:notes]]
    return Group(*pieces, Prose(language.say("plan.page.more"), style="dim"))


def plan_page(plan: Plan, source: PlanSource, width: int, language: Language = ENGLISH) -> RenderableType:
    """Everything that is known of a plan."""
    pieces: list[RenderableType] = [Prose(title(plan, source, language), style="bold"), Text()]
    pieces += [_facts(plan, fact_rows(plan, source, language), language), Text()]
    if source.choice is not None:
        pieces += [Prose(sizes_title(source.choice, language)), sizes_table(source.choice, language), Text()]
    pieces += [candidates_table(plan, language), Text()]
    asked, limit = plan.asked.setup.batch_size, plan.target.memory_bytes
    pieces.append(memory_bars(plan.candidates, asked, limit, width, language))
    if plan.asked.fits is False:
        pieces += [Text(), advice_table(plan.advice, plan.target.host_bytes, language)]
    reported = [*source.notes, *remarks(plan, language)]
    return Group(*pieces, *([Text()] if reported else []), *(Prose(each, style="dim") for each in reported))


def title(plan: Plan, source: PlanSource, language: Language) -> str:
    config = source.title(language)
    if plan.target.name is None:
        return language.say("plan.title.no-gpu", title=config)
    if plan.asked.time is None:
        return language.say("plan.title.not-in-table", title=config, gpu=plan.target.name)
    return language.say(TITLES[plan.basis], title=config, gpu=plan.target.name)


def _facts(plan: Plan, rows: PlanRows, language: Language) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    colours = {None: "", True: "green", False: "red"}
    fits = language.say("common.fits")
    for title, words in rows:
        table.add_row(title, Prose(words, style=colours[plan.asked.fits] if title == fits else ""))
    return table


def candidates_table(plan: Plan, language: Language = ENGLISH, most: int | None = None) -> Table:
    """Return at most so many micro-batches: the one that was asked for, and those that fit and are near."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    figures = (
        "plan.table.batch-and-steps",
        "common.memory",
        None,
        "unit.tok-per-s",
        "common.share-of-peak-short",
    )
    for title in figures:
        if title is None:
            table.add_column(language.say("common.fits"), no_wrap=True)
        else:
            table.add_column(language.say(title), justify="right", no_wrap=True)
    table.add_column(language.say("plan.table.recompute"), no_wrap=True)
    for each in plan.candidates if most is None else _nearest(plan, most):
        setup, speed, share = each.setup, each.tokens_per_second, each.mfu
        asked = setup.batch_size == plan.asked.setup.batch_size
        table.add_row(
            f"{setup.batch_size} x {setup.micro_steps}",
            quantities.gib(each.memory.total, language),
            _fits_cell(each, plan.target.room_bytes, language),
            UNKNOWN if speed is None else quantities.about(speed.value, language=language),
            UNKNOWN if share is None else quantities.about_percent(share, language),
            setup.recompute if setup.kernels == "fused" else UNKNOWN,
            style="bold" if asked else "dim" if each.fits is False else "",
        )
    return table


def _nearest(plan: Plan, most: int) -> Sequence[MicroBatchPlan]:
    sizes = [each.setup.batch_size for each in plan.candidates]
    place = sizes.index(plan.asked.setup.batch_size)

    def rank(number: int) -> tuple[bool, int]:
        return number != place and plan.candidates[number].fits is False, abs(number - place)

    kept = sorted(range(len(sizes)), key=rank)[:most]
    return [plan.candidates[number] for number in sorted(kept)]


def _fits_cell(each: MicroBatchPlan, room: int | None, language: Language) -> str:
    if each.fits is None or room is None:
        return UNKNOWN
    if not each.fits:
        return language.say("common.no")
    return (
        language.say("common.yes") if each.memory.total <= room else language.say("plan.table.fits-tightly")
    )


def remarks(plan: Plan, language: Language) -> list[str]:
    setup = plan.asked.setup
    remarks = _remarks_on_speed(plan, language)
    if plan.target.gpu is None and plan.advice:
        remarks.append(language.say("plan.note.switch-time-reference", reference=REFERENCE))
    if not setup.was_measured:
        remarks.append(language.say("plan.note.not-plain-unmeasured"))
    elif not setup.is_plain:
        remarks.append(language.say("plan.note.not-plain-measured", reference=REFERENCE))
    if setup.shape.value_embeddings:
        remarks.append(language.say("plan.note.other-programs"))
    if setup.fp8:
        remarks.append(language.say("plan.note.fp8-support"))
    return remarks


def _remarks_on_speed(plan: Plan, language: Language) -> list[str]:
    """What the speed follows from, and what narrows its interval."""
    name, gpu, dtype = plan.target.name, plan.target.gpu, plan.asked.setup.dtype
    if name is None:
        return [language.say("plan.note.no-gpu-assumed")]
    if plan.asked.time is None:
        return [language.say("plan.speed.gpu-not-in-table", gpu=name)]
    if gpu is not None and gpu.name == REFERENCE and dtype != MEASURED_DTYPE:
        return [language.say("plan.speed.other-dtype", gpu=name, dtype=dtype)]
    if plan.basis == "training":
        return []
    found = [language.say(BASES[plan.basis])]
    fused_measured = plan.target.trained is not None and plan.target.trained.fused
    if plan.asked.setup.kernels == "fused" and not fused_measured:
        found.append(language.say("plan.note.fused-untried", reference=REFERENCE))
    if gpu is not None and gpu.family in NOT_NVIDIA:
        found.append(language.say("plan.note.other-maker"))
    chosen = plan.target.power_limit_watts is not None or plan.basis in ("measured", "ceilings")
    if gpu is not None and gpu.family == LAPTOP and not chosen:
        found.append(language.say("plan.basis.laptop"))
    return found


def plan_document(plan: Plan, source: PlanSource) -> dict[str, object]:
    return {
        "config": source.name,
        "changed": dict(source.changed),
        "gpu": plan.target.name,
        "memory_limit_bytes": plan.target.memory_bytes,
        "verified": plan.verified,
        "basis": plan.basis,
        "parameters": plan.params.total,
        "parameters_by_part": dataclasses.asdict(plan.params),
        "vocab_size": {"model": plan.asked.setup.shape.vocab_size, "data": plan.data_vocab_size},
        "flops_per_token": {"exact": plan.flops_exact, "nanogpt": plan.flops_nanogpt},
        "tokens_per_iter": plan.asked.setup.tokens_per_iter,
        **_candidate(plan.asked),
        "mean_tokens_per_second": _interval(plan.bill.tokens_per_second),
        "host_bytes": plan.offloaded_bytes,
        "tokens": plan.bill.tokens,
        "tokens_within_hours": _interval(plan.bill.tokens_within),
        "max_iters": plan.bill.max_iters,
        "hours": _interval(plan.bill.hours),
        "watts": plan.bill.watts,
        "kwh_estimate": _interval(plan.bill.kwh),
        "energy_cost": _interval(plan.bill.energy_cost),
        "rent": _interval(plan.bill.rent),
        "grown": None if plan.bill.grown is None else dataclasses.asdict(plan.bill.grown),
        "power_limit_watts": plan.target.power_limit_watts,
        "range_test": None if source.range_test is None else _range_test(source.range_test, plan),
        "counted_parameters": plan.counted_params,
        "tokens_per_parameter": plan.tokens_per_parameter,
        "chinchilla_tokens_per_parameter": CHINCHILLA_TOKENS_PER_PARAMETER,
        "chosen": None if source.choice is None else choice_document(source.choice),
        "candidates": [_candidate(each) for each in plan.candidates],
        "what_would_fit": [
            {**dataclasses.asdict(each), "settings": dict(each.settings)} for each in plan.advice
        ],
    }


def _range_test(test: Begun, plan: Plan) -> dict[str, object]:
    return {"iterations_at_least": test.work, "hours_at_least": _interval(range_test_hours(test, plan))}


def _candidate(each: MicroBatchPlan) -> dict[str, object]:
    setup = each.setup
    return {
        "batch_size": setup.batch_size,
        "gradient_accumulation_steps": setup.micro_steps,
        "kernels": setup.kernels,
        "recompute": setup.recompute,
        "loss_chunk_size": setup.rows if setup.kernels == "fused" else setup.loss_chunk_size,
        "peak_memory_bytes": {**each.memory.components, "total": each.memory.total},
        "allocated_bytes": each.memory.allocated,
        "reserved_bytes": each.memory.reserved,
        "fits": each.fits,
        "tokens_per_second": _interval(each.tokens_per_second),
        "mfu": each.mfu,
    }


def _interval(value: Predicted | None) -> dict[str, float] | None:
    """Return a prediction with its 80% prediction interval, or None where it is not known."""
    return None if value is None else dataclasses.asdict(value)
