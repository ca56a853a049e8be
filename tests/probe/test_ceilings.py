"""On a CPU, as fast as can be: that each thing is measured, and counted right. The clock is not judged."""

import itertools
from collections.abc import Callable

import pytest
import torch

from nanodyno.hardware.ceilings import Timing
from nanodyno.probe import ceilings, timing
from nanodyno.probe.ceilings import Sizes, gpt_products, measure_ceilings, unless_full
from nanodyno.probe.timing import TimingLimits, sampled, timed, timed_alone

ONCE = TimingLimits(warm_seconds=0.0, measure_seconds=0.0, least=2, most=2)
CPU = torch.device("cpu")


def test_the_warm_up_is_not_counted() -> None:
    times = itertools.chain([9.0] * 3, itertools.repeat(1.0))
    ticks = itertools.count()

    def once() -> float:
        next(ticks)
        return next(times)

    found = sampled(once, 5.0, TimingLimits(warm_seconds=0.01, measure_seconds=0.0, least=4, most=9))
    assert found.work == 5.0
    assert found.seconds == (1.0,) * 4
    assert next(ticks) > 4


def test_measuring_ends_with_its_time_or_with_enough() -> None:
    assert len(sampled(lambda: 1.0, 1.0, TimingLimits(0.0, 60.0, least=2, most=7)).seconds) == 7


@pytest.mark.parametrize("time_it", [timed, timed_alone])
def test_a_call_is_made_as_often_as_it_is_timed_and_once_before(time_it: Callable[..., Timing]) -> None:
    calls: list[int] = []
    found = time_it(lambda: calls.append(1), 3.0, CPU, ONCE)
    assert len(calls) == 3
    assert len(found.seconds) == 2
    assert min(found.seconds) > 0


@pytest.mark.parametrize(("call_seconds", "calls"), [(1e-5, 200), (1e-9, 500), (3e-3, 1)])
def test_short_calls_of_a_gpu_are_timed_by_the_group(
    monkeypatch: pytest.MonkeyPatch, call_seconds: float, calls: int
) -> None:
    made: list[int] = []

    def captured(work: Callable[[], None], _: torch.device) -> int:
        before = len(made)
        work()
        return len(made) - before

    monkeypatch.setattr(timing, "_host_seconds", lambda *_: call_seconds)
    monkeypatch.setattr(timing, "captured", captured)
    monkeypatch.setattr(timing, "replay_seconds", lambda in_graph: 7.0 * in_graph)
    found = timed(lambda: made.append(1), 3.0, torch.device("cuda"), ONCE)
    assert len(made) == 1 + calls
    assert found.seconds == (7.0, 7.0)


def test_each_weight_of_a_gpt_has_three_products_of_the_same_work() -> None:
    sizes = Sizes(square=8, square_float32=8, rows=32, head_rows=4, copy_bytes=64)
    found = gpt_products(CPU, "float32", 16, sizes, ONCE)
    assert len(found) == 15
    assert {(each.m, each.n, each.k) for name, each in found.items() if name.startswith("fc ")} == {
        (32, 64, 16),
        (32, 16, 64),
        (64, 16, 32),
    }
    # 2 x rows x inputs x outputs, whichever way it goes.
    work = {name.split()[0]: each.timing.work for name, each in found.items()}
    assert work == {
        "qkv": 2 * 32 * 16 * 48,
        "proj": 2 * 32 * 16 * 16,
        "fc": 2 * 32 * 16 * 64,
        "fc-proj": 2 * 32 * 64 * 16,
        "head": 2 * 4 * 16 * 50304,
    }


def test_everything_that_a_cpu_has_is_measured_and_reported() -> None:
    reported: list[str] = []
    found = measure_ceilings(CPU, "float32", (16,), reported.append, ONCE, ONCE)
    assert found.device.name
    assert found.device.threads == torch.get_num_threads()
    assert found.large.keys() == {"float32"}
    assert found.large["float32"].timing.work == 2 * 1024**3
    assert found.gpt.keys() == {16}
    assert found.copy is not None
    assert found.copy.work == 2 * 2**26
    assert found.host_to_device is None
    assert found.launch is not None
    assert found.micro_step.keys() == {"eager"}
    assert reported == ["large products in float32", "a GPT's products at width 16", "copies", "launches"]


def test_what_memory_is_too_short_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(ceilings, "gpt_products", full)
    found = measure_ceilings(CPU, "float32", (16,), lambda _: None, ONCE, ONCE)
    assert found.gpt == {}
    assert found.large.keys() == {"float32"}


def test_another_error_is_not_taken_for_a_lack_of_memory() -> None:
    def broken() -> None:
        raise RuntimeError("an illegal instruction was met")

    with pytest.raises(RuntimeError, match="illegal"):
        unless_full(CPU, broken)
