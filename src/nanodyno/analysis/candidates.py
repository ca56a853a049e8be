"""What tune tries: micro-batches of one effective batch, with the switches that keep the arithmetic.

On a card the cost model says which switches a micro-batch needs to fit, and in which order to try; on a CPU,
of which it knows nothing, micro-batches are tried from the one asked for outwards.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from nanodyno.config import ModelShape, RunConfig, changed, keys_where, other_value
from nanodyno.config.ramp import whole_micro_batches
from nanodyno.costs.calibration import Calibration, calibration_for
from nanodyno.costs.memory import Memory, memory_of
from nanodyno.costs.setup import FEWEST_ROWS, RECOMPUTE, Dtype, Setup, rows_by_memory, settle
from nanodyno.costs.time import iteration_time
from nanodyno.hardware.gpus import Gpu

LARGEST = 4096
"""Sequences of a micro-batch."""
MOST_SIZES = 12
STEP = 1.3
"""Of many divisors those are tried that lie this far apart."""
SURELY = 0.9
"""Of the memory that is predicted: what needs more than there is even so is not tried."""
SWITCH_TRUST, SCALED_SWITCH_TRUST = 0.05, 0.3
FP8_MULTIPLE = 16
OTHER_ARITHMETIC = keys_where(lambda each: each.tuned and each.arithmetic == "different")
_FLIPPED = {key: other_value(key) for key in OTHER_ARITHMETIC}
DIFFERENT: tuple[dict[str, object], ...] = (*({key: value} for key, value in _FLIPPED.items()), _FLIPPED)
"""Each alone, and all of them."""

SettingValues = Mapping[str, object]


@dataclass(frozen=True)
class Ground:
    """The device that is tuned for."""

    device_type: Literal["cpu", "cuda", "mps"]
    dtype: Dtype
    gpu: Gpu | None = None
    usable_bytes: int | None = None
    """For all of a training, context included; None on a CPU."""
    context_bytes: int = 0
    margin_bytes: int = 0
    """Of it, to be left free: for a desktop, and for what a run meets and a probe does not."""
    has_triton: bool = False
    has_fp8: bool = False
    threads: tuple[int, ...] = ()
    """Numbers of them worth trying on a CPU besides torch's own choice."""


@dataclass(frozen=True)
class Candidate:
    """`switches` are what it changes besides the micro-batch, as they are typed."""

    name: str
    config: RunConfig
    switches: tuple[tuple[str, str], ...] = ()
    variant: bool = False
    setup: Setup | None = None
    memory: Memory | None = None
    """Predicted, as is the next; None on a CPU."""
    predicted_seconds: float | None = None
    hopeless: bool = False
    """Predicted not to fit by far: shown, and not tried."""

    @property
    def batch_size(self) -> int:
        return self.config.batch_size

    @property
    def other_arithmetic(self) -> tuple[str, ...]:
        """Its switches that change more than the rounding of sums, as they are typed."""
        return tuple(f"{key}={value}" for key, value in self.switches if key in OTHER_ARITHMETIC)


@dataclass(frozen=True)
class TuneRequest:
    """What to tune, and what a search may do for it."""

    config: RunConfig
    vocab_size: int
    budget_seconds: float = 300.0
    memory_limit_bytes: int | None = None
    """Of the GPU that is emulated, context included."""
    allow_different: bool = False
    held: frozenset[str] = frozenset()
    """Settings that stay as they are, because the user gave them."""
    again: bool = False
    notes: tuple[str, ...] = ()
    """What had to be assumed."""


def candidates_for(request: TuneRequest, ground: Ground) -> tuple[Candidate, ...]:
    """In the order in which they are to be tried."""
    config = request.config
    sizes = micro_batches(config.sequences_divided, config.batch_size, config.ramp.fewest_steps)
    if ground.device_type != "cuda":
        return tuple(_on_host(request, ground, sizes))
    gpu = _Gpu(request, ground)
    found: dict[Setup | None, Candidate] = {}
    for each in (each for size in sizes for each in gpu.at(size)):
        found.setdefault(each.setup, each)  # what comes to the same for the trainer is one candidate
    return tuple(sorted(found.values(), key=lambda each: (each.hopeless, each.predicted_seconds or 0.0)))


