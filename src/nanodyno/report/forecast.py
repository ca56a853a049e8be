"""A forecast on one page: the answer, its caveats and the picture."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nanodyno.analysis.account import Account
from nanodyno.analysis.conclusions import SAME_SIZE, public_curves
from nanodyno.analysis.findings import Code, Finding
from nanodyno.analysis.forecast import Forecast
from nanodyno.analysis.forecast_findings import Forecasts
from nanodyno.messages.findings import words
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.report.behind import numbers_table
from nanodyno.report.document import as_document
from nanodyno.report.figures import Point, finite
from nanodyno.report.page import BulletList, Section, to_terminal
from nanodyno.report.plot import Labels, PlotSeries, line_plot
from nanodyno.report.prose import Prose
from nanodyno.report.runs import fits_first_page

ANSWERS: tuple[Code, ...] = (
    "ends-lower", "ends-alike", "measured-lower", "measured-alike", "forecast-end", "forecast-by-size",
    "forecast-overfitting", "forecast-dead", "forecast-dead-from-start", "forecast-stuck",
    "forecast-ended", "forecast-over", "forecast-changed", "target-reached", "target-reached-perhaps",
    "target-behind", "target-not-reached", "target-missed", "forecast-time", "forecast-time-training-only",
)  # fmt: skip
COMPARED: tuple[Code, ...] = ("ends-lower", "ends-alike")
"""These name the ends of both runs with their intervals."""
PLOT_MAX_WIDTH, PLOT_HEIGHT = 110, 14
FIRST_PAGE_PLOTS = (8, 6, 4)
"""Heights on a first page: cautions go before dots."""
MOST_CAUTIONS = 5
"""On a first page."""
DRAWN_FROM = 0.2
"""Of the way so far: the first fall would press all the rest flat."""
LARGEST_DRAWN = 1e4


def forecast_page(
    made: Forecasts, width: int, language: Language = ENGLISH, everything: bool = False
) -> RenderableType:
    """The answer, the first cautions and the curve on one screen; or everything."""
    columns = min(width, PLOT_MAX_WIDTH)
    if everything:
        drawn = picture(made.forecasts, made.accounts, columns, language)
        return Group(to_terminal(sections(made.findings, language)), Text(), drawn)
    drawn = [picture(made.forecasts, made.accounts, columns, language, each) for each in FIRST_PAGE_PLOTS]
    more = language.say("forecast.more", runs=shlex.join(each.name for each in made.forecasts))
    answer, cautions = _briefly(answering(made.findings)), _cautions(made.findings)
    for count in range(min(len(cautions), MOST_CAUTIONS), -1, -1):
        shown = [*answer, *cautions[:count]]
        hint = [Prose(more, style="dim")] if len(shown) < len(made.findings) else []
        for plot in drawn:
            page = Group(to_terminal(sections(shown, language)), Text(), plot, *hint)
            if fits_first_page(page, width):
                return page
    return Group(to_terminal(sections(answer, language)), Prose(more, style="dim"))


def _cautions(findings: Sequence[Finding]) -> list[Finding]:
    """All but the answer, plain facts last."""
    rest = [each for each in findings if each.code not in ANSWERS]
    return sorted(rest, key=lambda each: each.severity == "fact")


def _briefly(answer: Sequence[Finding]) -> list[Finding]:
    """Without what the comparison of two ends repeats."""
    compared = any(each.code in COMPARED for each in answer)
    return [each for each in answer if not (compared and each.code == "forecast-end")]


def sections(findings: Sequence[Finding], language: Language = ENGLISH) -> list[Section]:
    answer = answering(findings)
    rest = [each for each in findings if each not in answer]
    made = [Section(None, tuple(words(each, language) for each in answer))]
    if rest:
        behind = tuple(numbers_table(each.numbers) for each in rest)
        cautions = BulletList(tuple(words(each, language) for each in rest), behind)
        made.append(Section(language.say("common.section.caveats"), (cautions,)))
    return made


def answering(findings: Sequence[Finding]) -> list[Finding]:
    return [each for code in ANSWERS for each in findings if each.code == code]


def picture(
    made: Sequence[Forecast],
    accounts: Sequence[Account],
    width: int,
    language: Language = ENGLISH,
    height: int = PLOT_HEIGHT,
) -> Text:
    """Losses so far and the band ahead, with a public run of the same size."""
    series: list[PlotSeries] = []
    for each, account in zip(made, accounts, strict=True):
        name = "" if len(made) == 1 else each.name
        series.append(
            _series(
                _named(name, language.say("forecast.picture.measured"), language),
                losses_so_far(each, account),
            )
        )
        band = each.band
        if band is not None:
            ahead = list(band.updates)
            series.append(
                PlotSeries(
                    _named(name, language.say("forecast.picture.expected"), language),
                    ahead,
                    list(band.median),
                )
            )
            if len(made) == 1:
                series.append(PlotSeries(language.say("forecast.picture.low"), ahead, list(band.low)))
                series.append(PlotSeries(language.say("forecast.picture.high"), ahead, list(band.high)))
    if len(made) == 1:
        series += [_series(name, points) for name, points in public_beside(made[0], accounts[0]).items()]
    labels = Labels(language.say("common.iterations"), language.say("common.loss"), language)
    return line_plot(series, width, height, labels)


def _named(run: str, what: str, language: Language) -> str:
    return language.say("forecast.picture.series-of-run", run=run, what=what) if run else what


def _series(label: str, points: Sequence[Point]) -> PlotSeries:
    return PlotSeries(label, [x for x, _ in points], [y for _, y in points])


def losses_so_far(made: Forecast, account: Account) -> tuple[Point, ...]:
    """Without the first fall; val losses, or where there are none those of the batches."""
    losses = [(float(each.iteration), each.val_loss) for each in account.evals]
    if made.of_train:
        losses = [(float(step.iteration), step.loss) for step in account.steps if step.loss is not None]
    first = DRAWN_FROM * made.iterations_done
    return finite([(x, y) for x, y in losses if x >= first and abs(y) < LARGEST_DRAWN])


def public_beside(made: Forecast, account: Account) -> dict[str, tuple[Point, ...]]:
    """Public runs of the same size over the same stretch, at equal tokens."""
    count, growth = account.parameters, account.growth
    if count is None or growth is None:
        return {}
    first, last = DRAWN_FROM * made.iterations_done, made.iterations
    found: dict[str, tuple[Point, ...]] = {}
    for name, curve in public_curves().items():
        if abs(count / curve["parameters"] - 1) <= SAME_SIZE:
            tokens = {int(step) * curve["tokens_per_iter"]: loss for step, loss in curve["val_loss"].items()}
            points = [(float(growth.iterations(seen)), loss) for seen, loss in tokens.items()]
            found[f"{name} ({curve['data']})"] = finite([(x, y) for x, y in points if first <= x <= last])
    return found


def forecast_document(made: Forecasts) -> Mapping[str, Any]:
    """Of one run its own numbers on the top level; of two, under `runs`."""
    runs = [_document(*each) for each in zip(made.forecasts, made.accounts, strict=True)]
    found = [as_document(each) for each in made.findings]
    return {**runs[0], "findings": found} if len(runs) == 1 else {"runs": runs, "findings": found}


def _document(made: Forecast, account: Account) -> dict[str, Any]:
    reached, band = made.reached, made.band
    return {
        "run": made.name,
        "basis": made.basis,
        "iterations_done": made.iterations_done,
        "iterations": made.iterations,
        "tokens": made.tokens,
        "final_val_loss": None
        if made.expected is None
        else {"value": made.final.median, "low": made.final.low, "high": made.final.high, "n": made.points},
        "lowest": None if made.lowest is None else as_document(made.lowest),
        "siblings": list(made.siblings),
        "speed": account.speed.document(),
        "is_train_loss": made.of_train,
        "eta_seconds": made.seconds,
        "schedule": None if made.plan is None else as_document(made.plan),
        "target": None if reached is None else as_document(reached),
        "band": None
        if band is None
        else {name: [float(x) for x in getattr(band, name)] for name in ("updates", "median", "low", "high")},
    }
