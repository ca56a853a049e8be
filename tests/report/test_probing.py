"""What is said while probes measure."""

import io

import pytest
from rich.console import Console

from nanodyno.messages.language import ENGLISH
from nanodyno.records.probe import ProbeProgress
from nanodyno.report.probing import RoundEta, make_probe_display


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_promised_in_the_first_round() -> None:
    clock = Clock()
    pace = RoundEta(4, clock)
    pace.enter(0)
    clock.now += 7
    pace.enter(0)
    assert pace.elapsed() == 7
    assert pace.left() is None


def test_what_is_left_goes_by_the_rounds_that_are_over_however_often_one_was_made_again() -> None:
    clock = Clock()
    pace = RoundEta(4, clock)
    for number, seconds in ((0, 10), (0, 10), (1, 10)):
        pace.enter(number)
        clock.now += seconds
    pace.enter(2)
    # Two of four took 15 s each on average.
    assert pace.left() == pytest.approx(30)
    clock.now += 12
    assert pace.left() == pytest.approx(18)
    clock.now += 100
    assert pace.left() == 0


def test_the_live_line_has_the_time_so_far_and_what_may_come() -> None:
    out, clock = io.StringIO(), Clock()
    display = make_probe_display(Console(file=out, force_terminal=True, width=120), 3, clock=clock)
    display(ProbeProgress(name="demo", round=0, stage="starting"))
    clock.now += 20
    display(ProbeProgress(name="demo", round=1, stage="measuring", samples=3, seconds=0.25))
    display.close()
    left = ENGLISH.say("probe.progress.time-left", elapsed="20 s", left="40 s")
    process = ENGLISH.say("probe.progress.process", name="demo", number="2", most="3")
    assert f"{left}  {process}" in out.getvalue()


def test_a_file_gets_a_line_a_stage() -> None:
    out = io.StringIO()
    display = make_probe_display(Console(file=out, width=120), rounds=2)
    for samples in (1, 2):
        display(ProbeProgress(name="demo", round=0, stage="measuring", samples=samples, seconds=0.25))
    display.close()
    process = ENGLISH.say("probe.progress.process", name="demo", number="1", most="2")
    stage = ENGLISH.say("probe.progress.stage", name=process, stage=ENGLISH.say("probe.stage.measuring"))
    last = ENGLISH.say_plural("probe.progress.iterations", 1, time="250.0 ms")
    assert out.getvalue() == f"{stage}, {last}\n"
