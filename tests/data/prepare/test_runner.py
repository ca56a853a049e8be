"""What a preparation writes, and that nothing but the source and the plan decides it."""

import hashlib
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanodyno.data.prepare.request import Choices, Destination, run_preparation
from nanodyno.data.shards import Dataset, open_dataset
from nanodyno.data.tokenizers import open_tokenizer
from nanodyno.records.preparation import PreparationProgress, PreparationRecord, PreparationStarted

Prepare = Callable[..., PreparationRecord]
Digests = Callable[[Path], dict[str, str]]


def texts_of(dataset: Dataset, split: str) -> list[str]:
    found: list[str] = []
    for tokens in dataset.split(split):
        assert tokens[0] == 256
        starts = [*np.flatnonzero(tokens == 256).tolist(), len(tokens)]
        found += [bytes(tokens[a + 1 : b].astype(np.uint8)).decode() for a, b in pairwise(starts)]
    return found


def test_every_document_comes_once_in_order_in_the_split_of_its_hash(
    corpus: Path, tmp_path: Path, prepared: Prepare, texts: list[str]
) -> None:
    record = prepared(corpus, tmp_path / "out")
    dataset = open_dataset(tmp_path / "out")

    def is_val(text: str) -> bool:
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return int.from_bytes(digest[:8], "big") < 0.2 * 2**64

    assert texts_of(dataset, "val") == [text for text in texts if is_val(text)]
    assert texts_of(dataset, "train") == [text for text in texts if not is_val(text)]
    assert record.duplicates == 5
    assert record.train_documents + record.val_documents == 400
    assert record.train_tokens + record.val_tokens == 400 + sum(map(len, texts))


def test_a_shard_belongs_to_one_input_and_the_manifest_says_all_of_it(
    corpus: Path, tmp_path: Path, prepared: Prepare
) -> None:
    prepared(corpus, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    shards = [shard for several in manifest["splits"].values() for shard in several]
    assert {shard["input"] for shard in shards} == {"0.parquet", "1.parquet", "2.parquet", "3.jsonl.gz"}
    for shard in shards:
        content = (tmp_path / "out" / shard["file"]).read_bytes()
        assert shard["sha256"] == hashlib.sha256(content).hexdigest()
        assert shard["tokens"] * 2 == len(content)
    assert manifest["tokenizer"] == "bytes"
    assert len(manifest["tokenizer_sha256"]) == 64
    assert manifest["source"]["duplicates"] == 5
    assert [given["name"] for given in manifest["source"]["inputs"]] == [
        "0.parquet",
        "1.parquet",
        "2.parquet",
        "3.jsonl.gz",
    ]
    assert f"below {int(0.2 * 2**64)}" in manifest["val_rule"]


def test_the_bytes_are_the_same_for_any_number_of_workers(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    for workers in (1, 2, 5):
        prepared(corpus, tmp_path / str(workers), workers=workers)
    assert digests(tmp_path / "1") == digests(tmp_path / "2") == digests(tmp_path / "5")


def test_a_shard_ends_with_the_document_that_fills_it(
    corpus: Path, tmp_path: Path, prepared: Prepare, texts: list[str]
) -> None:
    prepared(corpus, tmp_path / "out", val=0.0, shard_tokens=1000, dedup=False)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    first = [shard for shard in manifest["splits"]["train"] if shard["input"] == "0.parquet"]
    expected, filled = [], 0
    for text in texts[:100]:
        filled += 1 + len(text)
        if filled >= 1000:
            expected.append(filled)
            filled = 0
    assert [shard["tokens"] for shard in first] == [*expected, filled]


@pytest.mark.parametrize("workers", [1, 3])
def test_tokens_end_after_the_document_that_reaches_them(
    corpus: Path, tmp_path: Path, workers: int, prepared: Prepare, texts: list[str]
) -> None:
    lengths = np.cumsum([1 + len(text) for text in texts])
    for wanted, documents in ((int(lengths[149]), 150), (int(lengths[149]) + 1, 151), (1, 1)):
        out = tmp_path / str(wanted)
        record = prepared(corpus, out, workers, val=0.0, tokens=wanted)
        assert (record.train_documents, record.train_tokens) == (documents, lengths[documents - 1])
        assert record.new_tokens == record.train_tokens


def test_more_tokens_than_there_are_take_all(corpus: Path, tmp_path: Path, prepared: Prepare) -> None:
    assert prepared(corpus, tmp_path / "out", tokens=10**9).duplicates == 5


def test_the_same_command_again_finds_all_done(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    prepared(corpus, tmp_path / "out")
    before = digests(tmp_path / "out")
    assert prepared(corpus, tmp_path / "out").new_tokens == 0
    assert digests(tmp_path / "out") == before


def test_small_text_files_share_a_shard_and_blank_lines_part_documents(
    tmp_path: Path, prepared: Prepare
) -> None:
    source = tmp_path / "texts"
    (source / "inner").mkdir(parents=True)
    (source / ".hidden").mkdir()
    (source / "b.txt").write_text("two\n\nthree")
    (source / "a.txt").write_text("one")
    (source / "inner" / "c.txt").write_text("four")
    (source / "inner" / "c.md").write_text("not read")
    (source / ".hidden" / "d.txt").write_text("not read")
    prepared(source, tmp_path / "files", val=0.0)
    tokens = np.fromfile(tmp_path / "files" / "train-00000-000.bin", dtype="<u2")
    assert tokens.tolist() == [256, *b"one", 256, *b"two\n\nthree", 256, *b"four"]
    events: list[Any] = []
    choices = Choices("bytes", val=0.0, split="blank-lines")
    run_preparation(str(source), choices, Destination(tmp_path / "blank", 1, events.append))
    assert events[0].inputs == 3  # files, as a person counts them
    tokens = np.fromfile(tmp_path / "blank" / "train-00000-000.bin", dtype="<u2")
    assert tokens.tolist() == [256, *b"one", 256, *b"two", 256, *b"three", 256, *b"four"]


def test_progress_tells_of_all_tokens_and_ends_at_one(corpus: Path, tmp_path: Path) -> None:
    events: list[Any] = []
    record = run_preparation(
        str(corpus), Choices("bytes", val=0.2), Destination(tmp_path / "out", 2, events.append)
    )
    assert isinstance(events[0], PreparationStarted)
    assert (events[0].inputs, events[0].done_tokens) == (4, 0)
    progress = [event for event in events if isinstance(event, PreparationProgress)]
    assert progress[-1].tokens == record.train_tokens + record.val_tokens
    assert progress[-1].fraction == pytest.approx(1.0)
    assert all(a.fraction <= b.fraction for a, b in pairwise(progress))


def test_a_tokenizer_trained_on_the_corpus_lies_beside_the_shards(
    corpus: Path, tmp_path: Path, prepared: Prepare, texts: list[str]
) -> None:

    record = prepared(corpus, tmp_path / "out", train_bpe=300)
    assert record.tokenizer == "bpe-300"
    tokenizer = open_tokenizer("bpe-300", tmp_path / "out")
    tokens = np.fromfile(tmp_path / "out" / "train-00000-000.bin", dtype="<u2")
    first = tokens[1 : np.flatnonzero(tokens == tokenizer.end_of_text)[1]]
    assert tokenizer.decode(first.tolist()) in texts
    assert prepared(corpus, tmp_path / "out", train_bpe=300).new_tokens == 0
