"""What an attribution found, in words: a sentence a code, whose numbers are shown by their names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanodyno.analysis.findings import Code, Finding
from nanodyno.report import quantities as q

METRICS = {
    "tokens_per_second": "throughput",
    "flops_per_second": "rate of work",
    "val_loss": "val loss",
}
WORDS: dict[Code, str] = {
    "difference": (
        "from {run} to {other} the {metric} goes from {before} to {after}: {size} ({interval})"
    ),
    "difference-tied": (
        "{run} and {other} are tied in {metric}: {size} ({interval}), {before} and {after}"
    ),
    "difference-not-shown": (
        "no difference in {metric} is shown between {run} and {other}: {size} ({interval}), {before} "
        "and {after}"
    ),
    "difference-once": (
        "from {run} to {other} the {metric} goes from {before} to {after}, {size}, seen once"
    ),
    "part": "{change} accounts for {size} in {metric} ({interval}): {before} to {after}",
    "part-tied": "{change} does nothing to speak of: {size} ({interval}), {before} to {after}",
    "part-not-shown": (
        "no effect of {change} is shown: {size} ({interval}), {before} to {after}; that is not the same "
        "as none"
    ),
    "part-once": "{change} came to {size}, seen once: {before} to {after}",
    "screened": (
        "{changes} changes were screened with 16 corners instead of all: each part is an average effect, "
        "which three changes acting together would pass for; what the parts leave of the whole difference, "
        "which is such work, is {size} ({interval})"
    ),
    "some-pair-interacts": (
        "of these pairs at least one interacts, and a screening cannot say which: {pairs}; together {size} "
        "({interval}) beyond what each does apart"
    ),
    "pair-interacts": (
        "{one} and {other_change} interact: made together they come to {size} ({interval}) beyond what "
        "each does apart, so a part of either is a mean over the orders and not the whole story"
    ),
    "paths-disagree": (
        "the order matters: first {one}, {one_first}, then {other_change}, {other_then}; the other way round "
        "first {other_change}, {other_first}, then {one}, {one_then}. They interact, so each part is a mean "
        "over both orders and not the whole story"
    ),
    "path": "step by step, in an order that can be measured: {steps}",
    "step": "from {corner} on, {change} alone does {size} ({interval})",
    "no-parts": (
        "with a corner missing no change has a part of the whole: what it does along the orders that can be "
        "measured is all that can be said"
    ),
    "no-path": (
        "no order of the changes can be measured step by step, since every corner between the two is "
        "missing: only the whole difference is known"
    ),
    "no-end": "{run} or {other} itself cannot be measured here, so the whole difference is not known",
    "no-parts-screened": (
        "with a corner missing a screening says nothing: make some of the changes one with --group, or leave "
        "some as before with --ignore"
    ),
    "corner-too-large": (
        "{corner} does not fit: by prediction it needs {needs_bytes}, context included, and there are "
        "{limit_bytes}"
    ),
    "corner-does-not-fit": "{corner} does not fit: it ran out of memory",
    "corner-indivisible": "{corner} is no config: {words}",
    "corner-failed": "{corner} could not be measured: {words}",
    "corner-disturbed": "{corner} was disturbed at every attempt, so no figure is claimed",
    "corner-not-measured": "{corner} was not measured: there was no time",
    "next-make-fit": "--make-fit measures every corner with the switch that makes all of them fit",
    "corner-idles": (
        "with {corner} the card idles {idle} of the time: a micro-step has {launches} launches, and they "
        "take longer than the work"
    ),
    "corner-dispatches": (
        "with {corner} {idle} of the time goes to Python and dispatching, between operators that are small"
    ),
    "corner-recomputes": (
        "{corner} fits because the trainer recomputes ({level}), which takes time that other corners do not "
        "spend"
    ),
    "idle-moved": "from {corners_0} to {corners_1} idle time goes from {shares_0} to {shares_1}",
    "products-moved": (
        "from {corners_0} to {corners_1} the matrix products go from {rates_0} to {rates_1}, where large "
        "ones reach {ceiling} here"
    ),
    "optimiser-moved": (
        "from {corners_0} to {corners_1} the optimiser's share of the time goes from {shares_0} to {shares_1}"
    ),
    "fragmented": (
        "with {corner} the allocator holds {held_bytes} for {used_bytes} in use: the rest lies in gaps"
    ),
    "allocator-starts-over": (
        "with {corner} the allocator had to give everything back {times} times before it found room: memory "
        "is all but full"
    ),
    "inert": "by arithmetic these cannot move the {metric}, so they were not measured: {changes}",
    "ignored": "left as in {run} everywhere, as asked: {changes}",
    "held-for-all": (
        "every corner was measured with {settings}, so that all of them fit: what is said holds for that"
    ),
    "measured-here": (
        "{run} ran on {there}; all of this was measured here, on {here}, and speaks for it"
    ),
    "short-training": (
        "{seeds} seeds, each used in every corner with the same order of data, at equal {equal}, at least "
        "{steps} iterations with the whole schedule in them: a short training speaks for a short training"
    ),
    "one-round": "one round is no repetition: without a second one there is no interval",
    "not-precise": (
        "after {rounds} rounds the widest interval is ±{widest}, where ±{asked} was asked for: a longer "
        "--budget goes on from here"
    ),
    "round-set-aside": "in round {round} {corner} was unlike its others, so the round was set aside",
}  # fmt: skip
NOT_KNOWN = "not known"


def words(finding: Finding) -> str:
    metric = finding.numbers.get("metric")
    shown: dict[str, str] = {}
    for name, value in finding.numbers.items():
        if name in ("corners", "shares", "rates") and isinstance(value, Sequence):
            shown |= {f"{name}_{place}": _shown(name, each, metric) for place, each in enumerate(value)}
        else:
            shown[name] = NOT_KNOWN if value is None else _shown(name, value, metric)
    if "size" in finding.numbers:
        shown["interval"] = interval_words(finding.numbers, metric)
    return WORDS[finding.code].format(run=finding.runs[0], other=finding.runs[-1], **shown)


def _shown(name: str, value: Any, metric: Any) -> str:
    if name in _SIZES:
        return change_words(value, metric, signed=name not in ("widest", "asked"))
    if name == "steps" and not isinstance(value, int):
        return _steps(value, metric)
    if name in ("before", "after") and isinstance(value, int | float):
        return value_words(value, metric)
    return _FORMATS.get(name, _plain)(value)


def change_words(change: float, metric: Any, signed: bool = True) -> str:
    """+39.0%, -0.4%, +130%; of a loss +0.0123."""
    sign = "+" if signed else ""
    if metric == "val_loss":
        return f"{change:{sign}.4f}"
    return f"{100 * change:{sign},.{0 if abs(change) >= 1 else 1}f}%"


def interval_words(numbers: Mapping[str, Any], metric: Any) -> str:
    low, high = numbers["low"], numbers["high"]
    if low is None or high is None:
        return "no interval"
    return f"{change_words(low, metric)} to {change_words(high, metric)}"


def value_words(value: float, metric: Any) -> str:
    if metric == "val_loss":
        return f"{value:.4f}"
    return q.flop_rate(value) if metric == "flops_per_second" else f"{q.rate(value)} tok/s"


def settings_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={setting_words(value)}" for key, value in settings.items())


def setting_words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _changes(changes: Any) -> str:
    """A number where only it is counted."""
    if isinstance(changes, int):
        return str(changes)
    told = (
        f"{each['key']} {setting_words(each['before'])} to {setting_words(each['after'])}" for each in changes
    )
    return ", ".join(told)


def _steps(steps: Sequence[Mapping[str, Any]], metric: Any) -> str:
    told = (
        f"{each['change']} {change_words(each['size'], metric)} ({interval_words(each, metric)})"
        for each in steps
    )
    return f"first {', then '.join(told)}"


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 else q.percent(value)


_SIZES = frozenset(
    {"size", "low", "high", "one_first", "one_then", "other_first", "other_then", "widest", "asked"}
)
_FORMATS: dict[str, Callable[[Any], str]] = {
    "metric": lambda metric: METRICS[metric],
    "before": settings_words,
    "after": settings_words,
    "corner": settings_words,
    "corners": settings_words,
    "settings": settings_words,
    "changes": _changes,
    "pairs": lambda pairs: ", ".join(" with ".join(pair) for pair in pairs),
    "needs_bytes": q.gib,
    "limit_bytes": q.gib,
    "held_bytes": q.gib,
    "used_bytes": q.gib,
    "idle": _share,
    "shares": _share,
    "rates": q.flop_rate,
    "ceiling": q.flop_rate,
    "launches": lambda value: f"{value:,.0f}",
}
