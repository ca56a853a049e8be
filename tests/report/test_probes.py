import json
from typing import Any

import pytest
from rich.console import Console

from nanodyno.analysis.budget import Budget
from nanodyno.analysis.probes import TimeShares, reading_of
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.verdict import SpeedComparison, call_of
from nanodyno.config import build_config
from nanodyno.hardware.telemetry import Holder
from nanodyno.messages.language import ENGLISH, LANGUAGES, Language
from nanodyno.messages.numbers import PARTS_OF_TIME
from nanodyno.records.probe import (
    BreakdownRecord,
    Disturbance,
    Failed,
    Measured,
    MemoryRecord,
    OutOfMemory,
    ProbeProgress,
    ProbeResult,
    RepetitionRecord,
    SampleRecord,
    SetupRecord,
    Throttled,
)
from nanodyno.records.types import ArithmeticRecord, MachineRecord, VersionsRecord
from nanodyno.report.disturbances import WORDS, disturbance_words, result_words
from nanodyno.report.document import to_json
from nanodyno.report.probes import FULL, bars, call_code, call_words, probes_document, probes_page
from nanodyno.report.probing import progress_words

GIB = 2**30
CONFIG = build_config({"batch_size": 4, "gradient_accumulation_steps": 128})
HEAT = Disturbance(code="thermal", numbers={"share": 0.5, "celsius": 87})


def setup() -> SetupRecord:
    return SetupRecord(
        machine=MachineRecord(
            device_type="cuda",
            device_name="NVIDIA H200",
            cpu_name="some CPU",
            cpu_count=8,
            cpu_threads=8,
            platform="Linux",
        ),
        arithmetic=ArithmeticRecord(device="cuda:0", dtype="bfloat16", compiled=True),
        versions=VersionsRecord(nanodyno="0", python="3.11", torch="2.13"),
        vocab_size=50304,
        data_vocab_size=50257,
        dataset=None,
        matmul_flops_per_second=797e12,
        matmul_size=8192,
        start_seconds=10.0,
    )


def repetition(seconds: float, number: int = 0, **changes: Any) -> RepetitionRecord:
    sample = SampleRecord(seconds=seconds, micro_steps=128)
    values: dict[str, Any] = {"process": number, "round": number, "samples": (sample,) * 20, "wall_time": 0.0}
    return RepetitionRecord(**(values | changes))


def measured(*repetitions: RepetitionRecord, **changes: Any) -> Measured:
    values: dict[str, Any] = {
        "config": CONFIG,
        "setup": setup(),
        "repetitions": repetitions,
        "memory": MemoryRecord(peak_allocated_bytes=5 * GIB, peak_reserved_bytes=6 * GIB),
        "breakdown": BreakdownRecord(
            source="kernels",
            iterations=1,
            micro_steps=16,
            part_seconds={"matmul": 0.3, "attention": 0.09},
            profiled_seconds=1.3,
            wall_seconds=1.0,
            data_seconds=0.0,
            kernels=6400,
            launches=6592,
        ),
    }
    return Measured(**(values | changes))


def page(results: dict[str, ProbeResult], width: int = 80) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(probes_page(results, reading_of(results, Budget(), next(iter(results)), 0.01), width))
    return capture.get()


def test_a_measured_config_is_a_row_with_its_share_of_the_gpus_peak() -> None:
    shown = page({"gpt2-768": measured(repetition(1.0))})
    said = " ".join(shown.split())
    assert ENGLISH.say("probe.where.device", device="NVIDIA H200", dtype="bfloat16", torch="2.13") in said
    assert ENGLISH.say("probe.where.matmul", rate="797.0 TFLOP/s", size="8192") in said
    row = next(line for line in shown.splitlines() if line.startswith("gpt2-768 "))
    assert row.split()[:3] == ["gpt2-768", "524,288", "-"]
    assert "5.00 GiB" in row


def test_a_gpu_that_idles_is_called_launch_bound_with_its_launches() -> None:
    """0.39 of 1 s busy: 61% idle; 6592 launches in 16 micro-steps are 412 each."""
    shown = " ".join(page({"a": measured(repetition(1.0))}).split())
    assert ENGLISH.say_plural("probe.note.launch-bound", 412, idle="61%") in shown


def test_no_line_is_wider_than_the_window() -> None:
    results: dict[str, ProbeResult] = {
        name: measured(*(repetition(1.0 + number / 100, number) for number in range(4)))
        for name in ("gpt2-768", "gpt2-768,batch_size=16", "gpt2-768,compile=False")
    }
    for width in (80, 120):
        assert max(len(line) for line in page(results, width).splitlines()) <= width


@pytest.mark.parametrize("width", [80, 100, 110, 140])
def test_a_name_of_usual_length_stays_on_one_line(width: int) -> None:
    name = "demo,batch_size=8"
    assert f"\n{name} " in page({name: measured(repetition(1.0))}, width)


def test_disturbances_that_were_counted_and_those_that_were_not_are_reported_apart() -> None:
    limit = Disturbance(code="power-limit", numbers={"share": 1.0, "celsius": 70})
    bursts = Disturbance(code="bursts", numbers={"iterations": 22})
    result = measured(
        repetition(1.0, disturbances=(limit, bursts)), redone=(repetition(2.0, disturbances=(HEAT,)),)
    )
    shown = " ".join(page({"a": result}).split())
    notes = [
        ENGLISH.say("probe.note.harmless", cause=disturbance_words(limit)),
        ENGLISH.say("probe.note.disturbed-counted", cause=disturbance_words(bursts)),
        ENGLISH.say_plural("probe.repeated.times", 1, why=disturbance_words(HEAT)),
    ]
    assert [note for note in notes if f"a: {note}" not in shown] == []


