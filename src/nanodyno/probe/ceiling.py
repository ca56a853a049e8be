"""How fast a device multiplies large matrices here and now: the peak that needs no datasheet."""

import time
from dataclasses import dataclass

import torch

from nanodyno.records.types import Dtype
from nanodyno.train.device import DTYPES, Clock, free_cached_memory, is_out_of_memory

MEASURE_SECONDS = 0.2
LEAST_TIMES = 5


@dataclass(frozen=True)
class Ceiling:
    flops_per_second: float
    size: int
    """Of the square matrices."""


def matmul_ceiling(device: torch.device, dtype: Dtype) -> Ceiling | None:
    """The fastest of several products of two square matrices; None where memory is too short for them."""
    size = _size(device, dtype)
    try:
        fastest = _fastest_seconds(size, device, DTYPES[dtype])
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None
    finally:
        free_cached_memory(device)
    return Ceiling(2 * size**3 / fastest, size)


def _fastest_seconds(size: int, device: torch.device, dtype: torch.dtype) -> float:
    a, b = (torch.randn((size, size), device=device, dtype=dtype) for _ in range(2))
    out = a @ b
    clock = Clock(device)
    seconds: list[float] = []
    end = time.perf_counter() + MEASURE_SECONDS
    while len(seconds) < LEAST_TIMES or time.perf_counter() < end:
        began = clock.seconds()
        torch.mm(a, b, out=out)
        seconds.append(clock.seconds() - began)
    return min(seconds)


def _size(device: torch.device, dtype: Dtype) -> int:
    if device.type == "cpu":
        return 512
    return 4096 if dtype == "float32" else 8192
