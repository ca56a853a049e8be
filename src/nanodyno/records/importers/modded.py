"""modded-nanogpt's logs: the program's own source, the driver's table, then a line a step.

It adds up the time of training, so that an iteration took what lies between two lines.
"""

import re
from collections.abc import Iterator

from nanodyno.records.importers.events import LogEvent, LoggedDevice, LoggedEval, LoggedStep, Reported, Start
from nanodyno.records.importers.nanogpt import NUMBER
from nanodyno.records.importers.reported import ConfigText
from nanodyno.records.importers.source import LogSource, clean

PROGRAM = "modded-nanogpt"
LOOKED_FOR = "`step:125/6200 val_loss:4.1234 train_time:27041ms step_avg:216.33ms`"
STEP = re.compile(
    rb"step:(\d{1,12})/(\d{1,12}) (?:(train|val)_loss:" + NUMBER + rb" )?train_time:" + NUMBER + rb"ms"
)
GPU = re.compile(rb"^\| +0 +((?:NVIDIA|AMD|Tesla|Quadro|GeForce) [\w ./-]{2,40}?)  +(?:On|Off) ")
KEYS = {
    "device_batch_size": "batch_size",
    "sequence_length": "block_size",
    "num_iterations": "max_iters",
    "learning_rate": "learning_rate",
    "warmup_iters": "warmup_iters",
    "weight_decay": "weight_decay",
    "val_loss_every": "eval_interval",
}


def recognise(chunk: bytes) -> int:
    return len(STEP.findall(chunk)) if b" train_time:" in chunk else 0


def read(source: LogSource) -> Iterator[LogEvent]:
    clock, settings = _Clock(), _Hyperparameters()
    for line in source.lines():
        if b" train_time:" in line and (found := STEP.search(line)):
            yield from settings.close(int(found[2]))
            yield from _step(found, clock)
        elif line[:1] == b"|" and (found := GPU.search(line)):
            yield LoggedDevice(clean(found[1].decode(errors="replace")))
        elif not settings.read(line):
            source.pass_over(line)


def _step(found: re.Match[bytes], clock: "_Clock") -> Iterator[LogEvent]:
    done, kind, milliseconds = int(found[1]), found[3], float(found[5])
    if kind == b"val":
        yield LoggedEval(done, float(found[4]))
    elif done:
        loss = None if kind is None else float(found[4])
        seconds = clock.seconds(done, milliseconds)
        yield LoggedStep(done - 1, loss, seconds, elapsed_seconds=milliseconds / 1000)


class _Clock:
    def __init__(self) -> None:
        self._done, self._milliseconds = 0, 0.0

    def seconds(self, done: int, milliseconds: float) -> float | None:
        """Of one iteration; None when the clock went back, as it does where the warm-up is taken off."""
        steps, spent = done - self._done, milliseconds - self._milliseconds
        self._done, self._milliseconds = done, milliseconds
        return spent / steps / 1000 if steps > 0 and spent > 0 else None


class _Hyperparameters:
    """The class of that name in the source that stands at the top of the log."""

    def __init__(self) -> None:
        self._text: ConfigText | None = None
        self._reported: dict[str, object] | None = {}

    def read(self, line: bytes) -> bool:
        if self._reported is None:
            return False
        if line.startswith(b"class Hyperparameters"):
            self._text = ConfigText()
        elif self._text is not None and not line.startswith((b" ", b"\t")):
            self._text = None
        elif self._text is not None and (reported := self._text.read(line)):
            self._reported[reported.key] = reported.value
        else:
            return False
        return True

    def close(self, planned: int) -> Iterator[LogEvent]:
        """Once, before the first step."""
        if self._reported is None:
            return
        reported, self._reported = self._reported, None
        yield Start()
        for key, value in reported.items():
            if key in KEYS and isinstance(value, int | float):
                yield Reported(KEYS[key], value)
        sequences, length = reported.get("batch_size"), reported.get("sequence_length")
        if isinstance(sequences, int) and isinstance(length, int):
            yield Reported("tokens_per_iter", sequences * length)  # its batch_size is that of all devices
        yield Reported("max_iters", planned)
