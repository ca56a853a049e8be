"""llm.c: its main.log, and its stdout with the times."""

import re
from collections.abc import Iterable, Iterator

from nanodyno.records.importers.events import (
    LogEvent,
    LoggedDevice,
    LoggedEval,
    LoggedProcesses,
    LoggedStep,
    Parameters,
    Reported,
    Start,
)
from nanodyno.records.importers.nanogpt import NUMBER, is_whole, scaled
from nanodyno.records.importers.source import LogSource, clean

PROGRAM = "llm.c"
LOOKED_FOR = "`s:250 trl:4.1234 lr:0.000600 norm:0.50`, `s:250 tel:4.2000` or `step  250/19560 | loss ...`"
LOGGED = re.compile(
    rb"\bs:(\d{1,12}) (?:trl:" + NUMBER + rb"(?: lr:" + NUMBER + rb")?(?: norm:" + NUMBER + rb")?"
    rb"|tel:" + NUMBER + rb"|eval:" + NUMBER + rb")"
)
PADDED = rb" {1,40}" + NUMBER + rb"(?:\((?:ind|snan)\))?"
"""A number as C's printf prints it with a width: NaN is padded to it, and Windows adds (ind)."""
PRINTED = re.compile(
    rb"\bstep +(\d{1,12})/\d{1,12} \| (?:train )?loss"
    + PADDED
    + rb"[^|]{0,40}\| norm"
    + PADDED
    + rb"[^|]{0,40}\| lr"
    + PADDED
    + rb" \| \(?"
    + NUMBER
    + rb" ms \|(?:"
    + PADDED
    + rb"% \w+ MFU)?"
)
VAL_LOSS = re.compile(rb"^\W{0,8}val loss" + PADDED + rb"\W*$")
ROW = re.compile(rb"\| ([a-zA-Z_][\w ()]{2,25}?) +\| (.{1,80}?) +\|")
ACCUMULATION = re.compile(
    rb"=> (?:setting grad_accum_steps=|calculated gradient accumulation steps: )(\d{1,9})"
)
SIZES = re.compile(
    rb"batch_size B=(\d{1,9}) \* seq_len T=(\d{1,9}) \* num_processes=(\d{1,6})"
    rb" and total_batch_size=(\d{1,12})"
)
PARAMETERS = re.compile(rb"\bnum_parameters: (\d{1,18}) =>")
KEYS = {
    "micro batch size B": ("batch_size",),
    "sequence length T": ("block_size",),
    "total batch size": ("tokens_per_iter",),
    "learning rate (LR)": ("learning_rate",),
    "warmup iterations": ("warmup_iters",),
    "weight decay": ("weight_decay",),
    "num_layers L": ("n_layer",),
    "num_heads NH": ("n_head",),
    "channels C": ("n_embd",),
    "padded_vocab_size Vp": ("vocab_size",),
    "train_num_batches": ("max_iters", "lr_decay_iters"),
    "val_loss_every": ("eval_interval",),
}
SCHEDULES: dict[str, dict[str, str | float]] = {
    "cosine": {"schedule": "cosine"},
    "linear": {"schedule": "linear"},
    "constant": {"schedule": "constant"},
    "wsd": {"schedule": "wsd", "wsd_decay_fraction": 0.2},
}
"""Its wsd decays over the last fifth."""
COUNTS = {"num_parameters": Parameters, "num_processes": LoggedProcesses}
PRECISIONS = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32", "TF32": "float32"}


def recognise(chunk: bytes) -> int:
    marks = (b" trl:", b" tel:", b"| norm ")
    if not any(mark in chunk for mark in marks):
        return 0
    return len(LOGGED.findall(chunk)) + len(PRINTED.findall(chunk))


def read(source: LogSource) -> Iterator[LogEvent]:
    stdout = _Stdout()
    for line in source.lines():
        if b"s:" in line and (found := LOGGED.search(line)):
            if source.in_last_line and not is_whole(found[2] or found[5] or b"0"):
                source.pass_over(line)
            else:
                yield from _logged(found)
        elif (events := stdout.read(line, source.in_last_line)) is not None:
            yield from events
        else:
            source.pass_over(line)
    yield from stdout.finish()


