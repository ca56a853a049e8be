"""nanochat's stdout of base_train, and autoresearch's of train.py, which prints nearly the same line.

Their validation is in bits per byte, which is no loss in nats per token: it is kept apart from val losses.
"""

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest

import numpy as np

from nanodyno.records.importers.events import (
    LogEvent,
    LoggedBitsPerByte,
    LoggedDevice,
    LoggedProcesses,
    LoggedStep,
    Note,
    Parameters,
    Reported,
    Start,
)
from nanodyno.records.importers.nanogpt import NUMBER, is_whole, scaled
from nanodyno.records.importers.source import LogSource, clean

PROGRAM = "nanochat"
LOOKED_FOR = "`step 00010/21400 (0.05%) | loss: 8.1 | lrm: 1.00 | dt: 480.12ms | tok/sec: ...`"
AUTORESEARCH = "autoresearch"
AUTORESEARCH_LOOKED_FOR = "`step 00010 (3.3%) | loss: 8.1 | lrm: 1.00 | dt: 325ms | ... | remaining: 290s`"

KEYS_PRESSED = rb"(?:\b|\^\[\[[A-H])"
"""A terminal echoes arrow keys into its log, as ^[[B."""
BAR = re.compile(
    KEYS_PRESSED
    + rb"step *(\d{1,12})(?:/(\d{1,12}))?(?: +\("
    + NUMBER
    + rb"%\))?(?: +\||,)? +loss: *"
    + NUMBER
)
"""The start of a line of nanochat, autoresearch or build-nanogpt; its other fields are looked up by name."""
SECONDS = re.compile(rb"\b(?:dt|time): *" + NUMBER + rb" *(ms|s)\b")
RATE = re.compile(rb"\btok/s(?:ec)?: *(\d[\d,]{0,20})(\.\d{1,9})?")
LEARNING_RATE = re.compile(rb"\blr:? *" + NUMBER)
NORM = re.compile(rb"\bnorm: *" + NUMBER)
MFU = re.compile(rb"\b(?:bf16_)?mfu: *" + NUMBER)
ELAPSED = re.compile(rb"\btotal time: *" + NUMBER + rb"m\b")
MULTIPLIER = re.compile(rb"\blrm: *" + NUMBER)
BITS = re.compile(KEYS_PRESSED + rb"Step (\d{1,12}) \| Validation bpb: *" + NUMBER)
SUMMARY = re.compile(rb"^(val_bpb|num_steps|total_tokens_M|num_params_M|depth|chip): +(\S.{0,60}?)\s*$")
SHAPE = re.compile(rb"[\"'](sequence_len|vocab_size|n_layer|n_head|n_embd)[\"']: (\d{1,12})\b")
SCHEDULE = re.compile(
    rb"\b(warmup[-_]ratio|warmup[-_]steps|warmdown[-_]ratio|final[-_]lr[-_]frac)[\"']?"
    rb"[ :=]{1,4}(\d[\d.]{0,19})"
)
SHAPE_KEYS = {
    "sequence_len": "block_size",
    "num_layers": "n_layer",
    "model_dim": "n_embd",
    "num_heads": "n_head",
}
DTYPES = {"bfloat16", "float16", "float32"}
UNIT = 1024
"""Batches are multiples of it, in tokens."""
FLAT = 0.995
"""A multiplier of the learning rate from here on is printed as 1.00."""
FEWEST_FALLING = 10
MOST_LATER = 1000
TOLD_OTHERWISE = 0.03
"""Of a run, in which its learning rate falls: more is not rounding."""
LARGEST_DEVIATION = 0.011
"""Of a printed multiplier from a line: it has two decimals."""


def recognise(chunk: bytes) -> int:
    if b"| remaining:" in chunk or not (b"lrm:" in chunk or b"| Validation bpb:" in chunk):
        return 0
    return len(BAR.findall(chunk)) + len(BITS.findall(chunk))


