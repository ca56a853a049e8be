"""What disturbed a probe, and why one has no rate, in words."""

from collections.abc import Iterable, Sequence

from nanodyno.hardware.telemetry import Holder
from nanodyno.records.probe import (
    Disturbance,
    DisturbanceCode,
    Failed,
    OutOfMemory,
    ProbeStage,
    RepetitionRecord,
    Throttled,
)
from nanodyno.report import quantities
from nanodyno.report.language import ENGLISH, Language, Plural, message

WORDS: dict[DisturbanceCode, str | Plural] = {
    "thermal": message("the card throttled for heat in {share} of the readings, at {celsius} degrees"),
    "power-brake": message("the power supply braked the card in {share} of the readings"),
    "power-limit": message("the card was at its power limit in {share} of the readings, as in a long run"),
    "clock-drop": message("the card's clock went from {from_mhz} down to {to_mhz} MHz"),
    "busy-neighbour": message("another process computed on the card, up to {share} of it: {who} ({process})"),
    "neighbour": message("another process holds memory on the card: {who} ({process})"),
    "paging": message("memory was moved to the host or to disk and back"),
    "cpu-contention": message("others had the processor for {share} of the time"),
    "unsteady": Plural(
        "times had not become steady after {n} iteration",
        "times had not become steady after {n} iterations",
        by="iterations",
    ),
    "bursts": Plural(
        "{n} iteration, and it was far from the rest",
        "too many of the {n} iterations were far from the rest",
        by="iterations",
    ),
}
USUAL: frozenset[DisturbanceCode] = frozenset({"power-limit", "clock-drop", "neighbour"})
"""Of a card that does all it can, or shows a desktop: nothing that a second attempt would be without."""
STAGES: dict[ProbeStage, str] = {
    "starting": message("starting"),
    "building": message("building"),
    "compiling": message("compiling"),
    "warming up": message("warming up"),
    "measuring": message("measuring"),
    "profiling": message("profiling"),
    "waiting": message("waiting"),
}
FAILED = {
    "hung": message("hung while {stage}: {words}"),
    "died": message("died while {stage}: {words}"),
    "error": message("failed while {stage}: {words}"),
    "interrupted": message("stopped while {stage}: {words}"),
    "refused": message("refused while {stage}: {words}"),
}


def disturbance_words(disturbance: Disturbance, language: Language = ENGLISH) -> str:
    numbers = disturbance.numbers
    shown = {
        name: quantities.share(value, ".0f", language) if name == "share" else language.number(value, ".0f")
        for name, value in numbers.items()
    }
    counts = {name: round(value) for name, value in numbers.items()}
    who = disturbance.who or language.say("not named")
    return language.tell(WORDS[disturbance.code], {**shown, "who": who}, counts)


def causes_words(disturbances: Iterable[Disturbance], language: Language) -> str:
    """Each once."""
    return language.clauses(list(dict.fromkeys(disturbance_words(each, language) for each in disturbances)))


def redone_words(redone: Sequence[RepetitionRecord], language: Language = ENGLISH) -> str:
    why = causes_words((each for repetition in redone for each in repetition.disturbances), language)
    return language.say_plural(
        "measured again once, not counted: {why}",
        "measured again {n} times, not counted: {why}",
        len(redone),
        why=why or language.say("the config beside it was disturbed"),
    )


def result_words(result: OutOfMemory | Throttled | Failed, language: Language = ENGLISH) -> str:
    match result:
        case OutOfMemory():
            return _out_of_memory(result, language)
        case Throttled():
            return language.say_plural(
                "disturbed in all of {n} attempt, so no rate is claimed: {why}",
                "disturbed in all of {n} attempts, so no rate is claimed: {why}",
                len(result.redone),
                why=causes_words(result.redone[-1].disturbances, language),
            )
        case Failed():
            stage = stage_words(result.stage, language)
            words = language.say(FAILED[result.reason], stage=stage, words=result.words)
            return language.say("{words} ({hint})", words=words, hint=result.hint) if result.hint else words


def stage_words(stage: ProbeStage, language: Language) -> str:
    return language.say(STAGES[stage])


def _out_of_memory(result: OutOfMemory, language: Language) -> str:
    """A list of what is known of it; the last word is torch's own."""
    memory = result.memory
    parts = [language.say("out of memory while {stage}", stage=stage_words(result.stage, language))]
    known = memory.device_memory_bytes
    gpu = None if known is None else quantities.gib(known, language)
    if memory.peak_allocated_bytes is not None and memory.peak_reserved_bytes is not None:
        allocated = quantities.gib(memory.peak_allocated_bytes, language)
        reserved = quantities.gib(memory.peak_reserved_bytes, language)
        if gpu is None:
            said = language.say(
                "with {allocated} allocated and {reserved} reserved", allocated=allocated, reserved=reserved
            )
        else:
            said = language.say(
                "with {allocated} allocated and {reserved} reserved of the card's {gpu}",
                allocated=allocated,
                reserved=reserved,
                gpu=gpu,
            )
        parts.append(said)
    elif memory.peak_host_bytes is not None:
        host = quantities.gib(memory.peak_host_bytes, language)
        parts.append(language.say("with {host} of host memory in use", host=host))
    words = language.joined(parts)
    if result.holders:
        named = language.joined([holder_words(each, language) for each in result.holders])
        held = language.say("the card is also held by {holders}", holders=named)
        words = language.clauses([words, held])
    return language.say("{words} ({hint})", words=words, hint=result.words)


def holder_words(holder: Holder, language: Language = ENGLISH) -> str:
    name, process = holder.name or language.say("a process"), str(holder.process)
    if holder.bytes is None:
        return f"{name} ({process})"
    size = quantities.gib(holder.bytes, language)
    return language.say("{name} ({process}) with {size}", name=name, process=process, size=size)
