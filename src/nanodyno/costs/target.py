"""The GPU that a plan is for: by name, or the one at hand; with a limit of memory and of power."""

from dataclasses import dataclass

from nanodyno.costs.calibration import MeasuredSpeed
from nanodyno.costs.setup import Dtype
from nanodyno.errors import NanodynoError
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.gpus import APPLE, Gpu, find_gpu, gpu_named

GIB = 2**30
SHOWN_SHARE = 0.97
"""Share of a GPU's nominal memory that drivers show at least, when no display uses some of it."""
UNIFIED_SHARE = 0.75
"""Share of an Apple chip's memory that Metal recommends a program to use at most."""
FOR_ERRORS = 0.05
"""Of the memory, left free because needs are predicted. What the allocator holds was at most so much too low
for 31 of 36 configs; the others' gaps it gives back when it must: in use, 1.6% too low at most (docs/log)."""
FOR_OTHERS = 0.05
"""Share of a GPU for a display and other programs. A limit that was given is without their part."""


@dataclass(frozen=True)
class Target:
    """`memory_bytes` is what all of a training may take, context included; None where nothing is known."""

    name: str | None
    gpu: Gpu | None
    memory_bytes: int | None
    limited: bool = False
    """Whether the memory is a limit that was given."""
    host_bytes: int | None = None
    """Free in the machine that the GPU is in; None where it is not this one."""
    ceilings: Ceilings | None = None
    """As doctor measured them on this very GPU, or on another of its name."""
    trained: MeasuredSpeed | None = None
    """How fast trainings on such a GPU were."""
    power_limit_watts: float | None = None
    drawn_watts: float | None = None
    """Median power of a training whose telemetry is known."""

    @property
    def room_bytes(self) -> int | None:
        """What is to be filled by choice; what needs more may fit, and tightly."""
        if self.memory_bytes is None:
            return None
        free = FOR_ERRORS if self.limited else FOR_ERRORS + FOR_OTHERS
        return self.memory_bytes - int(free * self.memory_bytes)

    def dtype(self, asked: str) -> Dtype:
        """Return what the trainer chooses on such a GPU; an unknown one is taken for a recent one."""
        if self.gpu is not None and self.gpu.family == APPLE and asked == "auto":
            return "float32"
        recent = self.gpu is None or self.gpu.tensor_dtype == "bfloat16" or self.gpu.family == APPLE
        own: Dtype = "bfloat16" if recent else "float16"
        if asked in ("auto", "bfloat16"):
            return own
        return "float32" if asked == "float32" else "float16"


def shown_bytes(nominal_bytes: float) -> int:
    """Return what a GPU that is sold with so much memory shows to a program."""
    return int(nominal_bytes * SHOWN_SHARE)


def named_target(name: str, limit_bytes: int | None) -> Target:
    gpu = gpu_named(name)
    shown = int(UNIFIED_SHARE * gpu.memory_bytes) if gpu.is_unified else shown_bytes(gpu.memory_bytes)
    nominal = gpu.memory_bytes, shown_bytes(gpu.memory_bytes), shown
    limit = None if limit_bytes in nominal else limit_bytes
    return Target(gpu.label, gpu, _limited(gpu.label, shown, limit), limit is not None)


def present_target(
    name: str, memory_bytes: int, limit_bytes: int | None, host_bytes: int | None = None
) -> Target:
    """Return the target of the GPU at hand, whether it is in the table or not."""
    memory = _limited(name, memory_bytes, limit_bytes, "; --device=cpu leaves the one at hand aside")
    return Target(name, find_gpu(name, memory_bytes), memory, limit_bytes is not None, host_bytes)


def _limited(name: str, memory_bytes: int, limit_bytes: int | None, hint: str = "") -> int:
    if limit_bytes is None:
        return memory_bytes
    if limit_bytes > memory_bytes:
        raise NanodynoError(
            f"--memory-limit is {limit_bytes / GIB:.1f} GiB, and {name} has {memory_bytes / GIB:.1f}",
            f"a limit is for less than the GPU has: leave it out, or name a larger GPU with --gpu{hint}",
        )
    return limit_bytes