def micro_batches(sequences: int, asked: int, fewest_steps: int = 1) -> list[int]:
    """Divisors of the effective batch; of many, round ones that lie apart, and the one asked for."""
    divisors = whole_micro_batches(sequences, fewest_steps, LARGEST)
    if len(divisors) <= MOST_SIZES:
        return sorted({*divisors, asked})
    kept = [asked]
    for size in sorted(divisors, key=lambda each: (-(each & -each), each)):
        if all(max(size, other) >= STEP * min(size, other) for other in kept):
            kept.append(size)
    return sorted(kept)


def _candidate(
    config: RunConfig, size: int, shown: SettingValues, hidden: SettingValues | None = None
) -> Candidate:
    """`hidden` are settings that only write out what the trainer would choose anyway."""
    made = changed(config, batch_size=size, **(hidden or {}), **shown)
    switches = tuple((key, str(value)) for key, value in shown.items())
    words = "".join(f" {key}={value}" for key, value in switches)
    return Candidate(f"{size} x {made.gradient_accumulation_steps}{words}", made, switches)


def _on_host(request: TuneRequest, ground: Ground, sizes: Sequence[int]) -> Iterator[Candidate]:
    """Every micro-batch as it is; then other threads and kernels, and last what compiles."""
    config, held = request.config, request.held
    outwards = sorted(
        sizes, key=lambda size: (max(size, config.batch_size) / min(size, config.batch_size), -size)
    )
    yield from (_candidate(config, size, {}) for size in outwards)
    flips: list[dict[str, object]] = [{"threads": number} for number in ground.threads]
    by_hand = not config.dropout and config.fused_unsupported is None
    if ground.device_type == "cpu" and config.kernels != "fused" and by_hand:
        flips.append({"kernels": "fused"})
    flips.append({"compile": not config.compile})
    for flip, size in product(flips, outwards):
        if not held & flip.keys():
            yield replace(_candidate(config, size, flip), variant=True)


