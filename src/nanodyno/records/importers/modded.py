"""modded-nanogpt's logs: the program's own source, the driver's table, then a line a step.

It adds up the time of training, so that an iteration took what lies between two lines.
"""

import re
from collections.abc import Iterator

from nanodyno.recipes.arithmetic import Unreadable, parse_value
from nanodyno.records.importers.events import (
    LogEvent,
    LoggedDevice,
    LoggedEval,
    LoggedProcesses,
    LoggedStep,
    Note,
    Reported,
    Start,
)
from nanodyno.records.importers.nanogpt import NUMBER, is_whole
from nanodyno.records.importers.source import LogSource, clean

PROGRAM = "modded-nanogpt"
LOOKED_FOR = "`step:125/6200 val_loss:4.1234 train_time:27041ms step_avg:216.33ms`"
STEP = re.compile(
    rb"step:(\d{1,12})/(\d{1,12}) (?:(train|val)_loss:"
    + NUMBER
    + rb" )?(?:\w{1,40}:\S{1,40} ){0,8}?train_time:"
    + NUMBER
    + rb"(ms|s)(?![\w.])"
)
GPU = re.compile(rb"^\| +(\d{1,3}) +((?:NVIDIA|AMD|Tesla|Quadro|GeForce) [\w ./-]{2,40}?)  +(?:On|Off) ")
LISTED = re.compile(rb"^(\d{1,3}) +(NVIDIA [\w ./-]{2,40}?)  +\d{1,3} +\d{1,5} +\d{1,9} +\d{1,9} +\d{1,3} +%")
"""A row of the table that is printed where nvidia-smi is missing."""
WORLD = re.compile(rb" on (?:device_name=)?(\S.{0,58}?\S) +with world_size[ =](\d{1,4})\s*$")
NAMES = (
    "batch_size|device_batch_size|sequence_length|learning_rate|warmup_iters|warmdown_iters|cooldown_iters|"
    "cooldown_frac|weight_decay|val_loss_every|num_iterations|num_scheduled_iterations|train_steps|"
    "train_batch_size|train_max_seq_len|train_seq_len|seq_len|vocab_size|num_vocab|n_layer|num_layers|"
    "n_head|num_heads|n_embd|model_dim|head_dim|mbs"
)
ASSIGNMENT = re.compile(
    rf"(?<![\w.])(?:group\[\")?({NAMES})(?:\"\])?\s*(:\s*[\w.]+\s*)?=(?!=)\s*(.*)", re.ASCII
)
LITERAL = re.compile(r"[-\d.][-\d._e*/+ ]*|\([-\d._e*/+ ]+\)[-\d._e*/+ ]*", re.ASCII)
PADDED = re.compile(r"vocab_size=next_multiple_of_n\((\d{1,9}), n=(\d{1,6})\)", re.ASCII)
STAGES = re.compile(r"\btrain_bs_schedule\b|\bTrainingStage\(", re.ASCII)
LINEAR = re.compile(
    r"(?:1(?:\.0)? - \w+\)|\bt) / (?:\w+\.)?cooldown_frac|/ args\.(?:warmdown|cooldown)_iters", re.ASCII
)
FINAL = re.compile(r"\(1(?:\.0)? - w\) \* (\d[\d.]{0,9})", re.ASCII)
KEYS = {
    "device_batch_size": "batch_size",
    "mbs": "batch_size",
    "sequence_length": "block_size",
    "train_max_seq_len": "block_size",
    "train_seq_len": "block_size",
    "seq_len": "block_size",
    "learning_rate": "learning_rate",
    "warmup_iters": "warmup_iters",
    "weight_decay": "weight_decay",
    "val_loss_every": "eval_interval",
    "num_vocab": "vocab_size",
    "vocab_size": "vocab_size",
    "n_layer": "n_layer",
    "num_layers": "n_layer",
    "n_head": "n_head",
    "num_heads": "n_head",
    "n_embd": "n_embd",
    "model_dim": "n_embd",
}
OF_HYPERPARAMETERS = ("learning_rate", "weight_decay", "seq_len")
"""Names that mean something else outside of that class."""


def recognise(chunk: bytes) -> int:
    return len(STEP.findall(chunk)) if b" train_time:" in chunk else 0


