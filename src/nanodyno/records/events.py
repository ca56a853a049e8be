"""What training tells its caller while it goes on, besides the records themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nanodyno.records.types import EvalRecord, RunRecord, StepRecord


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


@dataclass(frozen=True)
class Saved:
    """A checkpoint is on disk."""

    folder: Path
    iteration: int
    save_seconds: float


Event = Message | Started | StepRecord | EvalRecord | Saved
Watch = Callable[[Event], None]
