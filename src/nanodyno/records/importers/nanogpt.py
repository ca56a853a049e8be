"""nanoGPT's stdout: whole or cut, with warnings, timestamps and colours in it, pasted in Markdown."""

import re
from collections.abc import Callable, Iterator

from nanodyno.records.importers.events import Eval, Event, Parameters, Start, Step, Told
from nanodyno.records.importers.source import Source
from nanodyno.records.importers.told import ConfigText, command_line, overriding

PROGRAM = "nanoGPT"
LOOKED_FOR = "`iter 10: loss 9.1234, time 345.67ms, mfu 12.34%` or `step 0: train loss ..., val loss ...`"
NUMBER = rb"(-?(?:\d{1,20}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?|nan|inf))"
ITERATION = re.compile(
    rb"iter (\d{1,12}): loss " + NUMBER + rb"(?:, time " + NUMBER + rb"ms(?:, mfu " + NUMBER + rb"%)?)?"
)
EVALUATION = re.compile(rb"step (\d{1,12}): train loss " + NUMBER + rb", val loss " + NUMBER)
MARKDOWN_TAIL = b" \t`*_|>\"'<br/>"
LONGEST_CONFIG = 500
NO_NEWS = (
    b"saving checkpoint to",
    b"num decayed parameter tensors",
    b"num non-decayed parameter tensors",
    b"using fused AdamW",
    b"compiling the model",
    b"Initializing from OpenAI",
    b"loading weights from pretrained",
)
STARTS = (b"Initializing a new model", b"Resuming training from", b"Initializing from OpenAI")


def recognise(chunk: bytes) -> int:
    if b": loss " not in chunk and b": train loss " not in chunk:
        return 0
    return len(ITERATION.findall(chunk)) + len(EVALUATION.findall(chunk))


def read(source: Source) -> Iterator[Event]:
    header, timed = _Header(), False
    for line in source.lines():
        if b"iter " in line and (found := ITERATION.search(line)):
            header.end()
            while found:
                iteration, loss, milliseconds, mfu = found.groups()
                tail = line[found.end() :]
                if mfu is None and _is_cut(tail, source.in_last_line or (timed and milliseconds is None)):
                    source.pass_over(line)
                else:
                    timed = timed or milliseconds is not None
                    yield _step(iteration, loss, milliseconds, mfu)
                found = ITERATION.search(tail) if tail else None
                line = tail
        elif b": train loss " in line and (found := EVALUATION.search(line)):
            header.end()
            if source.in_last_line and not is_whole(found[3]):
                source.pass_over(line)
            else:
                yield Eval(int(found[1]), float(found[3]), float(found[2]))
        else:
            told = header.read(line)
            if told is None:
                source.pass_over(line)
            else:
                yield from told


def is_whole(number: bytes) -> bool:
    """Whether a number at the end of a cut log has the four decimals that such programs print."""
    return len(number.partition(b".")[2]) >= 4 or not number[-1:].isdigit()


def _is_cut(tail: bytes, doubtful: bool) -> bool:
    """A line that ends before its mfu is whole only when nothing was to follow."""
    return doubtful or bool(tail.strip(MARKDOWN_TAIL))


def _step(iteration: bytes, loss: bytes, milliseconds: bytes | None, mfu: bytes | None) -> Step:
    return Step(
        int(iteration),
        float(loss),
        None if milliseconds is None else float(milliseconds) / 1000,
        None if mfu is None or mfu[:1] == b"-" else float(mfu) / 100,  # -100% is nanoGPT's "not yet"
    )


class _Header:
    """What stands before the iterations, of every start in the file."""

    def __init__(self) -> None:
        self._config: ConfigText | None = None
        self._config_lines = 0

    def end(self) -> None:
        self._config = None

    def read(self, line: bytes) -> list[Event] | None:
        """What a line tells, which may be nothing; None when it is not understood."""
        for mark, make in MARKS:
            if mark in line and (events := make(line)) is not None:
                self.end()
                if mark == CONFIG:
                    self._config, self._config_lines = ConfigText(), 0
                return events
        return self._config_line(line)

    def _config_line(self, line: bytes) -> list[Event] | None:
        if self._config is None or self._config_lines >= LONGEST_CONFIG:
            return None
        self._config_lines += 1
        told = self._config.read(line)
        return [] if told is None else [told]


def _matching(
    pattern: bytes, make: Callable[[re.Match[bytes]], Event | None]
) -> Callable[[bytes], list[Event] | None]:
    compiled = re.compile(pattern)

    def events(line: bytes) -> list[Event] | None:
        found = compiled.search(line)
        if found is None:
            return None
        event = make(found)
        return [] if event is None else [event]

    return events


def _overriding(found: re.Match[bytes]) -> Event | None:
    return overriding(found[1].decode(), found[2].decode(errors="replace").strip(" `"))


def _tokens(found: re.Match[bytes]) -> Event:
    return Told("tokens_per_iter", int(found[1].replace(b",", b"")))


def _parameters(found: re.Match[bytes]) -> Event:
    return Parameters(round(float(found[1]) * 1e6))


def _vocabulary(found: re.Match[bytes]) -> Event:
    return Told("vocab_size", int(found[1]))


def _command(line: bytes) -> list[Event] | None:
    return list(command_line(line)) or None


CONFIG = b"Overriding config with "
MARKS: tuple[tuple[bytes, Callable[[bytes], list[Event] | None]], ...] = (
    (b"Overriding: ", _matching(rb"Overriding: (\w{1,64}) = (.{0,500})", _overriding)),
    (CONFIG, lambda _: []),
    (b"tokens per iter", _matching(rb"tokens per iteration will be: (\d[\d,]{0,20})", _tokens)),
    (b"number of par", _matching(rb"number of parameters: (\d{1,9}(?:\.\d{1,9})?)M", _parameters)),
    (b"vocab_size", _matching(rb"(?:found vocab_size = |vocab_size of GPT-2 to )(\d{1,12})", _vocabulary)),
    *((mark, lambda _: [Start()]) for mark in STARTS),
    *((mark, lambda _: []) for mark in NO_NEWS),
    (b".py", _command),
)