def test_a_profiler_that_is_not_allowed_leaves_the_rate_and_says_why_there_are_no_bars() -> None:
    shown = page(
        {"a": measured(repetition(1.0), breakdown=None, breakdown_fault="the profiler saw no kernel")}
    )
    assert "524,288" in shown
    assert f"a: {ENGLISH.say('probe.note.no-breakdown', reason='the profiler saw no kernel')}" in shown
    assert FULL not in shown


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=lambda each: each.code)
def test_bars_have_a_line_each_however_long_the_names_of_the_parts(language: Language) -> None:
    shares = TimeShares({"matmul": 0.5}, 0.0, 0.5, 100, 1, 1.0)
    console = Console(width=80)
    with console.capture() as capture:
        console.print(bars({"a": shares, "b": shares}, 80, language))
    assert len(capture.get().splitlines()) == 1 + len(PARTS_OF_TIME)


def test_bars_are_as_long_as_their_shares() -> None:
    shares = TimeShares({"matmul": 0.5, "attention": 0.25}, 0.0, 0.25, 100, 1, 1.0)
    console = Console(width=80)
    with console.capture() as capture:
        console.print(bars({"a": shares}, 80))
    lengths = {line[:15].strip(): line.count("█") for line in capture.get().splitlines()[1:]}
    assert lengths["matmul"] == 2 * lengths["attention"] == 2 * lengths["idle"] == 40
    assert lengths["loss"] == 0


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.90, 0.95, ("faster", "faster")),
        (1.05, 1.10, ("slower", "slower")),
        (0.95, 1.05, ("no difference shown", "no-difference")),
        (0.995, 1.004, ("tied", "tied")),
    ],
)
def test_a_comparison_is_called_by_its_interval(low: float, high: float, words: tuple[str, str]) -> None:
    """In documents by the same word in all versions."""
    ratio = Interval((low + high) / 2, low, high, 0.95, 8)
    comparison = SpeedComparison("b", "a", ratio, 0.01, call_of(ratio))
    code, message = words
    assert call_code(comparison) == code
    assert call_words(comparison) == ENGLISH.say(f"probe.comparison.{message}", margin="1.0%")


def test_a_full_gpu_says_who_holds_it() -> None:
    result = OutOfMemory(
        config=CONFIG,
        stage="building",
        memory=MemoryRecord(
            peak_allocated_bytes=GIB, peak_reserved_bytes=2 * GIB, device_memory_bytes=12 * GIB
        ),
        words="CUDA out of memory. Tried to allocate 3.07 GiB.",
        holders=(Holder(process=20, name="game", bytes=9 * GIB), Holder(process=21)),
    )
    said = result_words(result)
    game = ENGLISH.say("probe.holder.with-size", name="game", process="20", size="9.00 GiB")
    holders = f"{game}, {ENGLISH.say('probe.holder.unnamed')} (21)"
    assert ENGLISH.say("probe.out-of-memory.other-holders", holders=holders) in said
    sizes = {"allocated": "1.00 GiB", "reserved": "2.00 GiB", "gpu": "12.00 GiB"}
    assert ENGLISH.say("probe.out-of-memory.allocated-of-gpu", **sizes) in said
    assert said.endswith(f"({result.words})")


def test_a_config_disturbed_at_every_attempt_has_no_rate() -> None:
    redone = (repetition(1.0, disturbances=(HEAT,)),) * 3
    result = Throttled(config=CONFIG, setup=setup(), redone=redone, memory=MemoryRecord())
    shown = " ".join(page({"a": result}).split())
    said = ENGLISH.say_plural("probe.failed.always-disturbed", 3, why=disturbance_words(HEAT))
    assert f"a: {said}" in shown
    assert "tok/s" not in shown


def test_a_hang_says_when() -> None:
    result = Failed(config=CONFIG, reason="hung", stage="measuring", words="no sign of life for 60 s")
    stage = ENGLISH.say("probe.stage.measuring")
    assert result_words(result) == ENGLISH.say("probe.failed.hung", stage=stage, words=result.words)


def test_every_disturbance_has_words() -> None:
    names = ("share", "celsius", "from_mhz", "to_mhz", "process", "iterations")
    numbers: dict[str, float] = dict.fromkeys(names, 0.5)
    for code in WORDS:
        assert "{" not in disturbance_words(Disturbance(code=code, numbers=numbers))


def test_progress_names_the_process_the_stage_and_the_last_iteration() -> None:
    progress = ProbeProgress("a", 1, "measuring", 24, 0.1184)
    said = progress_words(progress, 16)
    assert said.startswith(ENGLISH.say("probe.progress.process", name="a", number="2", most="16"))
    assert ENGLISH.say("probe.stage.measuring") in said
    assert said.endswith(ENGLISH.say_plural("probe.progress.iterations", 24, time="118.4 ms"))


def test_a_round_made_again_says_why() -> None:
    progress = ProbeProgress("a", 0, "waiting", redone_for=(HEAT,))
    assert progress_words(progress, 1) == ENGLISH.say(
        "probe.progress.repeated", name="a", why=disturbance_words(HEAT)
    )
    assert "87" in disturbance_words(HEAT)


def test_the_document_has_raw_samples_and_what_is_derived() -> None:
    results: dict[str, ProbeResult] = {
        "a": measured(repetition(1.0)),
        "b": Failed(config=CONFIG, reason="died", stage="starting", words="gone"),
    }
    document = json.loads(to_json(probes_document(results, reading_of(results, Budget(), "a", 0.01))))
    a, b = document["results"]["a"], document["results"]["b"]
    assert a["repetitions"][0]["samples"][0]["seconds"] == 1.0
    assert a["summary"]["time"]["idle"] == pytest.approx(0.61)
    assert (b["kind"], b["summary"]) == ("failed", None)
