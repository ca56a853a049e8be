"""A plan as a page for people and as a document for programs."""

import dataclasses

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.costs.calibration import REFERENCE, Basis
from nanodyno.costs.plan import CHINCHILLA_TOKENS_PER_PARAMETER, Candidate, Plan
from nanodyno.report import quantities
from nanodyno.report.advice import advice_table
from nanodyno.report.plan_facts import Source, fact_rows
from nanodyno.report.stacked import memory_bars

UNKNOWN = "-"


def plan_page(plan: Plan, source: Source, width: int) -> RenderableType:
    pieces: list[RenderableType] = [Text(_title(plan, source), style="bold"), Text(), _facts(plan, source)]
    pieces += [Text(), candidates_table(plan), Text()]
    pieces.append(memory_bars(plan.candidates, plan.asked.setup.batch_size, plan.target.memory_bytes, width))
    if plan.asked.fits is False:
        pieces += [Text(), advice_table(plan.advice, plan.target.host_bytes)]
    remarks = [*source.notes, *_remarks(plan)]
    return Group(*pieces, *([Text()] if remarks else []), *(Text(remark, style="dim") for remark in remarks))


_SURE: dict[Basis, str] = {
    "training": "unverified",  # in another dtype than was measured
    "ceilings": "by this card's own ceilings",
    "datasheet": "unverified",
}


def _title(plan: Plan, source: Source) -> str:
    if plan.target.name is None:
        return f"{source.title}, no card: predicted memory only"
    sure = "calibrated on this kind of card" if plan.verified else _SURE[plan.basis]
    return f"{source.title} on {plan.target.name}: a prediction, {sure}"


def _facts(plan: Plan, source: Source) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    colours = {None: "", True: "green", False: "red"}
    for title, words in fact_rows(plan, source):
        table.add_row(title, Text(words, style=colours[plan.asked.fits] if title == "fits" else ""))
    return table


def candidates_table(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = ("batch x steps", "memory", "fits", "tok/s", "of peak", "recompute")
    for title in titles:
        table.add_column(title, justify="left" if title in ("fits", "recompute") else "right", no_wrap=True)
    for each in plan.candidates:
        setup = each.setup
        asked = setup.batch_size == plan.asked.setup.batch_size
        table.add_row(
            f"{setup.batch_size} x {setup.micro_steps}",
            quantities.gib(each.memory.total),
            UNKNOWN if each.fits is None else "yes" if each.fits else "no",
            UNKNOWN if each.time is None else quantities.about(each.time.tokens_per_second),
            UNKNOWN if each.share_of_peak is None else quantities.about_percent(each.share_of_peak),
            setup.recompute if setup.kernels == "fused" else UNKNOWN,
            style="bold" if asked else "dim" if each.fits is False else "",
        )
    return table


def _remarks(plan: Plan) -> list[str]:
    remarks = _remarks_on_rates(plan)
    if plan.target.card is None and plan.advice:
        remarks.append(f"what a switch costs in time is predicted for an {REFERENCE}")
    if not plan.asked.setup.known_by_hand:
        remarks.append(
            "unverified: what is not plain GPT-2 with AdamW is counted, and was measured on no card"
        )
    if plan.asked.setup.fp8:
        remarks.append("fp8 is there from Ada and Hopper on; training refuses it on an older card")
    return remarks


def _remarks_on_rates(plan: Plan) -> list[str]:
    name, card = plan.target.name, plan.target.card
    if name is None:
        return ["no card is meant: a recent one is assumed; --gpu NAME predicts the speed too"]
    if plan.basis == "ceilings":
        return [
            f"rates of an {REFERENCE} as it trains, scaled by what `nanodyno doctor` measured on this card; "
            "`nanodyno probe` measures a config itself"
        ]
    if card is None:
        return [f"{name} is not in the table of cards: `nanodyno doctor` measures it"]
    if plan.verified:
        return []
    if card.name == REFERENCE:
        dtype = plan.asked.setup.dtype
        is_other = dtype != "bfloat16"
        return [f"unverified: {name} was measured in bfloat16, and this is {dtype}"] if is_other else []
    return [
        f"unverified: rates of an {REFERENCE}, scaled by {name}'s datasheet peak and bandwidth; where "
        "such a card is, `nanodyno doctor` measures it"
    ]


def plan_document(plan: Plan, source: Source) -> dict[str, object]:
    return {
        "config": source.name,
        "changed": dict(source.changed),
        "gpu": plan.target.name,
        "memory_limit_bytes": plan.target.memory_bytes,
        "verified": plan.verified,
        "basis": plan.basis,
        "params": plan.params.total,
        "params_by_part": dataclasses.asdict(plan.params),
        "vocab_size": {"model": plan.asked.setup.shape.vocab_size, "data": plan.data_vocab_size},
        "flops_per_token": {"exact": plan.flops_exact, "nanogpt": plan.flops_nanogpt},
        "tokens_per_iter": plan.asked.setup.tokens_per_iter,
        **_candidate(plan.asked),
        "host_bytes": plan.offloaded_bytes,
        "tokens": plan.bill.tokens,
        "max_iters": plan.bill.max_iters,
        "hours": plan.bill.hours,
        "kwh_estimate": plan.bill.kwh,
        "energy_cost": plan.bill.energy_cost,
        "rent": plan.bill.rent,
        "tokens_per_parameter": plan.tokens_per_parameter,
        "chinchilla_tokens_per_parameter": CHINCHILLA_TOKENS_PER_PARAMETER,
        "candidates": [_candidate(each) for each in plan.candidates],
        "what_would_fit": [
            {**dataclasses.asdict(each), "settings": dict(each.settings)} for each in plan.advice
        ],
    }


def _candidate(each: Candidate) -> dict[str, object]:
    setup, time = each.setup, each.time
    return {
        "batch_size": setup.batch_size,
        "gradient_accumulation_steps": setup.micro_steps,
        "kernels": setup.kernels,
        "recompute": setup.recompute,
        "loss_rows": setup.rows if setup.kernels == "fused" else setup.loss_rows,
        "peak_memory_bytes": {**each.memory.components, "total": each.memory.total},
        "allocated_bytes": each.memory.allocated,
        "reserved_bytes": each.memory.reserved,
        "fits": each.fits,
        "tokens_per_second": None if time is None else time.tokens_per_second,
        "share_of_peak": each.share_of_peak,
    }
