"""A second try after one that did not end, or that made something else."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nanodyno.data.prepare.pipeline import BatchWritten, FillJob, Gap, fill
from nanodyno.data.prepare.request import Choices, Destination, run_preparation
from nanodyno.errors import NanodynoError
from nanodyno.records.preparation import PreparationRecord

Prepare = Callable[..., PreparationRecord]
Digests = Callable[[Path], dict[str, str]]


def test_a_tokenizer_of_another_size_is_refused_before_it_replaces_the_folders_own(
    corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    prepared(corpus, tmp_path / "out", train_bpe=300)
    before = digests(tmp_path / "out")
    with pytest.raises(NanodynoError, match=r'tokenizer "bpe-300", not "bpe-310"$'):
        prepared(corpus, tmp_path / "out", train_bpe=310)
    assert digests(tmp_path / "out") == before


def test_another_tokenizer_is_reported_by_its_name_alone(
    corpus: Path, tmp_path: Path, prepared: Prepare
) -> None:
    prepared(corpus, tmp_path / "out", train_bpe=300)
    with pytest.raises(NanodynoError, match=r'was prepared with tokenizer "bpe-300", not "bytes"$'):
        prepared(corpus, tmp_path / "out")


def test_settings_of_which_nothing_came_bind_nobody(tmp_path: Path, prepared: Prepare) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"content": "b"}\n{"content": "b"}\n')
    with pytest.raises(NanodynoError, match="it has: content"):
        prepared(source, tmp_path / "out", val=0.0)
    record = prepared(source, tmp_path / "out", val=0.0, text_column="content")
    assert (record.train_documents, record.duplicates) == (1, 1)


def test_what_was_seen_under_settings_of_which_nothing_came_is_forgotten(
    tmp_path: Path, prepared: Prepare
) -> None:
    source = tmp_path / "a.jsonl"
    rows = [{"a": "same", "b": "other"}, {"a": "one", "b": "same"}]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no json\n")
    with pytest.raises(NanodynoError, match="line 3"):
        prepared(source, tmp_path / "out", val=0.0, text_column="a")
    record = prepared(source, tmp_path / "out", val=0.0, text_column="b", skip_bad=True)
    assert (record.train_documents, record.duplicates) == (2, 0)


def test_nothing_in_val_says_what_to_change_and_the_folder_takes_the_change(
    tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    source, out = tmp_path / "a.txt", tmp_path / "out"
    source.write_text("\n\n".join(f"paragraph {number}" for number in range(40)))
    with pytest.raises(NanodynoError, match="the val split") as caught:
        prepared(source, out, val=0.0001)
    assert caught.value.hint == "there is one document: --split blank-lines makes one of every paragraph"
    assert list(out.glob("*.bin")) == []
    prepared(source, out, split="blank-lines")
    prepared(source, tmp_path / "whole", split="blank-lines")
    assert digests(out) == digests(tmp_path / "whole")


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        (1, "there is one document: a second one is needed"),
        (3, "there are 3 documents: raise --val, which is 1e-09"),
    ],
)
def test_the_way_out_of_an_empty_split_is_one_that_there_is(
    rows: int, hint: str, tmp_path: Path, prepared: Prepare
) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"text": str(number)}) + "\n" for number in range(rows)))
    with pytest.raises(NanodynoError, match="the val split") as caught:
        prepared(source, tmp_path / "out", val=1e-9)
    assert caught.value.hint == hint


@pytest.mark.parametrize("stops_after", range(1, 20, 2))
def test_parts_that_a_cluster_made_out_of_order_do_not_move_the_end_of_tokens(
    stops_after: int, corpus: Path, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    """A cluster that is stopped has parts of later inputs, and does not mind where the tokens end."""

    def scattered(job: FillJob, gaps: list[Gap], _: int) -> Iterator[BatchWritten]:
        steps = fill(job, [replace(gap, is_tail=False) for gap in (*gaps[1::-1], *gaps[2:])], 0)
        parts = 0
        for step in steps:
            yield step
            parts += len(step.finished)
            if parts >= stops_after:
                raise KeyboardInterrupt

    choices = Choices("bytes", val=0.2, shard_tokens=500, dedup=False, tokens=7000)
    with pytest.raises(KeyboardInterrupt):
        run_preparation(str(corpus), choices, Destination(tmp_path / "out", 1, lambda _: None, scattered))
    settings = {"shard_tokens": 500, "dedup": False, "tokens": 7000}
    prepared(corpus, tmp_path / "out", **settings)
    prepared(corpus, tmp_path / "whole", **settings)
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.mark.parametrize("stops_after", [1, 2, 3])
def test_rows_left_out_between_two_parts_are_counted_once_however_often_it_stops(
    stops_after: int, tmp_path: Path, prepared: Prepare, digests: Digests
) -> None:
    source = tmp_path / "a.jsonl"
    texts = ["one", "", "one", "two", None, "", "three", "two", "four", ""]
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    out, settings = tmp_path / "out", {"shard_tokens": 2, "val": 0.0}
    whole = prepared(source, tmp_path / "whole", **settings)
    assert (whole.empty, whole.duplicates, whole.train_documents) == (4, 2, 4)
    prepared(source, out, **settings)
    (out / "manifest.json").unlink()
    for part in range(stops_after, 4):
        (out / "parts" / f"00000-{part:03}.json").unlink()
    prepared(source, out, **settings)
    assert digests(out) == digests(tmp_path / "whole")
