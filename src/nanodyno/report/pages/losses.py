"""Losses of runs as pictures: over tokens, time and iterations, as far as each is known."""

from collections.abc import Sequence

from nanodyno.analysis.account import Account
from nanodyno.analysis.curves import CurveAxis as CurveAxis
from nanodyno.analysis.curves import per_iteration
from nanodyno.messages.language import Language
from nanodyno.report.figures import Axis, Lines, Series, finite
from nanodyno.report.page import FigureChoice, PageElement

SIZES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
OVER: tuple[tuple[CurveAxis, str, str], ...] = (
    ("tokens", "common.tokens", "losses.title.over-tokens"),
    ("seconds", "common.time", "losses.title.over-time"),
    ("iterations", "common.iterations", "losses.title.over-iterations"),
)
TIMES = (
    (2 * 3600.0, 3600.0, "losses.axis.hours"),
    (120.0, 60.0, "losses.axis.minutes"),
    (0.0, 1.0, "losses.axis.seconds"),
)


def loss_pictures(accounts: Sequence[Account], language: Language) -> PageElement:
    """A sentence where no run tells a loss."""
    if not any(account.evals or any(step.loss is not None for step in account.steps) for account in accounts):
        return language.say("losses.none-known")
    figures = [
        (language.say(label), figure)
        for axis, label, title in OVER
        if (figure := _lines(accounts, axis, language.say(title), language)) is not None
    ]
    return (
        figures[0][1]
        if len(figures) == 1
        else FigureChoice(language.say("losses.choice.axis"), tuple(figures))
    )


def _lines(accounts: Sequence[Account], axis: CurveAxis, title: str, language: Language) -> Lines | None:
    known = [(number, each) for number, each in enumerate(accounts) if per_iteration(each, axis)]
    series = tuple(line for number, each in known for line in _series(each, axis, number, len(accounts)))
    drawn = tuple(each for each in series if each.points)
    if not drawn:
        return None
    missing = [each.name for each in accounts if each.name not in {account.name for _, account in known}]
    end = max(each.points[-1][0] for each in drawn)
    loss = Axis(language.say("losses.axis.loss"), lambda value: language.marks(f"{value:g}"))
    return Lines(title, _description(drawn, missing, axis, language), _axis(axis, end, language), loss, drawn)


def _series(account: Account, axis: CurveAxis, number: int, runs: int) -> tuple[Series, ...]:
    """Perplexities are no losses, and are left out."""
    evals = () if account.tells_perplexity else account.evals
    trained = [each for each in evals if each.iteration > 0]
    val = finite([(_place(account, axis, each.iteration), each.val_loss) for each in trained or evals])
    train = finite(
        [
            (_place(account, axis, each.iteration + 1), each.loss)
            for each in account.steps
            if each.loss is not None
        ]
    )
    name = account.name
    colour = number if runs > 1 else 0
    last = max((points[-1][0] for points in (val, train) if points), default=0.0)
    is_val = bool(val) and val[-1][0] >= last
    return (
        Series("" if is_val else name, train, colour, "samples"),
        Series(name if is_val else "", val, colour),
    )


def _place(account: Account, axis: CurveAxis, iterations: int) -> float:
    """Of a batch that grew, by the size that each iteration had."""
    if axis == "tokens" and account.growth is not None:
        return account.growth.tokens(iterations)
    seconds = account.seconds_after(iterations) if axis == "seconds" else None
    return float(iterations) if seconds is None else seconds


def _description(
    series: Sequence[Series], missing: Sequence[str], axis: CurveAxis, language: Language
) -> str:
    parts: list[str] = []
    if any(each.manner == "curve" for each in series):
        parts.append(language.say("losses.note.val-points"))
    if any(each.manner == "samples" for each in series):
        parts.append(language.say("losses.note.train-line"))
    if axis == "seconds":
        parts.append(language.say("losses.note.time-axis"))
    if missing:
        parts.append(language.say("losses.note.runs-left-out", runs=language.joined(missing)))
    return language.together(parts)


def _axis(axis: CurveAxis, end: float, language: Language) -> Axis:
    if axis == "tokens":
        return Axis(language.say("common.tokens"), lambda value: _round(value, language))
    if axis == "seconds":
        _, unit, label = next(each for each in TIMES if end >= each[0])
        return Axis(language.say(label), lambda value: language.marks(f"{value:g}"), unit)
    return Axis(language.say("common.iterations"), lambda value: language.number(value, ",.0f"))


def _round(value: float, language: Language) -> str:
    """A tick: 100M, 2.5B."""
    size, letter = next((each for each in SIZES if value >= each[0]), (1.0, ""))
    return f"{language.number(value / size, 'g')}{letter}"
