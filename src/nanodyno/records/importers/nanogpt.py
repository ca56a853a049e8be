"""nanoGPT's stdout: whole or cut, with warnings, timestamps and colours in it, pasted in Markdown."""

import math
import re
from collections.abc import Callable, Iterator

from nanodyno.records.importers.events import (
    LogEvent,
    LoggedEval,
    LoggedStep,
    Note,
    Parameters,
    Reported,
    Start,
)
from nanodyno.records.importers.reported import ConfigText, command_line, overriding
from nanodyno.records.importers.source import LogSource, timestamp

PROGRAM = "nanoGPT"
LOOKED_FOR = "`iter 10: loss 9.1234, time 345.67ms, mfu 12.34%` or `step 0: train loss ..., val loss ...`"
NUMBER = rb"(-?(?:\d{1,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|nan|inf))"
ITERATION = re.compile(
    rb"iter (\d{1,12}): loss " + NUMBER + rb"(?:, time " + NUMBER + rb" ?ms(?:, mfu " + NUMBER + rb"%)?)?"
)
PLAIN = re.compile(
    rb"iter (\d{1,12}): loss (\d{1,9}\.\d{1,9}), time (\d{1,12}\.\d{1,9})ms, mfu (\d{1,9}\.\d{1,9})%$"
)
"""What nearly all lines of a long log are, read without further questions."""
EVALUATION = re.compile(rb"step (\d{1,12}): train loss " + NUMBER + rb", val loss " + NUMBER)
MARKDOWN_TAIL = b" \t`*_|>\"'"
LONGEST_CONFIG = 500
STARTS = {
    b"Initializing a new model": Start(resumed=False),
    b"Resuming training from": Start(resumed=True),
    b"Initializing from OpenAI": Start(resumed=False),
}


def recognise(chunk: bytes) -> int:
    if b": loss " not in chunk and b": train loss " not in chunk:
        return 0
    return len(ITERATION.findall(chunk)) + len(EVALUATION.findall(chunk))


def read(source: LogSource) -> Iterator[LogEvent]:
    reader, plain = _Reader(source), PLAIN.match
    for line in source.lines(HINTS):
        if found := plain(line):
            if source.every_line or not reader.timed:
                reader.begin_iterations()
            iteration, loss, milliseconds, mfu = found.groups()
            yield LoggedStep(int(iteration), float(loss), float(milliseconds + b"e-3"), float(mfu + b"e-2"))
        else:
            yield from reader.read(line)
    yield from reader.left_open()


