"""What an attribution allows to be said, as data: parts, paths, interactions, and what is missing."""

from collections.abc import Iterator, Mapping, Sequence

from nanodyno.analysis.attribution import Attribution, Missing, MissingReason
from nanodyno.analysis.effects import Effect, half_width
from nanodyno.analysis.factors import FactorChange
from nanodyno.analysis.findings import Code, Finding, Number, Severity
from nanodyno.analysis.mechanisms import mechanisms
from nanodyno.analysis.shapley import Combination, along, last_combination
from nanodyno.analysis.verdict import VerdictCall

TOTAL_CODES: dict[VerdictCall, Code] = {
    "different": "difference",
    "tied": "difference-tied",
    "no difference shown": "difference-not-shown",
}
PART_CODES: dict[VerdictCall, Code] = {
    "different": "part",
    "tied": "part-tied",
    "no difference shown": "part-not-shown",
}
COMBINATION_CODES: dict[
    MissingReason, Code
] = {  # but for those that there was no time for, which are counted
    "too-large": "combination-too-large",
    "indivisible": "combination-indivisible",
    "failed": "combination-failed",
    "disturbed": "combination-disturbed",
}


def attribution_findings(found: Attribution) -> tuple[Finding, ...]:
    """In the order in which they are told."""
    return (
        *_of_total(found),
        *_of_parts(found),
        *_of_pairs(found),
        *_of_missing(found),
        *mechanisms(found),
        *_of_what_was_not_measured(found),
        *_of_certainty(found),
    )


def _of_total(found: Attribution) -> Iterator[Finding]:
    total = found.look.effects.total
    before, after = found.value(0), found.value(last_combination(len(found.design.factors)))
    if total is None or before is None or after is None:
        return
    code: Code = "difference-once" if total.interval.low is None else TOTAL_CODES[total.call]
    yield _of(found, code, "fact", before=before, after=after, **_size(found, total))


def _of_parts(found: Attribution) -> Iterator[Finding]:
    for number, effect in enumerate(found.look.effects.parts):
        code: Code = "part-once" if effect.interval.low is None else PART_CODES[effect.call]
        yield _of(
            found, code, "fact", **_factor(found, number), **_size(found, effect),
            screened=found.look.effects.screened,
        )  # fmt: skip
    rest = found.look.effects.left_over
    if rest is not None:
        yield _of(found, "screened", "caution", changes=len(found.design.factors), **_size(found, rest))


def _of_pairs(found: Attribution) -> Iterator[Finding]:
    """Where the order matters: both orders of two changes, or, of more, by how much a pair differs."""
    steps = found.look.effects.steps
    for chain, effect in found.look.effects.pairs.items():
        if effect.call != "different":
            continue
        names = [[found.design.factors[each].name for each in pair] for pair in chain]
        size = _size(found, effect)
        if found.look.effects.screened:
            yield _of(found, "some-pair-interacts", "caution", pairs=names, **size)
        elif len(found.design.factors) > 2:
            yield _of(found, "pair-interacts", "fact", one=names[0][0], other_change=names[0][1], **size)
        else:
            (one, other), *_ = chain
            orders = {
                "one_first": steps[0, one], "other_then": steps[1 << one, other],
                "other_first": steps[0, other], "one_then": steps[1 << other, one],
            }  # fmt: skip
            changes = {key: found.change(each.interval.value) for key, each in orders.items()}
            yield _of(
                found, "paths-disagree", "fact", one=names[0][0], other_change=names[0][1], **changes, **size
            )


def _of_missing(found: Attribution) -> Iterator[Finding]:
    missing = {
        combination: known.missing
        for combination, known in found.combinations.items()
        if known.missing is not None
    }
    untimely = [combination for combination, why in missing.items() if why.reason == "no-time"]
    if untimely:
        yield _of(found, "combinations-not-measured", "caution", unmeasured=len(untimely))
    for combination, why in missing.items():
        if why.reason == "no-time":
            continue
        severity: Severity = "caution" if why.reason == "disturbed" else "fact"
        unpredicted = why.reason == "too-large" and why.needs_bytes is None
        code: Code = "combination-does-not-fit" if unpredicted else COMBINATION_CODES[why.reason]
        yield _of(found, code, severity, **_combination(found, combination), **_why(found, why))
    if missing and found.look.made:
        yield from _of_paths(found)
    on_gpu = found.machine.device_type == "cuda"
    if on_gpu and any(why.reason == "too-large" for why in missing.values()):
        yield _of(found, "next-make-fit", "next")


