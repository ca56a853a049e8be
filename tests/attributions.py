"""Attributions of a made-up machine for tests: a plugin of conftest.py."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.analysis.attribution import Attribution
from nanodyno.config import RunConfig
from nanodyno.experiments.attribute import Inquiry, attribute
from nanodyno.records.probe import MemoryRecord, OutOfMemory, ProbeResult
from tunings import GIB, FakeStopwatch, build_place, build_repetition
from tunings import SETTINGS as TUNED

SETTINGS: dict[str, Any] = TUNED | {"n_embd": 128, "batch_size": 4}
AFTER: dict[str, Any] = {"n_embd": 256, "batch_size": 2}


@dataclass
class Surface:
    """Seconds of an iteration: 308, 427, 172 and 396 in the units of the case, with noise of a thousandth."""

    rates: dict[tuple[int, int], float] = field(
        default_factory=lambda: {(128, 4): 308.0, (256, 4): 427.0, (128, 2): 172.0, (256, 2): 396.0}
    )
    too_large: tuple[tuple[int, int], ...] = ()
    noise: float = 0.001
    dice: random.Random = field(default_factory=lambda: random.Random(1))

    def __call__(self, config: RunConfig) -> ProbeResult:
        combination = config.n_embd, config.batch_size
        if combination in self.too_large:
            return OutOfMemory(config=config, stage="building", memory=MemoryRecord(), words="out of memory")
        seconds = 100 / self.rates[combination] * exp(self.dice.gauss(0, self.noise))
        return build_repetition(
            config, seconds, config.n_embd * 2**20, idle=0.4 if combination == (128, 2) else 0.05
        )


def measure(
    inquiry: Inquiry, cache: Path, answer: Callable[[RunConfig], ProbeResult] | None = None, **stopwatch: Any
) -> tuple[Attribution, FakeStopwatch]:
    bench = FakeStopwatch(answer or Surface(), **stopwatch)
    return attribute(inquiry, bench=bench.bench(cache, build_place(usable_gib=140.0))), bench


@pytest.fixture
def attributions(tunings: Any) -> Any:
    def inquiry(after: dict[str, Any] | None = None, **asked: Any) -> Inquiry:
        config = tunings.config
        return Inquiry(config(**SETTINGS), config(**(SETTINGS | (after or AFTER))), **asked)

    return SimpleNamespace(inquiry=inquiry, measure=measure, surface=Surface, gib=GIB)
