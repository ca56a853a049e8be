"""What an importer finds in a file, in the order in which it stands there."""

from typing import NamedTuple

from nanodyno.records.imported import Setting


class LoggedStep(NamedTuple):
    """One logged iteration, counted from 0; None is what its line does not tell."""

    iteration: int
    loss: float | None = None
    seconds: float | None = None
    mfu: float | None = None
    """A finite fraction."""
    learning_rate: float | None = None
    grad_norm: float | None = None
    tokens: int | None = None
    wall_time: float | None = None
    elapsed_seconds: float | None = None
    """By the log's own clock at its end."""


class LoggedEval(NamedTuple):
    """An evaluation after `iteration` updates."""

    iteration: int
    val_loss: float
    train_loss: float | None = None
    wall_time: float | None = None


class LoggedBitsPerByte(NamedTuple):
    """A validation in bits per byte after `iteration` updates: no loss in nats per token."""

    iteration: int
    bits_per_byte: float


class Reported(NamedTuple):
    """A setting under nanoGPT's name."""

    key: str
    value: Setting


class Parameters(NamedTuple):
    number: int


class LoggedDevice(NamedTuple):
    name: str


class LoggedProcesses(NamedTuple):
    number: int


class Start(NamedTuple):
    """A process began."""

    resumed: bool | None = None
    """From a checkpoint; None where the log does not say it."""


class Note(NamedTuple):
    """Something that a reader of the run should know, in words."""

    words: str


LogEvent = (
    LoggedStep
    | LoggedEval
    | LoggedBitsPerByte
    | Reported
    | Parameters
    | LoggedDevice
    | LoggedProcesses
    | Start
    | Note
)
