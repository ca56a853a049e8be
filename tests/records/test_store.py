"""Runs on disk: what is refused, what is found, what a resumed run keeps."""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.records.lock import remove_if_unused
from nanodyno.records.store import find_run, read_run, read_run_record, run_folders
from nanodyno.records.types import EvalRecord, RunRecord, StartRecord, StepRecord, StopRecord
from nanodyno.records.writer import RunWriter, claim_folder

Records = Callable[..., RunRecord]
Steps = Callable[..., StepRecord]
Evals = Callable[..., EvalRecord]


def test_what_was_written_is_read_back(folder: Path, record: Records, step: Steps, evaluation: Evals) -> None:
    run = read_run(folder)
    assert run.record == record()
    assert run.steps == tuple(step(iteration) for iteration in range(4))
    assert run.evals == (evaluation(0), evaluation(4))
    assert (run.name, run.iterations_done, run.finished) == ("one", 4, True)


def test_a_run_is_finished_when_it_has_said_so_and_nobody_has_taken_it_up_again(
    tmp_path: Path, record: Records, step: Steps, evaluation: Evals
) -> None:
    start = StartRecord(iteration=0, process=7, host="here", wall_time=0.0)
    with RunWriter.create(tmp_path / "new", record()) as writer:
        writer.append(start)
        for iteration in range(4):
            writer.append(step(iteration))
        writer.append(evaluation(4))
        assert not read_run(tmp_path / "new").finished  # its last checkpoint may be missing
        writer.append(StopRecord(iteration=4, reason="finished", wall_time=0.0))
        assert read_run(tmp_path / "new").finished
        writer.append(start)
        run = read_run(tmp_path / "new")
        assert (run.finished, run.stop, run.last_start) == (False, None, start)
        writer.append(StopRecord(iteration=4, reason="terminated", wall_time=0.0))
        assert not read_run(tmp_path / "new").finished


def test_a_run_is_running_while_its_writer_is_open(tmp_path: Path, record: Records) -> None:
    with RunWriter.create(tmp_path / "new", record()):
        assert read_run(tmp_path / "new").running
    assert not read_run(tmp_path / "new").running


def test_two_never_write_one_run(tmp_path: Path, record: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanodyno.records.lock.PATIENCE_SECONDS", 0.1)
    with RunWriter.create(tmp_path / "new", record()) as writer:
        writer.append(StartRecord(iteration=0, process=7, host="here", wall_time=0.0))
        before = {path.name: path.read_bytes() for path in writer.folder.iterdir()}
        with pytest.raises(NanodynoError, match="is being written by process 7 on here"):
            RunWriter.resume(writer.folder, record(notes=("other",)), 0, evaluated=False)
        with pytest.raises(NanodynoError, match="belongs to another run"):
            RunWriter.create(writer.folder, record())
        assert {path.name: path.read_bytes() for path in writer.folder.iterdir()} == before
    RunWriter.resume(writer.folder, record(), 0, evaluated=False).close()


def test_names_are_given_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: claim_folder(tmp_path / "runs" / "demo"), range(24)))
    assert {folder.name for folder in folders} == {f"demo-{number}" for number in range(1, 25)}


def test_a_claimed_folder_in_which_no_run_came_about_is_given_back(tmp_path: Path) -> None:
    folder = claim_folder(tmp_path / "runs" / "demo")
    remove_if_unused(folder)
    assert not folder.exists()
    folder = claim_folder(tmp_path / "runs" / "demo")
    (folder / "thesis.tex").write_text("precious")
    remove_if_unused(folder)
    assert (folder / "thesis.tex").exists()


def test_resuming_drops_an_evaluation_that_the_checkpoint_does_not_hold(
    folder: Path, record: Records
) -> None:
    RunWriter.resume(folder, record(), 4, evaluated=False).close()
    assert [entry.iteration for entry in read_run(folder).evals] == [0]


def test_a_record_can_be_read_as_soon_as_it_was_appended(
    tmp_path: Path, record: Records, step: Steps
) -> None:
    with RunWriter.create(tmp_path / "new", record()) as writer:
        for iteration in range(3):
            writer.append(step(iteration))
            assert read_run(tmp_path / "new").iterations_done == iteration + 1


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
def test_losses_that_are_no_numbers_survive_the_file(
    tmp_path: Path, record: Records, step: Steps, evaluation: Evals, broken: float
) -> None:
    with RunWriter.create(tmp_path / "new", record()) as writer:
        writer.append(step(0, loss=broken, grad_norm=broken))
        writer.append(evaluation(0, val_loss=broken))
    run = read_run(tmp_path / "new")
    for value in (run.steps[0].loss, run.steps[0].grad_norm, run.evals[0].val_loss):
        assert repr(value) == repr(broken)
    # Other programs read these files too, and JSON has no NaN.
    json.loads((run.folder / "steps.jsonl").read_text(), parse_constant=pytest.fail)


def test_none_stays_none(tmp_path: Path, record: Records, step: Steps) -> None:
    with RunWriter.create(tmp_path / "new", record()) as writer:
        writer.append(step(0, grad_norm=None))
    (read,) = read_run(tmp_path / "new").own_steps
    assert (read.grad_norm, read.peak_allocated_bytes) == (None, None)


