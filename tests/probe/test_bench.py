"""Real children: each test starts one, and most end it in a way it did not choose."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_args

import psutil
import pytest

from nanodyno.analysis.budget import Budget
from nanodyno.errors import NanodynoError
from nanodyno.hardware.telemetry import WatchedGpu
from nanodyno.probe.bench import Bench, ProbePlan
from nanodyno.probe.repetition import PATIENCE, ProbeJob
from nanodyno.probe.rounds import measure_against, probe
from nanodyno.records.probe import (
    BreakdownPart,
    Failed,
    Measured,
    OutOfMemory,
    ProbeProgress,
    ProbeResult,
    Throttled,
)

Job = Callable[..., ProbeJob]
HUGE = 2_000_000_000


def child() -> psutil.Process:
    (found,) = probing()
    return found


class Striker:
    """Sends a signal to the child in the middle of a visit."""

    def __init__(self, number: int, in_round: int = 0) -> None:
        self.number = number
        self.in_round = in_round
        self.struck: psutil.Process | None = None

    def __call__(self, progress: ProbeProgress) -> None:
        due = progress.round == self.in_round and progress.stage == "measuring" and progress.samples >= 5
        if self.struck is None and due:
            self.struck = child()
            os.kill(self.struck.pid, self.number)


def gone(process: psutil.Process | None) -> bool:
    assert process is not None
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def probing() -> list[psutil.Process]:
    """The children of this process that probe; other tests have children too."""
    return [each for each in psutil.Process().children() if "nanodyno.probe.child" in each.cmdline()]


@dataclass
class Session:
    """One config in one resident worker: two rounds, and Ctrl-C in the third."""

    result: Measured
    stages: list[str]
    children_after: list[psutil.Process]


@pytest.fixture(scope="module")
def session(job: Job) -> Session:
    stages: list[str] = []

    def watch(progress: ProbeProgress) -> None:
        stages.append(progress.stage)
        if progress.round == 2 and progress.samples:
            raise KeyboardInterrupt

    plan = ProbePlan(precision=1e-9, repetition_seconds=0.3, redo=0, rounds_per_process=3)
    with (
        suppress(KeyboardInterrupt),
        Bench({"tiny": job(gradient_accumulation_steps=8)}, plan, watch) as bench,
    ):
        for number in range(3):
            bench.round(number, ["tiny"])
    result = bench.results()["tiny"]
    assert isinstance(result, Measured)
    return Session(result, stages, probing())


def test_every_iteration_is_kept_with_its_inner_micro_steps(session: Session) -> None:
    samples = session.result.repetitions[0].samples
    assert {sample.micro_steps for sample in samples} == {8}
    assert {len(sample.micro_step_seconds) for sample in samples} == {6}
    assert all(sum(sample.micro_step_seconds) < sample.seconds for sample in samples)


def test_the_child_tells_what_it_is_at(session: Session) -> None:
    assert list(dict.fromkeys(session.stages)) == [
        "starting",
        "building",
        "warming up",
        "measuring",
        "profiling",
    ]


def test_the_breakdown_has_every_part_and_no_more_time_than_there_was(session: Session) -> None:
    breakdown = session.result.breakdown
    assert breakdown is not None
    assert set(breakdown.part_seconds) == set(get_args(BreakdownPart))
    assert 0 < sum(breakdown.part_seconds.values()) <= breakdown.profiled_seconds


def test_ctrl_c_ends_the_child_and_keeps_the_rounds_before_it(session: Session) -> None:
    assert [(repetition.round, repetition.process) for repetition in session.result.repetitions] == [
        (0, 0),
        (1, 0),
    ]
    assert session.children_after == []


def test_a_child_that_crashes_is_a_result(job: Job) -> None:
    result = probe(job(), ProbePlan(repetition_seconds=30, redo=0), Striker(signal.SIGSEGV))
    assert isinstance(result, Failed)
    assert (result.reason, result.stage) == ("died", "measuring")
    assert "ended by SIGSEGV" in result.words


@dataclass
class HotSession:
    """A config under heat, made again once, and one that cannot fit, started beside its resident worker.

    In the next round that worker is stopped by a signal, and hangs.
    """

    hot: ProbeResult
    huge: ProbeResult
    hung: ProbeResult
    hung_child: psutil.Process | None
    reported: list[ProbeProgress]


@pytest.fixture(scope="module")
def hot_session(job: Job, nvml: Any) -> HotSession:
    """NVML reports 87 degrees and a thermal slowdown all along."""
    reported: list[ProbeProgress] = []
    striker = Striker(signal.SIGSTOP, in_round=1)

    def watch(progress: ProbeProgress) -> None:
        reported.append(progress)
        striker(progress)

    plan = ProbePlan(
        precision=1e-9,
        repetition_seconds=0.5,
        redo=1,
        cooling_seconds=0.0,
        rounds_per_process=9,
        breakdown=False,
    )
    jobs = {"hot": job(), "huge": job(vocab_size=HUGE)}
    with (
        pytest.MonkeyPatch.context() as patch,
        Bench(jobs, plan, watch, lambda *_: WatchedGpu(nvml(reasons=0x20), None)) as bench,
    ):
        patch.setitem(PATIENCE, "measuring", 3.0)
        bench.round(0, ["hot", "huge"])
        before = bench.results()
        bench.round(1, ["hot"])
        hung = bench.results()["hot"]
    return HotSession(before["hot"], before["huge"], hung, striker.struck, reported)


def test_a_child_that_hangs_is_ended_after_its_patience(hot_session: HotSession) -> None:
    result = hot_session.hung
    assert isinstance(result, Failed)
    assert (result.reason, result.stage) == ("hung", "measuring")
    assert gone(hot_session.hung_child)


def test_a_config_that_heat_disturbs_at_every_attempt_is_throttled(hot_session: HotSession) -> None:
    result = hot_session.hot
    assert isinstance(result, Throttled)
    assert [repetition.process for repetition in result.redone] == [0, 1]
    assert all("thermal" in {each.code for each in repetition.disturbances} for repetition in result.redone)
    assert [repetition.temperature_celsius for repetition in result.redone] == [87, 87]


def test_a_round_made_again_is_reported_with_its_cause(hot_session: HotSession) -> None:
    (once_more,) = [progress for progress in hot_session.reported if progress.redone_for]
    assert once_more.name == "hot"
    assert "thermal" in {each.code for each in once_more.redone_for}


def test_a_config_that_cannot_fit_is_out_of_memory_with_the_peak_it_reached(hot_session: HotSession) -> None:
    result = hot_session.huge
    assert isinstance(result, OutOfMemory)
    assert result.stage == "building"
    assert result.memory.peak_host_bytes is not None
    assert "allocate" in result.words


def test_a_config_out_of_memory_beside_a_resident_worker_is_tried_alone(hot_session: HotSession) -> None:
    stages = [progress.stage for progress in hot_session.reported if progress.name == "huge"]
    assert [stage for stage, _ in groupby(stages)] == ["starting", "building", "starting", "building"]


def test_what_the_user_did_wrong_is_the_users_to_hear(job: Job) -> None:
    with pytest.raises(NanodynoError, match="no dataset 'nowhere'"):
        probe(job(dataset="nowhere").model_copy(update={"with_data": True}), ProbePlan())
    assert probing() == []


def test_among_several_what_cannot_be_had_here_is_a_result_and_the_others_go_on(job: Job) -> None:
    jobs = {"good": job(), "odd": job(attention="fa3")}
    plan = ProbePlan(precision=0.5, repetition_seconds=1, redo=0, most_processes=4, breakdown=False)
    with Bench(jobs, plan) as bench:
        measure_against(bench, "good", Budget(looks=(2,)), 0.01)
        results = bench.results()
    odd, good = results["odd"], results["good"]
    assert isinstance(odd, Failed)
    assert odd.reason == "refused"
    assert "attention=fa3 does not run here" in odd.words
    assert isinstance(good, Measured)
    assert len(good.repetitions) == 2


def test_the_next_process_imports_early_and_is_replaced_when_it_is_killed_meanwhile(job: Job) -> None:
    seen: dict[int, set[int]] = {}

    def watch(progress: ProbeProgress) -> None:
        if progress.samples and progress.round not in seen:
            children = probing()
            seen[progress.round] = {each.pid for each in children}
            if progress.round == 1:
                max(children, key=lambda each: each.pid).kill()  # begun after the one that measures

    plan = ProbePlan(precision=1e-9, repetition_seconds=0.3, redo=0, most_processes=3, breakdown=False)
    with Bench({"it": job()}, plan, watch) as bench:
        for number in range(3):
            bench.round(number, ["it"])
        (result,) = bench.results().values()
    assert isinstance(result, Measured)
    assert result.stopped is None
    assert [repetition.process for repetition in result.repetitions] == [0, 1, 2]
    assert [len(seen[number]) for number in range(3)] == [2, 2, 1]
    assert len(seen[0] & seen[1]) == 1, "the spare of the first round measures in the second"
    assert not seen[1] & seen[2]
    assert probing() == []


def test_a_parent_that_is_killed_leaves_no_child_behind(job: Job) -> None:
    code = (
        "import sys\n"
        "from nanodyno.probe.bench import ProbePlan\n"
        "from nanodyno.probe.rounds import probe\n"
        "from nanodyno.probe.repetition import ProbeJob\n"
        "plan = ProbePlan(precision=1e-9, repetition_seconds=100, redo=0)\n"
        "tell = lambda progress: progress.samples and print(progress.samples, flush=True)\n"
        "probe(ProbeJob.model_validate_json(sys.argv[1]), plan, tell)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, job().model_dump_json()], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (orphan,) = psutil.Process(parent.pid).children()
        parent.kill()
    for _ in range(100):
        if gone(orphan):
            break
        time.sleep(0.1)
    assert gone(orphan)


def test_ctrl_c_in_mid_measurement_keeps_the_iterations_that_were_made(job: Job) -> None:
    def press(progress: ProbeProgress) -> None:
        if progress.stage == "measuring" and progress.samples >= 20:
            raise KeyboardInterrupt

    plan = ProbePlan(precision=1e-9, repetition_seconds=60, redo=0, breakdown=False)
    with Bench({"it": job()}, plan, press) as bench:
        with suppress(KeyboardInterrupt):
            bench.round(0, ["it"])
        (result,) = bench.results().values()
    assert isinstance(result, Measured)
    assert len(result.repetitions[0].samples) >= 20


def test_ctrl_c_before_anything_was_measured_names_the_stage(job: Job) -> None:
    def press(progress: ProbeProgress) -> None:
        if progress.stage == "building":
            raise KeyboardInterrupt

    with Bench({"it": job()}, ProbePlan(), press) as bench:
        with suppress(KeyboardInterrupt):
            bench.round(0, ["it"])
        (result,) = bench.results().values()
    assert isinstance(result, Failed)
    assert (result.reason, result.stage) == ("interrupted", "building")


def test_a_repetition_that_takes_longer_than_its_limit_is_given_up_wherever_it_is(job: Job) -> None:
    """However lively: an import alone takes longer than a tenth of a second. The next one has its own."""
    jobs = {"slow": job(), "quick": job()}
    with Bench(jobs, ProbePlan(repetition_seconds=0.2, breakdown=False)) as bench:
        bench.limit_seconds = 0.1
        bench.round(0, ["slow"])
        result = bench.results()["slow"]
        assert isinstance(result, Failed)
        assert (result.reason, result.stage) == ("hung", "starting")
        assert result.words == "not done after 0.1 s, still starting"
        assert probing() == []
        bench.limit_seconds = 120.0
        bench.round(0, ["quick"])
        assert isinstance(bench.results()["quick"], Measured)


def test_a_measured_config_whose_process_was_killed_is_measured_again_when_asked(job: Job) -> None:
    striker = Striker(signal.SIGKILL, in_round=1)
    with Bench({"one": job()}, ProbePlan(repetition_seconds=0.3, breakdown=False), striker) as bench:
        for number in range(2):
            bench.round(number, ["one"])
        killed = bench.results()["one"]
        assert isinstance(killed, Measured)
        assert "SIGKILL" in str(killed.stopped)
        bench.round(2, ["one"])
        result = bench.results()["one"]
    assert isinstance(result, Measured)
    assert ([repetition.round for repetition in result.repetitions], result.stopped) == ([0, 2], None)
