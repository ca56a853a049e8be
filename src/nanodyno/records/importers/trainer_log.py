"""Hugging Face Trainer's stdout: a dict a log, between progress bars, behind the block of its start."""

import math
import re
from collections.abc import Iterator

from nanodyno.errors import NanodynoError
from nanodyno.records.importers.events import (
    LogEvent,
    LoggedEval,
    LoggedProcesses,
    Note,
    Parameters,
    Reported,
    Start,
)
from nanodyno.records.importers.source import LogSource
from nanodyno.records.importers.trainer_state import logged
from nanodyno.records.importers.trainer_steps import ProgressBar, Span, TrainerLog, TrainerRun, find_steps

PROGRAM = "Hugging Face Trainer"
LOOKED_FOR = "`{'loss': 3.2, 'learning_rate': 5e-05, 'epoch': 0.5}` between progress bars"
VALUE = rb"(-?(?:\d{1,20}(?:\.\d{0,25})?(?:[eE][-+]?\d{1,3})?|nan|inf))"
KNOWN = re.compile(
    rb"['\"](?:eval_)?loss['\"]: ['\"]?" + VALUE + rb"['\"]?,[^{}\n]{0,3000}['\"]epoch['\"]: ['\"]?\d"
)
PAIR = re.compile(
    rb"(['\"])([\w/]{1,64})\1: (?:(?:np\.float\d\d|tensor)\()?(['\"]?)" + VALUE + rb"(?:/\d{1,12})?\3"
)
TOKEN = re.compile(
    rb"(?P<log>\{['\"][^{}\n]{1,4000}\})"
    rb"|(?P<described>[^\s\]}]:\s{0,3})?\d{1,3}%(?:\|[^|\n]{0,400}\|)? {0,9}"
    rb"(?P<done>\d{1,12})/(?P<total>\d{1,12}) \["
)
"""A log, or a bar: one with a description in front is not that of the training."""
HEADER = re.compile(
    rb"(Num examples|Num update steps per epoch|(?:Instantaneous b|B)atch size per device"
    rb"|Total (?:train )?batch size|Gradient [Aa]ccumulation steps|Total (?:optimization )?steps"
    rb"|(?:Number of t|T)rainable parameters)[^=|\n]{0,60}= {0,3}(\d[\d,]{0,20})\b"
)
HEADERS = {
    "batch size per device": "micro_batch",
    "batch size": "batch",
    "accumulation steps": "accumulation",
    "trainable parameters": "parameters",
    "steps per epoch": "per_epoch",
    "steps": "total",
    "examples": "examples",
}
"""By how a title ends, the first that fits: Unsloth prints the same block in words of its own."""
RESUMED = re.compile(rb"Continuing training from global step (\d{1,12})")
BEGIN, BEST = b"***** Running training *****", b"Loading best model from"
SUMMARY = re.compile(rb"\*{5} (\w{1,20}) metrics \*{5}")
ROW = re.compile(rb"^\W*?eval_loss\s+=\s+" + VALUE + rb"\s*$")
ARGUMENT = re.compile(
    rb"(?:^\s{0,8}|--|[(,] ?)(logging_steps|eval_steps|learning_rate|weight_decay|adam_beta[12]|max_grad_norm"
    rb"|warmup_steps|block_size)[= ]" + VALUE + rb"(?=[,\s)]|$)"
)
ARGUMENTS = {
    "logging_steps": "log_interval",
    "eval_steps": "eval_interval",
    "learning_rate": "learning_rate",
    "weight_decay": "weight_decay",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "max_grad_norm": "grad_clip",
    "warmup_steps": "warmup_iters",
    "block_size": "block_size",
}
COUNTS = ("log_interval", "eval_interval", "warmup_iters", "block_size")
MOST_LOGS = 500_000
MOST_BARS = 8
"""Kept behind a log; the training's own is among the first."""
HINT = (
    "import the trainer_state.json of its checkpoint, which has every step; or the log with its progress "
    "bars (2>&1)"
)


def recognise(chunk: bytes) -> int:
    if b"loss" not in chunk or b'"log_history"' in chunk:
        return 0
    return len(KNOWN.findall(chunk))


def read(source: LogSource) -> Iterator[LogEvent]:
    reader = _Reader()
    for line in source.lines():
        if not reader.read_tokens(line) and not reader.read_fact(line):
            source.pass_over(line)
    for key, value in reader.arguments.items():
        yield Reported(key, value)
    found: list[bool] = []
    for training in reader.trainings:
        find_steps(training, reader.interval("log_interval"), reader.interval("eval_interval"))
        placed = [log.step is not None for log in training.logs if log.kind != "other"]
        if any(found) and not any(placed):
            found += placed
            continue  # its settings are of no iteration
        found += placed
        yield from _settings(training)
        yield from _events(training)
    if found and not any(found):
        raise NanodynoError(f"{source.name} does not report at which step its losses were logged", HINT)
    if not all(found):
        left = len(found) - sum(found)
        yield Note(f"{left:,} logs are left out: their step is not reported, and does not follow")


