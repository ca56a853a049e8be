"""At which step Hugging Face's Trainer logged: its lines do not say it.

The progress bar that tqdm draws again right behind a log does. Else the epoch does, where the steps in one
and the interval between two logs are known. What follows from neither stays unknown.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

ODD = 0.05
"""Share of logs whose bar may contradict their epoch before no bar is believed: a buffered stdout."""
STEP_KEYS = ("step", "current_steps", "global_step/max_steps")
"""Of versions and programs around the Trainer that do name it."""

Span = tuple[float, float]
ProgressBar = tuple[int, int]
"""How many steps of how many."""


@dataclass
class TrainerLog:
    numbers: dict[str, float]
    epoch: Span | None
    """The epochs that are printed so."""
    before: ProgressBar | None = None
    """The bar in front of it."""
    after: list[ProgressBar] = field(default_factory=list[ProgressBar])
    """The first bars behind it."""
    step: int | None = None

    @property
    def kind(self) -> str:
        return "eval" if "eval_loss" in self.numbers else "train" if "loss" in self.numbers else "other"


@dataclass
class TrainerRun:
    """One start of the Trainer, and everything that it logged."""

    header: dict[str, int] = field(default_factory=dict[str, int])
    logs: list[TrainerLog] = field(default_factory=list[TrainerLog])
    final_loss: float | None = None
    """Of the summary behind the training."""
    best_loaded: bool = False

    @property
    def total(self) -> int | None:
        """The optimization steps that are planned: of the header, or the total of the bars behind logs."""
        if "total" in self.header:
            return self.header["total"]
        bars = [log.after[0] for log in self.logs if log.after] or [
            log.before for log in self.logs if log.before
        ]
        return Counter(total for _, total in bars).most_common(1)[0][0] if bars else None


def find_steps(training: TrainerRun, log_interval: int | None, eval_interval: int | None) -> None:
    """Set the step of each log that has one, by what the Trainer printed around it."""
    train = [log for log in training.logs if log.kind == "train"]
    evals = [log for log in training.logs if log.kind == "eval"]
    for log in training.logs:
        named = next((log.numbers[key] for key in STEP_KEYS if key in log.numbers), None)
        log.step = int(named) if named is not None and 0 <= named < 10**12 else None
    if any(log.step is not None for log in (*train, *evals)):
        return
    total = training.total
    per_epoch = _steps_per_epoch(training, total)
    per_epoch = _by_bars([log for log in training.logs if log.kind != "other"], total, per_epoch)
    since = training.header.get("resumed_at", 0)
    _by_epochs(train, per_epoch, log_interval, since, total)
    _by_epochs(evals, per_epoch, eval_interval, since)
    before = None
    for log in training.logs:
        if log.kind == "eval" and log.step is None and before is not None and log.epoch == before.epoch:
            log.step = before.step  # the Trainer logs, then evaluates, at one step
        before = log if log.kind != "other" else before


def _steps_per_epoch(training: TrainerRun, total: int | None) -> Span | None:
    """Optimization steps in an epoch, from the header, else from the total and the epoch at the end."""
    header = training.header
    if steps := header.get("per_epoch"):
        return steps, steps
    examples, batch, times = header.get("examples"), header.get("batch"), header.get("accumulation", 1)
    if examples and batch and times:
        steps = math.ceil(examples * times / batch) / times  # an incomplete micro-batch counts
        return max(1, math.floor(steps)), max(1, math.ceil(steps))
    ends = [log.epoch for log in training.logs if "train_runtime" in log.numbers]
    if total is not None and ends and ends[-1] is not None and ends[-1][0] > 0:
        return total / ends[-1][1], total / ends[-1][0]
    return None


def _by_bars(logs: Sequence[TrainerLog], total: int | None, per_epoch: Span | None) -> Span | None:
    """Set steps by the training's bars where they agree with the epochs; return the steps in an epoch.

    tqdm draws its bar again behind what it prints. Where only the bar in front was kept, it may be an older
    one, and counts if the logs come evenly by it.
    """
    after = [next((done for done, of in log.after if of == total and done), None) for log in logs]
    before = [log.before[0] if log.before and log.before[1] == total else None for log in logs]
    for steps, evenly in ((after, False), (before, True)):
        pairs = [
            (log, step, log.epoch)
            for log, step in zip(logs, steps, strict=True)
            if step is not None and 0 < step <= (total or 0) and log.epoch is not None
        ]
        known = sorted({step for log, step, _ in pairs if log.kind == "train"})
        alone = len(pairs) == 1 and per_epoch is None and after != before
        if not pairs or alone or (evenly and any(step % known[0] for step in known)):
            continue
        low, high = per_epoch or (0.0, math.inf)
        if per_epoch is None:
            ratios = sorted(2 * step / sum(epoch) for _, step, epoch in pairs)
            low = high = ratios[len(ratios) // 2]
        agreed = [
            (log, step, epoch)
            for log, step, epoch in pairs
            if epoch[0] * low - 1.5 <= step <= epoch[1] * high + 1.5
        ]
        if len(pairs) - len(agreed) > ODD * len(pairs):
            continue
        reached = 0
        for log, step, _ in agreed:
            if step > reached or (step == reached and log.kind == "eval"):
                log.step = reached = step
        if per_epoch is None:
            spans = [((step - 1) / epoch[1], (step + 1) / epoch[0]) for _, step, epoch in agreed if epoch[0]]
            low = max((span[0] for span in spans if span[0] <= low), default=low)
            high = min((span[1] for span in spans if span[1] >= high), default=high)
        return low, high
    return per_epoch


def _by_epochs(
    logs: Sequence[TrainerLog],
    per_epoch: Span | None,
    interval: int | None,
    since: int,
    total: int | None = None,
) -> None:
    """Set steps that bars did not, where exactly one number of steps fits.

    Logs come every so many steps, but for a first one at step 1 and those of an epoch's end.
    """
    missing = [log for log in logs if log.step is None]
    if not missing or any(log.epoch is None for log in logs):
        return
    found = [log.step for log in logs if log.step is not None]
    step = interval if interval else math.gcd(*found) if len(found) >= 3 else None
    if per_epoch is not None:
        if step is None and not found and not since:
            step = _even_interval([log.epoch for log in logs if log.epoch], per_epoch)
            step = step or _linear_interval([log.numbers.get("learning_rate") for log in logs], total)
        for log in missing:
            low, high = (epoch * rate for epoch, rate in zip(log.epoch or (0, 0), per_epoch, strict=True))
            even = _only_multiple(step, low - 1, high + 1) if step else None
            log.step = even or _only_multiple(1, low, high)
    elif step and not found and _evenly_spaced(logs, step, since):
        for number, log in enumerate(logs, start=1):
            log.step = since + number * step


def _only_multiple(of: int, low: float, high: float) -> int | None:
    first = max(1, math.ceil((low - 1e-9) / of))
    return first * of if first == math.floor((high + 1e-9) / of) else None


def _even_interval(epochs: Sequence[Span], per_epoch: Span) -> int | None:
    """The one interval whose multiples have these epochs, from the first log or the second on."""
    fitting = set[int]()
    for skipped in (0, 1):
        low, high = 1.0, math.inf
        for number, epoch in enumerate(epochs[skipped:], start=1):
            low = max(low, (epoch[0] * per_epoch[0] - 1) / number)
            high = min(high, (epoch[1] * per_epoch[1] + 1) / number)
        only = _only_multiple(1, low, high) if low <= high < math.inf else None
        if only is not None and not (skipped and epochs[0][0] * per_epoch[0] > 1):
            fitting.add(only)
        elif low <= high < math.inf and not skipped:
            return None  # several fit
    return fitting.pop() if len(fitting) == 1 else None


def _linear_interval(rates: Sequence[float | None], total: int | None) -> int | None:
    """The interval by which learning rates fall in a line to zero at `total`, as by the Trainer's default.

    It takes three of them in full precision; a cosine has no such line.
    """
    known = [(at, rate) for at, rate in enumerate(rates, start=1) if rate is not None and 0 <= rate < 1e6]
    falling = known[-1:]
    for pair in reversed(known[:-1]):
        if not pair[1] > falling[0][1]:
            break
        falling.insert(0, pair)
    if len(falling) < 3 or total is None or not any(len(f"{rate:.12g}") > 9 for _, rate in falling):
        return None
    (i, first), (j, last) = falling[0], falling[-1]
    interval = total * (first - last) / (j * first - i * last)
    even = round(interval)
    if not 1 <= even <= total or abs(interval - even) > 0.1:
        return None
    peak = first / (total - i * even) if total > i * even else 0.0
    fits = all(
        math.isclose(rate, peak * (total - k * even), rel_tol=0, abs_tol=1e-3 * first) for k, rate in falling
    )
    return even if fits else None


def _evenly_spaced(logs: Sequence[TrainerLog], step: int, since: int) -> bool:
    """Whether one number of steps in an epoch puts every log at its multiple of `step`."""
    low, high = 0.0, math.inf
    for number, log in enumerate(logs, start=1):
        if log.epoch is None:
            return False
        low = max(low, (since + number * step - 1) / log.epoch[1])
        if log.epoch[0] > 0:
            high = min(high, (since + number * step + 1) / log.epoch[0])
    return low <= high
