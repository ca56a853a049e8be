"""What tune has measured, in the user's cache: a file of lines for each device, version and question.

Every probe is appended when it is over, so that an interrupted search goes on with all it knew, on the clock
it had: each line holds what it cost.
"""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from nanodyno.config import RunConfig
from nanodyno.records.files import GrowingFile
from nanodyno.records.probe import ProbeResult
from nanodyno.records.remembered import cache_file
from nanodyno.records.types import Record

FORMAT = "nanodyno-tune"
FORMAT_VERSION = 1
WITHOUT_EFFECT = frozenset(
    {
        "batch_size", "gradient_accumulation_steps", "learning_rate", "min_lr", "warmup_iters",
        "lr_decay_iters", "max_iters", "weight_decay", "beta1", "beta2", "decay_lr", "schedule",
        "wsd_decay_fraction", "seed", "eval_interval", "eval_tokens", "eval_iters", "eval_only",
        "log_interval", "parallel", "keep_checkpoints", "bad_update", "spike_zscore", "init_from", "out_dir",
    }
)  # fmt: skip
"""Settings that have no part in which micro-batch and which switches are the fastest."""


class Question(Record):
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
    return config.model_dump(mode="json", exclude=set(WITHOUT_EFFECT))


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


_LINE: TypeAdapter[ProbedRecord | ConcludedRecord] = TypeAdapter(
    Annotated[ProbedRecord | ConcludedRecord, Field(discriminator="kind")]
)


class Journal:
    """Lines of one question. `notes` says what was wrong with the file; nothing about it is fatal."""

    def __init__(self, question: Question, again: bool = False, folder: Path | None = None) -> None:
        self.path = (folder or cache_file("tune")) / f"{question.digest}.jsonl"
        self.notes: list[str] = []
        self._lines: list[ProbedRecord | ConcludedRecord] = []
        self._file: GrowingFile | None = None
        if not again and self.path.exists():
            self._read(question)
        try:
            self._open(question, again)
        except OSError as error:
            self.notes.append(f"{self.path} cannot be written ({error.strerror}): nothing is kept for later")

    def probed(self, stage: str, number: int, name: str) -> ProbedRecord | None:
        """The latest of that name in that round."""
        wanted = (stage, number, name)
        probed = (line for line in reversed(self._lines) if isinstance(line, ProbedRecord))
        return next((line for line in probed if (line.stage, line.round, line.name) == wanted), None)

    def concluded(self) -> ConcludedRecord | None:
        found = [line for line in self._lines if isinstance(line, ConcludedRecord)]
        return found[-1] if found else None

    def concluded_with(self, budget_seconds: float, chosen: str) -> bool:
        last = self.concluded()
        return last is not None and (last.budget_seconds, last.chosen) == (budget_seconds, chosen)

    def append(self, line: ProbedRecord | ConcludedRecord) -> None:
        self._lines.append(line)
        if self._file is not None:
            with suppress(OSError):  # a full disk: what is known is shown all the same
                self._file.append(line.model_dump_json())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, question: Question) -> None:
        """A cut last line is a stop in mid-word, and dropped; anything else that is unreadable is told."""
        try:
            text = self.path.read_text(encoding="utf-8")
            first, *lines = text[: text.rfind("\n") + 1].splitlines() or [""]
            if json.loads(first or "{}") != question.model_dump(mode="json"):
                raise ValueError
        except (OSError, ValueError):
            self.notes.append(f"{self.path} is not what was left there: it is put aside, and all is measured")
            with suppress(OSError):
                self.path.replace(self.path.with_suffix(".foreign"))
            return
        for line in lines:
            try:
                self._lines.append(_LINE.validate_json(line))
            except ValidationError:
                self.notes.append(f"a damaged line in {self.path} is passed over")

    def _open(self, question: Question, again: bool) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if again:
            self.path.unlink(missing_ok=True)
        new = not self.path.exists()
        self._file = GrowingFile(self.path)
        if new or self.path.stat().st_size == 0:
            self._file.append(question.model_dump_json())
