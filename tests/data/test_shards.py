"""A dataset on disk is what its manifest says, or it is refused by name."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nanodyno.data.binformats import write_llmc
from nanodyno.data.corpus import CorpusDocument
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.shards import Dataset, datasets_in, open_dataset, verify
from nanodyno.data.tokenizers import BytesTokenizer, get_tokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.errors import NanodynoError

BYTES = get_tokenizer("bytes")


def documents(*texts: str) -> list[CorpusDocument]:
    return [CorpusDocument(f"text {number}", text) for number, text in enumerate(texts)]


def small_dataset(folder: Path) -> Dataset:
    splits = {"train": documents("ab", "c"), "val": documents("d")}
    return write_dataset(folder, BYTES, splits, {"made by": "a test"})


def edit_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def nanogpt_folder(folder: Path, train: bytes = b"\1\0\2\0", val: bytes = b"\3\0") -> Path:
    folder.mkdir()
    (folder / "train.bin").write_bytes(train)
    (folder / "val.bin").write_bytes(val)
    return folder


def test_every_document_is_preceded_by_an_end_of_text(tmp_path: Path) -> None:
    small_dataset(tmp_path / "tiny")
    dataset = open_dataset(tmp_path / "tiny")
    assert dataset.split("train")[0].tolist() == [256, 97, 98, 256, 99]
    assert dataset.split("val")[0].tolist() == [256, 100]
    assert (dataset.tokenizer, dataset.vocab_size, dataset.end_of_text) == ("bytes", 257, 256)
    assert dataset.tokens("train") == 5


def test_the_files_are_headerless_uint16_that_nanogpt_reads(tmp_path: Path) -> None:
    small_dataset(tmp_path / "tiny")
    raw = (tmp_path / "tiny" / "val.bin").read_bytes()
    assert raw == b"\x00\x01\x64\x00"
    manifest = json.loads((tmp_path / "tiny" / "manifest.json").read_text())
    assert manifest["splits"]["val"] == [
        {"file": "val.bin", "tokens": 2, "documents": 1, "sha256": hashlib.sha256(raw).hexdigest()}
    ]


def test_a_vocabulary_beyond_65536_takes_four_bytes_a_token(tmp_path: Path) -> None:
    class Wide(BytesTokenizer):
        name = "wide"
        vocab_size = 70000
        end_of_text = 69999

        def encode(self, text: str) -> np.ndarray:
            return np.array([len(text)])

    write_dataset(tmp_path / "wide", Wide(), {"train": documents("ab"), "val": documents("c")}, {})
    assert (tmp_path / "wide" / "train.bin").stat().st_size == 8
    assert open_dataset(tmp_path / "wide").split("train")[0].tolist() == [69999, 2]


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    one, same = small_dataset(tmp_path / "one"), small_dataset(tmp_path / "same")
    splits = {"train": documents("ab", "x"), "val": documents("d")}
    other = write_dataset(tmp_path / "other", BYTES, splits, {"made by": "a test"})
    assert one.fingerprint == same.fingerprint == open_dataset(tmp_path / "one").fingerprint
    assert one.fingerprint != other.fingerprint


def test_a_killed_preparation_leaves_no_dataset(tmp_path: Path) -> None:
    def killed() -> Iterator[CorpusDocument]:
        yield from documents("ab")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_dataset(tmp_path / "tiny", BYTES, {"train": documents("ab"), "val": killed()}, {})
    assert list((tmp_path / "tiny").iterdir()) == []
    with pytest.raises(NanodynoError, match="no dataset in"):
        open_dataset(tmp_path / "tiny")


def test_a_killed_second_preparation_leaves_the_first_one_whole(tmp_path: Path) -> None:
    def killed() -> Iterator[CorpusDocument]:
        yield from documents("zzz")
        raise KeyboardInterrupt

    first = small_dataset(tmp_path / "tiny")
    with pytest.raises(KeyboardInterrupt):
        write_dataset(tmp_path / "tiny", BYTES, {"train": killed(), "val": documents("d")}, {})
    assert open_dataset(tmp_path / "tiny") == first


def test_a_preparation_killed_while_files_were_moved_is_not_taken_for_nanogpts(tmp_path: Path) -> None:
    folder = nanogpt_folder(tmp_path / "half")
    (folder / "manifest.json.4711.partial").write_text("{}")
    with pytest.raises(NanodynoError, match="interrupted"):
        open_dataset(folder, vocab_size=257)


def test_a_split_without_documents_is_refused_before_anything_is_replaced(tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match="no documents for val"):
        write_dataset(tmp_path / "tiny", BYTES, {"train": documents("ab"), "val": []}, {})
    assert list((tmp_path / "tiny").iterdir()) == []


def test_a_truncated_shard_is_refused_with_its_name_and_sizes(tmp_path: Path) -> None:
    small_dataset(tmp_path / "tiny")
    path = tmp_path / "tiny" / "train.bin"
    path.write_bytes(path.read_bytes()[:7])
    with pytest.raises(NanodynoError, match=r"train\.bin should have 10 bytes \(5 tokens\) but has 7"):
        open_dataset(tmp_path / "tiny")


def test_a_missing_shard_is_refused_with_its_name(tmp_path: Path) -> None:
    small_dataset(tmp_path / "tiny")
    (tmp_path / "tiny" / "val.bin").unlink()
    with pytest.raises(NanodynoError, match=r"val\.bin is missing"):
        open_dataset(tmp_path / "tiny")


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    dataset = small_dataset(tmp_path / "tiny")
    path = tmp_path / "tiny" / "train.bin"
    verify(dataset)
    path.write_bytes(b"\x01" + path.read_bytes()[1:])
    with pytest.raises(NanodynoError, match=r"train\.bin has changed"):
        verify(dataset)
    with pytest.raises(NanodynoError, match=r"train\.bin has changed"):
        open_dataset(tmp_path / "tiny")


def test_a_model_with_fewer_tokens_than_the_dataset_is_refused(tmp_path: Path) -> None:
    small_dataset(tmp_path / "tiny")
    assert open_dataset(tmp_path / "tiny", vocab_size=320).vocab_size == 257
    with pytest.raises(NanodynoError, match=r"vocabulary of 257 \(bytes\), more than vocab_size=256"):
        open_dataset(tmp_path / "tiny", vocab_size=256)


def test_a_manifest_of_a_later_version_is_refused(tmp_path: Path) -> None:
    small_dataset(tmp_path / "tiny")
    edit_manifest(tmp_path / "tiny", version=2)
    with pytest.raises(NanodynoError, match="version 2"):
        open_dataset(tmp_path / "tiny")


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    small_dataset(tmp_path / "tiny")
    (tmp_path / "tiny" / "manifest.json").write_text(text)
    with pytest.raises(NanodynoError, match=r"manifest\.json is not"):
        open_dataset(tmp_path / "tiny")


def test_a_dataset_without_val_is_refused(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tiny", BYTES, {"train": documents("ab")}, {})
    with pytest.raises(NanodynoError, match="no val tokens"):
        open_dataset(tmp_path / "tiny")


def test_nanogpts_files_are_read_as_they_are(tmp_path: Path) -> None:
    dataset = open_dataset(nanogpt_folder(tmp_path / "shakespeare"), vocab_size=65)
    assert dataset.split("train")[0].tolist() == [1, 2]
    assert dataset.split("val")[0].tolist() == [3]
    assert (dataset.tokenizer, dataset.vocab_size, dataset.end_of_text) == (None, 65, None)
    longer = open_dataset(nanogpt_folder(tmp_path / "longer", train=b"\1\0\2\0\3\0"), vocab_size=65)
    assert dataset.fingerprint != longer.fingerprint


def test_nanogpts_files_need_vocab_size_and_meta_pkl_is_never_unpickled(tmp_path: Path) -> None:
    folder = nanogpt_folder(tmp_path / "hostile")
    loot = tmp_path / "loot"
    # A pickle of protocol 0 that would call os.mkdir(loot) when it is read.
    (folder / "meta.pkl").write_bytes(f"cos\nmkdir\n(V{loot}\ntR.".encode())
    with pytest.raises(NanodynoError, match="does not report its vocabulary") as caught:
        open_dataset(folder)
    assert "meta.pkl" in str(caught.value.hint)
    open_dataset(folder, vocab_size=65)
    assert not loot.exists()


def test_an_odd_number_of_bytes_is_no_file_of_tokens(tmp_path: Path) -> None:
    folder = nanogpt_folder(tmp_path / "odd", val=b"\1\0\2")
    with pytest.raises(NanodynoError, match=r"val\.bin has an odd number of bytes \(3\)") as caught:
        open_dataset(folder, vocab_size=65)
    assert "delete" not in str(caught.value.hint)


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("vocab_size", [None, 65])
def test_an_empty_file_of_nanogpts_is_refused_and_never_to_be_deleted(
    tmp_path: Path, split: str, vocab_size: int | None
) -> None:
    folder = nanogpt_folder(tmp_path / "empty")
    (folder / f"{split}.bin").write_bytes(b"")
    with pytest.raises(NanodynoError, match=rf"{split}\.bin is empty") as caught:
        open_dataset(folder, vocab_size)
    assert "delete" not in str(caught.value.hint)


def test_the_hint_for_a_missing_vocabulary_names_the_largest_token(tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match="does not report its vocabulary") as caught:
        open_dataset(nanogpt_folder(tmp_path / "short", train=b"\1\0\x40\0\2\0"))
    assert caught.value.hint == (
        "the first 3 tokens of train.bin go up to 64, so vocab_size=65 or more; 50304 for GPT-2's"
    )


def test_the_largest_token_is_looked_for_in_the_first_million_only(tmp_path: Path) -> None:
    tokens = np.zeros(1_000_001, dtype="<u2")
    tokens[-2:] = 7, 9
    with pytest.raises(NanodynoError) as caught:
        open_dataset(nanogpt_folder(tmp_path / "long", train=tokens.tobytes()))
    assert "first 1,000,000 tokens of train.bin go up to 7, so vocab_size=8" in str(caught.value.hint)


def test_a_nanogpt_folder_without_val_is_refused(tmp_path: Path) -> None:
    folder = nanogpt_folder(tmp_path / "half")
    (folder / "val.bin").unlink()
    with pytest.raises(NanodynoError, match=r"val\.bin is missing"):
        open_dataset(folder, vocab_size=65)


def test_a_missing_folder_is_answered_with_what_lies_beside_it(tmp_path: Path) -> None:
    small_dataset(tmp_path / "tiny")
    with pytest.raises(NanodynoError, match="no dataset in") as caught:
        open_dataset(tmp_path / "tyni")
    assert caught.value.hint == "datasets beside it: tiny"


def test_a_mistyped_name_is_answered_with_the_nearest_first(tmp_path: Path) -> None:
    for name in ("alpha", "fineweb", "zeta"):
        small_dataset(tmp_path / name)
    with pytest.raises(NanodynoError, match="no dataset 'finweb'") as caught:
        resolve_dataset("finweb", tmp_path, "bytes", None)
    assert str(caught.value.hint).startswith("datasets: fineweb, ")
    assert "python" in str(caught.value.hint)


def test_a_name_is_looked_for_in_the_data_folder_and_then_as_a_path(tmp_path: Path) -> None:
    small_dataset(tmp_path / "data" / "tiny")
    small_dataset(tmp_path / "elsewhere")
    assert resolve_dataset("tiny", tmp_path / "data", "bytes", None).folder == tmp_path / "data" / "tiny"
    path = str(tmp_path / "elsewhere")
    assert resolve_dataset(path, tmp_path / "data", "bytes", None).folder == tmp_path / "elsewhere"


def test_a_folder_of_llm_c_shards_is_a_dataset(tmp_path: Path) -> None:
    splits = {"train": documents("abcdef"), "val": documents("gh")}
    source = write_dataset(tmp_path / "ours", BYTES, splits, {})
    write_llmc(source, tmp_path / "theirs", shard_tokens=4)
    assert datasets_in(tmp_path) == ["ours", "theirs"]
    found = open_dataset(tmp_path / "theirs", vocab_size=257)
    assert [list(tokens) for tokens in found.split("train")] == [[256, *b"abc"], [*b"def"]]
    assert [list(tokens) for tokens in found.split("val")] == [[256, *b"gh"]]
    with pytest.raises(NanodynoError, match="does not report its vocabulary"):
        open_dataset(tmp_path / "theirs")
    for path in (tmp_path / "theirs").glob("*_val_*"):
        path.unlink()
    with pytest.raises(NanodynoError, match="has no val shards"):
        open_dataset(tmp_path / "theirs", vocab_size=257)
