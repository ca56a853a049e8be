"""What judge remembers: whose it is, and what becomes of lines that are damaged or old."""

import json
from pathlib import Path
from typing import Any

import pytest

from checkups import build_machine
from nanodyno.config import RunConfig, build_config
from nanodyno.records.judging import JudgeJournal, JudgeMachine, TrainingLine, VerdictLine, verdicts

CONFIG = build_config({"n_layer": 1, "n_head": 1, "n_embd": 16})


def machine(**changes: Any) -> JudgeMachine:
    return JudgeMachine(machine=build_machine(**changes), torch="2.13", nanodyno="0")


def trained(loss: float, config: RunConfig = CONFIG, **changes: Any) -> TrainingLine:
    return TrainingLine(config=config, train_tokens=None, cost_seconds=1.0, val_loss=loss, **changes)


def verdict(at: float, candidate: str = "other") -> VerdictLine:
    return VerdictLine(
        at=at, base="base", candidate=candidate, changes={"n_layer": 2}, metric="val_loss", equal="time",
        minutes=5.0, call="keep", improvement=0.1, low=0.05, high=0.15, pairs=1, cost_seconds=300.0,
    )  # fmt: skip


def written(folder: Path, *lines: TrainingLine | VerdictLine, of: JudgeMachine | None = None) -> Path:
    journal = JudgeJournal(of or machine(), folder=folder)
    for line in lines:
        journal.keep(line)
    journal.close()
    return journal.path


def read(folder: Path, of: JudgeMachine | None = None) -> JudgeJournal:
    journal = JudgeJournal(of or machine(), folder=folder)
    journal.close()
    return journal


def loss_in(journal: JudgeJournal, config: RunConfig = CONFIG) -> float | None:
    found = journal.trained(config, None)
    return found and found.val_loss


def test_a_training_is_known_by_its_settings_and_its_data(tmp_path: Path) -> None:
    written(tmp_path, trained(4.0))
    journal = read(tmp_path)
    assert loss_in(journal) == 4.0
    assert loss_in(journal, CONFIG.model_copy(update={"seed": 5})) is None
    assert journal.trained(CONFIG, 1000) is None


def test_trainings_of_another_machine_or_version_are_not_reused_and_verdicts_are_shown(
    tmp_path: Path,
) -> None:
    written(tmp_path, trained(4.0), verdict(2.0, "later"))
    others = [machine(cpu_name="another CPU"), machine().model_copy(update={"nanodyno": "1"})]
    for other in others:
        assert loss_in(read(tmp_path, other)) is None
    written(tmp_path, verdict(1.0, "earlier"), of=others[0])
    assert [each.candidate for each in verdicts(tmp_path)] == ["earlier", "later"]


def test_trained_again_the_later_counts_and_again_leaves_all_in_the_file(tmp_path: Path) -> None:
    written(tmp_path, trained(4.0), trained(3.9))
    assert loss_in(read(tmp_path)) == 3.9
    again = JudgeJournal(machine(), again=True, folder=tmp_path)
    assert loss_in(again) is None
    again.keep(trained(3.8))
    again.close()
    assert loss_in(read(tmp_path)) == 3.8
    assert len(read(tmp_path).lines) == 3


def test_one_that_was_stopped_is_remembered_with_the_loss_of_its_base(tmp_path: Path) -> None:
    line = trained(4.0).model_copy(
        update={"val_loss": None, "stopped_at_iteration": 50, "stopped_beside": 3.5}
    )
    written(tmp_path, line)
    assert read(tmp_path).trained(CONFIG, None) == line


@pytest.mark.parametrize("damage", ["{", "\x00\x00", '{"kind":"trained"}', '{"kind":"other"}', "[]", ""])
def test_a_damaged_line_is_passed_over_with_a_note(damage: str, tmp_path: Path) -> None:
    path = written(tmp_path, trained(4.0), verdict(1.0))
    head, *lines = path.read_text().splitlines(keepends=True)
    path.write_text(head + damage + "\n" + "".join(lines))
    journal = read(tmp_path)
    assert loss_in(journal) == 4.0
    assert [str(path) in note for note in journal.notes] == [True]
    assert len(verdicts(tmp_path)) == 1


def test_a_line_that_a_kill_cut_short_is_dropped_and_the_next_begins_on_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, trained(4.0), verdict(1.0))
    path.write_bytes(path.read_bytes()[:-20])
    assert verdicts(tmp_path) == []
    written(tmp_path, verdict(2.0))
    assert [each.at for each in verdicts(tmp_path)] == [2.0]
    assert loss_in(read(tmp_path)) == 4.0


def test_a_line_of_an_older_version_lacks_settings_and_values_that_came_later(tmp_path: Path) -> None:
    path = written(tmp_path, trained(4.0, tokens_per_second=1.0, train_loss=4.1))
    head, line = path.read_text().splitlines(keepends=True)
    old = json.loads(line)
    del old["train_loss"], old["config"]["threads"]
    path.write_text(head + json.dumps(old) + "\n")
    journal = read(tmp_path)
    assert (loss_in(journal), journal.notes) == (4.0, [])


@pytest.mark.parametrize("content", ["", "not ours\n", '{"format":"nanodyno-tune"}\n'])
def test_a_file_that_is_not_ours_is_put_aside(content: str, tmp_path: Path) -> None:
    path = written(tmp_path, trained(4.0))
    path.write_text(content)
    assert loss_in(read(tmp_path)) is None
    written(tmp_path, trained(3.0))
    assert loss_in(read(tmp_path)) == 3.0


def test_a_folder_that_cannot_be_read_or_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = read(tmp_path / "file" / "judge")
    assert "nothing is kept" in journal.notes[0]
    (tmp_path / "judge" / "folder.jsonl").mkdir(parents=True)
    assert verdicts(tmp_path / "judge") == []
    assert verdicts(tmp_path / "nowhere") == []
