"""Loss curves with their schedules, from a folder: imported runs, or tables of step, loss and rate."""

import csv
import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nanodyno.analysis.account import GPT2_VOCABULARY, Account
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.forecast_law import Array, Schedule
from nanodyno.analysis.forecast_plan import curve_of, logged_schedule, plan_of, schedule_of
from nanodyno.analysis.forecast_points import Curve
from nanodyno.records.store import read_run
from nanodyno.schedule import learning_rate_at

MOVED = 1e-3
"""By how much a share of the peak must change to count as lowered."""
FEWEST = 8
"""Losses of a curve that can be cut short."""
PADDED_VOCABULARY = 50_304
TOKENS_PER_ITER = {"124M speedrun 2024": 524_288}
"""By family, where an index leaves them out: 8 x 64 x 1,024 in each of these records."""


@dataclass(frozen=True)
class Known:
    """A whole curve: its end, which is forecast, and what comes before it."""

    name: str
    size: str
    family: str
    """Curves of one family are of one source and one size of model."""
    curve: Curve
    schedule: Schedule
    parameters: float | None = None
    tokens_per_iter: float | None = None
    """None also where the tokenizer is not GPT-2's: no law is known for its losses then."""
    dataset: str = ""

    @property
    def last(self) -> float:
        return float(self.curve.updates[-1])

    @property
    def final(self) -> float:
        return float(self.curve.losses[-1])

    @property
    def kind(self) -> str:
        """cosine when the rate falls from the warm-up on, wsd when it is held before it falls."""
        shares = self.schedule.shares[self.schedule.peak_at :]
        low = np.nonzero(shares < 1 - MOVED)[0]
        if not len(low):
            return "constant"
        return "cosine" if low[0] < 0.1 * len(shares) else "wsd"

    @property
    def at_once(self) -> bool:
        """Whether the rate falls by a third of its peak within a hundredth of the run: in stages."""
        shares = self.schedule.shares[self.schedule.peak_at :]
        window = max(1, len(shares) // 100)
        return bool(np.max(shares[:-window] - shares[window:], initial=0.0) > 1 / 3)


def load(folder: Path) -> list[Known]:
    """Every curve under a folder, in order of their names; without what is no loss of a trained model."""
    runs = [_run(path.parent) for path in sorted(folder.rglob("run.json"))]
    found = [known for known in runs if known is not None]
    for index in sorted(folder.rglob("index.json")):
        found += [_described(index.parent, entry) for entry in json.loads(index.read_text())]
    described = {known.name for known in found}
    tables = [path for path in sorted(folder.rglob("*.csv")) if path.stem not in described]
    found += [known for path in tables if (known := _table(path, folder)) is not None]
    return [known for known in map(_cleaned, found) if len(known.curve.updates) >= FEWEST]


def _cleaned(known: Known) -> Known:
    kept = np.isfinite(known.curve.losses) & (known.curve.updates > 0)
    return replace(
        known, curve=replace(known.curve, updates=known.curve.updates[kept], losses=known.curve.losses[kept])
    )


def _run(folder: Path) -> Known | None:
    account = account_of(read_run(folder))
    count = account.parameters or account.reported_parameters
    size = folder.name if count is None else f"{count / 1e6:.0f}M"
    curve = curve_of(account)
    plan, last = plan_of(account), int(curve.updates.max(initial=0))
    schedule = schedule_of(account, plan, last) if plan is not None else logged_schedule(account, last)
    if schedule is None:
        print(f"{folder}: left out, its learning-rate schedule is not known", file=sys.stderr)
        return None
    tokens = account.tokens_per_iter if account.vocabulary == GPT2_VOCABULARY else None
    data = str(account.settings.get("dataset", ""))
    return Known(account.name, size, account.name, curve, schedule, count, tokens, data)


def _described(folder: Path, entry: dict[str, Any]) -> Known:
    """A curve whose schedule stands beside it: as settings, or in words (cosine, or held and then linear)."""
    if "settings" in entry:
        return _with_settings(folder, entry)
    rows = _rows(folder / entry["file"])
    updates, losses = _column(rows, "val_loss")
    train_updates, train_losses = _column(rows, "train_loss")
    steps, warmup = int(entry["steps"]), int(entry["warmup_steps"])
    at = np.arange(1, steps + 1)
    rates = np.minimum(1.0, at / max(warmup, 1))
    if "cosine" in entry["schedule"]:
        half = 0.5 * (1 + np.cos(np.pi * (at - warmup) / (steps - warmup)))
        rates = np.where(at < warmup, rates, half)
    else:
        rates = np.minimum(rates, (steps - at + 1) / int(entry["warmdown_steps"]))
    name = Path(entry["file"]).stem
    curve = Curve(updates, losses, train_updates, train_losses)
    size = entry["model"].split(",")[0]
    tokens = float(entry["tokens_per_step"])
    return Known(name, size, "124M records", curve, Schedule(rates), _parameters(size), tokens, entry["data"])


def _with_settings(folder: Path, entry: dict[str, Any]) -> Known:
    """A curve with the schedule's settings, or with the column lr."""
    path = folder / Path(entry["file"]).name
    rows = _rows(path)
    updates, losses = _column(rows, "val_loss")
    settings = {**entry["settings"], **{key: entry["shape"][key] for key in ("n_layer", "n_embd")}}
    plan = plan_of(Account(path.stem, settings, foreign=True))
    if "lr" in rows[0]:
        places, rates = _column(rows, "lr")
        schedule = Schedule(np.interp(np.arange(1, int(updates[-1]) + 1), [0.0, *places], [0.0, *rates]))
    elif plan is not None:
        schedule = Schedule(np.array([learning_rate_at(plan, at) for at in range(plan.max_iters)]))
    else:
        raise ValueError(f"{path}: its learning-rate schedule is not known")
    size = next((each for each in ("350M", "400M") if each in entry["family"]), "124M")
    shape, family = entry["shape"], entry["family"]
    tokens = shape.get("tokens_per_iter") or TOKENS_PER_ITER.get(family)
    if tokens is None and {"batch_size", "gradient_accumulation_steps", "block_size"} <= shape.keys():
        tokens = shape["batch_size"] * shape["gradient_accumulation_steps"] * shape["block_size"]
    if shape.get("vocab_size") not in (GPT2_VOCABULARY, PADDED_VOCABULARY):
        tokens = None
    curve, data = Curve(updates, losses), str(shape.get("dataset") or "")
    return Known(path.stem, size, family, curve, schedule, _parameters(size), tokens, data)


def _table(path: Path, root: Path) -> Known | None:
    """Columns step, lr and loss; before the first row the rate climbs to its own."""
    rows = _rows(path)
    if not rows or not {"step", "lr", "loss"} <= set(rows[0]):
        return None
    updates, losses = _column(rows, "loss")
    places, rates = _column(rows, "lr")
    dense = np.interp(np.arange(1, int(updates[-1]) + 1), [0.0, *places], [0.0, *rates])
    size = path.parent.name if path.parent != root else path.stem
    curve = Curve(updates, losses)
    return Known(f"{size}/{path.stem}", size, size, curve, Schedule(dense), _parameters(size))


def _parameters(size: str) -> float | None:
    """124e6 of "GPT-2 124M"."""
    found = re.search(r"([\d.]+)([MB])\b", size)
    return float(found[1]) * {"M": 1e6, "B": 1e9}[found[2]] if found else None


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _column(rows: list[dict[str, str]], name: str) -> tuple[Array, Array]:
    reported = [
        (float(row["step"]), float(row[name])) for row in rows if row[name] and float(row["step"]) > 0
    ]
    return np.array([step for step, _ in reported]), np.array([value for _, value in reported])
