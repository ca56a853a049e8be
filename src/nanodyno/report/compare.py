"""The pages of a comparison: a first one with the answer, its causes and caveats, and the whole."""

from collections.abc import Sequence
from dataclasses import replace

from nanodyno.analysis.attribution import Attribution
from nanodyno.analysis.compare import RunComparison
from nanodyno.analysis.findings import Finding, Severity
from nanodyno.messages.findings import words
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.numbers import turn_words
from nanodyno.report.attribute_tables import factor_words, judged, size_words
from nanodyno.report.behind import numbers_table
from nanodyno.report.compare_tables import (
    answer_of_several,
    changes_table,
    group_names,
    metrics_table,
    summary_table,
)
from nanodyno.report.document import as_document
from nanodyno.report.page import BulletList, Section

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
SEVERITIES: tuple[tuple[Severity, str], ...] = (
    ("wrong", "compare.section.impossible"),
    ("fact", "compare.section.facts"),
    ("caution", "common.section.caveats"),
    ("next", "common.section.next"),
)


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
    answer = [] if several else answering(findings)
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
                _everything(len(found) - len(shown), command, language),
            ),
        ),
    ]


def _everything(hidden: int, command: str, language: Language) -> str:
    """Return how to see all, with the number of caveats that this page has no room for."""
    if hidden:
        return language.say_plural("compare.everything-more", hidden, command=command)
    return language.say("compare.everything", command=command)


def comparison_page(
    comparison: RunComparison,
    findings: Sequence[Finding],
    language: Language = ENGLISH,
    attributions: Sequence[Attribution] = (),
) -> list[Section]:
    """Return everything, the answer first."""
    names = group_names(comparison, language)
    several = len(names) > 2
    reported = [] if several else answering(findings)
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
            *([changes_table(changes, language)] if changes.changed else []),
        )
        title = language.say("compare.section.changes-of-one", first=names[0], other=group[0])
        if parts:
            sections.append(Section(title if several else language.say("compare.section.changes"), parts))
    sections.append(Section(language.say("compare.section.metrics"), (metrics_table(comparison, language),)))
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


def _answer(
    comparison: RunComparison,
    answer: Sequence[Finding],
    attributions: Sequence[Attribution],
    language: Language,
) -> Section:
    names = group_names(comparison, language)
    sentences = [words(each, language) for each in answer]
    if len(names) > 2:
        sentences = answer_of_several(comparison, language)
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
