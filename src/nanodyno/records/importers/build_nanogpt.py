"""build-nanogpt's stdout, and its log/log.txt of losses."""

import re
from collections.abc import Iterator

from nanodyno.records.importers.events import LogEvent, LoggedEval, LoggedStep, Parameters, Reported, Start
from nanodyno.records.importers.nanochat import BAR, TokensPerIteration, bars, step_of
from nanodyno.records.importers.nanogpt import NUMBER, is_whole
from nanodyno.records.importers.source import LogSource

PROGRAM = "build-nanogpt"
LOOKED_FOR = (
    "`step    10 | loss: 9.5 | lr 9.2e-06 | norm: 2.1 | dt: 340.12ms | tok/sec: ...` or `250 val 5.9`"
)
ROW = re.compile(rb"^\s*(\d{1,12}) (train|val|hella) " + NUMBER + rb"\s*$", re.MULTILINE)
VAL_LOSS = re.compile(rb"\bval(?:idation)? loss: *" + NUMBER + rb"\s*$")
BATCH = re.compile(rb"\btotal desired batch size: (\d{1,12})\b")
DECAYED = re.compile(rb"\bnum (?:non-)?decayed parameter tensors: \d{1,9}, with (\d[\d,]{0,20}) parameters")


def recognise(chunk: bytes) -> int:
    if b"lrm:" in chunk:
        return 0
    return len(BAR.findall(chunk)) + len(ROW.findall(chunk))


def read(source: LogSource) -> Iterator[LogEvent]:
    reader = _Reader(source)
    for line in source.lines():
        if b"loss:" in line and BAR.search(line):
            for found, rest in bars(line):
                yield from reader.step(found, rest)
        elif b"loss:" in line and (found := VAL_LOSS.search(line)) and not source.in_last_line:
            reader.pending = float(found[1])
        elif (found := ROW.search(line)) and not (source.in_last_line and not is_whole(found[3])):
            yield from _row(found)
        elif (events := reader.header(line)) is None:
            source.pass_over(line)
        else:
            yield from events
    if reader.pending is not None:
        yield LoggedEval(reader.last + 1, reader.pending)


class _Reader:
    def __init__(self, source: LogSource) -> None:
        self.last = -1
        self.pending: float | None = None
        """A val loss, which belongs to the iteration whose line comes next."""
        self._source = source
        self._tokens = TokensPerIteration()
        self._timed = False
        self._parameters = 0

    def step(self, found: "re.Match[bytes]", rest: bytes) -> Iterator[LogEvent]:
        step = step_of(found, rest)
        if step.seconds is None and (self._timed or (self._source.in_last_line and not is_whole(found[4]))):
            self._source.pass_over(found[0] + rest)  # cut before its end
            return
        self._timed = self._timed or step.seconds is not None
        yield from self._tokens.read(rest)
        if self.pending is not None:
            yield LoggedEval(step.iteration, self.pending)
        self.last, self.pending = step.iteration, None
        yield step

    def header(self, line: bytes) -> list[LogEvent] | None:
        """What it prints at its start; None for a line that says nothing of this kind."""
        if found := BATCH.search(line):
            self._tokens.close()
            self._parameters = 0
            return [Start(), Reported("tokens_per_iter", int(found[1]))]
        if found := DECAYED.search(line):
            self._parameters += int(found[1].replace(b",", b""))
            return [Parameters(self._parameters)]
        return None


def _row(found: "re.Match[bytes]") -> Iterator[LogEvent]:
    if found[2] == b"val":
        yield LoggedEval(int(found[1]), float(found[3]))
    elif found[2] == b"train":
        yield LoggedStep(int(found[1]), float(found[3]))
