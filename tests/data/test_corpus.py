"""The embedded corpus: the standard library's own sources, split by file."""

from pathlib import Path

import pytest

from nanodyno.data.corpus import source_files, split_of, stdlib_documents
from nanodyno.data.embedded import embedded_dataset, embedded_tokens
from nanodyno.data.resolve import resolve_dataset
from nanodyno.data.tokenizers import get_tokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.errors import NanodynoError


def test_the_running_pythons_library_has_no_test_folders_and_splits_disjointly() -> None:
    train = [document.name for document in stdlib_documents("train")]
    val = [document.name for document in stdlib_documents("val")]
    folders = {part for name in train + val for part in name.split("/")[:-1]}
    assert not folders & {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
    assert not set(train) & set(val)
    assert train == sorted(train)
    assert {"json/decoder.py", "unittest/case.py"} <= set(train + val)
    assert 0.02 < len(val) / len(train + val) < 0.10


def test_only_the_librarys_own_sources_are_taken(tmp_path: Path) -> None:
    kept = ["b.py", "a/c.py", "a.py", "unittest/mock.py"]
    left_out = [
        "test/test_a.py",
        "lib2to3/tests/x.py",
        "idlelib/idle_test/x.py",
        "site-packages/x.py",
        "dist-packages/x.py",
        "__pycache__/x.py",
        "config-3.11-x86_64-linux-gnu/python-config.py",
        "_sysconfigdata__linux_x86_64-linux-gnu.py",
        "sitecustomize.py",
        "notes.txt",
    ]
    for name in kept + left_out:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("pass\n")
    assert source_files(tmp_path) == ["a.py", "a/c.py", "b.py", "unittest/mock.py"]


def test_a_file_that_is_not_utf8_is_skipped_and_line_ends_are_evened(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes("# é\n".encode("latin-1"))
    (tmp_path / "dos.py").write_bytes(b"a = 1\r\n")
    documents = [*stdlib_documents("train", tmp_path), *stdlib_documents("val", tmp_path)]
    assert [(document.name, document.text) for document in documents] == [("dos.py", "a = 1\n")]


def test_a_file_stays_in_its_split_for_ever() -> None:
    assert split_of("imaplib.py") == "val"
    assert split_of("unittest/mock.py") == "val"
    assert split_of("json/decoder.py") == "train"


def test_the_embedded_dataset_is_prepared_once_and_then_opened(tmp_path: Path) -> None:
    reported: list[str] = []
    first = embedded_dataset(tmp_path, "bytes", reported.append)
    assert [line.split()[0] for line in reported] == ["preparing", "prepared"]
    second = embedded_dataset(tmp_path, "bytes", reported.append)
    assert len(reported) == 2
    assert second == first
    assert second.name == "python-bytes"
    assert embedded_tokens("bytes") == pytest.approx(second.tokens("train"), rel=0.001)
    ids = second.split("val")[0]
    opening = next(stdlib_documents("val")).text[:50]
    assert ids[0] == 256
    assert get_tokenizer("bytes").decode(ids[1:51].tolist()) == opening


def test_a_dataset_made_from_another_python_is_prepared_again(tmp_path: Path) -> None:
    documents = list(stdlib_documents("val"))[:1]
    splits = {"train": documents, "val": documents}
    write_dataset(tmp_path / "python-bytes", get_tokenizer("bytes"), splits, {"python": "3.0.0"})
    dataset = embedded_dataset(tmp_path, "bytes")
    assert dataset.tokens("train") > 1_000_000


def test_python_is_the_embedded_corpus_unless_a_dataset_has_that_name(tmp_path: Path) -> None:
    assert resolve_dataset("python", tmp_path, "bytes", 257).name == "python-bytes"
    with pytest.raises(NanodynoError, match="vocabulary of 257"):
        resolve_dataset("python", tmp_path, "bytes", 256)
    documents = list(stdlib_documents("val"))[:1]
    splits = {"train": documents, "val": documents}
    write_dataset(tmp_path / "python", get_tokenizer("bytes"), splits, {})
    assert resolve_dataset("python", tmp_path, "bytes", None).folder == tmp_path / "python"
