"""The tables of a comparison: verdicts, what changed, all metrics; and each decision in words."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nanodyno.analysis.changes import Changes
from nanodyno.analysis.compare import ComparedMetric, RunComparison, loss_metric
from nanodyno.analysis.curves import CurveAxis
from nanodyno.analysis.decisions import Decision, NotComparable
from nanodyno.analysis.moves import Kind
from nanodyno.analysis.statistics import Interval
from nanodyno.messages import quantities as q
from nanodyno.messages.findings import MULTIPLIED, repeated
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import fold, place
from nanodyno.records.imported import Setting
from nanodyno.report.page import Table

MOVES: dict[Kind, tuple[str, str]] = {
    "model": ("compare.moves.model", ""),
    "function": ("common.loss", "compare.moves.speed-memory"),
    "split": (
        "compare.moves.micro-batch-split",
        "compare.moves.micro-batch-split-keeps",
    ),
    "batch": ("compare.moves.batch", "compare.moves.work-per-token"),
    "optimizer": ("compare.moves.optimizer", "compare.moves.work-per-token"),
    "learning": ("common.loss", "compare.moves.speed-memory"),
    "pass": ("compare.moves.forward-pass", "compare.moves.work-per-token"),
    "speed": ("compare.moves.speed-memory", "compare.moves.loss-but-rounding"),
    "precision": ("compare.moves.precision", "compare.moves.work-per-token"),
    "data": ("compare.moves.data", "compare.moves.speed-memory"),
    "length": ("compare.moves.training-length", "compare.moves.speed-memory"),
    "reading": ("compare.moves.evaluation", "compare.moves.evaluation-keeps"),
    "record": ("", "compare.moves.everything"),
    "other": ("common.not-known", "common.not-known"),
}
TITLES: dict[str, str] = {
    "parameters": "compare.metric.parameters",
    "tokens_per_iter": "compare.metric.tokens-per-iteration",
    "iteration_seconds": "compare.metric.iteration-time",
    "micro_step_seconds": "compare.metric.micro-batch-time",
    "tokens_per_second": "common.tokens-per-second",
    "achieved_flops_per_second": "compare.metric.achieved-compute",
    "nanogpt_flops_per_second": "compare.metric.work-rate-nanogpt",
    "mfu": "compare.metric.mfu",
    "nanogpt_mfu": "compare.metric.mfu-nanogpt",
    "peak_allocated_bytes": "compare.metric.peak-memory",
    "val_loss_at_equal_iterations": "compare.metric.val-loss-equal-iterations",
    "val_loss_at_equal_tokens": "compare.metric.val-loss-equal-tokens",
    "val_loss_at_equal_seconds": "compare.metric.val-loss-equal-time",
    "val_loss_at_equal_flops": "compare.metric.val-loss-equal-work",
    "train_loss_at_equal_seconds": "compare.metric.train-loss-equal-time",
}
SUMMARY = {
    "tokens_per_second": "compare.summary.speed",
    "mfu": "compare.metric.mfu",
    "achieved_flops_per_second": "compare.summary.achieved-compute",
    "peak_allocated_bytes": "compare.summary.memory",
}
LOSS_ROWS: tuple[tuple[tuple[CurveAxis, ...], str, str], ...] = (
    (
        ("tokens", "iterations"),
        "compare.summary.val-loss-equal-tokens",
        "compare.verdict.no-loss-at-equal-tokens",
    ),
    (("seconds",), "compare.summary.val-loss-equal-time", "compare.verdict.no-loss-at-equal-time"),
)
FASTEST = ("compare.several.fastest", "compare.several.no-fastest")
LOWEST_LOSS = ("compare.several.lowest-loss", "compare.several.no-lowest-loss")
"""Of three runs and more: which one it is, or that none is shown to be it."""
FASTER = {
    "up": "compare.verdict.faster",
    "down": "compare.verdict.slower",
    "times-up": "compare.verdict.times-faster",
    "times-down": "compare.verdict.times-slower",
}
HIGHER = {
    "up": "compare.verdict.higher",
    "down": "compare.verdict.lower",
    "times-up": "compare.verdict.times-higher",
    "times-down": "compare.verdict.times-lower",
}
MORE = {
    "up": "compare.verdict.more-memory",
    "down": "compare.verdict.less-memory",
    "times-up": "compare.verdict.times-more-memory",
    "times-down": "compare.verdict.times-less-memory",
}
VERDICTS = {
    "tokens_per_second": FASTER,
    "mfu": HIGHER,
    "achieved_flops_per_second": HIGHER,
    "peak_allocated_bytes": MORE,
}
_SHOWN: dict[str, Callable[[float, Language], str]] = {
    "parameters": q.count,
    "tokens_per_iter": q.rate,
    "iteration_seconds": q.milliseconds,
    "micro_step_seconds": q.milliseconds,
    "tokens_per_second": q.rate,
    "achieved_flops_per_second": q.flop_rate,
    "nanogpt_flops_per_second": q.flop_rate,
    "mfu": q.percent,
    "nanogpt_mfu": q.percent,
    "peak_allocated_bytes": lambda value, language: q.gib(int(value), language),
}


NOT_COMPARABLE: dict[NotComparable, str] = {
    "other-data": "compare.not-comparable.other-data",
    "other-schedule": "compare.not-comparable.other-schedule",
    "too-few-iterations": "compare.not-comparable.too-few-iterations",
    "speed-uncertain": "compare.not-comparable.speed-uncertain",
    "machine-busy": "compare.not-comparable.machine-busy",
    "gpu-shared": "compare.not-comparable.gpu-shared",
    "gpu-throttled": "compare.not-comparable.gpu-throttled",
    "tokens-contradict": "compare.not-comparable.tokens-contradict",
    "rate-impossible": "compare.not-comparable.rate-impossible",
    "unrecorded-difference": "compare.not-comparable.unrecorded-difference",
}


def group_names(comparison: RunComparison, language: Language) -> list[str]:
    return [repeated(group[0], len(group), language) for group in comparison.groups]


def answer_of_several(comparison: RunComparison, language: Language = ENGLISH) -> list[str]:
    """Return which run is the fastest and which has the lowest loss, at equal time where that is known."""
    losses = [(title, name) for title, name, _ in _loss_rows(comparison, language) if name is not None]
    asked = [(FASTEST, "", "tokens_per_second"), *((LOWEST_LOSS, *each) for each in losses[-1:])]
    said = (_first_of_several(comparison, name, texts, title, language) for texts, title, name in asked)
    return [each for each in said if each]


def _first_of_several(
    comparison: RunComparison, name: str, texts: tuple[str, str], title: str, language: Language
) -> str:
    found = comparison.settling.get(name, ())
    nearest = found[0] if found else None
    if nearest is None or None in found:
        return ""
    if name not in comparison.winners:
        verdict = _decision(comparison, name, language)
        return language.say(texts[1], title=title, verdict=verdict)
    metric = next(each for each in comparison.metrics if each.name == name)
    first, second = _named(nearest, language)
    values = [_cell(metric, group, language) for group in (nearest.runs, nearest.against)]
    return language.say(
        texts[0],
        title=title, run=first, value=values[0], next=second, next_value=values[1],
    )  # fmt: skip


def summary_table(comparison: RunComparison, language: Language = ENGLISH) -> Table:
    """What most readers ask for, each with its verdict."""
    known = {metric.name: metric for metric in comparison.metrics}
    rows: list[tuple[str, ...]] = []
    for name in ("tokens_per_second", "mfu" if "mfu" in known else "achieved_flops_per_second"):
        rows.append(_summary_row(language.say(SUMMARY[name]), known.get(name), comparison, language))
    for title, name, missing in _loss_rows(comparison, language):
        if name is None:
            rows.append((title, *("-",) * len(comparison.groups), language.say(missing)))
        else:
            rows.append(_summary_row(title, known[name], comparison, language))
    memory = "peak_allocated_bytes"
    rows.append(_summary_row(language.say(SUMMARY[memory]), known.get(memory), comparison, language))
    names = group_names(comparison, language)
    return Table(("", *names, language.say("compare.table.verdict")), tuple(rows), figures_from=1)


def _loss_rows(comparison: RunComparison, language: Language) -> list[tuple[str, str | None, str]]:
    """The title of each row of losses, its metric (None where no losses meet), and what to say then."""
    rows: list[tuple[str, str | None, str]] = []
    for axes, title, missing in LOSS_ROWS:
        at = next((each for axis in axes for each in comparison.losses if each.axis == axis), None)
        if at is None:
            rows.append((language.say(TITLES[f"val_loss_at_equal_{axes[0]}"]), None, missing))
            continue
        where = q.count(at.at, language) if at.axis == "tokens" else place(at.axis, at.at, language)
        kind = "compare.summary.train-loss-equal-time" if at.kind == "train" else title
        rows.append((language.say(kind, place=where), loss_metric(at), missing))
    return rows


def _summary_row(
    title: str, metric: ComparedMetric | None, comparison: RunComparison, language: Language
) -> tuple[str, ...]:
    if metric is None:
        cells = (language.say("compare.summary.not-reported"),) * len(comparison.groups)
        return (title, *cells, "")
    cells = (_cell(metric, group, language) for group in comparison.groups)
    return (title, *cells, verdict(comparison, metric.name, language))


def verdict(comparison: RunComparison, metric: str, language: Language = ENGLISH) -> str:
    """What the decision on two runs says; of more, which is better than all others."""
    if len(comparison.groups) != 2:
        return _decision(comparison, metric, language)
    found = comparison.decision(metric, comparison.groups[1][0])
    if found is None or found.effect is None:
        return ""
    if found.reason is not None:
        return language.say(NOT_COMPARABLE[found.reason])
    if found.call == "no-significant-difference":
        if found.effect.low is None:
            return language.say("compare.table.no-difference")
        return language.say("compare.verdict.no-difference", **_interval(found.effect, metric, language))
    if "loss_at_equal" in metric:
        return _loss_verdict(found, found.effect, metric, language)
    (run, _), ratio = _named(found, language), found.effect.value
    way = "up" if ratio > 1 else "down"
    if 1 / MULTIPLIED < ratio < MULTIPLIED:
        return language.say(VERDICTS[metric][way], run=run, size=q.share(abs(ratio - 1), ".1f", language))
    return language.say(VERDICTS[metric][f"times-{way}"], run=run, size=fold(ratio, language))


def _loss_verdict(decision: Decision, effect: Interval, metric: str, language: Language) -> str:
    """Of the run whose loss is lower, by how much."""
    one, other = _named(decision, language)
    positive = effect if effect.value > 0 else effect.times(-1)
    lower = other if effect.value > 0 else one
    if positive is not effect:
        positive = replace(positive, low=positive.high, high=positive.low)
    size = language.number(positive.value, ".3f")
    bounds = _interval(positive, metric, language, sign="")
    return language.say("compare.verdict.lower-loss", run=lower, difference=size, **bounds)


def _interval(effect: Interval, metric: str, language: Language, sign: str = "+") -> dict[str, str]:
    assert effect.low is not None
    assert effect.high is not None
    of_loss = "loss_at_equal" in metric
    low, high = (
        language.number(each, f"{sign}.3f") if of_loss else q.share(each - 1, "+.1f", language)
        for each in (effect.low, effect.high)
    )
    return {"level": q.share(effect.level, ".3g", language), "low": low, "high": high}


def changes_table(changes: Changes, language: Language) -> Table:
    titles = (
        "compare.table.setting",
        "common.before",
        "common.after",
        "compare.table.can-move",
        "compare.table.leaves-alone",
    )
    batch_changed = any(each.kind == "batch" for each in changes.changed)
    rows = [
        (
            each.key,
            _setting(each.before, language),
            _setting(each.after, language),
            *(
                language.say(id) if id else "-"
                for id in (moved, "" if each.kind == "split" and batch_changed else kept)
            ),
        )
        for each in changes.changed
        for moved, kept in [MOVES[each.kind]]
    ]
    return Table(tuple(map(language.say, titles)), tuple(rows))


def _setting(value: Setting, language: Language) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, str):
        return value
    return language.number(value, "," if isinstance(value, int) else "g")


def metrics_table(comparison: RunComparison, language: Language) -> Table:
    names = group_names(comparison, language)
    rows: list[tuple[str, ...]] = []
    for metric in comparison.metrics:
        at = next((each for each in comparison.losses if metric.name == loss_metric(each)), None)
        title = language.say(TITLES[metric.name])
        if at is not None:
            title = language.say(
                "compare.table.metric-at-place", title=title, place=place(at.axis, at.at, language)
            )
        cells = [_cell(metric, group, language) for group in comparison.groups]
        rows.append((title, *cells, _decision(comparison, metric.name, language)))
    return Table(("", *names, language.say("compare.table.better")), tuple(rows), figures_from=1)


def _decision(comparison: RunComparison, metric: str, language: Language) -> str:
    """The runs that are better than all others, or why none is: of which two, where others stand apart."""
    found = comparison.settling.get(metric, ())
    open_one = next((each for each in found if each is None or each.call != "better"), None)
    if not found or None in found:
        return ""
    if open_one is None:
        return _named(found[0], language)[0]
    words = language.say(
        "compare.table.no-difference" if open_one.reason is None else NOT_COMPARABLE[open_one.reason]
    )
    every = [*found, *(each for each in comparison.decisions if each.metric == metric)]
    if all(each and (each.call, each.reason) == (open_one.call, open_one.reason) for each in every):
        return words
    names = language.listed(_named(open_one, language))
    return language.say("compare.finding.of-runs", names=names, sentence=words)


def _named(decision: Decision | None, language: Language) -> list[str]:
    groups = () if decision is None else (decision.runs, decision.against)
    return [repeated(group[0], len(group), language) for group in groups]


def _cell(metric: ComparedMetric, group: Sequence[str], language: Language) -> str:
    """The mean over repeated runs."""
    names = [name for name in group if name in metric.values]
    if not names:
        return "-"
    mean = metric.mean(names)
    if "loss_at_equal" in metric.name:
        return language.number(mean, ".3f" if metric.name.startswith("train") else ".4f")
    return _SHOWN[metric.name](mean, language)
