"""What cannot fit the card is refused before it is tried."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nanodyno.config import build_config
from nanodyno.errors import NanodynoError
from nanodyno.train.device import DeviceChoice
from nanodyno.train.fitting import refuse_what_cannot_fit

GIB = 2**30
HOST = DeviceChoice(torch.device("cpu"), "float32")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> DeviceChoice:
    """An RTX 3060, as its driver tells of it."""
    properties = SimpleNamespace(name="NVIDIA GeForce RTX 3060", total_memory=int(11.6 * GIB))
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: properties)
    monkeypatch.setattr("torch.cuda.get_per_process_memory_fraction", lambda _: 1.0)
    monkeypatch.setattr("nanodyno.train.kernels.why_no_triton", lambda _: None)
    return DeviceChoice(torch.device("cuda", 0), "bfloat16")


def judged(choice: DeviceChoice, processes: int = 1, **settings: Any) -> None:
    config = build_config({"tokens_per_iter": 524_288, "batch_size": 8, **settings})
    refuse_what_cannot_fit(config, 50304, choice, processes)


def test_what_fits_is_let_through(gpu: DeviceChoice) -> None:
    judged(gpu)
    judged(gpu, batch_size=32)


def test_what_cannot_fit_is_refused_with_what_would(gpu: DeviceChoice) -> None:
    with pytest.raises(NanodynoError) as caught:
        judged(gpu, batch_size=64, recompute="none")
    assert "NVIDIA GeForce RTX 3060 has 11.6" in caught.value.message
    hint = caught.value.hint
    assert hint is not None
    assert "it fits with --batch_size=16" in hint
    assert "--force" in hint


def test_a_model_too_large_for_every_switch_is_to_be_made_smaller(gpu: DeviceChoice) -> None:
    with pytest.raises(NanodynoError) as caught:
        judged(gpu, n_layer=96, n_embd=4096, n_head=32)
    assert caught.value.hint is not None
    assert "make it smaller" in caught.value.hint


def test_left_to_itself_recomputation_counts_before_anything_is_refused(gpu: DeviceChoice) -> None:
    judged(gpu, batch_size=64)


def test_what_is_within_the_error_of_the_prediction_is_tried(
    gpu: DeviceChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.6 GiB are predicted: under 5.2 it may fit all the same, under 4.5 it cannot."""
    monkeypatch.setattr("torch.cuda.get_per_process_memory_fraction", lambda _: 5.2 / 11.6)
    judged(gpu, recompute="none", loss_chunk_size=16384)
    monkeypatch.setattr("torch.cuda.get_per_process_memory_fraction", lambda _: 4.5 / 11.6)
    with pytest.raises(NanodynoError, match=r"has 4\.5"):
        judged(gpu, recompute="none", loss_chunk_size=16384)


HUGE = {"n_layer": 96, "n_embd": 4096, "n_head": 32}


def free(monkeypatch: pytest.MonkeyPatch, gib: float) -> None:
    monkeypatch.setattr("nanodyno.train.fitting.available_memory", lambda: int(gib * GIB))


def test_what_cannot_fit_the_host_is_refused_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logits of 64 x 1024 positions alone are 12.3 GiB in fp32."""
    free(monkeypatch, 8)
    with pytest.raises(NanodynoError, match=r"this machine has 8\.0 free") as caught:
        judged(HOST, batch_size=64)
    assert caught.value.hint is not None
    size = re.search(r"it fits with --batch_size=(\d+)", caught.value.hint)
    assert size is not None
    judged(HOST, batch_size=int(size[1]))
    assert "% time" not in caught.value.hint
    assert "--force" in caught.value.hint


def test_a_model_too_large_for_the_host_is_to_be_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 2)
    with pytest.raises(NanodynoError) as caught:
        judged(HOST, **HUGE)
    assert caught.value.hint is not None
    assert "on this machine: make it smaller" in caught.value.hint


def test_a_host_is_refused_by_what_training_needs_at_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPT-2 124M has 16 bytes a parameter, 1.85 GiB, before any activation."""
    free(monkeypatch, 1.6)
    with pytest.raises(NanodynoError, match="this machine has"):
        judged(HOST, batch_size=1, block_size=64)
    free(monkeypatch, 3)
    judged(HOST, batch_size=1, block_size=64)


def test_moments_that_the_host_has_no_room_for_are_not_offloaded(
    gpu: DeviceChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, 1.5)
    judged(gpu, offload_moments=True)
    free(monkeypatch, 0.5)
    judged(gpu)
    with pytest.raises(NanodynoError, match=r"needs 0\.9 GiB of host memory, and 0\.5 GiB is free"):
        judged(gpu, offload_moments=True)


def test_evaluations_and_shares_of_a_model_are_not_judged(gpu: DeviceChoice) -> None:
    huge = HUGE
    judged(DeviceChoice(torch.device("mps"), "float32"), **huge)
    judged(gpu, eval_only=True, **huge)
    judged(gpu, processes=2, parallel="fsdp", **huge)
