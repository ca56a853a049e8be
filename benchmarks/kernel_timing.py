"""How long a call takes on a device, and how long it would have to take at the least.

A floor is the larger of two times: the bytes that must move, at the speed of a large copy, and the products'
FLOPs, at the speed of the best large product; both speeds are measured on the same device in the same run.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nanodyno.train.graph import replay_seconds

Call = Callable[[], object]

COPY_FLOATS = {"cuda": (2**26, 2**28), "cpu": (2**24,)}
PRODUCT_SIZES = {"cuda": (4096, 8192, 16384), "cpu": (512, 1024)}
CACHES_FULL = 3
"""Calls take turns on so many inputs that the second level cache would have to hold this many of itself."""
GRAPH_SECONDS = 5e-3
MOST_CALLS = 200
REPLAYS = 15
CPU_REPEATS = 5


@dataclass(frozen=True)
class Ceilings:
    bytes_per_second: float
    achieved_flops_per_second: float


@dataclass(frozen=True)
class Floor:
    seconds: float
    bound: str
    """Which of the two: `bytes` or `flops`."""


def floor(moved: int, flops: int, ceilings: Ceilings) -> Floor:
    by_bytes, by_flops = moved / ceilings.bytes_per_second, flops / ceilings.achieved_flops_per_second
    return Floor(by_flops, "flops") if by_flops > by_bytes else Floor(by_bytes, "bytes")


def turns(moved: int, cache_bytes: int) -> int:
    """On how many inputs calls take turns, so that none finds its own in the cache."""
    return max(1, math.ceil(CACHES_FULL * cache_bytes / moved))


def rounds(at_least_seconds: float, inputs: int) -> int:
    """Times over all inputs in one graph: long enough for the clock and for one launch not to matter."""
    calls = min(GRAPH_SECONDS / at_least_seconds, MOST_CALLS)
    return max(1, math.ceil(calls / inputs))


def cache_bytes(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).L2_cache_size if device.type == "cuda" else 0


def measure_ceilings(half: torch.dtype, device: torch.device) -> Ceilings:
    """The best of some large square products in `half`, and of some large copies, read and written."""
    copies = [_copy_rate(n, device) for n in COPY_FLOATS[device.type]]
    products = [_product_rate(n, half, device) for n in PRODUCT_SIZES[device.type]]
    return Ceilings(max(copies), max(products))


def _copy_rate(n: int, device: torch.device) -> float:
    """By a kernel: a plain copy in a graph is the copy engine's, which is slower (seen on an H200)."""
    source = torch.randn(n, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds_of([lambda: torch.neg(source, out=target)], 4, device)


def _product_rate(n: int, half: torch.dtype, device: torch.device) -> float:
    a, b = (torch.randn(n, n, device=device).to(half) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * n**3 / seconds_of([lambda: torch.mm(a, b.t(), out=out)], 4, device)


def seconds_of(calls: Sequence[Call], rounds: int, device: torch.device) -> float:
    """Of one call: the median over replays of a CUDA graph that goes `rounds` times through all of them."""
    times = _graph_times(calls, rounds) if device.type == "cuda" else _host_times(calls)
    return statistics.median(times)


def _graph_times(calls: Sequence[Call], rounds: int) -> list[float]:
    """What a call returns is held until its next turn: outputs take turns as inputs do."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    held: dict[int, object] = {}
    with torch.cuda.graph(graph):
        for _, (place, call) in itertools.product(range(rounds), enumerate(calls)):
            held[place] = call()
    graph.replay()
    return [replay_seconds(graph) / (rounds * len(calls)) for _ in range(REPLAYS)]


def _host_times(calls: Sequence[Call]) -> list[float]:
    calls[0]()
    times: list[float] = []
    for _, call in itertools.product(range(CPU_REPEATS), calls):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times
