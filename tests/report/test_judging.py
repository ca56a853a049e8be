"""What a person sees while judge trains."""

import io

from rich.console import Console

from nanodyno.analysis.judging import Judged
from nanodyno.experiments.judge import TrainingBegan, TrainingReached
from nanodyno.messages.language import ENGLISH
from nanodyno.report.judging import LiveJudging, make_judge_display, training_words


def test_the_time_left_is_by_the_pace_since_the_first_report() -> None:
    """Ten seconds of start, and then 10 iterations a second: 80 of 100 are left after 20."""
    now = iter([0.0, 10.0, 11.0]).__next__
    file = io.StringIO()
    display = LiveJudging(Console(file=file, force_terminal=True, width=100), ENGLISH, now)
    display(TrainingBegan("base", 0, 100))
    display(TrainingReached(10))
    display(TrainingReached(20))
    display.close()
    words = training_words(TrainingBegan("base", 0, 100), ENGLISH)
    said = ENGLISH.say("probe.progress.time-left", elapsed="11 s", left="8 s")
    assert f"{words}  20%  {said}" in file.getvalue()


def test_without_a_terminal_each_training_and_verdict_is_a_line() -> None:
    console = Console(file=io.StringIO(), width=100)
    display = make_judge_display(console)
    display(TrainingBegan("base", None, 12))
    display(TrainingReached(3))
    display(TrainingBegan("base", 1, 100))
    display(Judged("other", "keep", None, 1, 2.0, "shown"))
    display.close()
    file = console.file
    assert isinstance(file, io.StringIO)
    lines = [
        ENGLISH.say("judge.training.pace", name="base"),
        ENGLISH.say("judge.training.pair", name="base", pair="2"),
        f"other: {ENGLISH.say('judge.call.keep')}",
    ]
    assert file.getvalue().splitlines() == lines
