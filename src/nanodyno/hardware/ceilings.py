"""What a device was measured to reach: raw times, from which rates are derived whenever they are shown."""

import statistics
from dataclasses import dataclass, field

GPT2_LAYERS = 12
"""A GPT's rate is that of so many blocks and one head."""


@dataclass(frozen=True)
class Timing:
    """The same thing done again and again, after a warm-up."""

    work: float
    """Of one time: FLOP, or bytes moved (a copy reads and writes), or launches, or micro-steps."""
    seconds: tuple[float, ...]
    """Of each time."""

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """By the median."""
        return self.work / self.median_seconds

    @property
    def best_rate(self) -> float:
        return self.work / min(self.seconds)

    @property
    def each_seconds(self) -> float:
        """Of one unit of work."""
        return self.median_seconds / self.work

    @property
    def spread(self) -> float | None:
        """The middle half of the times, as a fraction of the median; None where there are too few."""
        if len(self.seconds) < 4:
            return None
        low, middle, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / middle


@dataclass(frozen=True)
class Matmul:
    """Of an m x k by a k x n matrix."""

    m: int
    n: int
    k: int
    timing: Timing


@dataclass(frozen=True)
class DeviceIdentity:
    """Which device, with which driver: two that agree have the same ceilings."""

    name: str
    memory_bytes: int | None = None
    multiprocessors: int | None = None
    driver: str | None = None
    threads: int | None = None
    """On a CPU."""


@dataclass(frozen=True)
class Ceilings:
    device: DeviceIdentity
    torch: str
    measured_at: float
    """Unix time."""
    seconds: float
    """That the measuring took."""
    large: dict[str, Matmul]
    """Of square matrices, by dtype."""
    gpt_dtype: str
    gpt: dict[int, dict[str, Matmul]]
    """A GPT's own products by its width and by their names: `fc forward`, `fc input`, `fc weight`, ..."""
    copy: Timing | None = None
    host_to_device: Timing | None = None
    """From pinned memory; None on a CPU."""
    launch: Timing | None = None
    """Of small kernels, one after the other."""
    micro_step: dict[str, Timing] = field(default_factory=dict[str, Timing])
    """Of a model so small that launching its kernels is all it takes: `eager`, `graph`."""
    disturbed: tuple[str, ...] = ()
    """What had a part in it, in words."""

    def matmul_flops(self, dtype: str) -> float | None:
        """FLOP/s of large products; None where they were not measured in this dtype."""
        product = self.large.get(dtype)
        return None if product is None else product.timing.rate

    def gpt_flops(self, width: int) -> float | None:
        """FLOP/s of all products of a GPT of 12 blocks, one after the other."""
        products = self.gpt.get(width)
        if not products:
            return None
        times = {name: 1 if name.startswith("head") else GPT2_LAYERS for name in products}
        flops = sum(times[name] * each.timing.work for name, each in products.items())
        return flops / sum(times[name] * each.timing.median_seconds for name, each in products.items())
