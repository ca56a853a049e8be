"""What an attribution found, in words: a message a code, whose numbers are shown by their names."""

from nanodyno.analysis.findings import Code, Finding
from nanodyno.report.attribute_numbers import shown_numbers
from nanodyno.report.language import ENGLISH, Language, Plural, message

WORDS: dict[Code, str | Plural] = {
    "difference": message(
        "from {run} to {other} the {metric} goes from {before} to {after}: {size} ({interval})"
    ),
    "difference-tied": message(
        "{run} and {other} are tied in {metric}: {size} ({interval}), {before} and {after}"
    ),
    "difference-not-shown": message(
        "no difference in {metric} is shown between {run} and {other}: {size} ({interval}), {before} and "
        "{after}"
    ),
    "difference-once": message(
        "from {run} to {other} the {metric} goes from {before} to {after}, {size}, seen once"
    ),
    "part": message("{change} accounts for {size} in {metric} ({interval}): {before} to {after}"),
    "part-tied": message("{change} does nothing to speak of: {size} ({interval}), {before} to {after}"),
    "part-not-shown": message(
        "no effect of {change} is shown: {size} ({interval}), {before} to {after}; that is not the same as "
        "none"
    ),
    "part-once": message("{change} came to {size}, seen once: {before} to {after}"),
    "screened": Plural(
        "{n} change was screened with 16 corners instead of all: each part is an average effect, which three "
        "changes acting together would pass for; what the parts leave of the whole difference, which is such "
        "work, is {size} ({interval})",
        "{n} changes were screened with 16 corners instead of all: each part is an average effect, which "
        "three changes acting together would pass for; what the parts leave of the whole difference, which "
        "is such work, is {size} ({interval})",
        by="changes",
    ),
    "some-pair-interacts": message(
        "of these pairs at least one interacts, and a screening cannot say which: {pairs}; together {size} "
        "({interval}) beyond what each does apart"
    ),
    "pair-interacts": message(
        "{one} and {other_change} interact: made together they come to {size} ({interval}) beyond what each "
        "does apart, so a part of either is a mean over the orders and not the whole story"
    ),
    "paths-disagree": message(
        "the order matters: first {one}, {one_first}, then {other_change}, {other_then}; the other way round "
        "first {other_change}, {other_first}, then {one}, {one_then}. They interact, so each part is a mean "
        "over both orders and not the whole story"
    ),
    "path": message("step by step, in an order that can be measured: first {steps}"),
    "step": message("from {combination} on, {change} alone does {size} ({interval})"),
    "no-parts": message(
        "with a corner missing no change has a part of the whole: what it does along the orders that can be "
        "measured is all that can be said"
    ),
    "no-path": message(
        "no order of the changes can be measured step by step, since every corner between the two is "
        "missing: only the whole difference is known"
    ),
    "no-end": message(
        "{run} or {other} itself cannot be measured here, so the whole difference is not known"
    ),
    "no-parts-screened": message(
        "with a corner missing a screening says nothing: make some of the changes one with --group, or leave "
        "some as before with --ignore"
    ),
    "combination-too-large": message(
        "{combination} does not fit: it ran out of memory; by prediction it needs {needs_bytes}, context "
        "included, and there are {limit_bytes}"
    ),
    "combination-does-not-fit": message("{combination} does not fit: it ran out of memory"),
    "combination-indivisible": message("{combination} is no config: {words}"),
    "combination-failed": message("{combination} could not be measured: {words}"),
    "combination-disturbed": message("{combination} was disturbed at every attempt, so no figure is claimed"),
    "combinations-not-measured": Plural(
        "{n} combination was not measured: there was no time",
        "{n} combinations were not measured: there was no time",
        by="unmeasured",
    ),
    "next-make-fit": message("--make-fit measures every corner with the switch that makes all of them fit"),
    "combination-idles": message(
        "with {combination} the card idles {idle} of the time: a micro-step has {launches} launches, and "
        "they "
        "take longer than the work"
    ),
    "combination-dispatches": message(
        "with {combination} {idle} of the time goes to Python and dispatching, between operators that are "
        "small"
    ),
    "combination-recomputes": message(
        "{combination} fits because the trainer recomputes ({level}), which takes time that other corners do "
        "not "
        "spend"
    ),
    "token-time-moved": message(
        "from {combinations_0} to {combinations_1} the time per token changes by {moved}; in shares of the "
        "time "
        "before: {parts}"
    ),
    "work-time-moved": message(
        "from {combinations_0} to {combinations_1} the time per FLOP changes by {moved}; in shares of the "
        "time before: "
        "{parts}"
    ),
    "idle-moved": message(
        "from {combinations_0} to {combinations_1} idle time goes from {shares_0} to {shares_1}"
    ),
    "matmul-moved": message(
        "from {combinations_0} to {combinations_1} the matrix products go from {rates_0} to {rates_1}, where "
        "large "
        "ones reach {ceiling}"
    ),
    "optimizer-moved": message(
        "from {combinations_0} to {combinations_1} the optimiser's share of the time goes from {shares_0} to "
        "{shares_1}"
    ),
    "fragmented": message(
        "with {combination} the allocator holds {held_bytes} for {used_bytes} in use: the rest lies in gaps"
    ),
    "allocator-starts-over": Plural(
        "with {combination} the allocator had to give everything back {n} time before it found room: memory "
        "is "
        "all but full",
        "with {combination} the allocator had to give everything back {n} times before it found room: memory "
        "is "
        "all but full",
        by="times",
    ),
    "inert": message("by arithmetic these cannot move the {metric}, so they were not measured: {changes}"),
    "untimed": message(
        "these move the {metric} once the batch has grown, but what was timed is its first size: {changes}"
    ),
    "alike": message(
        "these can move the {metric} of a run, but every corner here has them alike, so that nothing is said "
        "of them: {changes}"
    ),
    "ignored": message("left as in {run} everywhere, as asked: {changes}"),
    "held-for-all": message(
        "every corner was measured with {settings}, so that all of them fit: what is said holds for that"
    ),
    "measured-here": message("{run} ran on {there}; all of this was measured on {here}, and speaks for it"),
    "taken-as-in-other": message("{run} does not tell {keys}: taken as in {other}"),
    "taken-by-default": message("what neither log tells is as nanodyno has it by default"),
    "short-training": Plural(
        "{n} seed, used in every corner with the same order of data, at equal tokens, at least {steps} "
        "iterations with the whole schedule in them: a short training speaks for a short training",
        "{n} seeds, each used in every corner with the same order of data, at equal tokens, at least {steps} "
        "iterations with the whole schedule in them: a short training speaks for a short training",
        by="seeds",
    ),
    "one-round": message("one round is no repetition: without a second one there is no interval"),
    "not-precise": Plural(
        "after {n} round the widest interval is ±{widest}, where ±{asked} was asked for: a longer --budget "
        "goes on from here",
        "after {n} rounds the widest interval is ±{widest}, where ±{asked} was asked for: a longer --budget "
        "goes on from here",
        by="rounds",
    ),
    "not-precise-after-all": Plural(
        "after {n} round, as many as are made, the widest interval is ±{widest}, where ±{asked} was asked "
        "for: this machine is too uneven for that",
        "after {n} rounds, as many as are made, the widest interval is ±{widest}, where ±{asked} was asked "
        "for: this machine is too uneven for that",
        by="rounds",
    ),
    "round-lost": message(
        "in round {round} the process of {combination} did not live to its end, so the round does not count: "
        "{words}"
    ),
    "round-set-aside": message(
        "in round {round} {combination} was unlike its others, so the round was set aside"
    ),
}
BOTH_ELSEWHERE = message(
    "{run} and {other} ran on {there}; all of this was measured on {here}, and speaks for it"
)
GPU_UNKNOWN = message(
    "{run} ran on a card that its log does not name; all of this was measured on {here}, and speaks for it"
)
GPUS_UNKNOWN = message(
    "{run} and {other} ran on cards that their logs do not name; all of this was measured on {here}, and "
    "speaks for it"
)
AT_EQUAL_TIME = Plural(
    "{n} seed, used in every corner with the same order of data, at equal time, at least {steps} iterations "
    "with the whole schedule in them: a short training speaks for a short training",
    "{n} seeds, each used in every corner with the same order of data, at equal time, at least {steps} "
    "iterations with the whole schedule in them: a short training speaks for a short training",
    by="seeds",
)


def words(finding: Finding, language: Language = ENGLISH) -> str:
    shown = {
        "run": finding.runs[0],
        "other": finding.runs[-1],
        **shown_numbers(finding.numbers, language),
    }
    return language.tell(_message(finding), shown, finding.numbers)


def _message(finding: Finding) -> str | Plural:
    if finding.code == "measured-here":
        alone, both = WORDS[finding.code], BOTH_ELSEWHERE
        if finding.numbers["there"] is None:
            alone, both = GPU_UNKNOWN, GPUS_UNKNOWN
        return alone if len(finding.runs) == 1 else both
    if finding.code == "short-training" and finding.numbers["equal"] == "time":
        return AT_EQUAL_TIME
    return WORDS[finding.code]
