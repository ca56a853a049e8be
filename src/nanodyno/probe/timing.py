"""How long a call takes on a device: warmed up, again and again, the device synchronised."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nanodyno.hardware.ceilings import Timing
from nanodyno.train.device import Clock
from nanodyno.train.graph import captured, event_seconds, replay_seconds

TimedCall = Callable[[], object]

SAMPLE_SECONDS = 2e-3
"""Calls shorter than this are timed by the group: launching one is not to be in it."""
MOST_CALLS = 500


@dataclass(frozen=True)
class TimingLimits:
    """How long to warm up and to measure."""

    warm_seconds: float = 0.1
    measure_seconds: float = 0.2
    least: int = 5
    most: int = 50


def timed(run: TimedCall, work: float, device: torch.device, pace: TimingLimits) -> Timing:
    """One call by the device's own clock, inside a CUDA graph where there are such; else by the host's."""
    run()
    if device.type != "cuda":
        return sampled(lambda: _host_seconds(run, Clock(device)), work, pace)
    calls = min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / max(_host_seconds(run, Clock(device)), 1e-6)))

    def several() -> None:
        for _ in range(calls):
            run()

    graph = captured(several, device)
    return sampled(lambda: replay_seconds(graph) / calls, work, pace)


def timed_alone(run: TimedCall, work: float, device: torch.device, pace: TimingLimits) -> Timing:
    """The same without a graph, which would keep some memory: for calls beside which a launch is nothing."""
    run()
    if device.type != "cuda":
        return sampled(lambda: _host_seconds(run, Clock(device)), work, pace)
    return sampled(lambda: event_seconds(run), work, pace)


def sampled(once: Callable[[], float], work: float, pace: TimingLimits) -> Timing:
    """`once` says how long it took. Its times count when the warm-up is over."""
    began = time.perf_counter()
    while time.perf_counter() - began < pace.warm_seconds:
        once()
    began = time.perf_counter()
    seconds: list[float] = []
    while len(seconds) < pace.least or (
        len(seconds) < pace.most and time.perf_counter() - began < pace.measure_seconds
    ):
        seconds.append(once())
    return Timing(work, tuple(seconds))


def _host_seconds(run: TimedCall, clock: Clock) -> float:
    began = clock.seconds()
    run()
    return clock.seconds() - began
