"""What the system refuses is told with its own cause, and killed preparations leave nothing for ever."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.resolve import resolve_dataset, why_unopened
from nanodyno.data.shards import Dataset, open_dataset, verify
from nanodyno.data.tokenizers import get_tokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.errors import NanodynoError

BYTES = get_tokenizer("bytes")


def prepared(folder: Path) -> Dataset:
    splits = {"train": [CorpusDocument("one", "ab")], "val": [CorpusDocument("two", "c")]}
    return write_dataset(folder, BYTES, splits, {})


def failing(number: int) -> Iterator[CorpusDocument]:
    yield CorpusDocument("one", "ab")
    raise OSError(number, os.strerror(number), "somewhere")


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_name_of_300_characters_is_reported_to_be_no_dataset(tmp_path: Path) -> None:
    # Python 3.14 answers "no such folder" where earlier ones raise "File name too long".
    with pytest.raises(NanodynoError, match=r"File name too long|no dataset"):
        resolve_dataset("x" * 300, tmp_path, "bytes", None)
    with pytest.raises(NanodynoError, match=r"File name too long|no dataset"):
        open_dataset(tmp_path / ("x" * 300))


def test_a_data_folder_that_is_a_file_is_reported_and_nobody_is_sent_to_free_space(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("a file")
    with pytest.raises(NanodynoError, match=r"preparing .*python-bytes stopped.*Not a directory") as caught:
        resolve_dataset("python", data, "bytes", None)
    assert caught.value.exit_code == 2
    assert caught.value.hint == "a file stands where a folder is needed: choose another data folder"
    with pytest.raises(NanodynoError, match="no dataset 'tiny'"):
        resolve_dataset("tiny", data, "bytes", None)


@pytest.mark.parametrize(
    ("number", "exit_code", "hint"),
    [
        (errno.ENOSPC, 1, "free some space or choose another folder"),
        (errno.EACCES, 2, "see who may use somewhere, or choose another folder"),
        (errno.EIO, 1, "choose another folder"),
    ],
)
def test_the_hint_of_a_stopped_preparation_fits_its_cause(
    tmp_path: Path, number: int, exit_code: int, hint: str
) -> None:
    with pytest.raises(NanodynoError, match=os.strerror(number)) as caught:
        write_dataset(tmp_path / "tiny", BYTES, {"train": failing(number)}, {})
    assert (caught.value.exit_code, caught.value.hint) == (exit_code, hint)
    assert list((tmp_path / "tiny").iterdir()) == []


def test_a_file_that_may_not_be_read_is_reported_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Permissions do not bind root, under which tests may run: the refusal is made where files are opened.
    dataset = prepared(tmp_path / "tiny")

    def refused(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(NanodynoError, match=r"cannot read .*train\.bin: Permission denied"):
        verify(dataset)
    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(NanodynoError, match=r"cannot read .*manifest\.json: Permission denied"):
        open_dataset(tmp_path / "tiny")


def test_a_shard_gone_since_the_opening_is_reported_with_its_name(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "tiny")
    (tmp_path / "tiny" / "val.bin").unlink()
    with pytest.raises(NanodynoError, match=r"cannot read .*val\.bin: No such file"):
        dataset.split("val")


def test_a_preparation_removes_what_ended_ones_left_and_nothing_else(tmp_path: Path) -> None:
    folder, ended, alive = tmp_path / "tiny", ended_process(), os.getppid()
    folder.mkdir()
    for name in ("train.bin", "manifest.json"):
        for owner in (ended, alive, "notes"):
            (folder / f"{name}.{owner}.partial").write_text("")
    prepared(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [
            "manifest.json",
            "train.bin",
            "val.bin",
            *(
                f"{name}.{owner}.partial"
                for name in ("train.bin", "manifest.json")
                for owner in (alive, "notes")
            ),
        ]
    )


def test_half_moved_files_stay_interrupted_when_the_next_preparation_fails_too(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    prepared(folder)
    (folder / "manifest.json").rename(folder / f"manifest.json.{ended_process()}.partial")
    with pytest.raises(NanodynoError):
        write_dataset(folder, BYTES, {"train": failing(errno.EIO)}, {})
    with pytest.raises(NanodynoError, match="interrupted"):
        open_dataset(folder, vocab_size=257)
    prepared(folder)
    assert open_dataset(folder).tokens("train") == 3


def test_data_that_are_not_there_are_reported_from_data_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    for split in ("train", "val"):
        (tmp_path / "bare" / f"{split}.bin").write_bytes(bytes(2000))
    reported: dict[str, str] = {}
    for name in ("nowhere", "empty", "bare"):
        with pytest.raises(NanodynoError) as refused:
            resolve_dataset(name, tmp_path, "gpt2", None)
        reported[name] = why_unopened(name, refused.value)
    assert reported == {
        "nowhere": "dataset nowhere is not here",
        "empty": "dataset empty is not here",
        "bare": f"{tmp_path / 'bare'} does not report its vocabulary",
    }
