"""Before running: does it fit, how fast, how long, and what it costs. All of it is predicted."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace

from nanodyno.config import RunConfig
from nanodyno.config.ramp import Ramp
from nanodyno.costs.advice import MemoryAdvice, advise, offloaded_bytes
from nanodyno.costs.calibration import Predicted, SpeedBasis, calibration_for
from nanodyno.costs.flops import flops_per_token, nanogpt_flops_per_token
from nanodyno.costs.memory import Memory, memory_of
from nanodyno.costs.parameters import ParameterCount, parameters
from nanodyno.costs.setup import RECOMPUTE, Recompute, Setup, needs_fused, settle
from nanodyno.costs.target import Target
from nanodyno.costs.time import IterationTime, iteration_time, unfilled_share
from nanodyno.errors import NanodynoError
from nanodyno.hardware.gpus import APPLE, NOT_NVIDIA

CHINCHILLA_TOKENS_PER_PARAMETER = 20
"""About where Hoffmann and others (2022) found a model and its data in balance for the work they take."""
MEASURED_DTYPE = "bfloat16"
LARGEST_SHOWN = 128
MOST_CANDIDATES = 9
POWER_LN_ERROR = 0.1
"""Of the board's power in training, which is predicted too."""
NEARLY = 1 / 1.01
"""Of the fastest: within 1% the smallest micro-batch is taken, as `tune` does."""


@dataclass(frozen=True)
class PlanRequest:
    """What a user wants to know besides; money in whatever currency the prices are in.

    Tokens or hours, not both; with neither, the config's own length counts.
    """

    tokens: int | None = None
    hours: float | None = None
    price_kwh: float | None = None
    price_hour: float | None = None


@dataclass(frozen=True)
class MicroBatchPlan:
    """One micro-batch at the same batch size in tokens. None is not known: no GPU, or no limit."""

    setup: Setup
    memory: Memory
    fits: bool | None
    time: IterationTime | None
    tokens_per_second: Predicted | None
    mfu: float | None


@dataclass(frozen=True)
class Grown:
    """As many iterations, each as large as the measured noise may make the last."""

    tokens_per_iter: int
    tokens: int
    hours: Predicted | None


@dataclass(frozen=True)
class Bill:
    """What a training on so many tokens takes."""

    tokens: int
    tokens_within: Predicted | None
    """How many tokens the hours allow, where hours were given."""
    max_iters: int
    """That reach the tokens; where hours were given, those that are done in them."""
    hours: Predicted | None
    watts: float | None
    kwh: Predicted | None
    energy_cost: Predicted | None
    rent: Predicted | None
    grown: Grown | None
    """Where the noise decides: the most that can become of the bill, which has the first size throughout."""

    @property
    def tokens_per_second(self) -> Predicted | None:
        """Return the speed over the whole run, of which an iteration's own is that of the beginning."""
        if self.hours is None:
            return None
        if self.tokens_within is not None:
            return self.tokens_within.times(1 / (self.hours.value * 3600))
        return self.hours.under(self.tokens / 3600)


@dataclass(frozen=True)
class Plan:
    target: Target
    params: ParameterCount
    data_vocab_size: int
    """Of the tokenizer, which exact FLOPs are counted with; the model's may be padded."""
    flops_exact: int
    flops_nanogpt: int
    asked: MicroBatchPlan
    candidates: tuple[MicroBatchPlan, ...]
    """By micro-batch; `asked` is one of them."""
    advice: tuple[MemoryAdvice, ...]
    """What would make it fit, the cheapest in speed first; empty where it fits or nothing is known."""
    bill: Bill
    verified: bool
    """Whether the GPU's own rates were measured by us, with such a model and such kernels."""
    basis: SpeedBasis
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
    config: RunConfig, vocab_size: int, data_vocab_size: int, target: Target, request: PlanRequest
) -> Plan:
    costs = Costs(config, vocab_size, data_vocab_size, target)
    calibration, setup = costs.calibration, costs.setup(config)
    asked = costs.candidate(setup)
    return Plan(
        target=target,
        params=costs.params,
        data_vocab_size=data_vocab_size,
        flops_exact=costs.flops,
        flops_nanogpt=nanogpt_flops_per_token(costs.shape),
        asked=asked,
        candidates=tuple(
            costs.candidate(replace(setup, batch_size=size, micro_steps=steps))
            for size, steps in splits(setup)
        ),
        advice=()
        if target.memory_bytes is None or asked.fits
        else advise(asked.setup, target.memory_bytes, calibration, target.host_bytes),
        bill=_bill(asked, config, costs, request),
        basis=calibration.basis,
        verified=calibration.verified
        and target.gpu is not None
        and setup.dtype == MEASURED_DTYPE
        and setup.was_measured,
        offloaded_bytes=offloaded_bytes(asked.setup, calibration),
    )


