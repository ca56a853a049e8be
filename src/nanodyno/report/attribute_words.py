"""What an attribution found, in words: a message a code, whose numbers are shown by their names."""

from nanodyno.analysis.findings import Code, Finding
from nanodyno.messages.language import ENGLISH, Language, Plural
from nanodyno.report.attribute_numbers import shown_numbers

WORDS: dict[Code, str | Plural] = {
    "difference": "finding.difference",
    "difference-tied": "finding.difference-tied",
    "difference-not-shown": "finding.difference-not-shown",
    "difference-once": "finding.difference-once",
    "part": "finding.part",
    "part-tied": "finding.part-tied",
    "part-not-shown": "finding.part-not-shown",
    "part-once": "finding.part-once",
    "screened": Plural(
        "finding.screened",
        by="changes",
    ),
    "some-pair-interacts": "finding.some-pair-interacts",
    "pair-interacts": "finding.pair-interacts",
    "paths-disagree": "finding.paths-disagree",
    "path": "finding.path",
    "step": "finding.step",
    "no-parts": "finding.no-parts",
    "no-path": "finding.no-path",
    "no-end": "finding.no-end",
    "no-parts-screened": "finding.no-parts-screened",
    "combination-too-large": "finding.combination-too-large",
    "combination-does-not-fit": "finding.combination-does-not-fit",
    "combination-indivisible": "finding.combination-indivisible",
    "combination-failed": "finding.combination-failed",
    "combination-disturbed": "finding.combination-disturbed",
    "combinations-not-measured": Plural(
        "finding.combinations-not-measured",
        by="unmeasured",
    ),
    "next-make-fit": "finding.next-make-fit",
    "combination-idles": "finding.combination-idles",
    "combination-dispatches": "finding.combination-dispatches",
    "combination-recomputes": "finding.combination-recomputes",
    "token-time-moved": "finding.token-time-moved",
    "work-time-moved": "finding.work-time-moved",
    "idle-moved": "finding.idle-moved",
    "matmul-moved": "finding.matmul-moved",
    "optimizer-moved": "finding.optimizer-moved",
    "fragmented": "finding.fragmented",
    "allocator-starts-over": Plural(
        "finding.allocator-starts-over",
        by="times",
    ),
    "inert": "finding.inert",
    "untimed": "finding.untimed",
    "alike": "finding.alike",
    "ignored": "finding.ignored",
    "held-for-all": "finding.held-for-all",
    "measured-here": "finding.measured-here",
    "taken-as-in-other": "finding.taken-as-in-other",
    "taken-by-default": "finding.taken-by-default",
    "short-training": Plural(
        "finding.short-training",
        by="seeds",
    ),
    "one-round": "finding.one-round",
    "not-precise": Plural(
        "finding.not-precise",
        by="rounds",
    ),
    "not-precise-after-all": Plural(
        "finding.not-precise-after-all",
        by="rounds",
    ),
    "round-lost": "finding.round-lost",
    "round-set-aside": "finding.round-set-aside",
}
BOTH_ELSEWHERE = "finding.measured-here.both-elsewhere"
GPU_UNKNOWN = "finding.measured-here.gpu-unknown"
GPUS_UNKNOWN = "finding.measured-here.gpus-unknown"
AT_EQUAL_TIME = Plural(
    "finding.short-training.equal-time",
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
