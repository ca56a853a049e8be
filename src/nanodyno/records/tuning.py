"""What tune has measured, in the user's cache: a file of lines for each device, version and question.

Every probe is appended when it is over, so that an interrupted search goes on with all it knew, on the clock
it had: each line holds what it cost.
"""

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from nanodyno.config import SPLIT_KEYS, RunConfig, first_name, keys_where
from nanodyno.records.journal import QuestionFile
from nanodyno.records.probe import ProbeResult
from nanodyno.records.remembered import cache_file
from nanodyno.records.types import Record, formerly

FORMAT = "nanodyno-tune"
FORMAT_VERSION = 1
WITHOUT_EFFECT = frozenset(
    keys_where(
        lambda each: each.in_experiment == "held" or ("speed" not in each.affects and each.group != "data")
    )
) | {*SPLIT_KEYS}
"""Settings that have no part in which micro-batch and which switches are the fastest. A dataset has one, by
its vocabulary."""


class TuneQuestion(Record):
    """What was asked, and of which machine: an answer holds for it alone."""

    format: Literal["nanodyno-tune"] = FORMAT
    version: int = FORMAT_VERSION
    device_name: str
    device_memory_bytes: int | None
    driver: str | None
    threads: int | None
    torch: str
    nanodyno: str
    memory_limit_bytes: int | None
    allow_different: bool
    held: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def settings_of(config: RunConfig) -> dict[str, Any]:
    """What decides which micro-batch is the fastest, by the oldest names: an answer outlives a new name."""
    values = config.model_dump(mode="json", exclude=set(WITHOUT_EFFECT))
    return {first_name(key): value for key, value in values.items()}


def is_same_probe(one: RunConfig, other: RunConfig) -> bool:
    """Whether what was measured of one holds for the other."""
    return one.batch_size == other.batch_size and settings_of(one) == settings_of(other)


class ProbedRecord(Record):
    """One visit of one candidate."""

    kind: Literal["probed"] = "probed"
    stage: Literal["screening", "halving", "final"]
    round: int
    name: str
    cost_seconds: float
    """Of the search, with everything that belonged to it."""
    until_seconds: float
    """When it had to be over: one that was cut short then may be tried again with more time."""
    result: ProbeResult


class ConcludedRecord(Record):
    """The search came to its end."""

    kind: Literal["concluded"] = "concluded"
    budget_seconds: float
    chosen: str
    config: RunConfig
    tokens_per_second: float
    confirmed: bool = formerly("measured_afresh", "confirmed", True)


_LINE: TypeAdapter[ProbedRecord | ConcludedRecord] = TypeAdapter(
    Annotated[ProbedRecord | ConcludedRecord, Field(discriminator="kind")]
)


class Journal(QuestionFile[ProbedRecord | ConcludedRecord]):
    def __init__(self, question: TuneQuestion, again: bool = False, folder: Path | None = None) -> None:
        super().__init__((folder or cache_file("tune")) / f"{question.digest}.jsonl", question, _LINE, again)

    def probed(self, stage: str, number: int, name: str) -> ProbedRecord | None:
        """The latest of that name in that round."""
        wanted = (stage, number, name)
        probed = (line for line in reversed(self.lines) if isinstance(line, ProbedRecord))
        return next((line for line in probed if (line.stage, line.round, line.name) == wanted), None)

    def found(self) -> ConcludedRecord | None:
        """The latest whose winner was measured afresh: what a training may rest on."""
        return next((line for line in reversed(self._conclusions()) if line.confirmed), None)

    def conclude(self, concluded: ConcludedRecord) -> None:
        """Unless it says what the latest did."""
        latest = next(reversed(self._conclusions()), None)
        same = {"budget_seconds", "chosen", "confirmed"}
        if latest is None or latest.model_dump(include=same) != concluded.model_dump(include=same):
            self.append(concluded)

    def _conclusions(self) -> list[ConcludedRecord]:
        return [line for line in self.lines if isinstance(line, ConcludedRecord)]
