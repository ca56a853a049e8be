"""What disturbed a probe, and why one has no rate, in words."""

from collections.abc import Iterable, Sequence

from nanodyno.hardware.telemetry import Holder
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language, Plural
from nanodyno.records.probe import (
    Disturbance,
    DisturbanceCode,
    Failed,
    OutOfMemory,
    ProbeStage,
    RepetitionRecord,
    Throttled,
)

WORDS: dict[DisturbanceCode, str | Plural] = {
    "thermal": "probe.disturbance.thermal",
    "power-brake": "probe.disturbance.power-brake",
    "power-limit": "probe.disturbance.power-limit",
    "clock-drop": "probe.disturbance.clock-drop",
    "busy-neighbour": "probe.disturbance.busy-neighbour",
    "neighbour": "probe.disturbance.neighbour",
    "paging": "probe.disturbance.paging",
    "cpu-contention": "probe.disturbance.cpu-contention",
    "unsteady": Plural(
        "probe.disturbance.unsteady",
        by="iterations",
    ),
    "bursts": Plural(
        "probe.disturbance.bursts",
        by="iterations",
    ),
}
USUAL: frozenset[DisturbanceCode] = frozenset({"power-limit", "clock-drop", "neighbour"})
"""Of a GPU that does all it can, or shows a desktop: nothing that a second attempt would be without."""
STAGES: dict[ProbeStage, str] = {
    "starting": "probe.stage.starting",
    "building": "probe.stage.building",
    "compiling": "probe.stage.compiling",
    "warming up": "probe.stage.warming-up",
    "measuring": "probe.stage.measuring",
    "profiling": "probe.stage.profiling",
    "waiting": "probe.stage.waiting",
}
FAILED = {
    "hung": "probe.failed.hung",
    "died": "probe.failed.died",
    "error": "probe.failed.error",
    "interrupted": "probe.failed.interrupted",
    "refused": "probe.failed.refused",
}


def disturbance_words(disturbance: Disturbance, language: Language = ENGLISH) -> str:
    numbers = disturbance.numbers
    shown = {
        name: quantities.share(value, ".0f", language) if name == "share" else language.number(value, ".0f")
        for name, value in numbers.items()
    }
    counts = {name: round(value) for name, value in numbers.items()}
    who = disturbance.who or language.say("probe.disturbance.process-unnamed")
    return language.tell(WORDS[disturbance.code], {**shown, "who": who}, counts)


def causes_words(disturbances: Iterable[Disturbance], language: Language) -> str:
    """Each once."""
    return language.clauses(list(dict.fromkeys(disturbance_words(each, language) for each in disturbances)))


def redone_words(redone: Sequence[RepetitionRecord], language: Language = ENGLISH) -> str:
    why = causes_words((each for repetition in redone for each in repetition.disturbances), language)
    return language.say_plural(
        "probe.repeated.times",
        len(redone),
        why=why or language.say("probe.repeated.other-config-disturbed"),
    )


def result_words(result: OutOfMemory | Throttled | Failed, language: Language = ENGLISH) -> str:
    match result:
        case OutOfMemory():
            return _out_of_memory(result, language)
        case Throttled():
            return language.say_plural(
                "probe.failed.always-disturbed",
                len(result.redone),
                why=causes_words(result.redone[-1].disturbances, language),
            )
        case Failed():
            stage = stage_words(result.stage, language)
            words = language.say(FAILED[result.reason], stage=stage, words=result.words)
            return (
                language.say("probe.failed.with-hint", words=words, hint=result.hint)
                if result.hint
                else words
            )


def stage_words(stage: ProbeStage, language: Language) -> str:
    return language.say(STAGES[stage])


def _out_of_memory(result: OutOfMemory, language: Language) -> str:
    """A list of what is known of it; the last word is torch's own."""
    memory = result.memory
    parts = [language.say("probe.out-of-memory.stage", stage=stage_words(result.stage, language))]
    known = memory.device_memory_bytes
    gpu = None if known is None else quantities.gib(known, language)
    if memory.peak_allocated_bytes is not None and memory.peak_reserved_bytes is not None:
        allocated = quantities.gib(memory.peak_allocated_bytes, language)
        reserved = quantities.gib(memory.peak_reserved_bytes, language)
        if gpu is None:
            said = language.say("probe.out-of-memory.allocated", allocated=allocated, reserved=reserved)
        else:
            said = language.say(
                "probe.out-of-memory.allocated-of-gpu",
                allocated=allocated,
                reserved=reserved,
                gpu=gpu,
            )
        parts.append(said)
    elif memory.peak_host_bytes is not None:
        host = quantities.gib(memory.peak_host_bytes, language)
        parts.append(language.say("probe.out-of-memory.host-memory", host=host))
    words = language.joined(parts)
    if result.holders:
        named = language.joined([holder_words(each, language) for each in result.holders])
        held = language.say("probe.out-of-memory.other-holders", holders=named)
        words = language.clauses([words, held])
    return language.say("probe.failed.with-hint", words=words, hint=result.words)


def holder_words(holder: Holder, language: Language = ENGLISH) -> str:
    name, process = holder.name or language.say("probe.holder.unnamed"), str(holder.process)
    if holder.bytes is None:
        return f"{name} ({process})"
    size = quantities.gib(holder.bytes, language)
    return language.say("probe.holder.with-size", name=name, process=process, size=size)
