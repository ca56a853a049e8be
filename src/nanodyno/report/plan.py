"""A plan as a page for people and as a document for programs."""

import dataclasses

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nanodyno.costs.plan import CHINCHILLA_TOKENS_PER_PARAMETER, Bill, Candidate, Plan
from nanodyno.costs.setup import Setup
from nanodyno.report import quantities
from nanodyno.report.advice import advice_table
from nanodyno.report.stacked import memory_bars

UNKNOWN = "-"


def plan_page(plan: Plan, name: str, notes: tuple[str, ...], width: int) -> RenderableType:
    pieces: list[RenderableType] = [Text(_title(plan, name), style="bold"), Text(), _facts(plan)]
    pieces += [Text(), candidates_table(plan), Text()]
    pieces.append(memory_bars(plan.candidates, plan.asked.setup.batch_size, plan.target.memory_bytes, width))
    if plan.asked.fits is False:
        pieces += [Text(), advice_table(plan.advice)]
    remarks = [*notes, *_remarks(plan)]
    return Group(*pieces, *([Text()] if remarks else []), *(Text(remark, style="dim") for remark in remarks))


def _title(plan: Plan, name: str) -> str:
    if plan.target.name is None:
        return f"{name}, no card: predicted memory only"
    sure = "calibrated on this kind of card" if plan.verified else "unverified"
    return f"{name} on {plan.target.name}: a prediction, {sure}"


def _facts(plan: Plan) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    setup = plan.asked.setup
    table.add_row(
        "model",
        f"{quantities.count(plan.params.total)} parameters; {plan.flops_exact / 1e6:,.1f} MFLOP per token "
        f"exactly, {plan.flops_nanogpt / 1e6:,.1f} by nanoGPT's formula",
    )
    table.add_row(
        "batch",
        f"{setup.batch_size} x {setup.shape.block_size} tokens x {setup.micro_steps} micro-steps = "
        f"{setup.tokens_per_iter:,} tokens per iteration",
    )
    table.add_row("way", way_words(setup))
    table.add_row("fits", Text(_fits_words(plan), style=_fits_style(plan.asked.fits)))
    if plan.asked.time is not None:
        table.add_row("speed", _speed_words(plan.asked, plan))
    if best := _better(plan):
        table.add_row("fastest", best)
    table.add_row(f"{quantities.count(plan.bill.tokens)} tokens", _bill_words(plan.bill, plan))
    table.add_row(
        "",
        f"{plan.tokens_per_parameter:,.1f} tokens per parameter; Chinchilla's balance is about "
        f"{CHINCHILLA_TOKENS_PER_PARAMETER}",
    )
    return table


def way_words(setup: Setup) -> str:
    if setup.kernels == "autograd":
        rows = "" if setup.loss_rows is None else f", {setup.loss_rows:,} rows of logits at once"
        return f"autograd, {'compiled' if setup.compiled else 'eager'}, {setup.dtype}{rows}"
    switches = [
        f"fused kernels, {setup.dtype}, recompute {setup.recompute}",
        f"{setup.rows:,} rows of logits at once",
    ]
    switches += ["fp8"] if setup.fp8 else []
    switches += ["bfloat16 residual stream"] if setup.residual_dtype == "bfloat16" else []
    switches += ["bfloat16 moments"] if setup.moments_dtype == "bfloat16" else []
    switches += ["moments in host memory"] if setup.offload_moments else []
    switches += [] if setup.cuda_graph else ["no CUDA graph"]
    return ", ".join(switches)


TIGHT_SHARE = 0.1
"""Of the memory: reserved peaks have been seen this far from what was predicted."""


def _fits_words(plan: Plan) -> str:
    total, limit = plan.asked.memory.total, plan.target.memory_bytes
    if limit is None:
        return f"needs {quantities.gib(total)}; a card (--gpu) or a --memory-limit tells whether it fits"
    left = limit - total
    if left >= TIGHT_SHARE * limit:
        return f"yes: {quantities.gib(total)} of {quantities.gib(limit)}, {quantities.gib(left)} to spare"
    if left >= 0:
        spare = f"{quantities.gib(total)} of {quantities.gib(limit)}, {quantities.gib(left)} to spare"
        return f"tightly: {spare}, which a display or the allocator's gaps may take"
    return f"no: {quantities.gib(total)} of {quantities.gib(limit)}, {quantities.gib(-left)} too much"


