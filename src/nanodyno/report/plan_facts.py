"""The first rows of a plan: model, batch, memory, speed, and what it takes to train it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nanodyno.costs.plan import CHINCHILLA_TOKENS_PER_PARAMETER, Bill, Candidate, Plan
from nanodyno.costs.setup import Setup
from nanodyno.costs.target import SHOWN_SHARE
from nanodyno.report import quantities

TIGHT_SHARE = 0.1
"""Of the memory: reserved peaks have been seen this far from what was predicted."""
WORTH_TELLING = 0.01
"""By which another micro-batch has to be faster: smaller differences are not known."""

Rows = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Source:
    """Where a config is from, and what is to be said about it."""

    name: str
    changed: Mapping[str, object] = field(default_factory=dict[str, object])
    warmup_iters: int = 0
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The recipe's name, and in what it is another config; the card is named beside it."""
        changes = ", ".join(f"{key}={value}" for key, value in self.changed.items() if key != "device")
        return f"{self.name} with {changes}" if changes else self.name


def fact_rows(plan: Plan, source: Source) -> Rows:
    setup = plan.asked.setup
    yield "model", _model_words(plan)
    yield (
        "batch",
        f"{setup.batch_size} x {setup.shape.block_size} tokens x {_steps(setup.micro_steps)} = "
        f"{setup.tokens_per_iter:,} tokens per iteration",
    )
    yield "way", _way_words(setup, plan.offloaded_bytes)
    yield "fits", fits_words(plan)
    if plan.target.memory_bytes is not None:
        yield "limit", _limit_words(plan)
    if plan.asked.time is not None:
        yield "speed", _speed_words(plan.asked, plan)
    if best := _better(plan):
        yield "fastest", best
    yield f"{quantities.count(plan.bill.tokens)} tokens", _bill_words(plan.bill, plan)
    yield (
        "",
        f"{plan.tokens_per_parameter:,.1f} tokens per parameter; Chinchilla's balance is about "
        f"{CHINCHILLA_TOKENS_PER_PARAMETER}",
    )
    yield "iterations", _iterations_words(plan, source.warmup_iters)


def _model_words(plan: Plan) -> str:
    padded = plan.asked.setup.shape.vocab_size
    return (
        f"{quantities.count(plan.params.total)} parameters; per token {plan.flops_exact / 1e6:,.1f} MFLOP "
        f"exactly (vocabulary {plan.data_vocab_size:,}), {plan.flops_nanogpt / 1e6:,.1f} by nanoGPT's "
        f"formula ({padded:,})"
    )


def _way_words(setup: Setup, offloaded_bytes: int) -> str:
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
    away = f"moments in {quantities.gib(offloaded_bytes)} of the host's memory"
    switches += [away] if setup.offload_moments else []
    switches += [] if setup.cuda_graph else ["no CUDA graph"]
    return ", ".join(switches)


def fits_words(plan: Plan) -> str:
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


def _limit_words(plan: Plan) -> str:
    """What the memory is that a plan is held against."""
    target = plan.target
    assert target.memory_bytes is not None
    limit = quantities.gib(target.memory_bytes)
    if target.limited:
        words = f"{limit} by --memory-limit: all that training takes, CUDA's context included"
        return f"{words} (a card sold with 12 GB shows about 11.6 GiB)"
    if target.card is None or target.host_bytes is not None:
        return f"{limit} by its driver, CUDA's context included; what other programs hold is not taken off"
    size = f"{target.card.memory_gb} GB ({SHOWN_SHARE:.0%})"
    return f"{limit} is what a program sees of {size}, CUDA's context included; a display takes some of it"


def _speed_words(asked: Candidate, plan: Plan) -> str:
    assert asked.time is not None
    words = f"about {quantities.about(asked.time.tokens_per_second)} tok/s, "
    words += f"{quantities.about(asked.time.seconds * 1000)} ms per iteration"
    card = plan.target.card
    if asked.share_of_peak is not None and card is not None:
        peak = quantities.flop_rate(card.peak_flops(asked.setup.dtype) or 0)
        words += f", {quantities.about_percent(asked.share_of_peak)} of the datasheet's {peak}"
    words += ", bound by launching" if asked.time.launch_bound else ""
    return words + (", if it fitted" if asked.fits is False else "")


def _better(plan: Plan) -> str | None:
    """The fastest micro-batch that fits, where it is another one and clearly faster."""
    rates = {
        each.setup.batch_size: each.time.tokens_per_second
        for each in plan.candidates
        if each.fits and each.time is not None
    }
    if not rates or plan.asked.time is None:
        return None
    size = max(rates, key=lambda each: rates[each])
    gain = rates[size] / plan.asked.time.tokens_per_second - 1
    if plan.asked.fits and gain < WORTH_TELLING:
        return None
    steps = plan.asked.setup.batch_size * plan.asked.setup.micro_steps // size
    rate = quantities.about(rates[size])
    return f"of those that fit: --batch_size={size} with {_steps(steps)}, about {rate} tok/s"


def _steps(number: int) -> str:
    return "1 micro-step" if number == 1 else f"{number} micro-steps"


def _bill_words(bill: Bill, plan: Plan) -> str:
    if bill.hours is None:
        return "how long depends on the card"
    words = [f"about {quantities.about(bill.hours)} hours ({quantities.duration(bill.hours * 3600)})"]
    if bill.kwh is not None and plan.target.card is not None:
        watts = plan.target.card.tdp_watts
        words.append(f"{quantities.about(bill.kwh)} kWh (an estimate: {watts:.0f} W throughout)")
    if bill.energy_cost is not None:
        words.append(f"{quantities.about(bill.energy_cost)} for energy")
    if bill.rent is not None:
        words.append(f"{quantities.about(bill.rent)} for rent")
    words += ["if it fitted"] if plan.asked.fits is False else []
    return ", ".join(words)


def _iterations_words(plan: Plan, warmup_iters: int) -> str:
    number = plan.bill.max_iters
    words = f"--max_iters={number}"
    words += "; evaluations and saves come on top of the time" if plan.bill.hours is not None else ""
    if warmup_iters >= number:
        words += f"; a warm-up of {warmup_iters:,} is too long for it: lower --warmup_iters"
    return words
