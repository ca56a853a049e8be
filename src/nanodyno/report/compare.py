"""A comparison on one page: the answer first, then changes, figures, why, and what cannot be said."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from nanodyno.analysis.changes import Changes
from nanodyno.analysis.compare import ComparedMetric, RunComparison, loss_metric
from nanodyno.analysis.decisions import Decision, NotComparable
from nanodyno.analysis.findings import Finding, Severity
from nanodyno.analysis.moves import Kind
from nanodyno.records.imported import Setting
from nanodyno.report import quantities as q
from nanodyno.report.behind import numbers_table
from nanodyno.report.document import as_document
from nanodyno.report.finding_numbers import place
from nanodyno.report.finding_words import repeated, words
from nanodyno.report.forecast_words import ENDS
from nanodyno.report.forecast_words import sentence as sentence_of_end
from nanodyno.report.language import ENGLISH, Language, message
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
MOVES: dict[Kind, tuple[str, str]] = {
    "model": (message("work per token, memory, speed, loss"), "-"),
    "function": (message("loss"), message("speed, memory")),
    "split": (
        message("memory, and how well the card is filled"),
        message("tokens per update, loss (but for rounding)"),
    ),
    "batch": (message("updates per token, speed, loss"), message("work per token")),
    "optimizer": (message("loss, memory, the time of an update"), message("work per token")),
    "learning": (message("loss"), message("speed, memory")),
    "pass": (message("loss, speed, memory"), message("work per token")),
    "speed": (message("speed, memory"), message("loss (but for rounding)")),
    "precision": (message("speed, memory, loss a little"), message("work per token")),
    "data": (message("loss, and what it means"), message("speed, memory")),
    "length": (message("where it ends; a schedule tied to it"), message("speed, memory")),
    "reading": (message("the val loss that is read, a little"), message("training, speed, memory")),
    "record": ("-", message("all of it")),
    "other": (message("not known"), message("not known")),
}
TITLES: dict[str, str] = {
    "parameters": message("parameters (nanoGPT's count)"),
    "tokens_per_iter": message("tokens per iteration"),
    "iteration_seconds": message("time per iteration"),
    "micro_step_seconds": message("time per micro-batch"),
    "tokens_per_second": message("tokens per second"),
    "achieved_flops_per_second": message("rate of work, exact causal"),
    "nanogpt_flops_per_second": message("rate of work, nanoGPT's formula"),
    "mfu": message("share of the card's peak"),
    "nanogpt_mfu": message("nanoGPT's MFU (A100)"),
    "peak_allocated_bytes": message("peak memory allocated"),
    "val_loss_at_equal_iterations": message("val loss at equal iterations"),
    "val_loss_at_equal_tokens": message("val loss at equal tokens"),
    "val_loss_at_equal_seconds": message("val loss at equal time"),
    "val_loss_at_equal_flops": message("val loss at equal work"),
}
SEVERITIES: tuple[tuple[Severity, str], ...] = (
    ("wrong", message("what cannot be so")),
    ("fact", message("what follows")),
    ("caution", message("what cannot be said")),
    ("next", message("what to do next")),
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
    answer = tuple(_sentence(each, several, language) for each in reported)
    ends = [each for each in findings if each.code in ENDS]
    rest = [each for each in findings if each not in reported and each not in ends]
    sections = [Section(language.listed(names) if len(names) == 2 else language.joined(names), answer)]
    sections += [
        Section(
            language.say("what changed")
            if len(names) == 2
            else language.say("what changed from {first} to {other}", first=names[0], other=group[0]),
            (_changes_table(changes, language),),
        )
        for group in comparison.groups[1:]
        if (changes := comparison.changes[group[0]]).changed
    ]
    sections.append(Section(language.say("side by side"), (_metrics_table(comparison, language),)))
    if ends:
        sections.append(
            Section(
                language.say("where they will end"), tuple(sentence_of_end(each, language) for each in ends)
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
        return language.say("{names}: {sentence}", names=language.listed(finding.runs), sentence=text)
    return text


def _names_both(finding: Finding, language: Language) -> bool:
    """With names that no sentence has by chance: a run may be called "a"."""
    names = "\ue000", "\ue001"
    text = words(replace(finding, runs=names), language)
    return all(name in text for name in names)


def _sentence(finding: Finding, several: bool, language: Language) -> str:
    """Capitalised, but for the name of a run, which is as its user wrote it."""
    text = named_words(finding, several, language)
    sentence = text if text.startswith(finding.runs) else text[0].upper() + text[1:]
    return language.say("{sentence}.", sentence=sentence)


def _changes_table(changes: Changes, language: Language) -> Table:
    titles = (
        message("setting"),
        message("before"),
        message("after"),
        message("can move"),
        message("leaves alone"),
    )
    batch_changed = any(each.kind == "batch" for each in changes.changed)
    rows = [
        (
            each.key,
            _setting(each.before, language),
            _setting(each.after, language),
            *map(language.say, (moved, "-" if each.kind == "split" and batch_changed else kept)),
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
            title = language.say("{title} ({place})", title=title, place=place(at.axis, at.at, language))
        cells = [_cell(metric, group, language) for group in comparison.groups]
        rows.append((title, *cells, _decision(comparison, metric.name, language)))
    return Table(("", *names, language.say("better")), tuple(rows), figures_from=1)


NOT_COMPARABLE: dict[NotComparable, str] = {
    "other-data": message("not comparable: other data"),
    "other-schedule": message("not comparable: another stage of the schedule"),
    "too-few-iterations": message("not comparable: too few iterations"),
    "speed-uncertain": message("not comparable: a speed does not fit the elapsed time"),
    "machine-busy": message("not comparable: the machine was busy"),
    "tokens-contradict": message("not comparable: contradicting tokens per iteration"),
    "rate-impossible": message("not comparable: more than the GPU can do"),
    "unrecorded-difference": message("not comparable: something unrecorded differs"),
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
        message("no significant difference") if open_one.reason is None else NOT_COMPARABLE[open_one.reason]
    )
    every = [*found, *(each for each in comparison.decisions if each.metric == metric)]
    if all(each and (each.call, each.reason) == (open_one.call, open_one.reason) for each in every):
        return words
    names = language.listed(_named(open_one, language))
    return language.say("{names}: {sentence}", names=names, sentence=words)


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
