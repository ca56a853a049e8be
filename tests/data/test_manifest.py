"""A manifest that says nonsense is refused by its name and by the field that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.shards import open_dataset
from nanodyno.data.tokenizers import get_tokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.errors import NanodynoError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    splits = {"train": [CorpusDocument("one", "ab")], "val": [CorpusDocument("two", "c")]}
    return write_dataset(tmp_path / "tiny", get_tokenizer("bytes"), splits, {}).folder


def reported(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def tell(folder: Path, manifest: object) -> None:
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tokenizer", 5),
        ("tokenizer", ""),
        ("vocab_size", 0),
        ("vocab_size", -5),
        ("vocab_size", "many"),
        ("vocab_size", True),
        ("vocab_size", 2**32 + 1),
        ("end_of_text", -1),
        ("end_of_text", 257),
        ("dtype", "float8"),
        ("dtype", []),
        ("source", 3),
        ("splits", 3),
        ("splits", {"train": 3}),
        ("colour", "red"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(folder: Path, field: str, value: object) -> None:
    tell(folder, reported(folder) | {field: value})
    with pytest.raises(NanodynoError, match=rf"manifest\.json is damaged: .*{field}"):
        open_dataset(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tokens", -1),
        ("tokens", 0),
        ("tokens", 1.5),
        ("tokens", 2**63),
        ("documents", -1),
        ("sha256", 5),
        ("sha256", ""),
        ("sha256", "Z" * 64),
        ("file", 5),
        ("file", ""),
        ("file", ".."),
        ("file", "../train.bin"),
        ("file", "/etc/passwd"),
        ("file", "a\\b.bin"),
        ("file", "C:train.bin"),
        ("file", "train.bin\n"),
        ("file", "train\0.bin"),
    ],
)
def test_a_wrong_field_of_a_shard_is_named(folder: Path, field: str, value: object) -> None:
    manifest = reported(folder)
    manifest["splits"]["train"][0][field] = value
    tell(folder, manifest)
    with pytest.raises(NanodynoError, match=rf"manifest\.json is damaged: splits\.train\.0\.{field}: "):
        open_dataset(folder)


def test_a_number_beyond_all_numbers_is_no_vocabulary(folder: Path) -> None:
    text = (folder / "manifest.json").read_text().replace('"vocab_size": 257', '"vocab_size": 1e999')
    (folder / "manifest.json").write_text(text)
    with pytest.raises(NanodynoError, match=r"manifest\.json is damaged: vocab_size: "):
        open_dataset(folder)


@pytest.mark.parametrize("field", ["tokenizer", "vocab_size", "end_of_text", "dtype", "source", "splits"])
def test_a_missing_field_is_named(folder: Path, field: str) -> None:
    manifest = reported(folder)
    del manifest[field]
    tell(folder, manifest)
    with pytest.raises(NanodynoError, match=rf"manifest\.json is damaged: {field}: Field required"):
        open_dataset(folder)


def test_json_nested_too_deep_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(NanodynoError, match=r"manifest\.json is not JSON"):
        open_dataset(folder)
