"""Shards of llm.c and files of nanoGPT are written as their programs read them, and read back the same."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from nanodyno.data.binformats import is_llmc, llmc_file, llmc_splits, read_llmc, write_llmc, write_nanogpt
from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.shards import Dataset, open_dataset
from nanodyno.data.tokenizers import BytesTokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.errors import NanodynoError, RunFailed

TRAIN = [256, *b"abc", 256, *b"de"]
VAL = [256, *b"xyz"]


class LargeVocabulary(BytesTokenizer):
    vocab_size = 70_000


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return prepared(tmp_path, BytesTokenizer())


def prepared(folder: Path, tokenizer: BytesTokenizer) -> Dataset:
    splits = {
        "train": [CorpusDocument("1", "abc"), CorpusDocument("2", "de")],
        "val": [CorpusDocument("3", "xyz")],
    }
    return write_dataset(folder / "tiny", tokenizer, splits, {})


def shard(tokens: list[int], magic: int = 20240520, version: int = 1, count: int | None = None) -> bytes:
    """A shard as llm.c's documentation has it, put together by hand."""
    reported = len(tokens) if count is None else count
    return struct.pack("<256i", magic, version, reported, *[0] * 253) + struct.pack(
        f"<{len(tokens)}H", *tokens
    )


def test_llmc_shards_have_its_header_and_are_cut_at_the_same_length(dataset: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = ["tiny_val_000000.bin", "tiny_train_000001.bin", "tiny_train_000002.bin"]
    assert write_llmc(dataset, out, shard_tokens=4) == [out / name for name in names]
    contents = [(out / name).read_bytes() for name in names]
    assert contents == [shard(VAL), shard(TRAIN[:4]), shard(TRAIN[4:])]
    assert sorted(path.name for path in out.iterdir()) == sorted(names)


def test_what_was_written_for_llmc_is_read_back_by_split_and_in_order(
    dataset: Dataset, tmp_path: Path
) -> None:
    write_llmc(dataset, tmp_path / "out", shard_tokens=4)
    (tmp_path / "out" / "notes_train_x.bin").write_bytes(b"no shard")
    splits = llmc_splits(tmp_path / "out")
    assert {split: [file.tokens for file in files] for split, files in splits.items()} == {
        "val": [4],
        "train": [4, 3],
    }
    tokens = {
        split: np.concatenate([read_llmc(file.path) for file in files]) for split, files in splits.items()
    }
    assert tokens["train"].tolist() == TRAIN
    assert tokens["val"].tolist() == VAL


def test_shards_of_llmc_are_a_dataset_like_any_other(dataset: Dataset, tmp_path: Path) -> None:
    write_llmc(dataset, tmp_path / "out", shard_tokens=4)
    opened = open_dataset(tmp_path / "out", vocab_size=257)
    assert [tokens.tolist() for tokens in opened.split("train")] == [TRAIN[:4], TRAIN[4:]]
    assert [tokens.tolist() for tokens in opened.split("val")] == [VAL]


def test_a_vocabulary_beyond_uint16_is_written_as_llmc_writes_llama_3(tmp_path: Path) -> None:
    [val, train] = write_llmc(prepared(tmp_path, LargeVocabulary()), tmp_path / "out")
    assert train.read_bytes() == struct.pack("<256i", 20240801, 7, 7, *[0] * 253) + struct.pack("<7I", *TRAIN)
    assert read_llmc(val).tolist() == VAL
    assert llmc_file(val).dtype == "uint32"


def test_nanogpts_files_are_the_tokens_and_nothing_else(dataset: Dataset, tmp_path: Path) -> None:
    paths = write_nanogpt(dataset, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in paths} == {
        "train.bin": struct.pack("<7H", *TRAIN),
        "val.bin": struct.pack("<4H", *VAL),
    }
    again = open_dataset(tmp_path / "out", vocab_size=257)
    assert again.split("train")[0].tolist() == TRAIN


def test_a_dataset_of_several_shards_becomes_one_file_for_nanogpt(dataset: Dataset, tmp_path: Path) -> None:
    shards = (*dataset.splits["train"], *dataset.splits["val"])
    joined = Dataset(**{**vars(dataset), "splits": {"train": shards, "val": dataset.splits["val"]}})
    train, _ = write_nanogpt(joined, tmp_path / "out")
    assert np.fromfile(train, np.uint16).tolist() == TRAIN + VAL
    assert [read_llmc(path).tolist() for path in write_llmc(joined, tmp_path / "llmc", 5)] == [
        VAL,
        TRAIN[:5],
        TRAIN[5:] + VAL[:3],
        VAL[3:],
    ]


def test_nanogpt_has_no_room_for_a_vocabulary_beyond_uint16(tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match="hold uint16 and tiny has a vocabulary of 70000"):
        write_nanogpt(prepared(tmp_path, LargeVocabulary()), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has 0 bytes, less than the header"),
        (shard([1, 2])[:1000], "has 1000 bytes, less than the header"),
        (shard([1, 2], magic=20240522), "its magic number is 20240522"),
        (shard([1, 2], version=2), "of version 2; .* version 1"),
        (shard([1, 2, 3])[:-1], r"3 tokens, but 1,029 bytes of uint16 .* 2\.5"),
        (shard([1, 2, 3], count=4), r"4 tokens, .* 3\.0"),
        (shard([1, 2, 3], count=2), r"2 tokens, .* 3\.0"),
        (shard([], count=-1), " -1 tokens"),
        (shard([]), " 0 tokens"),
    ],
)
def test_a_shard_that_is_not_sound_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "fineweb_train_000001.bin"
    path.write_bytes(content)
    with pytest.raises(NanodynoError, match=rf"fineweb_train_000001\.bin .*{message}"):
        read_llmc(path)


