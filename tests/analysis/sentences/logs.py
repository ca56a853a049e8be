"""Logs and runs as users have them, small, and what is asked of them: the builders of the tables beside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.analysis.losses import cosine, true_loss

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.conclusions import compared_runs
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.forecast import ForecastQuestion
from nanodyno.analysis.forecast_findings import forecasts_of
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.store import Run, read_run

MODEL: dict[str, Any] = {"n_layer": 12, "n_head": 12, "n_embd": 768, "bias": False}
SETTINGS: dict[str, Any] = {
    **MODEL, "block_size": 1024, "batch_size": 8, "gradient_accumulation_steps": 64, "dtype": "bfloat16",
    "compile": True, "dataset": "fineweb", "learning_rate": 6e-4,
}  # fmt: skip
PARAMETERS = 12 * 12 * 768**2 + 50304 * 768 + 25 * 768
"""As nanoGPT counts: matrices, the tied embedding and the gains of the norms, without positions."""
EXACT_FLOPS = 6 * (12 * 12 * 768**2 + 50304 * 768) + 6 * 12 * 768 * 1025
NANOGPT_FLOPS = 6 * PARAMETERS + 12 * 12 * 768 * 1024
TOKENS = 8 * 64 * 1024
ITERATIONS = 40
"""That a log has where its losses are not given."""


@dataclass(frozen=True)
class Log:
    """A text, and what its user says of it at `import`."""

    text: str
    gpu: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Asked:
    """Runs that are compared, or with a question forecast."""

    runs: tuple[Log | Run, ...]
    question: Mapping[str, Any] | None = None
    others: tuple[Log | Run, ...] = ()
    """Other runs of the user."""

    def findings(self, folder: Path) -> tuple[Finding, ...]:
        runs = self.imported(folder)
        if self.question is None:
            return compared_runs(runs)[1]
        others = [account_of(self._run(each, folder / f"other{at}")) for at, each in enumerate(self.others)]
        return forecasts_of(runs, ForecastQuestion(**self.question), others).findings

    def imported(self, folder: Path) -> list[Run]:
        return [self._run(each, folder / str(number)) for number, each in enumerate(self.runs)]

    def _run(self, source: Log | Run, folder: Path) -> Run:
        if isinstance(source, Run):
            return source
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text(source.text, encoding="utf-8")
        name = folder / "runs" / f"run{folder.name}"
        import_run(ImportRequest((folder / "log.txt",), name, gpu=source.gpu, settings=source.settings))
        return read_run(name)


@dataclass(frozen=True)
class Sentence:
    """Where a code is found, with these of its numbers, and where, as near as can be, it is not."""

    holds: Asked
    fails: Asked
    numbers: Mapping[str, Any] = field(default_factory=dict[str, Any])


def alone(log: Log | Run) -> Asked:
    return Asked((log,))


def pair(one: Log | Run, other: Log | Run) -> Asked:
    return Asked((one, other))


def forecast(*runs: Log | Run, others: tuple[Log | Run, ...] = (), **question: Any) -> Asked:
    return Asked(runs, question, others)


def nanogpt(
    seconds: float | None = 9.34,
    mfu: float | None = None,
    evals: Mapping[int, tuple[float, float]] | None = None,
    head: str = "",
    slow: Mapping[int, float] | None = None,
    losses: Mapping[int, float] | None = None,
    **settings: Any,
) -> str:
    """nanoGPT's stdout: settings (None leaves one out), evaluations as (train, val), and its iterations.

    `mfu` is that of an iteration; what is printed is nanoGPT's running average of it.
    """
    known = {key: value for key, value in (SETTINGS | settings).items() if value is not None}
    lines = [head, *(f"Overriding: {key} = {value}" for key, value in known.items())]
    lines.append("defaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)")
    evals, slow, losses = evals or {}, slow or {}, losses or {}
    timed = {*(losses or range(ITERATIONS)), *slow} if seconds else set[int]()
    printed = None
    for at in sorted({*timed, *evals}):
        if at in evals:
            lines.append("step {}: train loss {:.4f}, val loss {:.4f}".format(at, *evals[at]))
        if seconds and at in timed:
            time = slow.get(at, seconds * (1 + 0.001 * (at % 3 - 1)))
            newest = None if mfu is None or at < 5 else mfu * seconds / time
            printed = newest if printed is None or newest is None else 0.9 * printed + 0.1 * newest
            shown = -100.0 if printed is None else 100 * printed
            lines.append(
                f"iter {at}: loss {losses.get(at, 6.0):.4f}, time {time * 1000:.2f}ms, mfu {shown:.2f}%"
            )
    return "\n".join(lines) + "\n"


def log(gpu: str | None = None, **parts: Any) -> Log:
    return Log(nanogpt(**parts), gpu)


def curve(start: float, noise: float = 0.0, until: int = 1000) -> dict[int, tuple[float, float]]:
    """Evaluations every 100 iterations that fall with the root; every second lies `noise` above."""
    places = range(100, until + 1, 100)
    values = [start - 0.5 * (at / 100) ** 0.5 + noise * (-1) ** (at // 100) for at in places]
    return {at: (value - 0.02, value) for at, value in zip(places, values, strict=True)}


SCHEDULE: dict[str, Any] = {
    "learning_rate": 6e-4, "min_lr": 6e-5, "warmup_iters": 100, "lr_decay_iters": 10_000,
    "max_iters": 10_000, "decay_lr": True, "eval_interval": 200,
}  # fmt: skip


def law(until: int, every: int = 200, lower: float = 0.0) -> dict[int, tuple[float, float]]:
    """Evaluations on a curve of the law, under nanoGPT's cosine over 10,000 iterations."""
    places = np.arange(every, until + 1, every, dtype=np.float64)
    values = true_loss(cosine(10_000), places) - lower
    return {int(at): (float(value) - 0.02, float(value)) for at, value in zip(places, values, strict=True)}


def at_law(iterations: float) -> float:
    return float(true_loss(cosine(10_000), np.array([float(iterations)]))[0])


def training(done: int = 5000, lower: float = 0.0, **parts: Any) -> Log:
    """A log of a run under its schedule that has come so far."""
    return log(**({"seconds": None, "evals": law(done, lower=lower)} | SCHEDULE | parts))
