import signal

from nanodyno.probe.process import how_it_ended


def test_a_child_that_the_system_killed_is_told_with_the_usual_cause() -> None:
    assert how_it_ended(-signal.SIGKILL) == (
        "its process was ended by SIGKILL, as the system does when its memory runs out"
    )


def test_an_exit_code_is_told_as_it_is() -> None:
    assert how_it_ended(3) == "its process ended with exit code 3"


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert how_it_ended(-200) == "its process was ended by signal 200"