def _fits_style(fits: bool | None) -> str:
    return "" if fits is None else "green" if fits else "red"


def _speed_words(asked: Candidate, plan: Plan) -> str:
    assert asked.time is not None
    words = f"{quantities.rate(asked.time.tokens_per_second)} tok/s, "
    words += f"{quantities.milliseconds(asked.time.seconds)} per iteration"
    card = plan.target.card
    if asked.share_of_peak is not None and card is not None:
        peak = quantities.flop_rate(card.peak_flops(asked.setup.dtype) or 0)
        words += f", {quantities.percent(asked.share_of_peak)} of the datasheet's {peak}"
    words += ", bound by launching" if asked.time.launch_bound else ""
    return words + (", if it fitted" if asked.fits is False else "")


def _better(plan: Plan) -> str | None:
    """The fastest micro-batch that fits, where it is another one."""
    fitting = [each for each in plan.candidates if each.fits and each.time is not None]
    best = max(fitting, key=lambda each: each.time.tokens_per_second if each.time else 0, default=None)
    if best is None or best.time is None or best.setup.batch_size == plan.asked.setup.batch_size:
        return None
    size, steps = best.setup.batch_size, best.setup.micro_steps
    rate = quantities.rate(best.time.tokens_per_second)
    return f"of those that fit: --batch_size={size} with {steps} micro-steps, {rate} tok/s"


def _bill_words(bill: Bill, plan: Plan) -> str:
    if bill.hours is None:
        return "how long depends on the card"
    words = [f"{bill.hours:,.1f} hours ({quantities.duration(bill.hours * 3600)})"]
    if bill.kwh is not None and plan.target.card is not None:
        words.append(
            f"about {bill.kwh:,.1f} kWh (an estimate: {plan.target.card.tdp_watts:.0f} W throughout)"
        )
    if bill.energy_cost is not None:
        words.append(f"{bill.energy_cost:,.2f} for energy")
    if bill.rent is not None:
        words.append(f"{bill.rent:,.2f} for rent")
    return ", ".join(words)


def candidates_table(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = ("micro-batch x steps", "memory", "fits", "tok/s", "of peak", "recompute")
    for title in titles:
        table.add_column(title, justify="left" if title in ("fits", "recompute") else "right", no_wrap=True)
    for each in plan.candidates:
        setup = each.setup
        asked = setup.batch_size == plan.asked.setup.batch_size
        table.add_row(
            f"{setup.batch_size} x {setup.micro_steps}",
            quantities.gib(each.memory.total),
            UNKNOWN if each.fits is None else "yes" if each.fits else "no",
            UNKNOWN if each.time is None else quantities.rate(each.time.tokens_per_second),
            UNKNOWN if each.share_of_peak is None else quantities.percent(each.share_of_peak),
            setup.recompute if setup.kernels == "fused" else UNKNOWN,
            style="bold" if asked else "dim" if each.fits is False else "",
        )
    return table


def _remarks(plan: Plan) -> list[str]:
    remarks: list[str] = []
    if plan.target.name is None:
        remarks.append(
            "no GPU here, and none named: a recent one is assumed; --gpu NAME predicts the speed too"
        )
    elif plan.target.card is None:
        remarks.append(
            f"{plan.target.name} is not in the table of cards: `nanodyno probe` measures its speed"
        )
    elif not plan.verified:
        remarks.append(
            f"unverified: rates of an H200, scaled by {plan.target.name}'s datasheet peak and bandwidth"
        )
    if plan.asked.setup.fp8:
        remarks.append("fp8 is there from Ada and Hopper on; training refuses it on an older card")
    return remarks


def plan_document(plan: Plan) -> dict[str, object]:
    return {
        "gpu": plan.target.name,
        "memory_limit_bytes": plan.target.memory_bytes,
        "verified": plan.verified,
        "params": plan.params.total,
        "params_by_part": dataclasses.asdict(plan.params),
        "flops_per_token": {"exact": plan.flops_exact, "nanogpt": plan.flops_nanogpt},
        "tokens_per_iter": plan.asked.setup.tokens_per_iter,
        **_candidate(plan.asked),
        "tokens": plan.bill.tokens,
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
