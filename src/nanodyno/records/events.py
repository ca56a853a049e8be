"""What training tells its caller while it goes on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nanodyno.records.types import (
    EvalRecord,
    RunRecord,
    SaveRecord,
    SplitRecord,
    StepRecord,
    StopRecord,
)


@dataclass(frozen=True)
class Message:
    """A sentence for the user: a fallback, a preparation that takes a while."""

    text: str


@dataclass(frozen=True)
class Started:
    """Everything is ready; iterations follow."""

    record: RunRecord
    folder: Path
    iteration: int


Event = Message | Started | StepRecord | EvalRecord | SaveRecord | SplitRecord | StopRecord
Watch = Callable[[Event], None]
