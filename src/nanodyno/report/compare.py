"""A comparison on one page: the answer first, then changes, figures, why, and what cannot be said."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from nanodyno.analysis.changes import Changes, Kind
from nanodyno.analysis.compare import Comparison, Metric, Value
from nanodyno.analysis.findings import Finding, Severity
from nanodyno.records.imported import Setting
from nanodyno.report import quantities as q
from nanodyno.report.finding_words import place, words
from nanodyno.report.page import Points, Section, Table

ANSWERS = (
    (
        "throughput-fell-rate-rose", "throughput-rose-rate-fell", "throughput-changed", "same-speed",
        "nothing-in-common",
    ),
    ("confounded", "one-change", "no-change"),
    (
        "no-evidence-for-learning-rate", "losses-on-other-data", "losses-of-different-models", "losses-apart",
        "losses-within-noise", "loss-noise-unknown", "same-loss", "no-common-loss",
    ),
)  # fmt: skip
"""The first of each row that was found makes a sentence of the answer."""
MOVES: dict[Kind, tuple[str, str]] = {
    "model": ("work per token, memory, speed, loss", "-"),
    "split": ("memory, and how well the card is filled", "tokens per update, loss (but for rounding)"),
    "batch": ("updates per token, loss", "work per token"),
    "optimiser": ("loss, memory, the time of an update", "work per token"),
    "learning": ("loss", "speed, memory"),
    "speed": ("speed, memory", "loss (but for rounding)"),
    "precision": ("speed, memory, loss a little", "work per token"),
    "data": ("loss, and what it means", "speed, memory"),
    "length": ("where it ends; a schedule tied to it", "speed, memory"),
    "record": ("-", "all of it"),
    "other": ("not known", "not known"),
}
TITLES: dict[str, str] = {
    "parameters": "parameters",
    "tokens_per_iter": "tokens per iteration",
    "iteration_seconds": "time per iteration",
    "micro_step_seconds": "time per micro-batch",
    "tokens_per_second": "tokens per second",
    "flops_per_second": "rate of work, exact causal",
    "nanogpt_flops_per_second": "rate of work, nanoGPT's formula",
    "card_share": "share of the card's peak",
    "nanogpt_mfu": "nanoGPT's MFU (A100)",
    "peak_allocated_bytes": "peak memory allocated",
    "val_loss_at_equal_iterations": "val loss at equal iterations",
    "val_loss_at_equal_tokens": "val loss at equal tokens",
    "val_loss_at_equal_seconds": "val loss at equal time",
    "val_loss_at_equal_flops": "val loss at equal work",
}
_SHOWN: dict[str, Callable[[float], str]] = {
    "parameters": q.count,
    "tokens_per_iter": q.rate,
    "iteration_seconds": q.milliseconds,
    "micro_step_seconds": q.milliseconds,
    "tokens_per_second": q.rate,
    "flops_per_second": q.flop_rate,
    "nanogpt_flops_per_second": q.flop_rate,
    "card_share": q.percent,
    "nanogpt_mfu": q.percent,
    "peak_allocated_bytes": lambda value: q.gib(int(value)),
}


def comparison_page(comparison: Comparison, findings: Sequence[Finding]) -> list[Section]:
    names = [account.name for account in comparison.accounts]
    answer, told = _answer(findings)
    rest = [each for each in findings if each not in told]
    sections = [Section(" and ".join(names) if len(names) == 2 else ", ".join(names), answer)]
    sections += [
        Section(
            "what changed" if len(names) == 2 else f"what changed from {names[0]} to {other}",
            (_changes_table(changes),),
        )
        for other, changes in comparison.changes.items()
        if changes.changed
    ]
    sections.append(Section("side by side", (_metrics_table(comparison),)))
    titles: tuple[tuple[Severity, str], ...] = (
        ("wrong", "what cannot be so"),
        ("fact", "what follows"),
        ("caution", "what cannot be said"),
        ("next", "what to do next"),
    )
    for severity, title in titles:
        sentences = tuple(words(each) for each in rest if each.severity == severity)
        if sentences:
            sections.append(Section(title, (Points(sentences),)))
    return sections


def _answer(findings: Sequence[Finding]) -> tuple[tuple[str, ...], list[Finding]]:
    told: list[Finding] = []
    for codes in ANSWERS:
        by_code = {each.code: each for each in reversed(findings)}
        told += [by_code[code] for code in codes if code in by_code][:1]
    return tuple(_sentence(each) for each in told), told


def _sentence(finding: Finding) -> str:
    """Capitalised, but for the name of a run, which is as its user wrote it."""
    text = words(finding)
    return f"{text if text.startswith(finding.runs) else text[0].upper() + text[1:]}."


def _changes_table(changes: Changes) -> Table:
    rows = [
        (each.key, _setting(each.before), _setting(each.after), *MOVES[each.kind]) for each in changes.changed
    ]
    return Table(("setting", "before", "after", "can move", "leaves alone"), tuple(rows))


def _setting(value: Setting) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value


def _metrics_table(comparison: Comparison) -> Table:
    names = [account.name for account in comparison.accounts]
    rows: list[tuple[str, ...]] = []
    for metric in comparison.metrics:
        at = next((each for each in comparison.losses if metric.name.endswith(each.axis)), None)
        title = TITLES[metric.name]
        if at is not None and metric.name.startswith("val_loss"):
            title += f" ({place(at.axis, at.at)})"
        cells = [_cell(metric, metric.values.get(name)) for name in names]
        rows.append((title, *cells, comparison.winners.get(metric.name, _no_winner(metric))))
    return Table(("", *names, "ahead"), tuple(rows), figures_from=1)


def _no_winner(metric: Metric) -> str:
    if metric.better is None or len(metric.values) < 2:
        return ""
    judged = all(value.low is not None for value in metric.values.values())
    return "no difference shown" if judged or not metric.name.startswith("val_loss") else "noise not known"


def _cell(metric: Metric, value: Value | None) -> str:
    if value is None:
        return "-"
    if metric.name.startswith("val_loss"):
        return f"{value.value:.4f}"
    return _SHOWN[metric.name](value.value)


def comparison_document(comparison: Comparison, findings: Sequence[Finding]) -> dict[str, object]:
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
            metric.name: {name: asdict(value) for name, value in metric.values.items()}
            for metric in comparison.metrics
        },
        "winners": comparison.winners,
        "findings": [asdict(finding) for finding in findings],
    }
