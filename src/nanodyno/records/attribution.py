"""What attribute has measured, in the user's cache: a folder for each pair of configs, a file a question.

A pair's folder has no machine in its name, so that `compare` finds what was measured of two runs without
looking for a device; each file says whose device it was.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from nanodyno.config import PLACES, RunConfig, first_name, present_name
from nanodyno.records.journal import QuestionFile, split_lines
from nanodyno.records.probe import ProbeResult
from nanodyno.records.remembered import cache_file
from nanodyno.records.types import MachineRecord, Record, formerly

SettingKey = Annotated[str, AfterValidator(present_name)]


class AttributionQuestion(Record):
    """What was asked, and of which machine: what was measured holds for it alone."""

    format: Literal["nanodyno-attribute"] = "nanodyno-attribute"
    version: int = 1
    machine: MachineRecord
    torch: str
    nanodyno: str
    metric: Literal["speed", "val_loss"]
    before: RunConfig
    after: RunConfig
    factors: tuple[tuple[SettingKey, ...], ...]
    """Keys that are changed together."""
    ignored: tuple[SettingKey, ...] = ()
    held: dict[SettingKey, Any] = Field(default_factory=dict)
    vocab_size: int
    """Rows of the embedding, where a config leaves them to its dataset."""
    memory_limit_bytes: int | None = None
    equal: Literal["tokens", "time"] | None = None
    """Of trainings: what all corners have in common, and of what length the shortest is."""
    steps: int | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class MeasuredRecord(Record):
    """One corner in one round."""

    kind: Literal["visited"] = "visited"
    round: int
    combination: int = formerly("corner", "combination")
    cost_seconds: float
    result: ProbeResult


class TrainedRecord(Record):
    """One corner trained with one seed."""

    kind: Literal["trained"] = "trained"
    round: int
    combination: int = formerly("corner", "combination")
    cost_seconds: float
    config: RunConfig
    val_loss: float | None
    """None where it could not be trained to its end."""
    training_seconds: float | None = None
    words: str | None = None
    """Why there is no loss."""


_LINE: TypeAdapter[MeasuredRecord | TrainedRecord] = TypeAdapter(
    Annotated[MeasuredRecord | TrainedRecord, Field(discriminator="kind")]
)
AttributionLine = MeasuredRecord | TrainedRecord


class AttributionJournal(QuestionFile[AttributionLine]):
    def __init__(
        self, question: AttributionQuestion, again: bool = False, folder: Path | None = None
    ) -> None:
        path = pair_folder(question.before, question.after, folder) / f"{question.digest}.jsonl"
        super().__init__(path, question, _LINE, again)

    def at(self, number: int) -> dict[int, AttributionLine]:
        """By corner, the latest of that round."""
        return {line.combination: line for line in self.lines if line.round == number}


def pair_folder(before: RunConfig, after: RunConfig, folder: Path | None = None) -> Path:
    settings = json.dumps([settings_of(before), settings_of(after)], sort_keys=True)
    return (folder or cache_file("attribute")) / hashlib.sha256(settings.encode()).hexdigest()[:16]


def settings_of(config: RunConfig) -> Mapping[str, Any]:
    """Where a run lies and what it ran on is no part of it."""
    values = config.model_dump(mode="json", exclude=set(PLACES))
    return {first_name(key): value for key, value in values.items()}


def attributions_of(
    before: RunConfig, after: RunConfig, folder: Path | None = None
) -> Iterator[tuple[AttributionQuestion, list[AttributionLine]]]:
    """What is kept of a pair, the latest last; what cannot be read is passed over."""
    place = pair_folder(before, after, folder)
    with suppress(OSError):
        for path in sorted(place.glob("*.jsonl"), key=lambda each: each.stat().st_mtime):
            with suppress(OSError, ValidationError):
                yield kept_in(path)


def kept_in(path: Path) -> tuple[AttributionQuestion, list[AttributionLine]]:
    """What one file keeps."""
    first, lines = split_lines(path.read_text(encoding="utf-8"))
    return AttributionQuestion.model_validate_json(first), list(_sound(lines))


def _sound(lines: Iterable[str]) -> Iterator[AttributionLine]:
    for line in lines:
        with suppress(ValidationError):
            yield _LINE.validate_json(line)
