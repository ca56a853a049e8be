"""litgpt's stdout: a line an interval, with micro-batches and optimizer steps, and a line an evaluation."""

import re
from collections.abc import Iterator

from nanodyno.records.importers.events import LogEvent, LoggedEval, LoggedStep
from nanodyno.records.importers.nanogpt import NUMBER, scaled
from nanodyno.records.importers.source import LogSource

PROGRAM = "litgpt"
LOOKED_FOR = "`Epoch 1 | iter 10 step 1 | loss train: 10.9, val: n/a | iter time: 340.04 ms (step)`"
STEP = re.compile(
    rb"iter {1,9}(\d{1,12}) step (\d{1,12})(?: \||:) loss(?: train:)? {1,9}"
    + NUMBER
    + rb",(?: val: [^|\n]{1,40}\|)? iter time: {1,9}"
    + NUMBER
    + rb" ?ms"
)
VAL_LOSS = re.compile(rb"iter (\d{1,12}): val loss {1,9}" + NUMBER + rb", val time: ")


def recognise(chunk: bytes) -> int:
    return len(STEP.findall(chunk)) + len(VAL_LOSS.findall(chunk)) if b" iter time: " in chunk else 0


def read(source: LogSource) -> Iterator[LogEvent]:
    last, each = 0, 1
    """The optimizer step of the last line, and micro-batches in one."""
    for line in source.lines():
        if found := STEP.search(line):
            micro_steps, step = int(found[1]), int(found[2])
            if step == 0 or step == last:
                continue  # before its first update, or between two
            last, each = step, max(1, round(micro_steps / step))
            # Its time is that of the last micro-batch alone.
            seconds = scaled(found[4], b"e-3") if micro_steps == step else None
            yield LoggedStep(step - 1, float(found[3]), seconds)
        elif (found := VAL_LOSS.search(line)) and not source.in_last_line:
            at = round(int(found[1]) / each)
            is_of_new_start = at < last - 1
            yield LoggedEval(at if is_of_new_start else max(last, at), float(found[2]))
        else:
            source.pass_over(line)
