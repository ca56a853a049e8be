"""A forecast on one page: the answer, what it rests on, what stands against it, and the picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nanodyno.analysis.account import Account
from nanodyno.analysis.conclusions import SAME_SIZE, public_curves
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.forecast import Forecast
from nanodyno.report.forecast_words import sentence, words
from nanodyno.report.page import Points, Section, to_terminal
from nanodyno.report.plot import Labels, Series, line_plot

ANSWERS = (
    "ends-lower", "ends-alike", "forecast-end", "forecast-by-size", "forecast-ended", "forecast-changed",
    "target-reached", "target-reached-perhaps", "target-not-reached", "forecast-time",
    "forecast-time-training-only",
)  # fmt: skip
PLOT_MAX_WIDTH, PLOT_HEIGHT = 110, 14
DRAWN_FROM = 0.2
"""Of the way so far: the first fall would press all the rest flat."""
LARGEST_DRAWN = 1e4


def forecast_page(
    made: Sequence[Forecast], accounts: Sequence[Account], findings: Sequence[Finding], width: int
) -> RenderableType:
    parts: list[RenderableType] = [to_terminal(sections(findings)), Text()]
    parts.append(picture(made, accounts, min(width, PLOT_MAX_WIDTH)))
    return Group(*parts)


def sections(findings: Sequence[Finding]) -> list[Section]:
    answer = [each for code in ANSWERS for each in findings if each.code == code]
    rest = [each for each in findings if each not in answer]
    made = [Section(None, tuple(sentence(each) for each in answer))]
    cautions = tuple(words(each) for each in rest)
    return [*made, Section("mind", (Points(cautions),))] if cautions else made


def picture(made: Sequence[Forecast], accounts: Sequence[Account], width: int) -> Text:
    """Losses so far and the band ahead, with a public run of the same size."""
    series: list[Series] = []
    last = max(each.iterations for each in made)
    for each, account in zip(made, accounts, strict=True):
        label = "" if len(made) == 1 else f"{each.name}: "
        series.append(_losses(each, account, f"{label}so far"))
        if each.band is not None:
            series.append(Series(f"{label}expected", list(each.band.updates), list(each.band.median)))
            if len(made) == 1:
                series.append(Series("low (80%)", list(each.band.updates), list(each.band.low)))
                series.append(Series("high (80%)", list(each.band.updates), list(each.band.high)))
    if len(made) == 1:
        series += _public(accounts[0], DRAWN_FROM * made[0].iterations_done, last)
    return line_plot(series, width, PLOT_HEIGHT, Labels("iterations", "loss"))


def _losses(made: Forecast, account: Account, label: str) -> Series:
    losses = [(each.iteration, each.val_loss) for each in account.evals]
    if made.of_train:
        losses = [(step.iteration, step.loss) for step in account.steps if step.loss is not None]
    first = DRAWN_FROM * made.iterations_done
    drawn = [(x, y) for x, y in losses if x >= first and y == y and abs(y) < LARGEST_DRAWN]
    return Series(label, [x for x, _ in drawn], [y for _, y in drawn])


def _public(account: Account, first: float, last: float) -> list[Series]:
    count, per_iter = account.parameters, account.tokens_per_iter
    if count is None or per_iter is None:
        return []
    found: list[Series] = []
    for name, curve in public_curves().items():
        if abs(count / curve["parameters"] - 1) <= SAME_SIZE:
            scale = curve["tokens_per_iter"] / per_iter
            points = [(int(step) * scale, loss) for step, loss in curve["val_loss"].items()]
            drawn = [(x, y) for x, y in points if first <= x <= last]
            found.append(Series(f"{name} ({curve['data']})", [x for x, _ in drawn], [y for _, y in drawn]))
    return found


def forecast_document(made: Sequence[Forecast], findings: Sequence[Finding]) -> Mapping[str, Any]:
    """Of one run its own numbers on the top level; of two, under `runs`."""
    runs = [_document(each) for each in made]
    found = [asdict(each) for each in findings]
    return {**runs[0], "findings": found} if len(runs) == 1 else {"runs": runs, "findings": found}


def _document(made: Forecast) -> dict[str, Any]:
    reached, band = made.reached, made.band
    return {
        "run": made.name,
        "basis": made.basis,
        "iterations_done": made.iterations_done,
        "iterations": made.iterations,
        "tokens": made.tokens,
        "final_val_loss": {"median": made.final.median, "low": made.final.low, "high": made.final.high},
        "is_train_loss": made.of_train,
        "eta_seconds": made.seconds,
        "schedule": None if made.plan is None else asdict(made.plan),
        "target": None if reached is None else asdict(reached),
        "band": None
        if band is None
        else {name: [float(x) for x in getattr(band, name)] for name in ("updates", "median", "low", "high")},
    }
