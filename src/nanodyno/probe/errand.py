"""A question that a child answers, within a time; whatever becomes of the child, the parent goes on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, TypeAdapter

from nanodyno.errors import NanodynoError
from nanodyno.probe.process import Child, Silence
from nanodyno.records.types import Record

MODULE = "nanodyno.probe.examine"
POLL_SECONDS = 0.25

T = TypeVar("T")


class Errand(Record):
    """What the child is to find out."""

    task: Literal["device", "compile", "ceilings"]
    device: str = "auto"
    widths: tuple[int, ...] = ()


class Doing(Record):
    kind: Literal["doing"] = "doing"
    words: str


class Answer(Record):
    kind: Literal["answer"] = "answer"
    value: Any


class Refused(Record):
    """The user's mistake, found where the device is: the parent raises it."""

    kind: Literal["refused"] = "refused"
    message: str
    hint: str | None


class Unanswered(Record):
    kind: Literal["unanswered"] = "unanswered"
    words: str


REPLIES: TypeAdapter[Doing | Answer | Refused | Unanswered] = TypeAdapter(
    Annotated[Doing | Answer | Refused | Unanswered, Field(discriminator="kind")]
)


@dataclass(frozen=True)
class Found(Generic[T]):
    value: T
    pid: int


@dataclass(frozen=True)
class NotFound:
    words: str


def run_errand(
    errand: Errand,
    kind: type[T],
    limit_seconds: float,
    tell: Callable[[str], None] = lambda _: None,
    tick: Callable[[int], None] = lambda _: None,
) -> Found[T] | NotFound:
    """`tick` is called with the child's process several times a second."""
    child = Child(MODULE)
    end = time.monotonic() + limit_seconds
    try:
        child.say(errand.model_dump_json().encode())
        while time.monotonic() < end:
            tick(child.pid)
            try:
                line = child.hear(POLL_SECONDS)
            except Silence:
                continue
            if line is None:
                return NotFound(child.how_it_died())
            match REPLIES.validate_json(line):
                case Doing(words=words):
                    tell(words)
                case Answer(value=value):
                    return Found(TypeAdapter(kind).validate_python(value), child.pid)
                case Refused(message=message, hint=hint):
                    raise NanodynoError(message, hint)
                case Unanswered(words=words):
                    return NotFound(words)
        return NotFound(f"it was not done after {limit_seconds:.0f} s")
    finally:
        child.end()
