"""Hugging Face's trainer_state.json, whose list of logs is read entry by entry."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from nanodyno.errors import NanodynoError
from nanodyno.records.importers.events import LogEvent, LoggedEval, LoggedStep, Note, Reported
from nanodyno.records.importers.source import LogSource

PROGRAM = "Hugging Face Trainer"
LOOKED_FOR = "a JSON object with `log_history`"
HISTORY = re.compile(r'"log_history"\s*:\s*\[')
LONGEST_ENTRY = 1 << 20
LONGEST_REST = 1 << 24
"""Beside the logs there are some twenty numbers and the state of callbacks."""
KEYS = {
    "max_steps": "max_iters",
    "train_batch_size": "batch_size",
    "logging_steps": "log_interval",
    "eval_steps": "eval_interval",
}
BETWEEN = " \t\r\n,"


def recognise(chunk: bytes) -> int:
    return int(chunk.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and b'"log_history"' in chunk)


def read(source: LogSource) -> Iterator[LogEvent]:
    text = _Text(source)
    around = text.up_to_the_history()
    for entry in text.entries():
        yield from _entry(entry)
    yield from _settings(around, text.rest())


class _Text:
    """The file as a window that moves over it."""

    def __init__(self, source: LogSource) -> None:
        self._name = source.name
        self._chunks = source.chunks()
        self._window = ""
        self._place = 0

    def up_to_the_history(self) -> str:
        while (found := HISTORY.search(self._window)) is None:
            if len(self._window) > LONGEST_REST or not self._more():
                raise self._damaged("it has no list log_history")
        self._place = found.end()
        return self._window[: found.start()]

    def entries(self) -> Iterator[Any]:
        decoder = json.JSONDecoder()
        while True:
            self._skip(BETWEEN)
            if self._window.startswith("]", self._place):
                return
            try:
                entry, self._place = decoder.raw_decode(self._window, self._place)
            except (ValueError, RecursionError):
                if len(self._window) - self._place > LONGEST_ENTRY or not self._more():
                    raise self._damaged("its list log_history is cut or damaged") from None
                continue
            yield entry

    def rest(self) -> str:
        while self._more() and len(self._window) < LONGEST_REST:
            pass
        self._skip(BETWEEN + "]")
        return self._window[self._place :]

    def _skip(self, characters: str) -> None:
        while self._place < len(self._window) and self._window[self._place] in characters:
            self._place += 1

    def _more(self) -> bool:
        chunk = next(self._chunks, None)
        if chunk is not None:
            self._window, self._place = self._window[self._place :] + chunk.decode(errors="replace"), 0
        return chunk is not None

    def _damaged(self, why: str) -> NanodynoError:
        return NanodynoError(f"{self._name} is not a complete trainer_state.json: {why}", "export it again")


def _entry(entry: Any) -> Iterator[LogEvent]:
    step = entry.get("step") if isinstance(entry, dict) else None
    if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 10**12:
        yield from logged(entry, step)


def logged(entry: Mapping[str, Any], step: int) -> Iterator[LogEvent]:
    """Yield what the Trainer logged after `step` updates: a loss, an evaluation, or the sum at the end."""
    if (loss := _number(entry, "eval_loss")) is not None:
        yield LoggedEval(step, loss)
    if (loss := _number(entry, "loss")) is not None and step:
        yield LoggedStep(
            step - 1,  # its steps are updates made
            loss,
            learning_rate=_number(entry, "learning_rate"),
            grad_norm=_number(entry, "grad_norm"),
        )
    if (seconds := _number(entry, "train_runtime")) is not None:
        yield Note(f"the whole run took {seconds:,.0f} s, evaluations and saves included; no step is timed")


def _settings(before: str, after: str) -> Iterator[LogEvent]:
    try:
        state = json.loads(f"{before.rstrip(BETWEEN)}{_comma(before, after)}{after}")
    except (ValueError, RecursionError):
        yield Note("what stands around its list of logs is damaged: no setting was read")
        return
    if isinstance(state, Mapping):
        for name, key in KEYS.items():
            value = state.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                yield Reported(key, value)


def _comma(before: str, after: str) -> str:
    return "," if before.strip(" \t\r\n,{") and not after.startswith("}") else ""


def _number(entry: Mapping[str, Any], key: str) -> float | None:
    value = entry.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
