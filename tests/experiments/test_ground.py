"""What of a card is usable, and what a context takes of it."""

from typing import Any

import pytest

from checkups import build_device, build_machine
from nanodyno.errors import NanodynoError
from nanodyno.experiments.ground import MARGIN_BYTES, place_of
from nanodyno.hardware.inventory import GpuState
from nanodyno.hardware.telemetry import Holder

GIB = 2**30
TOTAL = 140 * GIB
MACHINE = build_machine(device_memory_bytes=TOTAL)


def gpu(free: int | None = TOTAL, **changes: Any) -> GpuState:
    return GpuState(0, "NVIDIA H200", "GPU-7c1f", TOTAL, free, **changes)


def device(**changes: Any) -> Any:
    """With 3 GiB gone: torch itself holds 2 of them."""
    values = {"free_bytes": 137 * GIB, "reserved_bytes": 2 * GIB}
    return build_device(MACHINE, **(values | changes))


def test_what_is_neither_free_nor_torchs_is_the_context(tunings: Any) -> None:
    place = place_of(tunings.config(), None, device(), (gpu(),))
    assert place.ground.context_bytes == GIB
    assert place.ground.usable_bytes == TOTAL
    assert place.ground.margin_bytes == MARGIN_BYTES
    assert place.ground.gpu is not None
    assert place.notes == ()


def test_what_others_hold_is_gone_and_no_context(tunings: Any) -> None:
    holders = (Holder(12, "python", 10 * GIB),)
    place = place_of(tunings.config(), None, device(free_bytes=127 * GIB), (gpu(130 * GIB, holders=holders),))
    assert place.ground.context_bytes == GIB
    assert place.ground.usable_bytes == 130 * GIB
    assert place.held_bytes == 10 * GIB
    assert place.holders == ("python (12)",)
    assert "other programs hold 10.00 GiB of the GPU" in place.notes[0]


def test_a_smaller_gpu_is_emulated_as_a_whole(tunings: Any) -> None:
    place = place_of(tunings.config(), 12 * GIB, device(), (gpu(130 * GIB),))
    assert place.ground.usable_bytes == 12 * GIB
    assert place.notes == ()


def test_where_the_driver_does_not_tell_a_context_is_assumed_and_reported(tunings: Any) -> None:
    for before in ((), (gpu(None),), (GpuState(0, uuid="GPU-another", free_bytes=GIB),)):
        place = place_of(tunings.config(), None, device(), before)
        assert place.ground.context_bytes > 0
        assert "is assumed" in place.notes[0]


def test_no_gpu_is_larger_than_it_is(tunings: Any) -> None:
    with pytest.raises(NanodynoError, match="--memory-limit"):
        place_of(tunings.config(), 200 * GIB, device(), (gpu(),))


def test_without_triton_or_fp8_there_is_less_to_try(tunings: Any) -> None:
    old = device(no_triton="too old", fp8=False)
    ground = place_of(tunings.config(), None, old, (gpu(),)).ground
    assert (ground.has_triton, ground.has_fp8) == (False, False)


def test_a_cpu_has_other_numbers_of_threads_to_try(tunings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda logical=True: 16 if logical else 8)
    host = build_device(build_machine(device_type="cpu", cpu_threads=8), dtype="float32")
    ground = place_of(tunings.config(), None, host, ()).ground
    assert (ground.device_type, ground.dtype, ground.threads) == ("cpu", "float32", (4, 16))
    assert ground.usable_bytes is None
