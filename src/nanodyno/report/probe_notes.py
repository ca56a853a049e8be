"""What is to be said of a probe beside its numbers."""

from collections.abc import Iterator

from nanodyno.analysis.probes import ProbeSummary
from nanodyno.messages import quantities
from nanodyno.messages.language import Language
from nanodyno.records.probe import Measured, ProbeResult
from nanodyno.report.disturbances import USUAL, disturbance_words, redone_words, result_words

LAUNCH_BOUND = 0.25


def probe_notes(result: ProbeResult, summary: ProbeSummary | None, language: Language) -> Iterator[str]:
    if not isinstance(result, Measured) or summary is None:
        assert not isinstance(result, Measured)
        yield result_words(result, language)
        return
    yield from _how_sure(summary, language)
    yield from _why(result, summary, language)
    yield from result.setup.notes
    yield from _reported(result, language)
    if result.redone:
        yield redone_words(result.redone, language)
    if result.breakdown_fault is not None:
        yield language.say("probe.note.no-breakdown", reason=result.breakdown_fault)
    if result.stopped is not None:
        yield language.say("probe.note.ended-early", reason=result.stopped)


def _reported(result: Measured, language: Language) -> Iterator[str]:
    """What disturbed visits that count, the last of its kind, and how many it disturbed."""
    last = {each.code: each for repetition in result.repetitions for each in repetition.disturbances}
    repetitions = len(result.repetitions)
    for code, each in last.items():
        cause = disturbance_words(each, language)
        times = sum(
            any(found.code == code for found in repetition.disturbances) for repetition in result.repetitions
        )
        if repetitions > 1:
            cause = language.say_plural(
                "probe.note.cause-count",
                repetitions,
                cause=cause,
                times=language.number(times, ","),
            )
        if code in USUAL:
            yield language.say("probe.note.harmless", cause=cause)
        else:
            yield language.say("probe.note.disturbed-counted", cause=cause)


def _how_sure(summary: ProbeSummary, language: Language) -> Iterator[str]:
    if summary.processes > 1:
        return
    known = language.say("common.not-known")
    if summary.own_precision is not None:
        known = f"±{quantities.percent(summary.own_precision, language)}"
    yield language.say_plural(
        "probe.note.single-process",
        summary.iterations,
        known=known,
    )


def _why(result: Measured, summary: ProbeSummary, language: Language) -> Iterator[str]:
    """What the breakdown and the allocator explain."""
    time, memory = summary.time, result.memory
    on_gpu = result.setup.machine.device_type == "cuda"
    if time is not None and on_gpu and time.idle >= LAUNCH_BOUND:
        often = time.launches_per_micro_step or time.kernels_per_micro_step
        yield language.say_plural(
            "probe.note.launch-bound",
            round(often),
            idle=quantities.share(time.idle, ".0f", language),
        )
    if memory.alloc_retries:
        yield language.say_plural(
            "probe.note.allocator-retries",
            memory.alloc_retries,
        )