def recognise_autoresearch(chunk: bytes) -> int:
    return len(BAR.findall(chunk)) if b"| remaining:" in chunk else 0


def read(source: LogSource) -> Iterator[LogEvent]:
    reader = _Reader(source)
    for line in source.lines():
        yield from reader.read(line)
    yield from reader.finish()


def bars(line: bytes) -> Iterator[tuple["re.Match[bytes]", bytes]]:
    """The iterations of a line with their other fields: several where carriage returns were lost."""
    found = list(BAR.finditer(line))
    for each, after in zip_longest(found, found[1:]):
        yield each, line[each.end() : after.start() if after else len(line)]


def step_of(found: "re.Match[bytes]", rest: bytes) -> LoggedStep:
    """The iteration that a line of these programs reports."""
    seconds, rate, norm, mfu = (each.search(rest) for each in (SECONDS, LEARNING_RATE, NORM, MFU))
    minutes = ELAPSED.search(rest)
    return LoggedStep(
        int(found[1]),
        float(found[4]),
        None if seconds is None else scaled(seconds[1], b"e-3" if seconds[2] == b"ms" else b"e0"),
        None if mfu is None else scaled(mfu[1], b"e-2"),
        learning_rate=None if rate is None else float(rate[1]),
        grad_norm=None if norm is None else float(norm[1]),
        elapsed_seconds=60 * ((minutes and scaled(minutes[1], b"e0")) or 0.0) or None,  # 0 until it counts
    )


