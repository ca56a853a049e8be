from typing import Any

import pytest

from nanodyno.probe.trace import Spent, device_slices, host_slices, launches


def kernel(name: str, ts: float, dur: float, cat: str = "kernel") -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 7}


def operator(name: str, ts: float, dur: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "tid": tid}


def test_kernels_one_after_the_other_keep_their_whole_time() -> None:
    spent = Spent.of(device_slices([kernel("nvjet_a", 0, 100), kernel("flash_fwd", 150, 50)]))
    assert spent.part_seconds == pytest.approx({"matmul": 100e-6, "attention": 50e-6})


def test_a_moment_of_two_kernels_at_once_counts_once_and_for_the_earlier() -> None:
    events = [kernel("flash_fwd", 60, 80), kernel("nvjet_a", 0, 100)]
    assert Spent.of(device_slices(events)).part_seconds == pytest.approx(
        {"matmul": 100e-6, "attention": 40e-6}
    )


def test_a_kernel_hidden_behind_another_takes_no_time_and_is_counted() -> None:
    spent = Spent.of(device_slices([kernel("nvjet_a", 0, 100), kernel("flash_fwd", 10, 20)]))
    assert spent.part_seconds["attention"] == 0
    assert spent.count == 2


def test_memory_set_or_moved_is_a_copy_whatever_its_name() -> None:
    events = [kernel("Memset (Device)", 0, 3, "gpu_memset"), kernel("Memcpy HtoD", 5, 4, "gpu_memcpy")]
    assert Spent.of(device_slices(events)).part_seconds == pytest.approx({"copies": 7e-6})


def test_what_the_host_does_is_no_time_of_the_gpu() -> None:
    events = [kernel("cudaLaunchKernel", 0, 10, "cuda_runtime"), kernel("nvjet_a", 2, 5)]
    assert [each.name for each in device_slices(events)] == ["nvjet_a"]


def test_a_graph_is_one_launch_of_many_kernels() -> None:
    events = [kernel("cudaGraphLaunch", 0, 10, "cuda_runtime"), kernel("a", 2, 5), kernel("b", 8, 5)]
    assert launches(events) == 1


def test_launches_are_counted_by_all_their_names() -> None:
    names = ["cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC_v11060", "cudaMemcpyAsync"]
    assert launches(kernel(name, 0, 1, "cuda_runtime") for name in names) == 3


def test_an_operator_has_its_time_without_what_it_called() -> None:
    events = [operator("aten::gelu", 0, 100), operator("aten::mm", 10, 30), operator("aten::add", 120, 5)]
    spent = Spent.of(host_slices(events))
    assert spent.part_seconds == pytest.approx({"element-wise": 75e-6, "matmul": 30e-6})


def test_calls_within_calls_are_taken_off_once() -> None:
    events = [
        operator("aten::linear", 0, 100),
        operator("aten::addmm", 0, 80),
        operator("aten::copy_", 5, 20),
    ]
    spent = Spent.of(host_slices(events))
    assert spent.part_seconds == pytest.approx({"matmul": 80e-6, "copies": 20e-6})


def test_only_the_thread_that_trains_counts() -> None:
    events = [
        operator("aten::mm", 0, 10),
        operator("aten::mm", 20, 10),
        operator("aten::gelu", 0, 500, tid=2),
    ]
    assert Spent.of(host_slices(events)).part_seconds == pytest.approx({"matmul": 20e-6})


def test_the_longest_kernels_are_named_with_their_times() -> None:
    events = [kernel("nvjet_a", 0, 10), kernel("flash_fwd", 10, 15), kernel("nvjet_a", 30, 10)]
    first, second = Spent.of(device_slices(events)).longest
    assert (first.name, first.times, second.name) == ("nvjet_a", 2, "flash_fwd")
    assert first.seconds == pytest.approx(20e-6)


def test_an_empty_trace_has_no_slices() -> None:
    assert device_slices([{"ph": "M", "name": "process_name"}]) == host_slices([]) == []