def test_a_folder_of_another_run_is_refused_and_left_as_it_was(folder: Path, record: Records) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(NanodynoError, match="belongs to another run") as caught:
        RunWriter.create(folder, record("two"))
    assert "resume" in (caught.value.hint or "")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_with_other_files_is_refused(tmp_path: Path, record: Records) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(NanodynoError, match="is not empty") as caught:
        RunWriter.create(tmp_path, record())
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path, record: Records) -> None:
    (tmp_path / "taken").write_text("")
    for place in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(NanodynoError, match="taken"):
            RunWriter.create(place, record())


def test_an_empty_folder_will_do(tmp_path: Path, record: Records) -> None:
    RunWriter.create(tmp_path, record()).close()
    assert read_run(tmp_path).record == record()


def test_a_folder_without_run_json_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match=r"has no run\.json"):
        read_run(tmp_path)


def test_a_run_of_a_newer_nanodyno_is_refused_by_its_version(folder: Path) -> None:
    raw = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps(raw | {"version": 4, "unheard_of": 1}), encoding="utf-8")
    with pytest.raises(NanodynoError, match=r"run\.json was written by a newer nanodyno") as caught:
        read_run_record(folder)
    assert "upgrade" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"format": "nanodyno-run", "version": "x"}']
)
def test_a_damaged_run_json_is_an_error_that_names_it(folder: Path, content: bytes) -> None:
    (folder / "run.json").write_bytes(content)
    with pytest.raises(NanodynoError, match=r"run\.json is damaged"):
        read_run_record(folder)


def test_an_unknown_key_in_a_record_is_damage(folder: Path) -> None:
    lines = (folder / "steps.jsonl").read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | {"lost": 1})
    (folder / "steps.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(NanodynoError, match="line 2"):
        read_run(folder)


def test_a_run_is_found_by_its_name_or_by_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder.parent
    assert find_run("one", root) == folder
    assert find_run(str(folder), root / "elsewhere") == folder
    monkeypatch.chdir(root.parent)
    assert find_run("runs/one", Path("nowhere")) == Path("runs/one")


def test_a_run_that_is_not_there_is_reported_with_those_that_are(folder: Path) -> None:
    with pytest.raises(NanodynoError, match="no run 'two'") as caught:
        find_run("two", folder.parent)
    assert "one" in (caught.value.hint or "")
    with pytest.raises(NanodynoError) as caught:
        find_run("two", folder / "nowhere")
    assert "nanodyno train" in (caught.value.hint or "")


def test_runs_are_listed_by_their_start_and_other_folders_are_not(tmp_path: Path, record: Records) -> None:
    for day, name in enumerate(("c", "a", "b"), start=1):
        started = record().started_at.replace(day=day)
        RunWriter.create(tmp_path / name, record(name, started_at=started)).close()
    # Going on with an old run, or copying a file into it, makes it no younger.
    RunWriter.resume(tmp_path / "c", read_run_record(tmp_path / "c"), 0, evaluated=True).close()
    os.utime(tmp_path / "a")
    (tmp_path / "no run").mkdir()
    (tmp_path / "file").write_text("")
    assert [path.name for path in run_folders(tmp_path)] == ["c", "a", "b"]
    assert run_folders(tmp_path / "nowhere") == []


def test_a_damaged_run_hides_no_other(tmp_path: Path, record: Records) -> None:
    RunWriter.create(tmp_path / "good", record("good")).close()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    assert [path.name for path in run_folders(tmp_path)] == ["good", "bad"]


def test_resuming_drops_the_records_of_work_that_is_done_again(
    folder: Path, record: Records, step: Steps, evaluation: Evals
) -> None:
    again = record(resumed_at_iterations=(2,))
    with RunWriter.resume(folder, again, 2, evaluated=True) as writer:
        run = read_run(folder)
        assert run.record == again
        assert [entry.iteration for entry in run.steps] == [0, 1]
        assert [entry.iteration for entry in run.evals] == [0]
        writer.append(step(2))
        writer.append(evaluation(2))
    assert read_run(folder).iterations_done == 3


def test_resuming_keeps_the_evaluation_that_belongs_to_the_checkpoint(folder: Path, record: Records) -> None:
    RunWriter.resume(folder, record(), 4, evaluated=True).close()
    assert [entry.iteration for entry in read_run(folder).evals] == [0, 4]
    assert read_run(folder).iterations_done == 4


def test_a_run_killed_in_its_first_moment_does_not_block_its_name(
    tmp_path: Path, record: Callable[..., RunRecord]
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "run.json.new").write_text('{"format": "nanod')
    RunWriter.create(tmp_path / "one", record()).close()
    assert read_run_record(tmp_path / "one") == record()


def test_steps_share_what_lines_have_in_common_and_a_line_without_its_end_is_no_step(
    tmp_path: Path, record: Records, step: Steps
) -> None:
    """Of a million steps, which fields each has would take most of the memory."""
    folder = tmp_path / "long"
    with RunWriter.create(folder, record()) as writer:
        for number in range(3):
            writer.append(step(number))
    lines = (folder / "steps.jsonl").read_text().splitlines()
    older = json.loads(lines[2])
    del older["micro_tokens"]
    (folder / "steps.jsonl").write_text("\n".join([*lines[:2], json.dumps(older), "", lines[2][:40]])[:-1])
    with pytest.raises(NanodynoError, match="line 4, is damaged"):
        read_run(folder)
    (folder / "steps.jsonl").write_text("\n".join([*lines[:2], json.dumps(older), lines[2][:40]]))
    steps = read_run(folder).own_steps
    assert [each.iteration for each in steps] == [0, 1, 2]
    assert steps[0].model_fields_set is steps[1].model_fields_set
    assert steps[2].model_fields_set == steps[0].model_fields_set - {"micro_tokens"}