class Costs:
    """Predicted memory and time of one model on one GPU, each worked out once: they do not depend on the
    effective batch."""

    def __init__(self, config: RunConfig, vocab_size: int, data_vocab_size: int, target: Target) -> None:
        self.target = target
        self.shape = config.model_shape(vocab_size)
        self.params = parameters(self.shape)
        self.flops = flops_per_token(self.shape, data_vocab_size)
        self.calibration = calibration_for(
            target.gpu,
            target.dtype(config.dtype),
            target.ceilings,
            target.power_limit_watts,
            target.trained,
        )
        self._grows = config.batch_ramp is not None
        self._auto = config.recompute == "auto"
        self._memories: dict[Setup, Memory] = {}
        self._times: dict[Setup, IterationTime] = {}

    def setup(self, config: RunConfig) -> Setup:
        """Return the switches as the trainer would set them; `config` may differ in its batch only."""
        gpu, dtype = self.target.gpu, self.target.dtype(config.dtype)
        untried = gpu is not None and gpu.family in NOT_NVIDIA and not needs_fused(config)
        setup = settle(config, self.shape, dtype, self.target.memory_bytes, "autograd" if untried else None)
        return replace(setup, compiled=False) if gpu is not None and gpu.family == APPLE else setup

    def candidate(self, setup: Setup) -> MicroBatchPlan:
        """Return what is predicted of a micro-batch, where recompute is auto with the least that fits."""
        gpu, limit = self.target.gpu, self.target.memory_bytes
        if limit is not None and len(self._levels(setup)) > 1:
            setup = least_recompute(setup, limit, lambda each: self._memory(each).total)
        memory = self._memory(setup)
        time = None if gpu is None and self.target.ceilings is None else self._time(setup)
        peak = None if gpu is None else gpu.peak_flops_per_second(setup.dtype)
        return MicroBatchPlan(
            setup=setup,
            memory=memory,
            fits=None if limit is None else memory.total <= limit,
            time=time,
            tokens_per_second=None
            if time is None
            else Predicted.of(time.tokens_per_second, self.speed_error(setup)),
            mfu=None if time is None or not peak else time.tokens_per_second * self.flops / peak,
        )

    def speed_error(self, setup: Setup) -> float:
        """Return the standard deviation of ln(speed / prediction)."""
        return self.calibration.speed_error(setup.kernels == "fused")

    def fastest(self, setup: Setup) -> MicroBatchPlan:
        """Return the smallest micro-batch that fits and is within 1% of the fastest that does. Where none
        fits or no speed is known, it is the smallest.

        Memory grows with the micro-batch, so that bisection finds how many fit. Recompute only costs time, so
        that more of it is looked at only where a larger micro-batch could be the fastest with it.
        """
        trials = [replace(setup, batch_size=size, micro_steps=steps) for size, steps in splits(setup)]
        smallest, limit = self.candidate(trials[0]), self.target.memory_bytes or math.inf
        monotone = setup.kernels == "fused"  # by autograd, one micro-step may need less than two
        if smallest.time is None or (smallest.fits is False and monotone):
            return smallest

        def needs(each: Setup) -> int:
            return self._memory(each).total

        def rate(each: Setup) -> float:
            return self._time(each).tokens_per_second

        levels, fitting = self._levels(setup), list[Setup]()
        for level in levels[levels.index(smallest.setup.recompute) :]:
            larger = [replace(each, recompute=level) for each in trials[len(fitting) :]]
            if fitting and max(map(rate, larger), default=0.0) <= max(map(rate, fitting)):
                break
            if monotone:
                fitting += larger[: bisect_right(larger, limit, key=needs)]
            else:
                fitting += [each for each in larger if needs(each) <= limit]
        if not fitting:
            return smallest
        enough = NEARLY * max(map(rate, fitting))
        return self.candidate(next(each for each in fitting if rate(each) >= enough))

    def _levels(self, setup: Setup) -> tuple[Recompute, ...]:
        free = self._auto and setup.kernels == "fused" and self.target.memory_bytes is not None
        return RECOMPUTE if free else (setup.recompute,)

    def _memory(self, setup: Setup) -> Memory:
        """A batch that grows has several micro-steps in the end, even where it begins with one; how many of
        several makes no difference."""
        steps = 2 if self._grows else min(2, setup.micro_steps)
        key = replace(setup, micro_steps=steps, divided=None, fewest_steps=1)
        if key not in self._memories:
            self._memories[key] = memory_of(key, self.calibration)
        return self._memories[key]

    def _time(self, setup: Setup) -> IterationTime:
        key = replace(setup, micro_steps=1, divided=None, fewest_steps=1)
        if key not in self._times:
            self._times[key] = iteration_time(key, self.calibration)
        return replace(self._times[key], micro_steps=setup.micro_steps, tokens=setup.tokens_per_iter)