class _Stdout:
    """Its val losses name no step: they come after the iterations so far, or before a process's first."""

    def __init__(self) -> None:
        self._table = _Table()
        self._starts = True
        self._done = 0
        self._before_first: float | None = None

    def read(self, line: bytes, may_be_cut: bool) -> list[LogEvent] | None:
        """None for a line that says nothing."""
        if b"| norm " in line and (found := PRINTED.search(line)):
            return list(self._step(found))
        if b"val loss" in line and (found := VAL_LOSS.search(line)):
            if may_be_cut:
                return None
            if not self._starts:
                return [LoggedEval(self._done, float(found[1]))]
            self._before_first = float(found[1])
            return []
        events = self._table.read(line)
        self._starts = self._starts or Start() in events
        return events or None

    def _step(self, found: re.Match[bytes]) -> Iterator[LogEvent]:
        self._done = int(found[1])
        if self._before_first is not None and self._done:
            yield LoggedEval(self._done - 1, self._before_first)
        self._starts, self._before_first = False, None
        yield from _printed(found, self._done)

    def finish(self) -> Iterator[LogEvent]:
        if self._before_first is not None and not self._done:
            yield LoggedEval(0, self._before_first)


def _logged(found: re.Match[bytes]) -> Iterator[LogEvent]:
    step, train, rate, norm, val, _ = found.groups()
    if train is not None:
        yield LoggedStep(int(step), float(train), learning_rate=_float(rate), grad_norm=_float(norm))
    elif val is not None:
        yield LoggedEval(int(step), float(val))


def _printed(found: re.Match[bytes], done: int) -> Iterator[LogEvent]:
    _, loss, norm, rate, milliseconds, mfu = found.groups()
    if done:
        yield LoggedStep(
            done - 1,
            float(loss),
            scaled(milliseconds, b"e-3"),
            None if mfu is None or mfu[:1] == b"-" else scaled(mfu, b"e-2"),  # -100%: a card it does not know
            learning_rate=float(rate),
            grad_norm=float(norm),
        )


class _Table:
    """What it prints at its start."""

    def __init__(self) -> None:
        self._processes: int | None = None
        self._sizes: dict[str, int] = {}
        self._rate: float | None = None

    def read(self, line: bytes) -> list[LogEvent]:
        if found := ROW.search(line):
            title, value = clean(found[1].decode(errors="replace")), found[2].decode(errors="replace")
            events = list(_row(title, value))
            self._note_sizes(events)
            if title == "learning rate (LR)":
                self._rate = _number(value)
            elif title == "final LR fraction" and self._rate is not None:
                fraction = _number(value)
                return [] if fraction is None else [Reported("min_lr", fraction * self._rate)]
            return events
        if b"num_processes=" in line and (found := SIZES.search(line)):
            micro, length, processes, total = map(int, found.groups())
            sizes = {"batch_size": micro, "block_size": length, "tokens_per_iter": total}
            events = [*(Reported(key, size) for key, size in sizes.items()), LoggedProcesses(processes)]
            self._note_sizes(events)
            return events
        if b"num_parameters: " in line and (found := PARAMETERS.search(line)):
            return [Parameters(int(found[1]))]
        if b"=> " in line and (found := ACCUMULATION.search(line)):
            return [*self._accumulation(int(found[1])), Start()]
        return []

    def _note_sizes(self, events: Iterable[LogEvent]) -> None:
        for event in events:
            if isinstance(event, LoggedProcesses):
                self._processes = event.number
            elif isinstance(event, Reported) and isinstance(event.value, int):
                self._sizes[event.key] = event.value

    def _accumulation(self, steps: int) -> Iterator[LogEvent]:
        """Of all processes, as nanoGPT counts it: how many there are may follow from the batch size."""
        micro, length, total = map(self._sizes.get, ("batch_size", "block_size", "tokens_per_iter"))
        each = micro * length * steps if micro and length else 0
        if self._processes is None and total and each and total % each == 0:
            self._processes = total // each
            yield LoggedProcesses(self._processes)
        if self._processes is not None:
            yield Reported("gradient_accumulation_steps", steps * self._processes)
        self._processes, self._sizes = None, {}


def _row(title: str, value: str) -> Iterator[LogEvent]:
    if title in KEYS:
        number = _number(value)
        if number is not None:
            yield from (Reported(key, number) for key in KEYS[title])
    elif title == "LR scheduler" and value in SCHEDULES:
        yield from (Reported(key, setting) for key, setting in SCHEDULES[value].items())
    elif title == "device":
        yield LoggedDevice(clean(value))
    elif title == "precision" and value in PRECISIONS:
        yield Reported("dtype", PRECISIONS[value])
    elif title in COUNTS and value.isdecimal() and 0 < len(value) < 19:
        yield COUNTS[title](int(value))


def _number(text: str) -> int | float | None:
    try:
        return int(text) if text.isdecimal() and len(text) < 19 else float(text)
    except ValueError:
        return None


def _float(text: bytes | None) -> float | None:
    return None if text is None else float(text)
