import pytest

from nanodyno.analysis.state import run_state, saved_iteration


def test_a_run_that_a_process_writes_is_running(run, step, start, save):
    history = [start(), save(5)]
    state = run_state(run([step(i) for i in range(8)], history=history, running=True))
    assert (state.kind, state.iteration, state.saved_iteration, state.reason) == ("running", 8, 5, None)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("finished", "done"),
        ("interrupted", "stopped"),
        ("terminated", "stopped"),
        ("max-hours", "stopped"),
        ("stop-at", "stopped"),
        ("diverged", "failed"),
        ("no-space", "failed"),
        ("no-memory", "failed"),
        ("failed", "failed"),
    ],
)
def test_a_run_that_ended_in_order_says_how(run, step, start, stop, reason, kind):
    history = [start(), stop(7, reason, words="some words")]
    state = run_state(run([step(i) for i in range(8)], history=history))
    assert (state.kind, state.reason, state.words) == (kind, reason, "some words")
    # The iteration that failed is recorded: a page says the same number beside its progress.
    assert state.iteration == (8 if kind == "failed" else 7)


def test_a_run_that_nobody_writes_and_nobody_stopped_died(run, step, start, save):
    state = run_state(run([step(i) for i in range(8)], history=[start(), save(5)]))
    assert (state.kind, state.iteration, state.saved_iteration) == ("died", 8, 5)


def test_a_run_killed_after_it_was_resumed_died_whatever_its_first_stretch_ended_with(run, step, start, stop):
    history = [start(), stop(5, "interrupted"), start(5)]
    assert run_state(run([step(i) for i in range(8)], history=history)).kind == "died"


def test_a_run_killed_before_its_first_iteration_died_too(run, start):
    assert run_state(run(history=[start()])).kind == "died"


def test_a_run_that_no_process_took_up_is_not_begun(run):
    assert run_state(run()).kind == "not begun"


def test_the_newest_checkpoint_is_the_last_one_saved(start, save, split):
    assert saved_iteration([start(), save(5), save(10), split(12)]) == 10


def test_a_resume_that_had_to_go_back_tells_which_checkpoint_is_whole(start, save):
    assert saved_iteration([start(), save(5), save(10), start(5)]) == 5


def test_without_a_save_nothing_is_saved(start):
    assert saved_iteration([]) is None
    assert saved_iteration([start(0)]) is None
