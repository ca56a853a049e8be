"""Steps and evaluations as lines of a run's files, and back; JSON by hand, as a log may hold millions."""

from collections.abc import Sequence

from nanodyno.records.imported import Overhead
from nanodyno.records.importers.events import LoggedEval, LoggedStep
from nanodyno.records.importers.overhead import much_longer

Timed = tuple[int, LoggedStep, Overhead | None, int | None]
"""A step with its iteration before it, what its time is known to hold besides training, and its tokens."""


def step_lines(items: Sequence[Timed]) -> list[str]:
    """Neighbours are judged together: which of them took longer than training does."""
    slow = much_longer([step.seconds for _, step, _, _ in items])
    return [
        _step_line(step, overhead or ("unknown" if longer else None), tokens)
        for (_, step, overhead, tokens), longer in zip(items, slow, strict=True)
    ]


def _step_line(step: LoggedStep, overhead: Overhead | None, tokens: int | None) -> str:
    iteration, loss, seconds, mfu, rate, norm, _, wall_time, elapsed = step
    line = f'{{"iteration":{iteration}'
    if loss is not None:
        line += f',"loss":{_number(loss)}'
    if tokens is not None:
        line += f',"tokens":{tokens}'
    if seconds is not None:
        line += f',"step_seconds":{seconds!r}'
    if overhead is not None:
        line += f',"overhead":"{overhead}"'
    if mfu is not None:
        line += f',"printed_mfu":{mfu!r}'
    if rate is not None or norm is not None or wall_time is not None or elapsed is not None:
        line += _if_known(learning_rate=rate, grad_norm=norm, wall_time=wall_time, elapsed_seconds=elapsed)
    return line + "}"


def eval_lines(items: Sequence[LoggedEval]) -> list[str]:
    return [
        f'{{"iteration":{iteration},"val_loss":{_number(val_loss)}'
        + _if_known(train_loss=train_loss, wall_time=wall_time)
        + "}"
        for iteration, val_loss, train_loss, wall_time in items
    ]


def _if_known(**values: float | None) -> str:
    return "".join(f',"{key}":{_number(value)}' for key, value in values.items() if value is not None)


def _number(value: float) -> str:
    text = repr(value)
    return NOT_FINITE.get(text, text)


NOT_FINITE = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def step_back(line: dict[str, object]) -> Timed:
    iteration, tokens, overhead = line["iteration"], line.get("tokens"), line.get("overhead")
    assert isinstance(iteration, int)
    step = LoggedStep(
        iteration,
        loss=_back(line.get("loss")),
        seconds=_back(line.get("step_seconds")),
        mfu=_back(line.get("printed_mfu")),
        learning_rate=_back(line.get("learning_rate")),
        grad_norm=_back(line.get("grad_norm")),
        wall_time=_back(line.get("wall_time")),
        elapsed_seconds=_back(line.get("elapsed_seconds")),
    )
    reported = overhead if overhead in ("start", "evaluation") else None  # what the times tell is judged anew
    return iteration, step, reported, tokens if isinstance(tokens, int) else None


def eval_back(line: dict[str, object]) -> LoggedEval:
    iteration, val_loss = line["iteration"], _back(line["val_loss"])
    assert isinstance(iteration, int)
    assert val_loss is not None
    return LoggedEval(iteration, val_loss, _back(line.get("train_loss")), _back(line.get("wall_time")))


def _back(value: object) -> float | None:
    return None if value is None else float(str(value))
