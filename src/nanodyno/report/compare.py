"""A comparison on one page: the answer first, then changes, figures, why, and what cannot be said."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nanodyno.analysis.changes import Changes
from nanodyno.analysis.compare import ComparedMetric, RunComparison, loss_metric
from nanodyno.analysis.decisions import Decision, NotComparable
from nanodyno.analysis.findings import Finding, Severity
from nanodyno.analysis.moves import Kind
from nanodyno.messages import quantities as q
from nanodyno.messages.findings import repeated, words
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import place
from nanodyno.records.imported import Setting
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
    ("confounded", "one-change", "one-change-each", "one-known-change", "no-change"),
    (
        "losses-unrecorded-difference", "no-evidence-for-learning-rate", "losses-on-other-data",
        "losses-at-other-stages", "losses-of-contradicting-tokens",
        "losses-of-different-models", "losses-apart", "losses-within-noise",
        "no-common-loss",
    ),
    ("not-a-number",),
)  # fmt: skip
"""The first of each row that was found makes a sentence of the answer."""
ENDS = ("ends-lower", "ends-alike", "ends-rough")
"""Of two runs: which ends lower."""
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
    "achieved_flops_per_second": "common.work-rate-exact",
    "nanogpt_flops_per_second": "compare.metric.work-rate-nanogpt",
    "mfu": "common.share-of-peak",
    "nanogpt_mfu": "common.nanogpt-mfu",
    "peak_allocated_bytes": "compare.metric.peak-memory",
    "val_loss_at_equal_iterations": "compare.metric.val-loss-equal-iterations",
    "val_loss_at_equal_tokens": "compare.metric.val-loss-equal-tokens",
    "val_loss_at_equal_seconds": "compare.metric.val-loss-equal-time",
    "val_loss_at_equal_flops": "compare.metric.val-loss-equal-work",
}
SEVERITIES: tuple[tuple[Severity, str], ...] = (
    ("wrong", "compare.section.impossible"),
    ("fact", "compare.section.facts"),
    ("caution", "compare.section.limits"),
    ("next", "common.section.next"),
)
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


def comparison_page(
    comparison: RunComparison, findings: Sequence[Finding], language: Language = ENGLISH
) -> list[Section]:
    names = [repeated(group[0], len(group), language) for group in comparison.groups]
    several = len(names) > 2
    reported = answering(findings)
    answer = tuple(named_words(each, several, language) for each in reported)
    ends = [each for each in findings if each.code in ENDS]
    rest = [each for each in findings if each not in reported and each not in ends]
    sections = [Section(language.listed(names) if len(names) == 2 else language.joined(names), answer)]
    sections += [
        Section(
            language.say("compare.section.changes")
            if len(names) == 2
            else language.say("compare.section.changes-of-one", first=names[0], other=group[0]),
            (_changes_table(changes, language),),
        )
        for group in comparison.groups[1:]
        if (changes := comparison.changes[group[0]]).changed
    ]
    sections.append(Section(language.say("compare.section.metrics"), (_metrics_table(comparison, language),)))
    if ends:
        sections.append(
            Section(
                language.say("compare.section.forecast"),
                tuple(words(each, language) for each in ends),
            )
        )
    for severity, title in SEVERITIES:
        found = [each for each in rest if each.severity == severity]
        if found:
            sentences = tuple(named_words(each, several, language) for each in found)
            behind = tuple(numbers_table(each.numbers) for each in found)
            sections.append(Section(language.say(title), (BulletList(sentences, behind),)))
    return sections


def answering(findings: Sequence[Finding]) -> list[Finding]:
    """Those that make the answer."""
    by_code = {each.code: each for each in reversed(findings)}
    rows = ([by_code[code] for code in codes if code in by_code] for codes in ANSWERS)
    return [found[0] for found in rows if found]


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
    names = [repeated(group[0], len(group), language) for group in comparison.groups]
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
    if metric.name.startswith("val_loss"):
        return language.number(mean, ".4f")
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