def _of_paths(found: Attribution) -> Iterator[Finding]:
    """What is left to be said where a combination is missing."""
    if found.look.effects.screened:
        yield _of(found, "no-parts-screened", "caution")
        return
    paths = found.look.effects.paths()
    for path in paths:
        steps = [found.look.effects.steps[at, each] for at, each in zip(along(path), path, strict=False)]
        reported: list[Number] = [
            {"change": found.design.factors[each].name, **_size(found, effect)}
            for each, effect in zip(path, steps, strict=True)
        ]
        yield _of(found, "path", "fact", steps=reported)
    for (combination, factor), effect in found.look.effects.steps.items() if not paths else ():
        numbers = {"change": found.design.factors[factor].name, **_size(found, effect)}
        yield _of(found, "step", "fact", **_combination(found, combination), **numbers)
    whole = found.look.effects.total is not None
    yield _of(found, "no-parts" if paths else "no-path" if whole else "no-end", "caution")


def _why(found: Attribution, why: Missing) -> Mapping[str, Number]:
    if why.reason == "too-large":
        limit = found.memory_limit_bytes or found.machine.device_memory_bytes
        return {"needs_bytes": why.needs_bytes, "limit_bytes": limit}
    return {"words": why.words} if why.words else {}


def _of_what_was_not_measured(found: Attribution) -> Iterator[Finding]:
    unmeasured: tuple[tuple[Code, Severity, Sequence[FactorChange]], ...] = (
        ("inert", "fact", found.design.inert),
        ("untimed", "caution", found.design.untimed),
        ("alike", "caution", found.design.alike),
        ("ignored", "caution", found.design.ignored),
    )
    for code, severity, changes in unmeasured:
        if changes:
            yield _of(found, code, severity, changes=_changes(changes))
    if found.design.held:
        yield _of(found, "held-for-all", "caution", settings=dict(found.design.held))
    there: dict[str | None, tuple[str, ...]] = {}
    for run, device in found.elsewhere:
        there[device] = (*there.get(device, ()), run)
    for device, runs in there.items():
        yield Finding("measured-here", "caution", runs, {"there": device, "here": found.machine.device_name})
    for each in found.unreported:
        yield Finding("taken-as-in-other", "caution", (each.run, each.other), {"keys": each.keys})
    if found.logs_only:
        yield _of(found, "taken-by-default", "caution")


def _changes(changes: Sequence[FactorChange]) -> list[Number]:
    return [{"key": each.key, "before": each.before, "after": each.after} for each in changes]


def _of_certainty(found: Attribution) -> Iterator[Finding]:
    look, rules = found.look, found.rules
    if found.metric == "val_loss" and look.kept:
        yield _of(
            found, "short-training", "caution",
            steps=found.steps, seeds=len(look.kept), equal=found.equal,
        )  # fmt: skip
    if len(look.kept) == 1:
        yield _of(found, "one-round", "caution")
        return
    reported = look.effects.parts or tuple(look.effects.steps.values())
    widest = max((half_width(each.interval) for each in reported), default=0.0)
    if look.kept and widest > rules.precision:
        numbers = {"widest": found.change(widest), "asked": found.change(rules.precision)}
        code: Code = "not-precise-after-all" if look.finished else "not-precise"
        yield _of(found, code, "caution", rounds=len(look.kept), **numbers)
    for combination, known in found.combinations.items():
        for number, how in known.deaths:
            yield _of(
                found,
                "round-lost",
                "caution",
                round=number + 1,
                words=how,
                **_combination(found, combination),
            )
    for combination, number in look.odd:
        yield _of(found, "round-set-aside", "caution", round=number + 1, **_combination(found, combination))


def _factor(found: Attribution, number: int) -> dict[str, Number]:
    factor = found.design.factors[number]
    return {"change": factor.name, "before": dict(factor.before), "after": dict(factor.after)}


def _combination(found: Attribution, combination: Combination) -> dict[str, Number]:
    return {"combination": found.design.settings(combination)}


def _size(found: Attribution, effect: Effect) -> dict[str, Number]:
    interval = effect.interval
    return {
        "size": found.change(interval.value),
        "low": None if interval.low is None else found.change(interval.low),
        "high": None if interval.high is None else found.change(interval.high),
    }


def _of(found: Attribution, code: Code, severity: Severity, **numbers: Number) -> Finding:
    return Finding(code, severity, found.names, {"metric": found.metric, **numbers})
