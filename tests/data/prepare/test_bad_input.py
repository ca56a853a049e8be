"""Input and folders that are not as they should be: told, counted, and nothing lost."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanodyno.data.prepare.request import Choices, Destination, run_preparation
from nanodyno.data.shards import open_dataset
from nanodyno.data.tokenizers import BytesTokenizer
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.records.events import Message
from nanodyno.records.lock import FolderLock
from nanodyno.records.preparation import PreparationRecord

Prepare = Callable[..., PreparationRecord]
Digests = Callable[[Path], dict[str, str]]


def test_a_document_longer_than_a_shard_is_a_shard(tmp_path: Path, prepared: Prepare) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("ab", "c" * 5000, "d")))
    prepared(source, tmp_path / "out", val=0.0, shard_tokens=2)
    shards = json.loads((tmp_path / "out" / "manifest.json").read_text())["splits"]["train"]
    assert [shard["tokens"] for shard in shards] == [3, 5001, 2]


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"val": 0.1}, "val 0.2, not 0.1"),
        ({"tokens": 5}, "tokens null, not 5"),
        ({"dedup": False}, "dedup true, not false"),
        ({"train_bpe": 300}, 'tokenizer "bytes", not "bpe-300"'),
    ],
)
def test_a_folder_prepared_otherwise_is_refused(
    corpus: Path, tmp_path: Path, changes: dict[str, Any], reported: str, prepared: Prepare, digests: Digests
) -> None:
    prepared(corpus, tmp_path / "out")
    before = digests(tmp_path / "out")
    with pytest.raises(NanodynoError, match=f"was prepared with .*{reported}"):
        prepared(corpus, tmp_path / "out", **changes)
    assert digests(tmp_path / "out") == before


def test_a_folder_of_another_source_is_refused_and_the_same_files_elsewhere_are_not(
    corpus: Path, tmp_path: Path, prepared: Prepare
) -> None:
    prepared(corpus, tmp_path / "out")
    corpus.rename(tmp_path / "moved")
    assert prepared(tmp_path / "moved", tmp_path / "out").new_tokens == 0
    (tmp_path / "moved" / "9.txt").write_text("more")
    with pytest.raises(NanodynoError, match="was prepared with 4 input files, not 5"):
        prepared(tmp_path / "moved", tmp_path / "out")


def test_a_dataset_of_another_make_is_refused_and_left_alone(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.bin").write_bytes(b"ab")
    with pytest.raises(NanodynoError, match="holds a dataset that `nanodyno prepare` did not make"):
        prepared(corpus, tmp_path / "out")
    assert list(digests(tmp_path / "out")) == ["train.bin"]


def test_a_corrupt_input_stops_and_what_is_done_stays(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    sound = (corpus / "1.parquet").read_bytes()
    (corpus / "1.parquet").write_bytes(sound[:-8] + b"xxxxPAR1")
    with pytest.raises(NanodynoError, match=r"1\.parquet is a damaged parquet file") as caught:
        prepared(corpus, tmp_path / "out")
    assert "--skip-bad" in (caught.value.hint or "")
    with pytest.raises(NanodynoError, match="is not finished"):
        open_dataset(tmp_path / "out")
    (corpus / "1.parquet").write_bytes(sound)
    record = prepared(corpus, tmp_path / "out")
    assert 0 < record.new_tokens < record.train_tokens + record.val_tokens
    prepared(corpus, tmp_path / "whole")
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_a_cut_gzip_is_named_and_skipped_when_asked(corpus: Path, tmp_path: Path, prepared: Prepare) -> None:
    path = corpus / "3.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(NanodynoError, match=r"3\.jsonl\.gz cannot be read to its end"):
        prepared(corpus, tmp_path / "out")
    events: list[Any] = []
    choices = Choices("bytes", val=0.2, shard_tokens=3000, skip_bad=True)
    record = run_preparation(str(corpus), choices, Destination(tmp_path / "out", 1, events.append))
    assert [event.text for event in events if isinstance(event, Message)] == [
        f"passed over: {record.bad_inputs[0]}"
    ]
    assert len(record.bad_inputs) == 1
    assert record.bad_inputs[0].startswith("3.jsonl.gz cannot be read to its end")
    assert record.train_documents + record.val_documents >= 300


def test_broken_lines_and_invalid_utf8_are_counted(tmp_path: Path, prepared: Prepare) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(b'{"text": "good"}\nno json\n{"text": "caf\xe9"}\n{"text": ""}\n{"text": null}\n')
    with pytest.raises(NanodynoError, match=r"line 2 of a\.jsonl is not JSON"):
        prepared(source, tmp_path / "out", val=0.0)
    record = prepared(source, tmp_path / "out", val=0.0, skip_bad=True)
    assert (record.broken, record.invalid_utf8, record.empty) == (1, 1, 2)
    tokens = np.fromfile(tmp_path / "out" / "train-00000-000.bin", dtype="<u2")
    assert tokens.tolist() == [256, *b"good", 256, *"caf\N{REPLACEMENT CHARACTER}".encode()]


@pytest.mark.usefixtures("gpt2_files")
def test_the_end_of_text_spelled_out_stays_text(tmp_path: Path, prepared: Prepare) -> None:
    (tmp_path / "a.txt").write_text("a<|endoftext|>b")
    prepared(tmp_path / "a.txt", tmp_path / "out", tokenizer="gpt2", val=0.0)
    tokens = np.fromfile(tmp_path / "out" / "train-00000-000.bin", dtype="<u2")
    assert np.flatnonzero(tokens == 50256).tolist() == [0]


def test_a_large_vocabulary_is_uint32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepare
) -> None:

    monkeypatch.setattr(BytesTokenizer, "vocab_size", 2**16 + 1)
    monkeypatch.setattr(BytesTokenizer, "end_of_text", 2**16)
    (tmp_path / "a.txt").write_text("ab")
    assert prepared(tmp_path / "a.txt", tmp_path / "out", val=0.0).dtype == "uint32"
    tokens = np.fromfile(tmp_path / "out" / "train-00000-000.bin", dtype="<u4")
    assert tokens.tolist() == [2**16, ord("a"), ord("b")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_what_is_needed_and_leaves_what_is_done(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    prepared: Prepare,
    digests: Digests,
) -> None:
    out, sound, calls = tmp_path / "out", os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 8:
            raise OSError(number, os.strerror(number))
        sound(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunFailed, match=r"disk is full: .* about 0\.0 MiB more") as caught:
            prepared(corpus, out)
    assert caught.value.exit_code == 1
    assert list(out.glob("*.partial")) == []
    record = prepared(corpus, out)
    assert 0 < record.new_tokens < record.train_tokens + record.val_tokens
    prepared(corpus, tmp_path / "whole")
    assert digests(out) == digests(tmp_path / "whole")


@pytest.mark.parametrize(
    ("typed", "reported"), [("nowhere", "no file or folder nowhere"), ("x.pdf", "x.pdf is not")]
)
def test_a_source_that_is_none_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, reported: str, prepared: Prepare
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.pdf").write_bytes(b"")
    Path("empty").mkdir()
    for name, words in ((typed, reported), ("empty", "has no text files")):
        with pytest.raises(NanodynoError, match=words):
            prepared(name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_being_prepared_is_refused(
    corpus: Path, tmp_path: Path, prepared: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out" / "parts").mkdir(parents=True)
    other = FolderLock(tmp_path / "out" / "parts")
    monkeypatch.setattr("nanodyno.records.lock.PATIENCE_SECONDS", 0.1)
    with pytest.raises(NanodynoError, match="is being prepared by another process"):
        prepared(corpus, tmp_path / "out")
    other.release()
    prepared(corpus, tmp_path / "out")


def test_a_file_in_place_of_the_folder_is_not_advised_to_be_deleted(
    corpus: Path, tmp_path: Path, prepared: Prepare
) -> None:
    (tmp_path / "novel.txt").write_text("mine")
    for out in (tmp_path / "novel.txt", tmp_path / "novel.txt" / "out"):
        with pytest.raises(NanodynoError, match="stopped") as caught:
            prepared(corpus, out)
        assert "a file stands where a folder is needed" in (caught.value.hint or "")


def test_the_source_itself_is_not_filled(corpus: Path, prepared: Prepare, digests: Digests) -> None:
    before = digests(corpus)
    for source in (corpus, corpus / "0.parquet"):
        with pytest.raises(NanodynoError, match="is the folder of the source text"):
            prepared(source, corpus)
    assert digests(corpus) == before


def test_a_disk_full_from_the_start_is_reported(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepare
) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RunFailed, match="No space left on device") as caught:
        prepared(corpus, tmp_path / "out")
    assert "free some space" in (caught.value.hint or "")


def test_a_name_that_is_no_text_is_reported(tmp_path: Path, prepared: Prepare) -> None:
    (tmp_path / "texts").mkdir()
    try:
        Path(os.fsdecode(os.fsencode(tmp_path / "texts") + b"/\xff.txt")).write_text("a")
    except OSError:
        pytest.skip("this file system has names in Unicode only")
    with pytest.raises(NanodynoError, match="not Unicode text"):
        prepared(tmp_path / "texts", tmp_path / "out")


def test_a_path_of_a_file_that_is_not_there_is_not_asked_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepare
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NanodynoError, match=r"texts/a\.parquet"):
        prepared("texts/a.parquet", tmp_path / "out")
