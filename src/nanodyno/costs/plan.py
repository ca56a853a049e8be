"""Before running: does it fit, how fast, how long, and what it costs. All of it is predicted."""

from dataclasses import dataclass, replace

from nanodyno.config import RunConfig
from nanodyno.config.ramp import Ramp
from nanodyno.costs.advice import Advice, advise, offloaded_bytes
from nanodyno.costs.calibration import Basis, Calibration, calibration_for
from nanodyno.costs.flops import flops_per_token, nanogpt_flops_per_token
from nanodyno.costs.memory import Memory, memory_of
from nanodyno.costs.parameters import ParameterCount, parameters
from nanodyno.costs.setup import RECOMPUTE, Setup, settle
from nanodyno.costs.target import Target
from nanodyno.costs.time import IterationTime, iteration_time
from nanodyno.errors import NanodynoError

CHINCHILLA_TOKENS_PER_PARAMETER = 20
"""About where Hoffmann and others (2022) found a model and its data in balance for the work they take."""
MEASURED_DTYPE = "bfloat16"
LARGEST_SHOWN = 128
MOST_CANDIDATES = 9


@dataclass(frozen=True)
class Wishes:
    """What a user wants to know besides; money in whatever currency the prices are in.

    Tokens or hours, not both; with neither, the config's own length counts.
    """

    tokens: int | None = None
    hours: float | None = None
    price_kwh: float | None = None
    price_hour: float | None = None


@dataclass(frozen=True)
class Candidate:
    """One micro-batch at the same effective batch. None is not known: no card, or no limit."""

    setup: Setup
    memory: Memory
    fits: bool | None
    time: IterationTime | None
    share_of_peak: float | None


@dataclass(frozen=True)
class Grown:
    """As many iterations, each as large as the measured noise may make the last."""

    tokens_per_iter: int
    tokens: int
    hours: float | None


@dataclass(frozen=True)
class Bill:
    """To train on so many tokens. Energy is the board's power all the time: an estimate, and a high one."""

    tokens: int
    max_iters: int
    """That reach the tokens; where hours were given, those that are done in them."""
    hours: float | None
    kwh: float | None
    energy_cost: float | None
    rent: float | None
    grown: Grown | None
    """Where the noise decides: the most that can become of the bill, which has the first size throughout."""

    @property
    def tokens_per_second(self) -> float | None:
        """Over the whole run, of which an iteration's own speed is that of the beginning."""
        return None if self.hours is None else self.tokens / (self.hours * 3600)


@dataclass(frozen=True)
class Plan:
    target: Target
    params: ParameterCount
    data_vocab_size: int
    """Of the tokenizer, which exact FLOPs are counted with; the model's may be padded."""
    flops_exact: int
    flops_nanogpt: int
    asked: Candidate
    candidates: tuple[Candidate, ...]
    """By micro-batch; `asked` is one of them."""
    advice: tuple[Advice, ...]
    """What would make it fit, the cheapest in speed first; empty where it fits or nothing is known."""
    bill: Bill
    verified: bool
    """Whether the card's own rates were measured by us, with such a model going this way."""
    basis: Basis
    offloaded_bytes: int
    """Of the host's memory."""

    @property
    def counted_params(self) -> int:
        """By laws of sizes: tables that are mixed into values are none."""
        return self.params.total - self.params.value_embeddings

    @property
    def tokens_per_parameter(self) -> float:
        return self.bill.tokens / self.counted_params


def make_plan(
    config: RunConfig, vocab_size: int, data_vocab_size: int, target: Target, wishes: Wishes
) -> Plan:
    shape = config.model_shape(vocab_size)
    dtype = target.dtype(config.dtype)
    calibration = calibration_for(target.card, dtype, target.ceilings)
    maker = _Maker(config, target, calibration, flops_per_token(shape, data_vocab_size))
    settled = settle(config, shape, dtype, target.memory_bytes)
    asked = maker.candidate(settled)
    return Plan(
        target=target,
        params=parameters(shape),
        data_vocab_size=data_vocab_size,
        flops_exact=flops_per_token(shape, data_vocab_size),
        flops_nanogpt=nanogpt_flops_per_token(shape),
        asked=asked,
        candidates=tuple(
            maker.candidate(replace(settled, batch_size=size, micro_steps=steps))
            for size, steps in splits(settled)
        ),
        advice=()
        if target.memory_bytes is None or asked.fits
        else advise(asked.setup, target.memory_bytes, calibration, target.host_bytes),
        bill=_bill(asked, config, target, wishes),
        basis=calibration.basis,
        verified=calibration.verified
        and target.card is not None
        and dtype == MEASURED_DTYPE
        and settled.was_measured,
        offloaded_bytes=offloaded_bytes(asked.setup, calibration),
    )


