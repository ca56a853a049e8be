"""The protocol of all work in child processes, by real children with made-up tasks (protocol_tasks.py)."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from nanodyno.errors import NanodynoError
from nanodyno.experiments import short_training
from nanodyno.probe import process, repetition
from nanodyno.probe.process import Child, Failure, how_it_ended, run_task, unless_refused
from nanodyno.records.types import Record


class Text(Record):
    text: str = "hello"


@pytest.fixture(autouse=True)
def _tasks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    monkeypatch.setenv("PYTHONPATH", path)


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    yield
    assert [each for each in psutil.Process().children() if process.ENTRY in each.cmdline()] == []


def run(task: str, **options: Any) -> Any:
    return run_task(f"protocol_tasks:{task}", Text(), str, **options)


def is_gone(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def are_gone_soon(pids: list[int]) -> bool:
    end = time.monotonic() + 20
    while not all(map(is_gone, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return all(map(is_gone, pids))


def test_progress_arrives_in_order_and_then_the_result_of_each_request() -> None:
    heard: list[tuple[str, Any]] = []

    def watch(child: Child, value: Any) -> None:
        if value is not None:
            heard.append((child.stage, value))

    with Child("protocol_tasks:echo") as child:
        assert child.ask(Text(text="one"), str, watch) == "one"
        assert heard == [("working", 0), ("working", 1), ("working", 2)]
        assert child.ask(Text(text="2"), int, watch) == 2, "read as what was asked for"
        assert len(heard) == 6
    assert is_gone(child.pid)


def test_a_child_imports_its_task_before_it_is_asked() -> None:
    with Child("protocol_tasks:echo") as child:
        assert child.has_started(60)
        assert child.ask(Text(), str) == "hello"
    with Child("no_such_module:echo") as child:
        assert not child.has_started(60)


def test_while_a_child_is_silent_its_parent_is_called_several_times_a_second() -> None:
    calls: list[Any] = []

    def watch(child: Child, _: Any) -> None:
        calls.append(child.stage)

    run("sleep", watch=watch, limit_seconds=3.0)
    assert len(calls) >= 8


def test_a_users_mistake_is_a_failure_that_can_be_raised_with_its_hint() -> None:
    failure = run("refuse")
    assert failure == Failure(
        reason="refused", words="no such thing: hello", hint="try another", stage="looking"
    )
    with pytest.raises(NanodynoError) as caught:
        unless_refused(failure)
    assert (caught.value.message, caught.value.hint) == ("no such thing: hello", "try another")


def test_other_failures_and_results_are_not_raised() -> None:
    assert unless_refused(Failure(reason="died", words="")).reason == "died"
    assert unless_refused("a result") == "a result"


def test_out_of_memory_is_a_failure_with_what_was_reached() -> None:
    failure = run("run_out")
    assert (failure.reason, failure.stage) == ("out-of-memory", "filling")
    assert failure.words == "CUDA out of memory. Tried to allocate 2 GiB"
    assert failure.memory.peak_host_bytes > 0


def test_a_fault_has_the_first_line_of_its_innermost_cause() -> None:
    assert run("fail") == Failure(reason="error", words="what went wrong", stage="failing")


@pytest.mark.parametrize("task", ["sleep", "chatter", "close_pipes"])
def test_what_is_not_done_within_its_limit_is_hung_however_lively(task: str) -> None:
    failure = run(task, limit_seconds=2.0)
    assert failure.reason == "hung"
    assert failure.words == f"not done after 2 s, still {failure.stage}"


def test_silence_is_a_hang_by_the_patience_of_its_stage_alone() -> None:
    failure = run("sleep", patience={"starting": math.inf, "sleeping": 0.5})
    assert (failure.reason, failure.stage) == ("hung", "sleeping")
    assert run("sleep", patience={"working": 0.5}, limit_seconds=3.0).words.startswith("not done after 3 s")


def test_silence_may_last_many_times_the_slowest_piece_of_work() -> None:
    """Of this request, or before its first of the one before: 3 s are ten pieces, and twenty are allowed."""
    patience = {"working": 2.0}
    with Child("protocol_tasks:slow", patience) as child:
        assert child.ask(Text(text="2"), str) == "done"
        assert child.ask(Text(text="0"), str) == "done"
    with Child("protocol_tasks:slow", patience) as child:
        failure = child.ask(Text(text="0"), str)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.stage) == ("hung", "working")


def test_a_crash_has_its_signal_and_pythons_last_words() -> None:
    failure = run("abort")
    assert (failure.reason, failure.stage) == ("died", "aborting")
    assert failure.words == "its process was ended by SIGABRT: Fatal Python error: Aborted"


def test_a_child_that_is_killed_may_have_run_out_of_memory() -> None:
    failure = run("killed")
    assert (failure.reason, failure.words) == ("died", how_it_ended(-signal.SIGKILL))


def test_a_bug_has_its_exit_code_and_the_last_line_of_its_traceback() -> None:
    failure = run("crash")
    assert failure.reason == "died"
    assert failure.words == "its process ended with exit code 1: KeyError: 'hello'"


def test_a_task_that_cannot_be_imported_dies_of_it() -> None:
    failure = run_task("nanodyno.no_such_module:task", Text(), str)
    assert isinstance(failure, Failure)
    assert failure.reason == "died"
    assert "No module named 'nanodyno.no_such_module'" in failure.words


def test_a_child_that_dies_before_a_process_that_holds_its_pipe_is_dead_all_the_same() -> None:
    pids: list[int] = []
    failure = run("forks_and_dies", watch=lambda _, pid: pid and pids.append(pid), limit_seconds=60)
    assert failure.reason == "died"
    assert are_gone_soon(pids)


def test_what_libraries_print_goes_to_stderr_and_is_among_the_last_words() -> None:
    with Child("protocol_tasks:print_much") as child:
        assert child.ask(Text(), str) == "hello"
        failure = child.ask(Text(), str)
    assert isinstance(failure, Failure)
    assert failure.words == "its process ended with exit code 7: from a program"


def test_an_exception_of_who_watches_ends_the_child_and_all_it_started() -> None:
    pids: list[int] = []

    def press(_: Child, value: list[int] | None) -> None:
        if value is not None:
            pids.extend(value)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("family", watch=press)
    assert len(pids) == 2
    assert are_gone_soon(pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_parent_that_is_interrupted_or_killed_leaves_nothing_behind(number: signal.Signals) -> None:
    code = (
        "import signal\n"
        "from nanodyno.probe.process import run_task\n"
        "from nanodyno.records.types import Record\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "watch = lambda _, pids: pids and print(*pids, flush=True)\n"
        "run_task('protocol_tasks:family', Record(), str, watch)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [is_gone(pid) for pid in pids] == [False, False]
        parent.send_signal(number)
    assert are_gone_soon(pids)


REAL_TASKS = (
    repetition.TASK,
    short_training.TASK,
    *(f"nanodyno.probe.device_checks:{each}" for each in ("device", "compiler", "ceilings")),
)


@pytest.mark.parametrize("task", REAL_TASKS)
def test_every_task_runs_by_this_protocol(task: str) -> None:
    """Each can be imported and waits for a request; one that it cannot read is an error of ours."""
    with Child(task) as child:
        assert child.has_started(120)
        failure = child.ask(Text(), str)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.stage) == ("died", "starting")
    assert failure.words.startswith("its process ended with exit code 1: ")


def test_an_exit_code_is_reported_as_it_is() -> None:
    assert how_it_ended(3) == "its process ended with exit code 3"


def test_a_child_that_the_system_killed_is_reported_with_the_usual_cause() -> None:
    assert how_it_ended(-signal.SIGKILL) == (
        "its process was ended by SIGKILL, as the system does when its memory runs out"
    )


def test_a_signal_without_a_name_is_reported_by_its_number() -> None:
    assert how_it_ended(-200) == "its process was ended by signal 200"
