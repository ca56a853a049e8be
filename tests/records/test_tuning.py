"""What tune keeps in the user's cache, and what becomes of files that something has gone wrong with."""

import json
from pathlib import Path
from typing import Any

import pytest

from nanodyno.records.tuning import Journal, ProbedRecord, TuneQuestion, settings_of


@pytest.fixture
def question(tunings: Any) -> TuneQuestion:
    return TuneQuestion(
        device_name="NVIDIA H200",
        device_memory_bytes=2**37,
        driver="580",
        threads=None,
        torch="2.13",
        nanodyno="0.1.0",
        memory_limit_bytes=None,
        allow_different=False,
        held=(),
        settings=settings_of(tunings.config()),
    )


@pytest.fixture
def line(tunings: Any) -> ProbedRecord:
    config = tunings.config()
    return ProbedRecord(
        stage="screening",
        round=0,
        name="4 x 4",
        cost_seconds=5.0,
        until_seconds=100.0,
        result=tunings.repetition(config, 1.0, 2**30),
    )


def filled(question: TuneQuestion, line: ProbedRecord, folder: Path) -> Path:
    journal = Journal(question, folder=folder)
    journal.append(line)
    journal.close()
    return journal.path


def test_a_file_that_was_named_by_other_names_of_settings_is_found_by_what_it_asks(
    question: TuneQuestion, line: ProbedRecord, tmp_path: Path
) -> None:
    path = filled(question, line, tmp_path)
    older = path.rename(path.with_name("0123456789abcdef.jsonl"))
    again = Journal(question, folder=tmp_path)
    assert (again.path, len(again.lines), again.notes) == (older, 1, [])
    other = Journal(question.model_copy(update={"torch": "2.14"}), folder=tmp_path)
    assert (other.path != older, other.lines) == (True, [])


def test_what_was_probed_is_there_again(question: TuneQuestion, line: ProbedRecord, tmp_path: Path) -> None:
    filled(question, line, tmp_path)
    again = Journal(question, folder=tmp_path)
    assert again.probed("screening", 0, "4 x 4") == line
    assert again.probed("final", 0, "4 x 4") is None
    assert again.notes == []


def test_another_gpu_driver_or_version_has_a_file_of_its_own(
    question: TuneQuestion, line: ProbedRecord, tmp_path: Path
) -> None:
    filled(question, line, tmp_path)
    for change in ({"driver": "590"}, {"torch": "2.14"}, {"nanodyno": "0.2.0"}, {"memory_limit_bytes": 12}):
        other = Journal(question.model_copy(update=change), folder=tmp_path)
        assert other.probed("screening", 0, "4 x 4") is None


def test_the_length_and_the_learning_rate_of_a_run_are_no_part_of_the_question(tunings: Any) -> None:
    assert settings_of(tunings.config()) == settings_of(tunings.config(max_iters=9, learning_rate=1e-3))
    assert settings_of(tunings.config()) != settings_of(tunings.config(n_layer=3))


def test_a_line_that_a_kill_cut_is_dropped_without_a_word(
    question: TuneQuestion, line: ProbedRecord, tmp_path: Path
) -> None:
    path = filled(question, line, tmp_path)
    whole = path.read_text()
    path.write_text(whole + line.model_dump_json()[:100])
    again = Journal(question, folder=tmp_path)
    again.append(line)
    again.close()
    assert again.notes == []
    assert path.read_text() == whole + line.model_dump_json() + "\n"


@pytest.mark.parametrize("foreign", ["", "no JSON\n", '{"format": "something else"}\n', "\udcff"])
def test_a_foreign_file_is_put_aside_and_reported(
    foreign: str, question: TuneQuestion, line: ProbedRecord, tmp_path: Path
) -> None:
    path = filled(question, line, tmp_path)
    path.write_bytes(foreign.encode(errors="surrogateescape"))
    again = Journal(question, folder=tmp_path)
    assert again.probed("screening", 0, "4 x 4") is None
    assert "put aside" in again.notes[0]
    again.append(line)
    again.close()
    assert Journal(question, folder=tmp_path).probed("screening", 0, "4 x 4") == line


def test_a_damaged_line_is_passed_over_and_reported(
    question: TuneQuestion, line: ProbedRecord, tmp_path: Path
) -> None:
    path = filled(question, line, tmp_path)
    first, second = path.read_text().splitlines()
    path.write_text("\n".join([first, json.dumps({"kind": "probed"}), second, ""]))
    again = Journal(question, folder=tmp_path)
    assert again.probed("screening", 0, "4 x 4") == line
    assert "damaged" in again.notes[0]


def test_measuring_again_forgets_what_was_there(
    question: TuneQuestion, line: ProbedRecord, tmp_path: Path
) -> None:
    filled(question, line, tmp_path)
    Journal(question, again=True, folder=tmp_path).close()
    assert Journal(question, folder=tmp_path).probed("screening", 0, "4 x 4") is None


def test_a_cache_that_cannot_be_written_is_reported_and_not_needed(
    question: TuneQuestion, line: ProbedRecord, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(question, folder=tmp_path / "file" / "below")
    journal.append(line)
    assert "cannot be written" in journal.notes[0]
    assert journal.probed("screening", 0, "4 x 4") == line