class _Reader:
    """Reads every line but the plainest."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self.timed = False
        """Whether iterations tell their time: one that does not was cut."""
        self._config: ConfigText | None = None
        self._config_lines = 0
        self._named: dict[Note, None] = {}
        """Configs that a command names and whose text has not come yet."""

    def begin_iterations(self) -> None:
        self.timed = True
        self._enter_config(None)

    def read(self, line: bytes) -> Iterator[LogEvent]:
        if b"iter " in line and ITERATION.search(line):
            self._enter_config(None)
            yield from self._steps(line)
        elif b": train loss " in line and (found := EVALUATION.search(line)):
            self._enter_config(None)
            if self._source.in_last_line and not is_whole(found[3]):
                self._source.pass_over(line)
            else:
                yield LoggedEval(int(found[1]), float(found[3]), float(found[2]))
        else:
            yield from self._header(line)

    def left_open(self) -> list[Note]:
        return list(self._named)

    def _steps(self, line: bytes) -> Iterator[LoggedStep]:
        """Usually one; several where their ends of line were lost."""
        for found in ITERATION.finditer(line):
            _, _, milliseconds, mfu = found.groups()
            doubtful = self._source.in_last_line or (self.timed and milliseconds is None)
            if mfu is None and (doubtful or line[found.end() :].strip(MARKDOWN_TAIL)):
                self._source.pass_over(line)  # cut before its end
            else:
                self.timed = self.timed or milliseconds is not None
                yield _step(*found.groups())._replace(wall_time=timestamp(line[: found.start()]))

    def _header(self, line: bytes) -> Iterator[LogEvent]:
        """What stands before the iterations, of every start in the file."""
        for mark, make in MARKS.items():
            if mark in line and (events := make(line)) is not None:
                self._enter_config(ConfigText() if mark == CONFIG else None)
                self._named.update(dict.fromkeys(event for event in events if isinstance(event, Note)))
                yield from (event for event in events if not isinstance(event, Note))
                return
        self._config_lines -= 1
        if self._config is None:
            self._source.pass_over(line)
        elif reported := self._config.read(line):
            yield reported
        if self._config_lines <= 0:
            self._enter_config(None)

    def _enter_config(self, config: ConfigText | None) -> None:
        self._config, self._config_lines = config, LONGEST_CONFIG
        self._source.every_line = config is not None
        if config is not None:
            self._named.clear()


def is_whole(number: bytes) -> bool:
    """Whether a number at the end of a cut log has the four decimals that such programs print."""
    return len(number.partition(b".")[2]) >= 4 or not number[-1:].isdigit()


def _step(iteration: bytes, loss: bytes, milliseconds: bytes | None, mfu: bytes | None) -> LoggedStep:
    return LoggedStep(
        int(iteration),
        float(loss),
        None if milliseconds is None else scaled(milliseconds, b"e-3"),
        None if mfu is None or mfu[:1] == b"-" else scaled(mfu, b"e-2"),  # -100% is nanoGPT's "not yet"
    )


def scaled(number: bytes, power: bytes) -> float | None:
    """A number times a power of ten, without the rounding of a division; None for what is no number."""
    if number[-1:].isdigit() and b"e" not in number.lower():
        return float(number + power)
    value = float(number) * float(b"1" + power)
    return value if math.isfinite(value) else None


def _matching(
    pattern: bytes, make: Callable[[re.Match[bytes]], LogEvent | None]
) -> Callable[[bytes], list[LogEvent] | None]:
    compiled = re.compile(pattern)

    def events(line: bytes) -> list[LogEvent] | None:
        found = compiled.search(line)
        if found is None:
            return None
        event = make(found)
        return [] if event is None else [event]

    return events


def _overriding(found: re.Match[bytes]) -> LogEvent | None:
    return overriding(found[1].decode(), found[2].decode(errors="replace").strip(" `"))


def _tokens(found: re.Match[bytes]) -> LogEvent:
    return Reported("tokens_per_iter", int(found[1].replace(b",", b"")))


def _parameters(found: re.Match[bytes]) -> LogEvent:
    return Parameters(round(float(found[1]) * 1e6))


def _vocabulary(found: re.Match[bytes]) -> LogEvent:
    return Reported("vocab_size", int(found[1]))


def _command(line: bytes) -> list[LogEvent] | None:
    return list(command_line(line)) or None


CONFIG = b"Overriding config with "
MARKS: dict[bytes, Callable[[bytes], list[LogEvent] | None]] = {
    b"Overriding: ": _matching(rb"Overriding: (\w{1,64}) = (.{0,500})", _overriding),
    CONFIG: lambda _: [],
    b"tokens per iter": _matching(rb"tokens per iteration will be: (\d[\d,]{0,20})", _tokens),
    b"number of par": _matching(rb"number of parameters: (\d{1,9}(?:\.\d{1,9})?)M", _parameters),
    b"vocab_size": _matching(rb"(?:found vocab_size = |vocab_size of GPT-2 to )(\d{1,12})", _vocabulary),
    **{mark: lambda _, start=start: [start] for mark, start in STARTS.items()},
    b".py": _command,
}
OF_LINES = (rb"iter \d", b": train loss ", rb"train\w{0,40}\.py")
HINTS = [re.compile(mark) for mark in (*OF_LINES, *(re.escape(mark) for mark in MARKS if mark != b".py"))]
"""One of these stands in every line that tells something, but for those of a config."""