class _Reader:
    """Keeps the logs of each training: only those around it say at which step one was made."""

    def __init__(self) -> None:
        self.trainings = [TrainerRun()]
        self.arguments: dict[str, int | float] = {}
        self._count = 0
        self._bar: ProgressBar | None = None
        self._in_eval_summary = False

    def interval(self, key: str) -> int | None:
        value = self.arguments.get(key)
        return value if isinstance(value, int) else None

    def read_tokens(self, line: bytes) -> bool:
        """Take the logs and bars of a line, of which it may have several where its returns were lost."""
        tokens = list(TOKEN.finditer(line)) if b"%" in line or b"{" in line else []
        logs = self.trainings[-1].logs
        for token in tokens:
            if token["log"]:
                log = _log(token["log"], self._bar)
                if log is not None and self._count < MOST_LOGS:
                    self._count += 1
                    logs.append(log)
            elif not token["described"]:
                self._bar = int(token["done"]), int(token["total"])
                if logs and len(logs[-1].after) < MOST_BARS:
                    logs[-1].after.append(self._bar)
        return bool(tokens)

    def read_fact(self, line: bytes) -> bool:
        training = self.trainings[-1]
        if BEGIN in line:
            self.trainings.append(TrainerRun())
            self._bar = None
        elif titles := HEADER.findall(line):
            for title, number in titles:
                name = next(to for end, to in HEADERS.items() if title.lower().endswith(end.encode()))
                training.header.setdefault(name, int(number.replace(b",", b"")))
        elif found := RESUMED.search(line):
            training.header["resumed_at"] = int(found[1])
        elif found := SUMMARY.search(line):
            self._in_eval_summary = found[1] == b"eval"
        elif self._in_eval_summary and (found := ROW.search(line)):
            training.final_loss = float(found[1])
        elif BEST in line:
            training.best_loaded = True
        else:
            return _take_arguments(line, self.arguments)
        return True


def _log(text: bytes, before: ProgressBar | None) -> TrainerLog | None:
    """Parse one dict: None if it has no number that is read. Newer versions print numbers as strings."""
    numbers = dict[str, float]()
    epoch = None
    for _, key, quote, value in PAIR.findall(text):
        name = key.decode()
        numbers.setdefault(name, float(value))
        if name == "epoch":
            epoch = _rounded(value.decode(), quoted=bool(quote))
    if "lr" in numbers:
        numbers.setdefault("learning_rate", numbers["lr"])
    return (
        TrainerLog(numbers, epoch, before)
        if numbers.keys() & {"loss", "eval_loss", "train_runtime"}
        else None
    )


def _rounded(text: str, quoted: bool) -> Span | None:
    """The epochs that are printed so: with four digits as a string, with two decimals, or in full."""
    value = float(text)
    if not 0 <= value < 1e9:
        return None
    decimals = len(text.partition(".")[2]) if "e" not in text.lower() else 12
    if quoted and value:
        half = 0.5 * 10.0 ** (math.floor(math.log10(value)) - 3)
    else:
        half = 0.005 if decimals <= 2 else 0.5 * 10.0**-decimals
    return max(0.0, value - half), value + half


def _take_arguments(line: bytes, arguments: dict[str, int | float]) -> bool:
    """Read the arguments of the training from their listing, or from the command."""
    found = ARGUMENT.findall(line)
    for name, text in found:
        key, value = ARGUMENTS[name.decode()], float(text)
        if key not in COUNTS:
            arguments[key] = value
        elif value >= 1 and value.is_integer():
            arguments[key] = int(value)
    return bool(found)


def _settings(training: TrainerRun) -> Iterator[LogEvent]:
    header = training.header
    if header:
        yield Start(resumed="resumed_at" in header or None)
    if training.total is not None and any(log.step is not None for log in training.logs):
        yield Reported("max_iters", training.total)
    micro, batch, times = (header.get(key) for key in ("micro_batch", "batch", "accumulation"))
    if micro:
        yield Reported("batch_size", micro)
    if micro and batch and times and batch % (micro * times) == 0:
        yield Reported("gradient_accumulation_steps", batch // micro)  # those of all processes
        yield LoggedProcesses(batch // (micro * times))
    if "parameters" in header:
        yield Parameters(header["parameters"])


def _events(training: TrainerRun) -> Iterator[LogEvent]:
    evaluated, ended = set[int](), False
    for log in training.logs:
        ended = ended or "train_runtime" in log.numbers
        if log.kind != "other" and (log.step is None or (log.kind == "eval" and log.step in evaluated)):
            continue  # a second evaluation at a step is of the best checkpoint, or the same once more
        if log.kind == "eval" and log.step is not None:
            evaluated.add(log.step)
        yield from logged(log.numbers, log.step or 0)
    if not ended or training.final_loss is None or training.total is None or training.total in evaluated:
        return
    if training.best_loaded:
        yield Note("the evaluation at the end is of the best checkpoint, and has no step: left out")
    else:
        yield LoggedEval(training.total, training.final_loss)