def test_a_folder_of_two_kinds_of_shards_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    write_llmc(dataset, tmp_path / "out")
    write_llmc(prepared(tmp_path / "b", LargeVocabulary()), tmp_path / "b" / "out")
    (tmp_path / "b/out/tiny_train_000001.bin").rename(tmp_path / "out/tiny_train_000002.bin")
    with pytest.raises(NanodynoError, match=r"tiny_train_000002\.bin holds uint32 .* uint16"):
        llmc_splits(tmp_path / "out")


def test_files_of_nanogpt_are_not_taken_for_shards_of_llmc(dataset: Dataset, tmp_path: Path) -> None:
    train, _ = write_nanogpt(dataset, tmp_path / "out")
    assert not is_llmc(train)
    assert llmc_splits(tmp_path / "out") == {}


def test_the_dataset_itself_is_never_written_over(dataset: Dataset) -> None:
    before = (dataset.folder / "train.bin").read_bytes()
    with pytest.raises(NanodynoError, match="holds the dataset itself"):
        write_nanogpt(dataset, dataset.folder / ".." / "tiny")
    assert (dataset.folder / "train.bin").read_bytes() == before


def test_a_file_in_the_place_of_the_folder_is_the_users_to_move(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(NanodynoError, match="cannot write to") as caught:
        write_llmc(dataset, tmp_path / "out")
    assert not isinstance(caught.value, RunFailed)


def test_a_copy_that_fails_leaves_what_was_there(dataset: Dataset, tmp_path: Path) -> None:
    """val comes first for llm.c; a folder in the place of train's partial file stops it after that."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "tiny_val_000000.bin").write_bytes(b"older")
    (out / f"tiny_train_000001.bin.{os.getpid()}.partial").mkdir()
    with pytest.raises(RunFailed, match=r"cannot write .*tiny_train_000001\.bin"):
        write_llmc(dataset, out)
    assert (out / "tiny_val_000000.bin").read_bytes() == b"older"