def least_recompute(setup: Setup, limit_bytes: int, needs: Callable[[Setup], int]) -> Setup:
    """Return the setup with the least recompute that fits, or the most there is, as the trainer finds by
    trying; `needs` says the bytes that one takes."""
    trials = [replace(setup, recompute=each) for each in RECOMPUTE]
    return next((each for each in trials if needs(each) <= limit_bytes), trials[-1])


def splits(setup: Setup) -> list[tuple[int, int]]:
    """Micro-batches that divide the effective batch, with their micro-steps: doubling, and the one asked."""
    sequences, sizes = setup.batch_size * setup.micro_steps, setup.micro_batches(LARGEST_SHOWN)
    if len(sizes) > MOST_CANDIDATES:
        sizes = [size for size in sizes if size & (size - 1) == 0]
    return [(size, sequences // size) for size in sorted({*sizes, setup.batch_size})]


def _bill(asked: MicroBatchPlan, config: RunConfig, costs: Costs, request: PlanRequest) -> Bill:
    max_iters = _max_iters(asked, config, request)
    tokens = request.tokens or config.ramp.tokens_after(max_iters)
    error = costs.speed_error(asked.setup)
    seconds = None if asked.time is None else _seconds(asked.time, config, max_iters, tokens)
    within, hours = None, None if seconds is None else Predicted.of(seconds / 3600, error)
    if request.hours is not None and hours is not None:  # then the time is known, and the tokens are not
        within = Predicted.of(float(tokens), error)
        hours = Predicted.of(hours.value, 0.0)
    watts = _watts(asked.setup, costs)
    kwh = None
    if hours is not None and watts is not None:
        kwh = Predicted.of(hours.value * watts / 1000, math.hypot(hours.ln_error, POWER_LN_ERROR))
    return Bill(
        tokens=tokens,
        tokens_within=within,
        max_iters=max_iters,
        hours=hours,
        watts=watts,
        kwh=kwh,
        energy_cost=None if kwh is None or request.price_kwh is None else kwh.times(request.price_kwh),
        rent=None if hours is None or request.price_hour is None else hours.times(request.price_hour),
        grown=_grown(asked.time, config.ramp, max_iters, error),
    )


def _watts(setup: Setup, costs: Costs) -> float | None:
    """Return the power of the board in training: as telemetry has it, else by the limit and the load."""
    target = costs.target
    if target.drawn_watts is None:
        if target.gpu is None:
            return None
        return costs.calibration.watts(1 - unfilled_share(setup, costs.calibration))
    limit = target.power_limit_watts
    return target.drawn_watts if limit is None else min(limit, target.drawn_watts)


def _grown(time: IterationTime | None, ramp: Ramp, iterations: int, error: float) -> Grown | None:
    if ramp.most is None:
        return None
    hours = None if time is None else time.of_run(Ramp(ramp.most), iterations) / 3600
    return Grown(ramp.most, iterations * ramp.most, None if hours is None else Predicted.of(hours, error))


def _seconds(time: IterationTime, config: RunConfig, iterations: int, tokens: int) -> float:
    """As if a part of an iteration could be had, since tokens that are asked for may end within one."""
    return time.of_run(config.ramp, iterations) * tokens / config.ramp.tokens_after(iterations)


def _max_iters(asked: MicroBatchPlan, config: RunConfig, request: PlanRequest) -> int:
    if request.tokens is not None:
        return config.ramp.iterations_for(request.tokens)
    if request.hours is None:
        return config.max_iters
    if asked.time is None:
        raise NanodynoError(
            f"how far {request.hours:g} hours go depends on the GPU, and the speed of none is known here",
            "name one with --gpu; nanodyno plan --gpus lists them",
        )
    seconds = request.hours * 3600
    done = asked.time.iterations_within(config.ramp, seconds)
    if done == 0:
        raise NanodynoError(
            f"--hours={request.hours:g} is over before one iteration is: it takes about "
            f"{asked.time.seconds:.2g} s",
            "give it more hours, or make --tokens_per_iter smaller",
        )
    return done
