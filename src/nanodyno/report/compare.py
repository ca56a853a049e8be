"""A comparison in words and tables: a first page with the answer, its causes and caveats, and the whole."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.changes import Changes
from nanodyno.analysis.compare import ComparedMetric, RunComparison, loss_metric
from nanodyno.analysis.curves import CurveAxis
from nanodyno.analysis.decisions import Decision, NotComparable
from nanodyno.analysis.findings import Finding, Severity
from nanodyno.analysis.moves import Kind
from nanodyno.analysis.statistics import Interval
from nanodyno.messages import quantities as q
from nanodyno.messages.findings import MULTIPLIED, repeated, words
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import fold, place, turn_words
from nanodyno.records.imported import Setting
from nanodyno.report.attribute_tables import factor_words, judged, size_words
from nanodyno.report.behind import numbers_table
from nanodyno.report.document import as_document
from nanodyno.report.page import BulletList, Section, Table

ANSWERS = (
    (
        "throughput-fell-rate-rose", "throughput-rose-rate-fell", "throughput-changed",
        "speed-within-noise", "speed-unrecorded-difference", "speed-on-busy-machine",
        "speed-of-few-iterations", "speed-uncertain", "speed-of-contradicting-tokens", "speed-impossible",
        "nothing-in-common",
    ),
    (
        "losses-at-equal-time", "losses-unrecorded-difference", "losses-on-other-data",
        "losses-at-other-stages", "losses-of-contradicting-tokens",
        "losses-apart", "losses-within-noise", "no-common-loss",
    ),
    ("not-a-number",),
)  # fmt: skip
"""The first of each row that was found makes the answer."""
CAUSES = ("confounded", "one-change", "one-change-each", "one-known-change", "no-change")
"""Said with the changes."""
SEPARATE = "next-measure-apart"
IN_TABLE = frozenset({"losses-within-noise", "losses-apart"})
"""The first page says it in the column of verdicts."""
LAST_CAVEATS = ("mfus-against-a100", "mfu-against-a100", "mfu-poisoned")
"""Of another program's figures, which no decision rests on."""
ENDS = ("ends-lower", "ends-alike", "ends-rough")
"""Of two runs: which ends lower."""
MOST_CAVEATS, MOST_CHANGES, MOST_STEPS = 5, 6, 2
"""On the first page."""
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
SEVERITIES: tuple[tuple[Severity, str], ...] = (
    ("wrong", "compare.section.impossible"),
    ("fact", "compare.section.facts"),
    ("caution", "common.section.caveats"),
    ("next", "common.section.next"),
)
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
VERDICTS = {
    "tokens_per_second": FASTER,
    "mfu": HIGHER,
    "achieved_flops_per_second": HIGHER,
    "peak_allocated_bytes": HIGHER,
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


def first_page(
    comparison: RunComparison,
    findings: Sequence[Finding],
    attributions: Sequence[Attribution],
    command: str,
    language: Language = ENGLISH,
    most_caveats: int = MOST_CAVEATS,
) -> list[Section]:
    """Return the answer, a table of verdicts, the causes, some caveats and what to do next.

    `command` prints everything.
    """
    several = len(comparison.groups) > 2
    answer = answering(findings)
    causes = [] if attributions else [each for each in findings if each.code in (*CAUSES, SEPARATE)]
    said = {*map(id, (*answer, *causes))}
    rest = [each for each in findings if id(each) not in said and each.code not in IN_TABLE]
    found = [each for each in caveats(rest) if each.code not in CAUSES]
    shown = tuple(named_words(each, several, language) for each in found[:most_caveats])
    whole = _answer(comparison, answer, attributions, language)
    steps = [each for each in rest if each.severity == "next" and each.code != SEPARATE][:MOST_STEPS]
    return [
        Section(whole.title, whole.parts[:-1]),
        Section(None, whole.parts[-1:]),
        Section(
            None,
            (*_changes(comparison, language), *(named_words(each, several, language) for each in causes)),
        ),
        *([Section(language.say("common.section.caveats"), (BulletList(shown),))] if shown else []),
        Section(
            None,
            (
                *(named_words(each, several, language) for each in steps),
                language.say("compare.everything", command=command),
            ),
        ),
    ]


def comparison_page(
    comparison: RunComparison,
    findings: Sequence[Finding],
    language: Language = ENGLISH,
    attributions: Sequence[Attribution] = (),
) -> list[Section]:
    """Return everything, the answer first."""
    names = _names(comparison, language)
    several = len(names) > 2
    reported = answering(findings)
    causes = [each for each in findings if each.code in CAUSES]
    ends = [each for each in findings if each.code in ENDS]
    said = {*map(id, (*reported, *causes, *ends))}
    rest = [each for each in findings if id(each) not in said]
    sections = [_answer(comparison, reported, attributions, language)]
    for group in comparison.groups[1:]:
        own = [each for each in causes if each.runs[-1] == group[0]]
        changes = comparison.changes[group[0]]
        parts = (
            *([_points(own, False, language)] if own else []),
            *([_changes_table(changes, language)] if changes.changed else []),
        )
        title = language.say("compare.section.changes-of-one", first=names[0], other=group[0])
        if parts:
            sections.append(Section(title if several else language.say("compare.section.changes"), parts))
    sections.append(Section(language.say("compare.section.metrics"), (_metrics_table(comparison, language),)))
    if ends:
        words_of_ends = tuple(words(each, language) for each in ends)
        sections.append(Section(language.say("compare.section.forecast"), words_of_ends))
    for severity, title in SEVERITIES:
        found = [each for each in rest if each.severity == severity]
        if found:
            sections.append(Section(language.say(title), (_points(found, several, language),)))
    return sections


def answering(findings: Sequence[Finding]) -> list[Finding]:
    """Those that make the answer."""
    by_code = {each.code: each for each in reversed(findings)}
    rows = ([by_code[code] for code in codes if code in by_code] for codes in ANSWERS)
    return [found[0] for found in rows if found]


def caveats(findings: Sequence[Finding]) -> list[Finding]:
    """The most important first: what cannot be, what limits the comparison, then single runs."""
    found = [each for each in findings if each.severity in ("wrong", "caution")]
    return sorted(
        found,
        key=lambda each: (each.severity != "wrong", each.code in LAST_CAVEATS, len(each.runs) < 2),
    )


def _points(findings: Sequence[Finding], several: bool, language: Language) -> BulletList:
    sentences = tuple(named_words(each, several, language) for each in findings)
    return BulletList(sentences, tuple(numbers_table(each.numbers) for each in findings))


def _names(comparison: RunComparison, language: Language) -> list[str]:
    return [repeated(group[0], len(group), language) for group in comparison.groups]


def _answer(
    comparison: RunComparison,
    answer: Sequence[Finding],
    attributions: Sequence[Attribution],
    language: Language,
) -> Section:
    names = _names(comparison, language)
    sentences = [named_words(each, len(names) > 2, language) for each in answer]
    speed, *others = sentences or [""]
    measured = [said for each in attributions if (said := _measured(each, language))]
    title = language.listed(names) if len(names) == 2 else language.joined(names)
    parts = [each for each in (speed, *measured, *others) if each]
    return Section(title, (*parts, summary_table(comparison, language)))


def _measured(found: Attribution, language: Language) -> str:
    """What each change did by itself; nothing where that is not known."""
    parts = zip(found.design.factors, found.look.effects.parts, strict=False)
    effects = [
        language.say(
            "compare.measured.effect",
            change=factor_words(factor, language),
            size=size_words(found, part, language),
            interval=judged(found, part, language)[0],
        )
        for factor, part in parts
    ]
    if not effects or found.metric == "achieved_flops_per_second":
        return ""
    said = "compare.measured.loss" if found.metric == "val_loss" else "compare.measured.speed"
    return language.say(said, device=found.machine.device_name, effects=language.joined(effects))


def _changes(comparison: RunComparison, language: Language) -> tuple[str, ...]:
    """A line for each run, with the changes that can move the speed or the loss first."""
    lines: list[str] = []
    for group in comparison.groups[1:]:
        changes = comparison.changes[group[0]]
        moving = [each for what in ("speed", "loss") for each in changes.that_move(what)]
        ordered = sorted(changes.changed, key=lambda each: each not in moving)
        shown = [turn_words(each.key, each.before, each.after, language) for each in ordered[:MOST_CHANGES]]
        if not shown:
            continue
        listed, more = language.joined(shown), len(ordered) - len(shown)
        if more:
            listed = language.say_plural("compare.changes.more", more, changes=listed)
        if len(comparison.groups) > 2:
            lines.append(language.say("compare.changes.of-run", run=group[0], changes=listed))
        else:
            lines.append(language.say("compare.changes.list", changes=listed))
    return tuple(lines)


def summary_table(comparison: RunComparison, language: Language = ENGLISH) -> Table:
    """What most readers ask for, each with its verdict."""
    known = {metric.name: metric for metric in comparison.metrics}
    rows: list[tuple[str, ...]] = []
    names = ("tokens_per_second", "mfu" if "mfu" in known else "achieved_flops_per_second")
    for name in names:
        rows.append(_summary_row(language.say(SUMMARY[name]), known.get(name), comparison, language))
    for axes, title, missing in LOSS_ROWS:
        at = next((each for axis in axes for each in comparison.losses if each.axis == axis), None)
        if at is None:
            cells = ("-",) * len(comparison.groups)
            rows.append((language.say(title, place="-"), *cells, language.say(missing)))
            continue
        tokens = at.axis == "tokens"
        where = q.count(at.at, language) if tokens else place(at.axis, at.at, language)
        kind = "compare.summary.train-loss-equal-time" if at.kind == "train" else title
        row_title = language.say(kind, place=where)
        rows.append(_summary_row(row_title, known[loss_metric(at)], comparison, language))
    memory = "peak_allocated_bytes"
    rows.append(_summary_row(language.say(SUMMARY[memory]), known.get(memory), comparison, language))
    names = _names(comparison, language)
    return Table(("", *names, language.say("compare.table.verdict")), tuple(rows), figures_from=1)


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


def named_words(finding: Finding, several: bool, language: Language) -> str:
    """Of several runs, with those two that it is about."""
    text = words(finding, language)
    if several and len(finding.runs) == 2 and not _names_both(finding, language):
        return language.say("compare.finding.of-runs", names=language.listed(finding.runs), sentence=text)
    return text


def _names_both(finding: Finding, language: Language) -> bool:
    """With names that no sentence has by chance: a run may be called "a"."""
    names = "\ue000", "\ue001"
    text = words(replace(finding, runs=names), language)
    return all(name in text for name in names)


def _changes_table(changes: Changes, language: Language) -> Table:
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


def _metrics_table(comparison: RunComparison, language: Language) -> Table:
    names = _names(comparison, language)
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


def comparison_document(comparison: RunComparison, findings: Sequence[Finding]) -> dict[str, object]:
    """Under the names of the code, for programs."""
    return {
        "runs": [account.name for account in comparison.accounts],
        "changes": [
            {"run": name, "key": each.key, "before": each.before, "after": each.after}
            for name, changes in comparison.changes.items()
            for each in changes.changed
        ],
        "unknown": {name: changes.unknown for name, changes in comparison.changes.items()},
        "metrics": {
            metric.name: {name: value.document() for name, value in metric.values.items()}
            for metric in comparison.metrics
        },
        "groups": comparison.groups,
        "decisions": [each.document() for each in comparison.decisions],
        "winners": comparison.winners,
        "machine_state": {
            account.name: None if account.machine_state is None else as_document(account.machine_state)
            for account in comparison.accounts
        },
        "findings": [as_document(finding) for finding in findings],
    }