@dataclass(frozen=True)
class _Maker:
    config: RunConfig
    target: Target
    calibration: Calibration
    flops: int

    def candidate(self, setup: Setup) -> Candidate:
        limit = self.target.memory_bytes
        if self.config.recompute == "auto" and setup.kernels == "fused" and limit is not None:
            setup = least_recompute(setup, limit, self.calibration)
        memory = memory_of(self._fullest(setup), self.calibration)
        card = self.target.card
        known = card is not None or self.target.ceilings is not None
        time = iteration_time(setup, self.calibration) if known else None
        peak = None if card is None else card.peak_flops(setup.dtype)
        return Candidate(
            setup=setup,
            memory=memory,
            fits=None if limit is None else memory.total <= limit,
            time=time,
            share_of_peak=None if time is None or not peak else time.tokens_per_second * self.flops / peak,
        )

    def _fullest(self, setup: Setup) -> Setup:
        """A batch that grows has several micro-steps in the end, even where it begins with one."""
        return setup if self.config.batch_ramp is None else replace(setup, micro_steps=2 * setup.micro_steps)


def least_recompute(setup: Setup, limit_bytes: int, calibration: Calibration) -> Setup:
    """As the trainer does by trying: the least that fits, or the most there is."""
    trials = [replace(setup, recompute=each) for each in RECOMPUTE]
    fitting = (trial for trial in trials if memory_of(trial, calibration).total <= limit_bytes)
    return next(fitting, trials[-1])


def splits(setup: Setup) -> list[tuple[int, int]]:
    """Micro-batches that divide the effective batch, with their micro-steps: doubling, and the one asked."""
    sequences, sizes = setup.batch_size * setup.micro_steps, setup.micro_batches(LARGEST_SHOWN)
    if len(sizes) > MOST_CANDIDATES:
        sizes = [size for size in sizes if size & (size - 1) == 0]
    return [(size, sequences // size) for size in sorted({*sizes, setup.batch_size})]


def _bill(asked: Candidate, config: RunConfig, target: Target, wishes: Wishes) -> Bill:
    max_iters = _max_iters(asked, config, wishes)
    tokens = wishes.tokens or config.ramp.tokens_after(max_iters)
    hours = None if asked.time is None else _seconds(asked.time, config, max_iters, tokens) / 3600
    watts = None if target.card is None else target.card.tdp_watts
    kwh = None if hours is None or watts is None else hours * watts / 1000
    return Bill(
        tokens=tokens,
        max_iters=max_iters,
        hours=hours,
        kwh=kwh,
        energy_cost=None if kwh is None or wishes.price_kwh is None else kwh * wishes.price_kwh,
        rent=None if hours is None or wishes.price_hour is None else hours * wishes.price_hour,
        grown=_grown(asked.time, config.ramp, max_iters),
    )


def _grown(time: IterationTime | None, ramp: Ramp, iterations: int) -> Grown | None:
    if ramp.most is None:
        return None
    hours = None if time is None else time.of_run(Ramp(ramp.most), iterations) / 3600
    return Grown(ramp.most, iterations * ramp.most, hours)


def _seconds(time: IterationTime, config: RunConfig, iterations: int, tokens: int) -> float:
    """As if a part of an iteration could be had, since tokens that are asked for may end within one."""
    return time.of_run(config.ramp, iterations) * tokens / config.ramp.tokens_after(iterations)


def _max_iters(asked: Candidate, config: RunConfig, wishes: Wishes) -> int:
    if wishes.tokens is not None:
        return config.ramp.iterations_for(wishes.tokens)
    if wishes.hours is None:
        return config.max_iters
    if asked.time is None:
        raise NanodynoError(
            f"how far {wishes.hours:g} hours go depends on the card, and the speed of none is known here",
            "name one with --gpu; nanodyno plan --cards lists them",
        )
    seconds = wishes.hours * 3600
    done = asked.time.iterations_within(config.ramp, seconds)
    if done == 0:
        raise NanodynoError(
            f"--hours={wishes.hours:g} is over before one iteration is: it takes about "
            f"{asked.time.seconds:.2g} s",
            "give it more hours, or make --tokens_per_iter smaller",
        )
    return done
