"""What judge has trained and decided on this machine, in the user's cache: one file for all judgements."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from nanodyno.config import RunConfig
from nanodyno.records.attribution import settings_of
from nanodyno.records.journal import QuestionFile, split_lines
from nanodyno.records.remembered import cache_file
from nanodyno.records.types import MachineRecord, Record

JudgeMetric = Literal["val_loss", "tokens_per_second"]
JudgeEqual = Literal["time", "tokens", "flops"]


class JudgeMachine(Record):
    """Whose trainings these are: another machine or version has other ones."""

    format: Literal["nanodyno-judge"] = "nanodyno-judge"
    version: int = 1
    machine: MachineRecord
    torch: str
    nanodyno: str


class TrainingLine(Record):
    """One training to the end of its config."""

    kind: Literal["trained"] = "trained"
    config: RunConfig
    train_tokens: int | None
    """Of its dataset, which could be prepared anew under its name."""
    cost_seconds: float
    neighbour: str = ""
    """What trained right before or after it. Speeds are compared between neighbours alone."""
    val_loss: float | None = None
    """None where it did not come to its end, as are the others."""
    train_loss: float | None = None
    tokens_per_second: float | None = None
    failure: str | None = None
    fails_again: bool = False
    """Whether it is the config that fails, such as by a loss that becomes NaN."""
    stopped_at_iteration: int | None = None
    """Where a clear loser was stopped."""
    stopped_beside: float | None = None
    """Training loss at its end of the base beside which it was."""


class VerdictLine(Record):
    """One candidate, judged."""

    kind: Literal["verdict"] = "verdict"
    at: float
    """Unix time."""
    base: str
    candidate: str
    changes: dict[str, object]
    metric: JudgeMetric
    equal: JudgeEqual
    minutes: float
    call: Literal["keep", "discard", "undecided"]
    improvement: float | None
    low: float | None
    high: float | None
    pairs: int
    cost_seconds: float
    n_layer: int | None = None
    base_digest: str | None = None
    """Of the base's settings: the name of a file says little once it is edited."""


JudgeLine = TrainingLine | VerdictLine
_LINE: TypeAdapter[JudgeLine] = TypeAdapter(
    Annotated[TrainingLine | VerdictLine, Field(discriminator="kind")]
)


class JudgeJournal(QuestionFile[JudgeLine]):
    """`again` leaves earlier trainings unread and keeps them in the file."""

    def __init__(self, machine: JudgeMachine, again: bool = False, folder: Path | None = None) -> None:
        digest = hashlib.sha256(machine.model_dump_json().encode()).hexdigest()[:16]
        super().__init__((folder or cache_file("judge")) / f"{digest}.jsonl", machine, _LINE)
        self._known: dict[str, TrainingLine] = {}
        for line in () if again else self.lines:
            self._learn(line)

    def trained(
        self, config: RunConfig, train_tokens: int | None, neighbour: str = ""
    ) -> TrainingLine | None:
        """Return the training of just this config on just these data, also one that was stopped."""
        asked = TrainingLine(config=config, train_tokens=train_tokens, cost_seconds=0.0, neighbour=neighbour)
        return self._known.get(_key(asked))

    def has_verdict(self, verdict: VerdictLine) -> bool:
        """Return whether this verdict is there already, of another time and cost."""
        as_now = {"at": verdict.at, "cost_seconds": verdict.cost_seconds}
        return any(
            isinstance(line, VerdictLine) and line.model_copy(update=as_now) == verdict for line in self.lines
        )

    def keep(self, line: JudgeLine) -> None:
        self.append(line)
        self._learn(line)

    def _learn(self, line: JudgeLine) -> None:
        if isinstance(line, TrainingLine):
            self._known[_key(line)] = line


def verdicts(folder: Path | None = None) -> list[VerdictLine]:
    """Return all verdicts of all machines and versions, the oldest first. What cannot be read is left out."""
    found: list[VerdictLine] = []
    for path in sorted((folder or cache_file("judge")).glob("*.jsonl")):
        with suppress(OSError):
            found += _verdicts_of(path.read_text(encoding="utf-8", errors="replace"))
    return sorted(found, key=lambda each: each.at)


def _verdicts_of(text: str) -> Iterator[VerdictLine]:
    for line in split_lines(text)[1]:
        with suppress(ValueError):
            each = _LINE.validate_json(line)
            if isinstance(each, VerdictLine):
                yield each


def _key(line: TrainingLine) -> str:
    """By all that a training depends on, the device too."""
    place = [line.config.device, line.train_tokens, line.neighbour]
    return json.dumps([settings_of(line.config), *place], sort_keys=True)


def digest_of(config: RunConfig) -> str:
    return hashlib.sha256(json.dumps(settings_of(config), sort_keys=True).encode()).hexdigest()[:16]
