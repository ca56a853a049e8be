"""The fastest attention of a card at a shape: measured once, remembered in the user's cache."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from nanodyno.errors import NanodynoError
from nanodyno.model.attention import BACKENDS, PACKED, packed
from nanodyno.records.remembered import cache_file, recall, remember
from nanodyno.train.device import Clock, free_cached_memory, gpu_key, is_out_of_memory
from nanodyno.train.engine import last_words
from nanodyno.train.graph import captured, replay_seconds

CANDIDATES = (PACKED, "cudnn", "fa3", "flash", "efficient")
"""flex is left out, since it would be compiled for every shape first; it runs where it is asked for."""
OPTIONAL = {"cudnn": "nvidia-cudnn-frontend", "flash_attn_interface": "flash-attn-3"}
"""Modules that some of them need, and their packages: who installs or renews one wants it measured."""
LAST_RESORT = "math"
CALLS, REPEATS = 4, 5


@dataclass(frozen=True)
class FastestAttention:
    name: str
    seconds: tuple[tuple[str, float], ...]
    """Of each that runs, forward and backward, the fastest first."""


def fastest_attention(
    shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device, cache: Path | None = None
) -> FastestAttention:
    """`shape` is B, H, T, K. Remembered by all it depends on: card, packages, precision and shape."""
    path = cache or cache_file("attention.json")
    installed = (f"{name} {_version(package)}" for name, package in OPTIONAL.items() if find_spec(name))
    key = gpu_key(device, torch.backends.cudnn.version(), *installed, dtype, *shape)
    known: dict[str, dict[str, float]] = recall(path, _is_measured)
    if key not in known:
        known[key] = _measure(shape, dtype, device)
        remember(path, recall(path, _is_measured) | {key: known[key]})
    seconds = tuple(sorted(known[key].items(), key=lambda each: each[1]))
    return FastestAttention(seconds[0][0] if seconds else LAST_RESORT, seconds)


def require(name: str, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> None:
    """Refuses a backend that was asked for and does not run with this device, precision or head size."""
    B, H, T, K = shape
    try:
        attended = packed(name)(torch.zeros(B * T, 3 * H * K, dtype=dtype, device=device), B, H)
        attended.backward(torch.zeros_like(attended.out))
    except (RuntimeError, ImportError) as error:
        if is_out_of_memory(error):
            raise
        raise NanodynoError(
            f"attention={name} does not run here: {last_words(error).partition('. ')[0]}",
            "leave --attention out to get the fastest one that runs",
        ) from error


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # built by hand
        return "of unknown version"


def _is_measured(entry: object) -> bool:
    return isinstance(entry, dict) and all(
        name in (*BACKENDS, PACKED) and isinstance(seconds, float) for name, seconds in entry.items()
    )


def _measure(shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    return _tried(CANDIDATES, shape, dtype, device, _seconds)[0]


def try_attention(
    shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device
) -> tuple[dict[str, float], dict[str, str]]:
    """Seconds of each backend that runs, and why each other does not; not remembered."""
    if device.type == "cuda":
        return _tried((*CANDIDATES, LAST_RESORT), shape, dtype, device, _seconds)
    return _tried(("torch", LAST_RESORT), shape, dtype, device, _host_seconds)


def _tried(
    names: tuple[str, ...],
    shape: tuple[int, int, int, int],
    dtype: torch.dtype,
    device: torch.device,
    time_it: Callable[[str, Tensor, Tensor, tuple[int, int, int, int]], float],
) -> tuple[dict[str, float], dict[str, str]]:
    B, H, T, K = shape
    qkv = torch.randn(B * T, 3 * H * K, dtype=dtype, device=device)
    dout = torch.randn(B * T, H * K, dtype=dtype, device=device)
    measured: dict[str, float] = {}
    faults: dict[str, str] = {}
    for name in names:
        try:
            measured[name] = time_it(name, qkv, dout, shape)
        except (RuntimeError, ImportError) as error:  # it does not run here: not a candidate
            if is_out_of_memory(error):  # which another time may be otherwise, and is not to be remembered
                raise
            faults[name] = last_words(error).partition(". ")[0]
    free_cached_memory(device)
    return measured, faults


def _host_seconds(name: str, qkv: Tensor, dout: Tensor, shape: tuple[int, int, int, int]) -> float:
    clock = Clock(qkv.device)

    def once() -> float:
        began = clock.seconds()
        packed(name)(qkv, shape[0], shape[1]).backward(dout)
        return clock.seconds() - began

    once()
    return statistics.median(once() for _ in range(REPEATS))


def _seconds(name: str, qkv: Tensor, dout: Tensor, shape: tuple[int, int, int, int]) -> float:
    """Of one forward and backward pass inside a CUDA graph, where the host's own pace is not in it."""
    B, H, _, _ = shape
    attend = packed(name)

    def both() -> None:
        attend(qkv, B, H).backward(dout)

    def several() -> None:
        for _ in range(CALLS):
            both()

    side = torch.cuda.Stream(qkv.device)
    side.wait_stream(torch.cuda.current_stream(qkv.device))
    with torch.cuda.stream(side):
        both()
    torch.cuda.synchronize(qkv.device)
    graph = captured(several, qkv.device)
    graph.replay()
    return statistics.median(replay_seconds(graph) for _ in range(REPEATS)) / CALLS
