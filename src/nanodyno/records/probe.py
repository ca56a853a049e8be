"""What probes measured: raw facts of one config in processes of its own; readers derive rates and shares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from nanodyno.config import RunConfig
from nanodyno.hardware.telemetry import Holder
from nanodyno.records.types import ArithmeticRecord, MachineRecord, Record, VersionsRecord, formerly

ProbeStage = Literal["starting", "building", "compiling", "warming up", "measuring", "profiling", "waiting"]
BreakdownPart = Literal["matmul", "attention", "loss", "element-wise", "optimizer", "copies"]
_OLD_PARTS = {"matrix products": "matmul", "optimiser": "optimizer"}
_StoredPart = Annotated[BreakdownPart, BeforeValidator(lambda part: _OLD_PARTS.get(part, part))]
DisturbanceCode = Literal[
    "thermal",
    "power-brake",
    "power-limit",
    "clock-drop",
    "busy-neighbour",
    "neighbour",
    "paging",
    "cpu-contention",
    "unsteady",
    "bursts",
]


class SampleRecord(Record):
    """One iteration between two synchronisations, perhaps of fewer micro-steps than the config's."""

    seconds: float
    """Wall time of its micro-steps and its update."""
    device_seconds: float | None = None
    """The same between two events of the device's own clock."""
    micro_steps: int
    micro_step_seconds: tuple[float, ...] = ()
    """Of each but the first, which has no gradients to add to, and the last, whose end is not marked."""
    data_seconds: float = 0.0


class Disturbance(Record):
    """Something other than the config had a part in the times; words come when it is shown."""

    code: DisturbanceCode
    numbers: dict[str, float] = Field(default_factory=dict)
    who: str | None = None


class RepetitionRecord(Record):
    """Iterations in a row in one process, its warm-up included: where that ends, a reader derives."""

    process: int
    """Which of the config's processes, from 0."""
    round: int
    samples: tuple[SampleRecord, ...]
    disturbances: tuple[Disturbance, ...] = ()
    sm_mhz: tuple[int, ...] = ()
    """The card's clock under load, read several times a second."""
    temperature_celsius: int | None = None
    """The highest."""
    power_watts: float | None = None
    """The highest."""
    wall_time: float
    """Unix time at its end."""


class SetupRecord(Record):
    """What a process was before its first iteration."""

    machine: MachineRecord
    arithmetic: ArithmeticRecord
    versions: VersionsRecord
    vocab_size: int
    """Rows of the embedding."""
    data_vocab_size: int
    dataset: str | None
    """None: synthetic tokens."""
    device_uuid: str | None = None
    matmul_flops_per_second: float | None = None
    """The device's own ceiling: the fastest of several large products in the dtype of the matrix products."""
    matmul_size: int | None = None
    start_seconds: float
    """From the start of the process to its first iteration, compilation included."""
    notes: tuple[str, ...] = ()


class MemoryRecord(Record):
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_host_bytes: int | None = None
    device_memory_bytes: int | None = None
    device_free_bytes: int | None = None
    """As the driver has it after the last iteration, other processes included."""
    alloc_retries: int | None = None
    """Times the allocator had to give everything cached back before it found room."""
    inactive_split_bytes: int | None = None
    """Peak of what lay idle between blocks in use: fragmentation."""


class KernelRecord(Record):
    name: str
    part: _StoredPart
    seconds: float
    times: int


class BreakdownRecord(Record):
    """Where the time of a few profiled iterations went; they count for no rate. All figures are sums."""

    source: Literal["kernels", "operators"]
    """kernels of a card, or operators on a CPU, where idle is what Python and dispatching took."""
    iterations: int
    micro_steps: int
    """Of all of them. Where an iteration has more, its optimiser's part counts for more of them."""
    part_seconds: dict[_StoredPart, float]
    """Each moment counted once; what is missing from profiled_seconds was idle."""
    profiled_seconds: float
    """Of the profiled iterations, slowed down by being watched."""
    wall_seconds: float
    """Of as many unwatched: by the median over the visit before."""
    data_seconds: float
    """Of those, spent waiting for a batch."""
    kernels: int
    launches: int | None = None
    """Calls of the host that started kernels; a CUDA graph starts many with one."""
    longest: tuple[KernelRecord, ...] = ()


class Measured(Record):
    kind: Literal["measured"] = "measured"
    config: RunConfig
    setup: SetupRecord
    repetitions: tuple[RepetitionRecord, ...] = formerly("visits", "repetitions")
    redone: tuple[RepetitionRecord, ...] = ()
    """Disturbed, and measured again: not part of any figure."""
    memory: MemoryRecord
    breakdown: BreakdownRecord | None = None
    breakdown_fault: str | None = None
    """Why there is none."""
    stopped: str | None = None
    """What ended it in a later round, if something did."""


class OutOfMemory(Record):
    """The config does not fit: a result like another."""

    kind: Literal["out-of-memory"] = "out-of-memory"
    config: RunConfig
    stage: ProbeStage
    memory: MemoryRecord
    """What was reached before it ran out."""
    words: str
    holders: tuple[Holder, ...] = ()
    """Other processes on the card at that moment."""


class Throttled(Record):
    """Disturbed at every attempt: what was measured speaks for the disturbance and not for the config."""

    kind: Literal["throttled"] = "throttled"
    config: RunConfig
    setup: SetupRecord
    redone: tuple[RepetitionRecord, ...]
    memory: MemoryRecord


class Failed(Record):
    kind: Literal["failed"] = "failed"
    config: RunConfig
    reason: Literal["hung", "died", "error", "interrupted", "refused"]
    """refused: its settings cannot be had here."""
    stage: ProbeStage
    words: str
    hint: str | None = None


ProbeResult = Annotated[Measured | OutOfMemory | Throttled | Failed, Field(discriminator="kind")]


@dataclass(frozen=True)
class ProbeProgress:
    """Where the measuring of a config stands, for a display."""

    name: str
    round: int
    stage: ProbeStage
    samples: int = 0
    seconds: float | None = None
    """Of the last iteration."""
    redone_for: tuple[Disturbance, ...] = ()
    """Set when the visit that just ended will be made again."""


WatchProbe = Callable[[ProbeProgress], None]
