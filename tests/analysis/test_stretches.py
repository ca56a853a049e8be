from nanodyno.analysis.stretches import same_processes_since, stretches


def test_a_stretch_ends_at_a_resume_and_where_micro_batches_shrink(step):
    steps = [step(i, micro_steps=64 if i < 6 else 128) for i in range(8)]
    parts = [[each.iteration for each in part] for part in stretches(steps, (3,))]
    assert parts == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_run_by_one_process_is_one_from_its_beginning(start):
    assert same_processes_since([]) == 0
    assert same_processes_since([start(), start(500), start(700)]) == 0


def test_one_then_two_processes_are_two_since_the_second_start(start, save):
    assert same_processes_since([start(), save(500), start(500, processes=2), start(700, processes=2)]) == 500


def test_one_two_and_one_again_is_one_since_the_last_start(start):
    assert same_processes_since([start(), start(500, processes=2), start(700)]) == 700


def test_a_start_whose_work_was_done_again_does_not_count(start):
    # Two processes began at 500 and saved nothing; one went on from 500, as one did before.
    assert same_processes_since([start(), start(500, processes=2), start(500)]) == 0
    # All of it was done again by two, from the beginning.
    assert same_processes_since([start(), start(500), start(0, processes=2)]) == 0
