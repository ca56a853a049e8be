"""What a preparation tells while it goes on and when it ends."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nanodyno.records.events import Message


@dataclass(frozen=True)
class PreparationStarted:
    """All is known; reading begins, or goes on after done_tokens."""

    folder: Path
    source: str
    inputs: int
    input_bytes: int
    tokenizer: str
    workers: int
    done_tokens: int
    wanted_tokens: int | None


@dataclass(frozen=True)
class PreparationProgress:
    """How far it is: tokens and documents of this attempt, and the share of all the work that is done."""

    tokens: int
    documents: int
    seconds: float
    fraction: float


@dataclass(frozen=True)
class PreparationRecord:
    """What was prepared, all attempts together; new_tokens and seconds are of the last."""

    folder: Path
    source: str
    tokenizer: str
    vocab_size: int
    dtype: str
    fingerprint: str
    inputs: int
    bad_inputs: tuple[str, ...]
    train_tokens: int
    val_tokens: int
    train_documents: int
    val_documents: int
    shards: int
    bytes: int
    empty: int
    low_score: int
    broken: int
    duplicates: int
    invalid_utf8: int
    repaired_parts: int
    new_tokens: int
    seconds: float


PreparationEvent = Message | PreparationStarted | PreparationProgress
PreparationWatch = Callable[[PreparationEvent], None]