class _Gpu:
    """Candidates on a card, by what the cost model says of them."""

    def __init__(self, request: TuneRequest, ground: Ground) -> None:
        self._request, self._ground = request, ground
        self._shape: ModelShape = request.config.model_shape(request.vocab_size)
        self._calibration: Calibration = calibration_for(ground.gpu, ground.dtype)

    def at(self, size: int) -> Iterator[Candidate]:
        """The fastest that fits for sure by prediction, one that might and is faster, and what else there is
        at this micro-batch; where nothing can fit, the smallest, to be shown."""
        ways = [self._predicted(size, shown) for shown in self._ways()]
        trying = [each for each in ways if not each.hopeless]
        if not trying:
            yield min(ways, key=_bytes)
            return
        sure = min(filter(self._is_safe, trying), key=_seconds, default=None)
        first = sure or min(trying, key=_bytes)
        yield first
        faster = [each for each in trying if not self._is_safe(each) and _seconds(each) < _seconds(first)]
        if faster:
            yield min(faster, key=_bytes)
        yield from self._variants(size, first)

    def _ways(self) -> Iterator[SettingValues]:
        """Every way to spend less memory on the path that the trainer takes."""
        config, held = self._request.config, self._request.held
        fused = self._settled(config).kernels == "fused"
        given = "none" if config.recompute == "auto" else config.recompute
        free = "recompute" not in held or config.recompute == "auto"
        levels = RECOMPUTE if fused and free else (given,)
        graphs = (True, False) if fused and "cuda_graph" not in held else (config.cuda_graph,)
        may_move = fused and "offload_moments" not in held and config.optimizer == "adamw"
        offloads = (False, True) if may_move else (config.offload_moments,)
        usual = config.loss_chunk_size or (self._auto_rows() if fused else None)
        rows = (usual,) if "loss_chunk_size" in held else (usual, FEWEST_ROWS)
        for level, count, graph, away in product(levels, dict.fromkeys(rows), graphs, offloads):
            yield self._written_out(level, count, graph, away)

    def _variants(self, size: int, first: Candidate) -> Iterator[Candidate]:
        """One switch turned at a time; those that cannot fit are left out."""
        now = {key: getattr(first.config, key) for key in self._usual()}
        for flip in self._flips(first):
            if self._request.held & flip.keys():
                continue
            other = self._predicted(size, now | flip)
            hope = _seconds(other) <= _seconds(first) * (1 + self._switch_trust())
            if hope and not other.hopeless and other.setup != first.setup:
                yield replace(other, variant=True)

    def _switch_trust(self) -> float:
        """By how much slower a switch may be predicted, and still be tried: what is the same in both cancels
        out, so that a card's own calibration tells more of it than of a whole iteration."""
        own = self._ground.gpu is not None and self._calibration.verified
        return SWITCH_TRUST if own else SCALED_SWITCH_TRUST

    def _flips(self, first: Candidate) -> Iterator[dict[str, object]]:
        setup, ground, config = first.setup, self._ground, self._request.config
        assert setup is not None
        if setup.kernels == "autograd":
            yield {"compile": not config.compile}
            by_hand = not config.dropout and config.fused_unsupported is None
            if ground.has_triton and ground.dtype == "bfloat16" and by_hand:
                yield {"kernels": "fused", "loss_chunk_size": self._auto_rows()}
            return
        other_rows = self._auto_rows() if setup.loss_chunk_size == FEWEST_ROWS else FEWEST_ROWS
        yield {"loss_chunk_size": other_rows}
        yield {"cuda_graph": not setup.cuda_graph}
        if setup.recompute == "none" and not setup.offload_moments and not _is_fused_only(config):
            yield {"kernels": "autograd", "compile": True, "loss_chunk_size": None, "recompute": "none"}
        if self._request.allow_different:
            sides = self._shape.n_embd % FP8_MULTIPLE or self._shape.vocab_size % FP8_MULTIPLE
            for flip in DIFFERENT:
                possible = "fp8" not in flip or (ground.has_fp8 and not sides)
                given = setup.offload_moments or setup.optimizer != "adamw"  # what the moments are
                if possible and not ("moments_dtype" in flip and given):
                    yield dict(flip)

    def _usual(self) -> SettingValues:
        """What the trainer chooses where there is memory for it."""
        return self._written_out("none", self._auto_rows(), True, False)

    def _written_out(self, recompute: str, rows: int | None, graph: bool, away: bool) -> SettingValues:
        """The settings that spend time to save memory."""
        return {"recompute": recompute, "loss_chunk_size": rows, "cuda_graph": graph, "offload_moments": away}

    def _auto_rows(self) -> int | None:
        usable = self._ground.usable_bytes
        return None if usable is None else rows_by_memory(usable, self._shape, self._ground.dtype)

    def _settled(self, config: RunConfig) -> Setup:
        """Without Triton the trainer's own choice is autograd."""
        ground = self._ground
        forced = None if ground.has_triton or config.kernels == "fused" else "autograd"
        return settle(config, self._shape, ground.dtype, ground.usable_bytes, forced)

    def _predicted(self, size: int, settings: SettingValues) -> Candidate:
        """With what the trainer would choose anyway written out, and not shown."""
        base = self._request.config
        usual = self._usual()
        shown = {
            key: value
            for key, value in settings.items()
            if value != getattr(base, key) and not (value == usual.get(key, self) and key in usual)
        }
        made = _candidate(
            base, size, shown, {key: value for key, value in settings.items() if key not in shown}
        )
        setup = self._settled(made.config)
        memory = memory_of(setup, self._calibration)
        usable = self._ground.usable_bytes
        return replace(
            made,
            setup=setup,
            memory=memory,
            predicted_seconds=iteration_time(setup, self._calibration).seconds,
            hopeless=usable is not None and memory.allocated * SURELY > usable - self._ground.context_bytes,
        )

    def _is_safe(self, candidate: Candidate) -> bool:
        usable = self._ground.usable_bytes
        return usable is None or _bytes(candidate) + self._ground.margin_bytes <= usable


def _is_fused_only(config: RunConfig) -> bool:
    other = config.residual_dtype != "float32" or config.moments_dtype != "float32" or config.fp8
    return other or config.kernels == "fused" or config.attention == "cudnn-packed"


def _bytes(candidate: Candidate) -> int:
    assert candidate.memory is not None
    return candidate.memory.total


def _seconds(candidate: Candidate) -> float:
    assert candidate.predicted_seconds is not None
    return candidate.predicted_seconds
