"""What an experiment has measured, in the user's cache: a question and lines, for whoever goes on with it."""

from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from nanodyno.records.files import GrowingFile
from nanodyno.records.types import Record

Line = TypeVar("Line", bound=Record)


class QuestionFile(Generic[Line]):
    """Lines under one question. `notes` says what was wrong with the file; nothing about it is fatal.

    A file is named after its question. One that was named when settings had other names or another order is
    found by what it asks.
    """

    def __init__(self, path: Path, question: Record, kind: TypeAdapter[Line], again: bool = False) -> None:
        self.path = path if path.exists() else _of_the_same_question(path, question) or path
        self.notes: list[str] = []
        self.lines: list[Line] = []
        self._kind = kind
        self._file: GrowingFile | None = None
        if not again and self.path.exists():
            self._read(question)
        try:
            self._open(question, again)
        except OSError as error:
            self.notes.append(f"{self.path} cannot be written ({error.strerror}): nothing is kept for later")

    def append(self, line: Line) -> None:
        self.lines.append(line)
        if self._file is not None:
            with suppress(OSError):  # a full disk: what is known is shown all the same
                self._file.append(line.model_dump_json())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, question: Record) -> None:
        """A cut last line is a stop in mid-word, and dropped; anything else that is unreadable is told."""
        try:
            first, lines = split_lines(self.path.read_text(encoding="utf-8"))
            if type(question).model_validate_json(first) != question:
                raise ValueError
        except (OSError, ValueError):
            self.notes.append(f"{self.path} is not what was left there: it is put aside, and all is measured")
            with suppress(OSError):
                self.path.replace(self.path.with_suffix(".foreign"))
            return
        for line in lines:
            try:
                self.lines.append(self._kind.validate_json(line))
            except ValidationError:
                self.notes.append(f"a damaged line in {self.path} is passed over")

    def _open(self, question: Record, again: bool) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if again:
            self.path.unlink(missing_ok=True)
        new = not self.path.exists()
        self._file = GrowingFile(self.path)
        if new or self.path.stat().st_size == 0:
            self._file.append(question.model_dump_json())


def _of_the_same_question(path: Path, question: Record) -> Path | None:
    for other in sorted(path.parent.glob(f"*{path.suffix}")):
        with suppress(OSError, ValueError), other.open(encoding="utf-8") as file:
            if type(question).model_validate_json(file.readline()) == question:
                return other
    return None


def split_lines(text: str) -> tuple[str, list[str]]:
    """The question, and the lines that are whole."""
    first, *lines = text[: text.rfind("\n") + 1].splitlines() or [""]
    return first, lines
