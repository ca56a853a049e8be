"""From what a user typed to a source, a folder and a plan; the hub's datasets are pinned to one commit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.data.prepare.hubfiles import HubFiles
from nanodyno.data.prepare.plan import read_plan
from nanodyno.data.prepare.request import (
    Choices,
    Destination,
    default_folder,
    find_source,
    run_preparation,
    run_verification,
)
from nanodyno.data.prepare.sources import BUNDLE_BYTES, LocalFiles, local_files
from nanodyno.errors import NanodynoError
from nanodyno.records.events import Message
from nanodyno.records.preparation import PreparationRecord

Prepare = Callable[..., PreparationRecord]
COMMIT = "5b8a5a1f3e5c0d9e7c1b2a3f4d5e6f708192a3b4"


@pytest.fixture
def sample(hub: Any) -> list[str]:
    """The 10BT sample as two files of JSON lines, and its texts."""
    texts = [f"document {number} " + "word " * (number % 9) for number in range(300)]
    for number in (0, 1):
        rows = texts[number * 150 : number * 150 + 150]
        hub.files[f"sample/10BT/{number}.jsonl"] = b"".join(
            json.dumps({"text": text, "score": 3}).encode() + b"\n" for text in rows
        )
    hub.files = {name: data for name, data in hub.files.items() if name.endswith(".jsonl")}
    return texts


@pytest.mark.parametrize(
    ("typed", "folder"),
    [
        ("fineweb-edu", "data/fineweb-edu"),
        ("fineweb-edu/10BT", "data/fineweb-edu-10BT"),
        ("org/name@abc", "data/org-name"),
        ("python", "data/python"),
        ("texts", "data/texts"),
        ("texts/", "data/texts"),
        ("./texts/a.jsonl.gz", "data/a"),
    ],
)
def test_a_source_has_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    Path("texts/a.jsonl.gz").touch()
    assert default_folder(typed, Path("data")) == Path(folder)


@pytest.mark.usefixtures("sample")
def test_a_folder_is_taken_before_a_dataset_of_the_hub_but_not_before_the_named_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("org/name", "fineweb-edu", "python"):
        Path(folder).mkdir(parents=True)
        (Path(folder) / "a.txt").touch()
    place = Destination(tmp_path / "out", 1, lambda _: None)
    found = {typed: find_source(typed, place) for typed in ("org/name", "fineweb-edu", "python", "./python")}
    assert isinstance(found["org/name"], LocalFiles)
    assert isinstance(found["fineweb-edu"], HubFiles)
    assert found["python"].name.startswith("python 3.")
    assert found["./python"].name == "files"


def test_text_files_are_taken_together_up_to_a_size_and_others_alone(tmp_path: Path) -> None:
    for name, size in {"a": 10, "b": BUNDLE_BYTES - 10, "c": 1, "d": 2 * BUNDLE_BYTES, "e": 3}.items():
        with (tmp_path / f"{name}.txt").open("wb") as file:
            file.truncate(size)
    for name in ("x.jsonl", "y.jsonl.zst"):
        (tmp_path / name).touch()
    inputs = local_files(str(tmp_path)).inputs
    assert [(given.name, given.members) for given in inputs] == [
        ("x.jsonl", ()),
        ("y.jsonl.zst", ()),
        ("a.txt", ("a.txt", "b.txt")),
        ("c.txt", ("c.txt",)),
        ("d.txt", ("d.txt",)),
        ("e.txt", ("e.txt",)),
    ]


def test_going_on_and_verifying_stay_with_the_commit_that_was_begun_with(
    hub: Any, sample: list[str], tmp_path: Path, prepared: Prepare
) -> None:
    out = tmp_path / "out"
    record = prepared("fineweb-edu/10BT", out)
    assert record.train_documents + record.val_documents == len(sample)
    plan = read_plan(out)
    assert plan is not None
    assert plan.source == f"HuggingFaceFW/fineweb-edu/sample/10BT@{COMMIT}"
    assert not plan.dedup
    whole = (out / "val-00001-000.bin").read_bytes()
    (out / "val-00001-000.bin").unlink()
    hub.answers.clear()
    run_verification(None, Destination(out, 1, lambda _: None))
    assert (out / "val-00001-000.bin").read_bytes() == whole
    # The commit, the listing's two pages at most, and one file by way of a redirection.
    assert hub.answers.count(302) == 1
    assert list((out / "parts").glob("downloads*")) == []


def test_tokens_that_end_early_leave_nothing_that_was_fetched_ahead(
    sample: list[str], tmp_path: Path, prepared: Prepare
) -> None:
    record = prepared("fineweb-edu/10BT", tmp_path / "out", tokens=100, val=0.0)
    assert 100 <= record.train_tokens < 100 + len(sample[8])
    assert [path.name for path in (tmp_path / "out" / "parts").iterdir() if path.is_dir()] == []


@pytest.mark.usefixtures("sample")
def test_kept_downloads_stay(tmp_path: Path) -> None:
    place = Destination(tmp_path / "out", 1, lambda _: None, keep=True)
    run_preparation("fineweb-edu/10BT", Choices("bytes"), place)
    kept = sorted(path.name for path in (tmp_path / "out" / "parts" / "downloads").rglob("*.jsonl"))
    assert kept == ["0.jsonl", "1.jsonl"]


def test_scores_below_the_wanted_are_left_out_on_the_hub_too(
    sample: list[str], tmp_path: Path, prepared: Prepare
) -> None:
    record = prepared("fineweb-edu/10BT", tmp_path / "three", min_score=3.0)
    assert record.low_score == 0
    assert record.train_documents + record.val_documents == len(sample)


@pytest.mark.usefixtures("sample")
def test_a_revision_may_follow_the_name(tmp_path: Path) -> None:
    place = Destination(tmp_path / "out", 1, lambda _: None)
    assert find_source(f"fineweb-edu/10BT@{COMMIT}", place).path.endswith(f"sample/10BT@{COMMIT}")
    with pytest.raises(NanodynoError, match="404"):
        find_source("HuggingFaceFW/fineweb-edu@v9", place)


@pytest.mark.usefixtures("hub")
def test_what_is_not_on_this_disk_is_said_to_be_asked_of_the_hub(tmp_path: Path) -> None:
    events: list[Any] = []
    with pytest.raises(NanodynoError, match="404"):
        find_source("my/texts", Destination(tmp_path / "out", 1, events.append))
    assert events == [Message("there is no file or folder my/texts here: asking the hub for it")]