class TokensPerIteration:
    """The batch size in tokens by printed times and rates: the one multiple of 1,024 that fits them all."""

    def __init__(self) -> None:
        self._least, self._most = 0.0, float("inf")
        self._closed = False

    def close(self) -> None:
        """The log says it itself."""
        self._closed = True

    def read(self, rest: bytes) -> Iterator[Reported]:
        seconds, rate = SECONDS.search(rest), RATE.search(rest)
        if self._closed or seconds is None or rate is None:
            return
        spent, half = scaled(seconds[1], b"e-3" if seconds[2] == b"ms" else b"e0"), _half_unit(seconds[1])
        if spent is None or spent <= 0:
            return
        half *= 1e-3 if seconds[2] == b"ms" else 1.0
        decimals = rate[2] or b""
        speed, unit = float(rate[1].replace(b",", b"") + decimals), 2 * _half_unit(rate[1] + decimals)
        # Rounded or cut off: the rate is within one unit of what is printed.
        self._least = max(self._least, (speed - unit) * (spent - half))
        self._most = min(self._most, (speed + unit) * (spent + half))
        first, last = -(-self._least // UNIT), self._most // UNIT
        if self._least > self._most:
            self._closed = True  # the batch grew, or the times are of something else
        elif first == last > 0:
            self._closed = True
            yield Reported("tokens_per_iter", int(first) * UNIT)


class _Reader:
    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._header = _Header()
        self._tokens = TokensPerIteration()
        self._multipliers: list[tuple[int, float]] = []
        self._schedule: dict[str, float] = {}
        self._planned: int | None = None
        self._names_planned = False
        """Whether lines tell how many iterations are planned: those of later stages do not."""
        self._timed = False
        self._last = -1
        self._pending: tuple[int, float] | None = None
        """An evaluation whose stage of training is not yet known."""
        self._summary: dict[str, str] = {}
        self._smoothed = False
        self._told = False
        """Whether a header was read since the last iteration."""
        self._later: list[tuple[bytes, list[LogEvent], dict[str, float]]] = []
        """Headers behind the planned iterations: of a later stage, or of another training."""

    def read(self, line: bytes) -> Iterator[LogEvent]:
        if b"loss:" in line and BAR.search(line):
            for found, rest in bars(line):
                yield from self._step(found, rest)
        elif b"Validation bpb" in line and (found := BITS.search(line)):
            yield from self._evaluation(line, found)
        elif (found := SUMMARY.search(line)) and not self._source.in_last_line:
            self._summary[found[1].decode()] = found[2].decode(errors="replace")
            if found[1] == b"val_bpb" and re.fullmatch(NUMBER, found[2]):
                yield LoggedBitsPerByte(self._last + 1, float(found[2]))
        else:
            yield from self._before_training(line)

    def _evaluation(self, line: bytes, found: "re.Match[bytes]") -> Iterator[LogEvent]:
        if self._source.in_last_line and not is_whole(found[2]):
            self._source.pass_over(line)
            return
        yield from self._settle(None)
        self._pending = int(found[1]), float(found[2])

    def _before_training(self, line: bytes) -> Iterator[LogEvent]:
        """Settings of the schedule wherever they stand (a command, `Overriding: ...`), and the header."""
        told = {
            key.decode().replace("-", "_"): float(value)
            for key, value in SCHEDULE.findall(line)
            if value.count(b".") < 2 and (self._last < 0 or self._ended)
        }
        events = self._header.read(line)
        if events is None and not told:
            self._source.pass_over(line)
        elif self._ended:
            self._later.append((line, events or [], told))
            del self._later[MOST_LATER:]
            return
        self._schedule |= told
        yield from self._reported(events or [])

    def _reported(self, events: list[LogEvent]) -> Iterator[LogEvent]:
        for event in events:
            self._told = True
            if isinstance(event, Reported) and event.key == "tokens_per_iter":
                self._tokens.close()
            if isinstance(event, Reported) and event.key == "max_iters" and isinstance(event.value, int):
                self._planned = event.value
            yield event

    @property
    def _ended(self) -> bool:
        """Whether the planned iterations are done: what follows is of a later stage."""
        return self._names_planned and self._planned is not None and self._last + 1 >= self._planned

    def _step(self, found: "re.Match[bytes]", rest: bytes) -> Iterator[LogEvent]:
        step = step_of(found, rest)
        planned = None if found[2] is None else int(found[2])
        cut = step.seconds is None and (self._timed or (self._source.in_last_line and not is_whole(found[4])))
        if cut or (self._names_planned and planned is None):
            self._source.pass_over(found[0] + rest)
            return
        self._timed = self._timed or step.seconds is not None
        self._names_planned = self._names_planned or planned is not None
        if self._last >= 0 and step.iteration <= self._last:
            self._multipliers = [each for each in self._multipliers if each[0] < step.iteration]
            yield from self._another()
            if self._told:
                self._planned = None  # told once more, as one of another training
        elif self._last < 0:
            yield Start()
        self._told = False
        if planned and planned != self._planned:
            self._planned = planned
            yield Reported("max_iters", planned)
        yield from self._settle(step.iteration)
        if b"tok/s" in rest and (b"epoch:" in rest or planned is None):  # older ones forget micro-steps
            yield from self._tokens.read(rest)
        if multiplier := MULTIPLIER.search(rest):
            self._multipliers.append((step.iteration, float(multiplier[1])))
            self._smoothed = True
        self._last = step.iteration
        yield step

    def _another(self) -> Iterator[LogEvent]:
        """What another training in the file printed before its first iteration."""
        if self._later:
            self._tokens, self._schedule = TokensPerIteration(), {}
        for _, events, told in self._later:
            self._schedule |= told
            yield from self._reported(events)
        self._later.clear()

    def _settle(self, following: int | None) -> Iterator[LogEvent]:
        """An evaluation belongs to this training if its iteration comes next, and not to a later stage."""
        if self._pending is not None and self._pending[0] in (following, self._last + 1):
            yield LoggedBitsPerByte(*self._pending)
        self._pending = None

    def finish(self) -> Iterator[LogEvent]:
        yield from self._settle(None)
        for line, _, _ in self._later:
            self._source.pass_over(line)
        if self._smoothed:
            yield Note("its train loss is a moving average (over about 10 iterations)")
        yield from self._summarised()
        if self._last >= 0:
            yield from self._shape_of_schedule()

    def _summarised(self) -> Iterator[LogEvent]:
        steps, depth = (_whole(self._summary.get(key)) for key in ("num_steps", "depth"))
        if steps and steps == self._last + 1:
            self._planned = steps
            yield Reported("max_iters", steps)
            yield from self._tokens_of_summary(steps)
        if depth:
            yield Reported("n_layer", depth)
        if (millions := _decimal(self._summary.get("num_params_M"))) and not self._header.parameters:
            yield Parameters(round(millions * 1e6))
        if name := self._summary.get("chip"):
            yield LoggedDevice(clean(name))

    def _tokens_of_summary(self, steps: int) -> Iterator[Reported]:
        if (millions := _decimal(self._summary.get("total_tokens_M"))) is not None:
            least, most = (millions - 0.05) * 1e6 / steps, (millions + 0.05) * 1e6 / steps
            first, last = -(-least // UNIT), most // UNIT
            if first == last > 0:
                yield Reported("tokens_per_iter", int(first) * UNIT)

    def _shape_of_schedule(self) -> Iterator[LogEvent]:
        """As the log's settings have it, else as its multipliers of the learning rate fall."""
        planned, told = self._planned, self._schedule
        seen = None if planned is None else fall_of(self._multipliers, planned)
        if planned is None or ("warmdown_ratio" not in told and seen is None):
            return
        fraction, final = told.get("warmdown_ratio"), told.get("final_lr_frac")
        if seen is not None and (fraction is None or abs(fraction - seen[0]) > TOLD_OTHERWISE):
            fraction, final = seen  # a default that was told was changed
        if not fraction or fraction > 1:
            return
        yield Reported("schedule", "wsd")
        yield Reported("wsd_decay_fraction", fraction)
        yield Reported("lr_decay_iters", planned)
        warmup = told.get("warmup_steps", told.get("warmup_ratio", -1 / planned) * planned)
        if warmup < 0:
            warmup = warmup_of(self._multipliers)
        if warmup is not None:
            yield Reported("warmup_iters", round(warmup))
        if final == 0:
            yield Reported("min_lr", 0.0)
        elif final is not None:
            yield Note(f"its learning rates end at {final:g} of their peaks")


def fall_of(multipliers: list[tuple[int, float]], planned: int) -> tuple[float, float] | None:
    """The share of a run over which multipliers fall along a line, and where they end; None if not at all."""
    flat = [place for place, (_, each) in enumerate(multipliers) if each >= FLAT]
    falling = multipliers[flat[-1] + 1 :] if flat else []
    if len(falling) < FEWEST_FALLING or falling[0][1] - falling[-1][1] < 0.05:
        return None
    places, values = np.array(falling, dtype=np.float64).T
    slope, level = np.polyfit(places, values, 1)
    deviation = float(np.max(np.abs(slope * places + level - values)))
    if not np.isfinite(deviation) or slope >= 0 or deviation > LARGEST_DEVIATION:
        return None
    fraction = 1 - (1 - level) / slope / planned
    final = round(float(slope * planned + level), 2)
    return (round(float(fraction), 2), max(0.0, final)) if 0 < fraction <= 1 and final < 1 else None


def warmup_of(multipliers: list[tuple[int, float]]) -> int | None:
    """Iterations over which multipliers rise from the first one on; None where the log begins later."""
    if not multipliers or multipliers[0][0] != 0:
        return None
    rising = 0.0
    for step, multiplier in multipliers:
        if multiplier >= FLAT:
            return round(rising)
        rising = (step + 1) / multiplier if multiplier > 0 else 0.0
    return None


class _Header:
    """What nanochat prints before its first iteration, of every start in the file."""

    def __init__(self) -> None:
        self.parameters = False
        self._per_process = 0
        self._processes = 1

    def read(self, line: bytes) -> list[LogEvent] | None:
        """None for a line that says nothing of this kind."""
        if shapes := SHAPE.findall(line):
            return [self._size(key.decode(), value.decode()) for key, value in shapes]
        for pattern, make in FACTS:
            if found := pattern.search(line):
                return make(self, *(each.decode(errors="replace") for each in found.groups() if each))
        return None

    def _size(self, key: str, value: str) -> LogEvent:
        return Reported(SHAPE_KEYS.get(key, key), int(value))

    def size(self, key: str, value: str) -> list[LogEvent]:
        return [self._size(key, value)]

    def vocabulary(self, value: str) -> list[LogEvent]:
        return [Reported("vocab_size", _count(value))]

    def parameters_in_all(self, value: str) -> list[LogEvent]:
        self.parameters = True
        return [Parameters(_count(value))]

    def micro_batch(self, sequences: str, length: str) -> list[LogEvent]:
        self._per_process = int(sequences) * int(length)
        return [Reported("batch_size", int(sequences)), Reported("block_size", int(length))]

    def of_all_processes(self, tokens: str) -> list[LogEvent]:
        if not self._per_process or _count(tokens) % self._per_process:
            return []
        self._processes = max(1, _count(tokens) // self._per_process)
        return [LoggedProcesses(self._processes)]

    def batch(self, tokens: str, accumulation: str) -> list[LogEvent]:
        # nanoGPT counts the micro-steps of all processes.
        steps = int(accumulation) * self._processes
        return [Reported("tokens_per_iter", _count(tokens)), Reported("gradient_accumulation_steps", steps)]

    def iterations(self, value: str) -> list[LogEvent]:
        return [Reported("max_iters", _count(value))]

    def device(self, name: str) -> list[LogEvent]:
        return [LoggedDevice(clean(name))]

    def dtype(self, name: str) -> list[LogEvent]:
        return [Reported("dtype", name)] if name in DTYPES else []

    def resumed(self) -> list[LogEvent]:
        return [Start(resumed=True)]


GROUPED = rb"(\d[\d,]{0,20})"
FACTS: tuple[tuple[re.Pattern[bytes], Callable[..., list[LogEvent]]], ...] = (
    (re.compile(rb"^\W{0,8}(num_layers|model_dim|num_heads): (\d{1,9})\b"), _Header.size),
    (re.compile(rb"\bVocab size: " + GROUPED), _Header.vocabulary),
    (re.compile(rb"\bNumber of parameters: " + GROUPED), _Header.parameters_in_all),
    (re.compile(rb"^\s*total +: " + GROUPED), _Header.parameters_in_all),
    (re.compile(rb"\bTokens / micro-batch / rank: (\d{1,9}) x (\d{1,9}) ="), _Header.micro_batch),
    (re.compile(rb"\bTokens / micro-batch: " + GROUPED), _Header.of_all_processes),
    (
        re.compile(rb"\bTotal batch size " + GROUPED + rb" => gradient accumulation steps: (\d{1,9})"),
        _Header.batch,
    ),
    (
        re.compile(rb"\bnumber of iterations(?: from [\w :]{1,40}?)?: " + GROUPED + rb"\s*$"),
        _Header.iterations,
    ),
    (re.compile(rb"^GPU: ([^|]{2,60}?)(?: \||\s*$)"), _Header.device),
    (re.compile(rb"\bCOMPUTE_DTYPE: torch\.(\w{4,20})"), _Header.dtype),
    (re.compile(rb"\bResuming optimization from step \d"), _Header.resumed),
)


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def _half_unit(number: bytes) -> float:
    """Half of what the last printed digit stands for."""
    return 0.5 * 10.0 ** -len(number.partition(b".")[2])


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 13 else None


def _decimal(text: str | None) -> float | None:
    return (
        float(text) if text is not None and re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", text, re.ASCII) else None
    )
