"""Who of several processes is gone: by its last words, or by its silence."""

import subprocess
import sys

import pytest
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from nanodyno.train import peers
from nanodyno.train.peers import Peers


@pytest.fixture
def store() -> TCPStore:
    return TCPStore("127.0.0.1", 0, is_master=True)


def pair(store: TCPStore) -> tuple[Peers, Peers]:
    store.set("name/1", "the other")
    first = Peers(store, 0, 2, "this one")
    return first, Peers(store, 1, 2, "the other")


def test_as_long_as_all_beat_nobody_is_lost(store: TCPStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "BEAT_SECONDS", 0.02)
    first, second = pair(store)
    assert first.lost(0.3) is None
    assert second.lost(0.3) is None
    first.leave()
    second.leave()


def test_last_words_are_passed_on(store: TCPStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "BEAT_SECONDS", 0.02)
    first, second = pair(store)
    second.leave("the disk is full")
    assert first.lost(5.0) == "process 1 (the other) ended: the disk is full"
    first.leave()


def test_one_that_ended_well_is_not_missed(store: TCPStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(peers, "HURRIED_PATIENCE_SECONDS", 0.1)
    first, second = pair(store)
    second.leave()
    assert first.lost(0.5) is None
    first.leave()


def test_a_process_that_hangs_in_an_exchange_with_a_dead_one_is_ended_with_its_name() -> None:
    """NCCL waits for ever, in a call that no signal of Python's can interrupt."""
    code = """
import time
from torch.distributed import TCPStore
from nanodyno.train import peers
peers.BEAT_SECONDS, peers.PATIENCE_SECONDS, peers.GRACE_SECONDS = 0.05, 0.3, 0.1
store = TCPStore("127.0.0.1", 0, is_master=True)
store.set("name/1", "pid 7 on there")
store.set("beat/1", "1")
peers.Peers(store, 0, 2, "pid 6 on here")
time.sleep(60)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 1
    named = "process 1 (pid 7 on there) has died or hangs; this is process 0, which ends too"
    assert f"error: {named}" in done.stderr
