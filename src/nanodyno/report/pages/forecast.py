"""A forecast as a page to open: the answer, the curve with its band, what stands against it."""

from nanodyno.analysis.account import Account
from nanodyno.analysis.forecast import Forecast
from nanodyno.analysis.forecast import ForecastBand as Expected
from nanodyno.analysis.forecast_findings import Forecasts
from nanodyno.messages import quantities as q
from nanodyno.messages.language import Language
from nanodyno.messages.numbers import forecast_loss
from nanodyno.report.behind import numbers_table
from nanodyno.report.figures import Axis, BandFigure, Series
from nanodyno.report.forecast import answering, losses_so_far, public_beside, sections
from nanodyno.report.page import Folded, Page, PageElement, Section, Tile, Tiles
from nanodyno.report.pages.losses import loss_pictures


def forecast_report(made: Forecasts, language: Language) -> Page:
    answer, *rest = sections(made.findings, language)
    names = tuple(each.name for each in made.forecasts)
    tables = [numbers_table(each.numbers) for each in answering(made.findings)]
    behind = Folded(language.say("page.numbers-behind"), tuple(each for each in tables if each is not None))
    one = len(names) == 1 and made.forecasts[0].expected is not None
    tiles = (_tiles(made.forecasts[0], language),) if one else ()
    pictures = tuple(
        _picture(each, account, language) for each, account in zip(made.forecasts, made.accounts, strict=True)
    )
    return Page(
        language.say("forecast.page-title"),
        (
            Section(language.listed(names), (*answer.parts, *tiles, behind)),
            Section(language.say("common.loss"), pictures),
            *rest,
        ),
        names,
    )


def _tiles(made: Forecast, language: Language) -> Tiles:
    final = made.final
    interval = language.say(
        "common.interval-80", low=forecast_loss(final.low, language), high=forecast_loss(final.high, language)
    )
    if made.basis == "ended":
        label, note = (
            language.say("common.train-loss") if made.of_train else language.say("common.val-loss"),
            "",
        )
    else:
        expected = language.say("forecast.tile.train-loss"), language.say("common.expected-val-loss")
        label, note = expected[0] if made.of_train else expected[1], interval
    tiles = [Tile(label, forecast_loss(final.median, language), note)]
    if made.tokens is not None:
        tiles.append(Tile(language.say("common.tokens"), q.count(made.tokens, language)))
    if made.seconds:
        tiles.append(Tile(language.say("forecast.tile.time-left"), q.duration(made.seconds, language)))
    return Tiles(tuple(tiles))


def _picture(made: Forecast, account: Account, language: Language) -> PageElement:
    """Of a run without a band its losses are all that there is to see."""
    measured = losses_so_far(made, account)
    if made.band is None or not measured:
        return loss_pictures([account], language)
    target = _target(made, made.band)
    return BandFigure(
        language.say("forecast.picture.title", run=made.name),
        language.say("forecast.picture.note"),
        Axis(language.say("common.iterations"), lambda value: language.number(value, ",.0f")),
        Axis(language.say("losses.axis.loss"), lambda value: language.marks(f"{value:g}")),
        Series(language.say("forecast.picture.measured"), measured),
        Series(language.say("forecast.picture.expected"), tuple(_line(made.band)), manner="median"),
        tuple(float(each) for each in made.band.low),
        tuple(float(each) for each in made.band.high),
        language.say("forecast.picture.interval", level="80"),
        tuple(Series(name, points, manner="beside") for name, points in public_beside(made, account).items()),
        target,
        ""
        if target is None
        else language.say("forecast.picture.target", loss=forecast_loss(target, language)),
    )


def _line(band: Expected) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(band.updates, band.median, strict=True)]


def _target(made: Forecast, band: Expected) -> float | None:
    """Where it would not leave the curve a line at the edge of the picture."""
    if made.reached is None:
        return None
    high, low = float(band.high.max()), float(band.low.min())
    return made.reached.loss if low - 2 * (high - low) <= made.reached.loss <= high + (high - low) else None
