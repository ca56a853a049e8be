"""Files of the hub as inputs: the next is fetched while one is in use, and used ones are deleted."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.data.prepare.hub import HubName
from nanodyno.data.prepare.hubfiles import HubFiles, hub_files
from nanodyno.data.prepare.request import Choices, Destination, run_preparation
from nanodyno.data.prepare.transfer import Stopped

SAMPLE = HubName("HuggingFaceFW/fineweb-edu", "sample/10BT")
CHOICES = Choices(tokenizer="bytes", val=0.2)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not true() and time.monotonic() < end:
        time.sleep(0.005)


def there(folder: Path) -> list[str]:
    return sorted(path.name[:3] for path in folder.rglob("*.parquet"))


def opened(folder: Path, keep: bool = False) -> HubFiles:
    return hub_files(SAMPLE, folder, keep, tell=lambda _: None)


def test_the_next_file_is_there_before_it_is_asked_for_and_released_ones_are_deleted(
    hub: Any, tmp_path: Path
) -> None:
    source = opened(tmp_path)
    first, second, third = source.inputs
    assert source.present(first, second).read_bytes() == hub.files[first.name]
    wait_until((tmp_path / second.name).exists)
    assert there(tmp_path) == ["000", "001"]
    source.release(first)
    assert source.present(second, third).read_bytes() == hub.files[second.name]
    wait_until((tmp_path / third.name).exists)
    assert there(tmp_path) == ["001", "002"]
    source.stop()


def test_the_folder_of_a_file_that_is_waited_for_stays_when_the_one_before_it_goes(
    hub: Any, tmp_path: Path
) -> None:
    source = opened(tmp_path / "downloads")
    first, second, _ = source.inputs
    source.present(first, None)
    hub.refusals = [(503, {})]
    threading.Timer(0.2, lambda: source.release(first)).start()  # within the second of wait after the 503
    assert source.present(second, None).read_bytes() == hub.files[second.name]
    source.stop()
    source.release(second)
    assert not (tmp_path / "downloads").exists()


@pytest.mark.usefixtures("hub")
def test_kept_files_stay(tmp_path: Path) -> None:
    source = opened(tmp_path, keep=True)
    for given in source.inputs:
        source.present(given, None)
        source.release(given)
    source.stop()
    assert there(tmp_path) == ["000", "001", "002"]


def test_stopping_ends_a_wait_for_the_hub(hub: Any, tmp_path: Path) -> None:
    source = opened(tmp_path)
    hub.refusals = [(503, {"Retry-After": "600"})]
    threading.Timer(0.1, source.stop).start()
    with pytest.raises(Stopped):
        source.present(source.inputs[0], None)


def test_a_wait_for_a_file_tells_how_far_it_is(
    hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanodyno.data.prepare.hubfiles._SECONDS_BETWEEN_WORDS", 0.02)
    reported: list[str] = []
    source = hub_files(SAMPLE, tmp_path, keep=False, tell=reported.append)
    hub.refusals = [(503, {})]
    source.present(source.inputs[0], None)
    source.stop()
    assert "fetching sample/10BT/000_00000.parquet: 0 of 0 MiB" in reported


def lines(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.bin")}


@pytest.fixture
def texts(hub: Any, tmp_path: Path) -> Path:
    """The same two files on the hub and in a folder."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in (0, 1):
        content = lines([f"document {number} {n}" for n in range(5000)])
        (folder / f"{number}.jsonl").write_bytes(content)
    hub.files = {f"sample/10BT/{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}
    return folder


def test_a_sample_of_fineweb_edu_is_prepared_as_its_files_are_and_leaves_no_download(
    hub: Any, texts: Path, tmp_path: Path
) -> None:
    hub.cuts = [100_000]
    here, there = tmp_path / "here", tmp_path / "there"
    run_preparation(str(texts), CHOICES, Destination(here, workers=1, watch=lambda _: None))
    record = run_preparation("fineweb-edu/10BT", CHOICES, Destination(there, workers=1, watch=lambda _: None))
    assert hub.ranges == ["bytes=65536-"]
    assert record.train_documents + record.val_documents == 10_000
    assert shards(there) == shards(here)
    assert not list(there.rglob("*.jsonl*"))
