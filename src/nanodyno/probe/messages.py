"""What a probe's child and its parent say to each other: one JSON document a line."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from nanodyno.config import RunConfig
from nanodyno.records.probe import BreakdownRecord, MemoryRecord, SampleRecord, SetupRecord, Stage
from nanodyno.records.types import Record


class ProbeJob(Record):
    """What a child is to measure."""

    config: RunConfig
    with_data: bool = False
    """Read the config's dataset; otherwise tokens are synthetic."""
    data_folder: Path = Path("data")
    threads: int | None = None
    """On a CPU; None leaves the number to torch."""
    memory_limit_bytes: int | None = None
    """Of what the allocator may take, for the emulation of a smaller card."""


class Measure(Record):
    """To the child: iterate until the process knows its own mean to +-precision, or the time is up."""

    kind: Literal["measure"] = "measure"
    precision: float
    limit_seconds: float


class BreakDown(Record):
    """To the child: profile one iteration."""

    kind: Literal["break-down"] = "break-down"


Command = Annotated[Measure | BreakDown, Field(discriminator="kind")]


class AtStage(Record):
    kind: Literal["stage"] = "stage"
    stage: Stage


class Ready(Record):
    kind: Literal["ready"] = "ready"
    setup: SetupRecord


class Sampled(Record):
    kind: Literal["sampled"] = "sampled"
    sample: SampleRecord


class Visited(Record):
    kind: Literal["visited"] = "visited"
    memory: MemoryRecord


class BrokenDown(Record):
    kind: Literal["broken-down"] = "broken-down"
    breakdown: BreakdownRecord | None
    fault: str | None = None


class NoMemory(Record):
    kind: Literal["no-memory"] = "no-memory"
    memory: MemoryRecord
    words: str


class Mistake(Record):
    """A user's, found where the device and the data are: the parent raises it."""

    kind: Literal["mistake"] = "mistake"
    message: str
    hint: str | None


class Fault(Record):
    kind: Literal["fault"] = "fault"
    words: str


Message = Annotated[
    AtStage | Ready | Sampled | Visited | BrokenDown | NoMemory | Mistake | Fault, Field(discriminator="kind")
]

COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
MESSAGES: TypeAdapter[Message] = TypeAdapter(Message)
