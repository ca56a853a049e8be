"""A short training in a process of its own: the child, and the parent that waits for it.

Started as `python -m nanodyno.experiments.lesson`; a job comes on stdin, messages go to stdout. What it
writes is thrown away: the loss is all that is wanted of it.
"""

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from nanodyno.config import RunConfig
from nanodyno.errors import NanodynoError
from nanodyno.probe.process import Child, Silence
from nanodyno.records.types import Record
from nanodyno.train.job import DATA_FOLDER

MODULE = "nanodyno.experiments.lesson"
PATIENCE_SECONDS = 1800.0
"""Of silence, after which it counts as hung: compiling is silent."""
TELL_SECONDS = 0.5


class LessonJob(Record):
    config: RunConfig
    data_folder: Path = DATA_FOLDER
    memory_limit_bytes: int | None = None


class Reached(Record):
    kind: Literal["reached"] = "reached"
    iteration: int
    loss: float


class Learnt(Record):
    kind: Literal["learnt"] = "learnt"
    val_loss: float
    training_seconds: float


class Spoilt(Record):
    kind: Literal["spoilt"] = "spoilt"
    words: str


_MESSAGES: TypeAdapter[Reached | Learnt | Spoilt] = TypeAdapter(
    Annotated[Reached | Learnt | Spoilt, Field(discriminator="kind")]
)


def teach(job: LessonJob, watch: Callable[[Reached], None]) -> Learnt | Spoilt:
    """Trains to the end of the config; what goes wrong is a result."""
    child = Child(MODULE)
    try:
        child.say(job.model_dump_json().encode())
        while True:
            line = child.hear(PATIENCE_SECONDS)
            if line is None:
                return Spoilt(words=child.how_it_died())
            message = _MESSAGES.validate_json(line)
            if not isinstance(message, Reached):
                return message
            watch(message)
    except Silence:
        return Spoilt(words=f"it said nothing for {PATIENCE_SECONDS / 60:.0f} minutes")
    finally:
        child.end()


def main() -> None:
    from nanodyno.probe.channel import Channel

    channel = Channel()
    job = LessonJob.model_validate_json(channel.line())
    try:
        channel.tell(learn(job, channel.tell))
    except NanodynoError as error:
        channel.tell(Spoilt(words=error.message))


def learn(job: LessonJob, tell: Callable[[Record], None]) -> Learnt | Spoilt:
    """In the child."""
    from nanodyno.probe.limits import limit_memory
    from nanodyno.records.store import read_run
    from nanodyno.records.types import StepRecord
    from nanodyno.train.device import choose
    from nanodyno.train.job import Job
    from nanodyno.train.runner import run_training

    limit_memory(choose(job.config).device, job.memory_limit_bytes)
    told = 0.0

    def watch(event: object) -> None:
        nonlocal told
        if isinstance(event, StepRecord) and time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            tell(Reached(iteration=event.iteration, loss=event.loss))

    with tempfile.TemporaryDirectory(prefix="nanodyno-") as place:
        folder = Path(place) / "lesson"
        lesson = Job(job.config, "lesson", folder, data_folder=job.data_folder, keeps=False)
        reason = run_training(lesson, watch)
        run = read_run(folder)
    last = run.own_evals[-1] if run.own_evals else None
    if reason != "finished" or last is None or not math.isfinite(last.val_loss):
        return Spoilt(words=f"it ended after {run.iterations_done} iterations without a val loss ({reason})")
    return Learnt(
        val_loss=last.val_loss, training_seconds=math.fsum(step.step_seconds for step in run.own_steps)
    )


if __name__ == "__main__":
    main()
