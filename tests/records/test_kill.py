"""A run killed at any byte is still readable, and going on with it leaves no broken line."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nanodyno.errors import NanodynoError
from nanodyno.records.store import read_run, read_run_record
from nanodyno.records.types import RunRecord, StepRecord
from nanodyno.records.writer import RunWriter


@pytest.mark.parametrize("name", ["steps.jsonl", "evals.jsonl"])
def test_every_prefix_of_a_file_of_records_reads_as_a_prefix_of_the_records(folder: Path, name: str) -> None:
    whole = read_run(folder)
    path = folder / name
    content = path.read_bytes()
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        run = read_run(folder)
        ended = content[:length].count(b"\n")
        if name == "steps.jsonl":
            assert (run.steps, run.evals) == (whole.steps[:ended], whole.evals)
        else:
            assert (run.steps, run.evals) == (whole.steps, whole.evals[:ended])


@pytest.mark.parametrize("name", ["steps.jsonl", "evals.jsonl"])
def test_a_run_killed_before_a_file_was_made_is_readable(folder: Path, name: str) -> None:
    (folder / name).unlink()
    run = read_run(folder)
    assert (len(run.steps), len(run.evals)) == ((0, 2) if name == "steps.jsonl" else (4, 0))


def test_a_writer_reopened_after_any_cut_goes_on_with_whole_lines(
    folder: Path, step: Callable[..., StepRecord]
) -> None:
    whole = read_run(folder).steps
    path = folder / "steps.jsonl"
    content = path.read_bytes()
    for length in range(0, len(content) + 1, 7):
        path.write_bytes(content[:length])
        ended = content[:length].count(b"\n")
        with RunWriter(folder) as writer:
            writer.append(step(99))
        assert read_run(folder).steps == (*whole[:ended], step(99))


def test_resuming_after_any_cut_goes_on_with_whole_lines(
    folder: Path, record: Callable[..., RunRecord], step: Callable[..., StepRecord]
) -> None:
    whole = read_run(folder).steps
    content = (folder / "steps.jsonl").read_bytes()
    for length in range(0, len(content) + 1, 101):
        (folder / "steps.jsonl").write_bytes(content[:length])
        kept = min(2, content[:length].count(b"\n"))
        with RunWriter.resume(folder, record(), 2, evaluated=True) as writer:
            writer.append(step(2))
        assert read_run(folder).steps == (*whole[:kept], step(2))


@pytest.mark.parametrize("name", ["steps.jsonl", "evals.jsonl"])
def test_a_damaged_line_in_the_middle_is_an_error_with_its_number(folder: Path, name: str) -> None:
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    lines.insert(1, b'{"iteration": 1, "lo\n')
    (folder / name).write_bytes(b"".join(lines))
    with pytest.raises(NanodynoError, match=rf"{name}, line 2, is damaged"):
        read_run(folder)


def test_a_cut_line_with_a_newline_after_it_is_damage_and_not_dropped(folder: Path) -> None:
    content = (folder / "steps.jsonl").read_bytes()
    (folder / "steps.jsonl").write_bytes(content[:-20] + b"\n")
    with pytest.raises(NanodynoError, match="line 4, is damaged"):
        read_run(folder)


def test_a_kill_while_run_json_was_being_replaced_leaves_the_old_one(
    folder: Path, record: Callable[..., RunRecord]
) -> None:
    newer = record(notes=("newer",))
    content = newer.model_dump_json(indent=2).encode()
    for length in range(0, len(content) + 1, 97):
        (folder / "run.json.new").write_bytes(content[:length])
        assert read_run(folder).record == record()
    with RunWriter(folder) as writer:
        writer.replace_run(newer)
    assert read_run(folder).record == newer
    assert not (folder / "run.json.new").exists()


def test_a_reader_never_sees_half_a_run_json(folder: Path, record: Callable[..., RunRecord]) -> None:
    versions = [record(), record(notes=("x" * 50_000,))]
    done = threading.Event()

    def replace() -> None:
        with RunWriter(folder) as writer:
            for count in range(60):
                writer.replace_run(versions[count % 2])
        done.set()

    thread = threading.Thread(target=replace)
    thread.start()
    seen = [read_run_record(folder)]
    while not done.is_set():
        seen.append(read_run_record(folder))
    thread.join()
    assert all(each in versions for each in seen)
    assert len(seen) > 5


def test_a_copy_of_a_run_folder_is_a_run(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert read_run(tmp_path / "copy").steps == read_run(folder).steps
