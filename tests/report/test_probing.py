"""What is said while probes measure."""

import io

import pytest
from rich.console import Console

from nanodyno.records.probe import ProbeProgress
from nanodyno.report.probing import Pace, make_probe_display


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_promised_before_a_process_has_ended() -> None:
    clock = Clock()
    pace = Pace(4, clock)
    pace.enter("a", 0)
    clock.now += 7
    pace.enter("a", 0)
    assert pace.elapsed() == 7
    assert pace.left() is None


def test_what_is_left_goes_by_the_processes_that_have_ended() -> None:
    clock = Clock()
    pace = Pace(4, clock)
    for name, seconds in (("a", 10), ("b", 20)):
        pace.enter(name, 0)
        clock.now += seconds
    pace.enter("b", 1)
    # Two of four took 15 s each on average.
    assert pace.left() == pytest.approx(30)
    clock.now += 12
    assert pace.left() == pytest.approx(18)
    clock.now += 100
    assert pace.left() == 0


def test_the_live_line_has_the_time_so_far_and_at_most_to_come() -> None:
    out = io.StringIO()
    display = make_probe_display(Console(file=out, force_terminal=True, width=120), rounds=2, configs=1)
    display(ProbeProgress(name="demo", round=0, stage="starting"))
    display(ProbeProgress(name="demo", round=1, stage="measuring", samples=3, seconds=0.25))
    display.close()
    assert "0 s, at most 0 s to go  demo, process 2 of at most 2: measuring, 3 iterations" in out.getvalue()


def test_a_file_gets_a_line_a_stage() -> None:
    out = io.StringIO()
    display = make_probe_display(Console(file=out, width=120), rounds=2, configs=1)
    for samples in (1, 2):
        display(ProbeProgress(name="demo", round=0, stage="measuring", samples=samples, seconds=0.25))
    display.close()
    assert out.getvalue() == "demo, process 1 of at most 2: measuring, 1 iterations, the last 250.0 ms\n"
