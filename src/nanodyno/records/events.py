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

Notify = Callable[[str], None]
"""Takes a sentence for the user."""


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


RunEvent = Message | Started | StepRecord | EvalRecord | SaveRecord | SplitRecord | StopRecord
WatchRun = Callable[[RunEvent], None]