def read(source: LogSource) -> Iterator[LogEvent]:
    clock, code, gpus = _Clock(), _Code(), GpuTable()
    trainings = last = 0
    for line in source.lines():
        if b" train_time:" in line and (found := STEP.search(line)):
            if source.in_last_line and found[4] and not is_whole(found[4]):
                source.pass_over(line)
                continue
            if not trainings or int(found[1]) < last:
                trainings += 1
                yield from clock.finish()
                yield from code.settings(int(found[2]), gpus.processes) if trainings == 1 else [Start()]
                clock = _Clock()
            last = int(found[1])
            yield from clock.read(found)
        elif events := gpus.read(line):
            yield from events
        elif trainings or not code.read(line):
            source.pass_over(line)
    yield from clock.finish()


class _Clock:
    """The log's own sum of training time, whose differences are the times of iterations.

    Lines of iterations are printed while the GPU still works: the last evaluation's time has what is left.
    """

    def __init__(self) -> None:
        self._done, self._milliseconds = 0, 0.0
        self._left = 0.0
        self._held: LoggedStep | None = None
        self._evaluated: LoggedEval | None = None

    def read(self, found: "re.Match[bytes]") -> Iterator[LogEvent]:
        done, kind, milliseconds = int(found[1]), found[3], float(found[5])
        if found[6] == b"s":
            milliseconds *= 1000
        if done and (kind != b"val" or done > self._done):
            self._left = 0.0
            yield from self.finish()
            loss = float(found[4]) if kind == b"train" else None
            seconds = self._seconds(done, milliseconds)
            self._held = LoggedStep(done - 1, loss, seconds, elapsed_seconds=milliseconds / 1000)
        if kind == b"val":
            self._left = milliseconds - self._milliseconds if done else 0.0
            self._evaluated = LoggedEval(done, float(found[4]))

    def finish(self) -> Iterator[LogEvent]:
        """What was read last, with the time that its evaluation adds to it."""
        if self._held is not None:
            seconds, elapsed, left = self._held.seconds, self._held.elapsed_seconds, self._left / 1000
            if seconds is not None and elapsed is not None and left > 0:
                self._held = self._held._replace(seconds=seconds + left, elapsed_seconds=elapsed + left)
            yield self._held
        if self._evaluated is not None:
            yield self._evaluated
        self._held = self._evaluated = None

    def _seconds(self, done: int, milliseconds: float) -> float | None:
        """Of one iteration, as a mean over those since the last line; None where that is unknown.

        Where the clock went back, the first iterations were taken off: it was set to 0 before this one.
        """
        steps, spent = done - self._done, milliseconds - self._milliseconds
        self._done, self._milliseconds = done, milliseconds
        if spent < 0 and steps == 1:
            spent = milliseconds
        return spent / steps / 1000 if steps > 0 and spent > 0 else None


class GpuTable:
    """The GPUs that a log lists, one process each: nvidia-smi's table, or the world size it prints."""

    def __init__(self) -> None:
        self.processes: int | None = None
        self._printed = False
        """Whether the world size is printed, which counts more than a table."""

    def read(self, line: bytes) -> list[LogEvent]:
        if b"world_size" in line and (found := WORLD.search(line)):
            self.processes, self._printed = int(found[2]), True
            return [LoggedDevice(clean(found[1].decode(errors="replace"))), LoggedProcesses(self.processes)]
        if self._printed or not (found := GPU.search(line) or LISTED.search(line)):
            return []
        self.processes = int(found[1]) + 1
        return [LoggedDevice(clean(found[2].decode(errors="replace"))), LoggedProcesses(self.processes)]


class _Code:
    """The source at the top of the log: literals of it, which is never run."""

    def __init__(self) -> None:
        self._values: dict[str, int | float] = {}
        self._of_class: dict[str, int | float] = {}
        self._fractions: set[float] = set()
        self._default_fraction: float | None = None
        self._in_class = self._linear = self._staged = self._undecided = self._by_world = False
        self._final = 0.0

    def read(self, line: bytes) -> bool:
        """Whether a line held something that is looked for."""
        text = line.decode(errors="replace")
        code = text.partition("#")[0]
        if not code[:1].isspace():
            self._in_class = code.startswith("class Hyperparameters")
        self._linear = self._linear or LINEAR.search(code) is not None
        self._staged = self._staged or STAGES.search(code) is not None
        self._by_world = self._by_world or "world_size * args." in code
        if final := FINAL.search(code):
            self._final = float(final[1])
        if padded := PADDED.search(code):
            vocabulary, multiple = int(padded[1]), max(1, int(padded[2]))
            self._values["vocab_size"] = -(-vocabulary // multiple) * multiple
        return bool([None for part in _arguments(code) if self._assigned(part)])

    def _assigned(self, part: str) -> bool:
        found = ASSIGNMENT.search(part)
        if found is None:
            return False
        name, annotation, text = found.groups()
        value = _literal(text)
        if name == "cooldown_frac":
            self._fraction(value, annotation is not None and not self._in_class, text)
        if value is None:
            return False
        (self._of_class if self._in_class else self._values)[name] = value
        return True

    def _fraction(self, value: int | float | None, is_default: bool, text: str) -> None:
        if value is None:
            self._undecided = self._undecided or " if " in text
        elif is_default:
            self._default_fraction = float(value)
        else:
            self._fractions.add(float(value))

    def settings(self, planned: int, processes: int | None) -> Iterator[LogEvent]:
        """Once, before the first step."""
        yield Start()
        values = {key: value for key, value in self._values.items() if key not in OF_HYPERPARAMETERS}
        values |= self._of_class
        reported = {KEYS[name]: value for name, value in values.items() if name in KEYS}
        reported.pop("batch_size", None)
        for name in ("mbs", "device_batch_size"):
            if name in values:
                reported["batch_size"] = values[name]
        if "seq_len" in self._values and "sequence_length" not in values:
            reported.setdefault("block_size", self._values["seq_len"])  # track 3's loader
        if "n_head" not in reported and values.get("head_dim") and reported.get("n_embd"):
            reported["n_head"] = int(reported["n_embd"] // values["head_dim"])
        for key, value in reported.items():
            yield Reported(key, value)
        yield Reported("max_iters", planned)
        if self._staged:
            yield Note("its batch size and learning rate change in stages: neither is one number")
            return
        tokens = self._tokens(values, processes)
        if tokens:
            yield Reported("tokens_per_iter", tokens)
        yield from self._schedule(values, planned)

    def _tokens(self, values: dict[str, int | float], processes: int | None) -> int | None:
        sequences, length = values.get("batch_size"), values.get("sequence_length")
        if isinstance(sequences, int) and isinstance(length, int):
            return sequences * length  # its batch_size is that of all devices
        if isinstance(tokens := values.get("train_batch_size"), int):
            return tokens
        length = values.get("train_seq_len", values.get("seq_len"))
        if self._by_world and isinstance(length, int) and processes:
            return length * processes
        tokens = self._values.get("batch_size")
        return tokens if isinstance(tokens, int) and tokens > FEWEST_TOKENS else None

    def _schedule(self, values: dict[str, int | float], planned: int) -> Iterator[LogEvent]:
        """Held, then falling along a line over the last part of the run."""
        end = values.get("num_scheduled_iterations", values.get("num_iterations", planned))
        end = int(end) if 0 < end <= planned else planned
        fall = values.get("warmdown_iters", values.get("cooldown_iters"))
        fractions = self._fractions or {self._default_fraction}
        fraction = fall / end if fall is not None and end else next(iter(fractions))
        if self._undecided or len(fractions) > 1 or not self._linear or not fraction or not 0 < fraction <= 1:
            return
        yield Reported("schedule", "wsd")
        yield Reported("wsd_decay_fraction", float(fraction))
        yield Reported("lr_decay_iters", end)
        if "warmup_iters" not in values:
            yield Reported("warmup_iters", 0)
        rate = values.get("learning_rate")
        if self._final == 0 or rate is not None:
            yield Reported("min_lr", self._final * float(rate or 0))
        else:
            yield Note(f"its learning rates end at {self._final:g} of their peaks")


FEWEST_TOKENS = 8192
"""Of a batch_size in tokens: one in sequences is smaller."""


def _arguments(code: str) -> list[str]:
    """A line's assignments and keyword arguments, one by one."""
    return code.split(",") if "=" in code else []


def _literal(text: str) -> int | float | None:
    found = LITERAL.match(text.strip())
    if found is None or text.strip()[found.end() :][:1] not in ("", ",", ")", ":", ";"):
        return None
    try:
        value = parse_value(found[0].strip())
    except Unreadable:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
