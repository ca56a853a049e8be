"""What a machine is and what was found to work on it: raw facts; readers say what they mean."""

from datetime import datetime

from nanodyno.costs.setup import Dtype
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.inventory import Inventory
from nanodyno.records.probe import Disturbance
from nanodyno.records.types import MachineRecord, Record, formerly


class DeviceRecord(Record):
    """The device that training would use, as torch sees it."""

    machine: MachineRecord
    uuid: str | None = None
    visible: tuple[str, ...] = ()
    """Names of all GPUs that torch sees."""
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    """What of the rest torch itself held when the driver was asked: with what others hold and the context it
    makes up all that is not free."""
    torch: str
    cuda: str | None = None
    """Version of CUDA, or of ROCm, that this torch was built with. None is a build for the CPU."""
    rocm: bool = False
    """Whether it is a build for AMD GPUs."""
    built_for: tuple[str, ...] = ()
    """Architectures that this torch has kernels for."""
    cudnn: int | None = None
    triton: str | None = None
    no_triton: str | None = None
    """Why the fused kernels cannot be had."""
    dtype: Dtype
    """In which training multiplies matrices here."""
    bfloat16: bool
    """By the hardware, not emulated; as are the next two."""
    float16: bool
    fp8: bool
    attention_seconds: dict[str, float]
    """Of each backend that runs, forward and backward."""
    attention_faults: dict[str, str]
    """Why each other one does not."""
    attention_shape: tuple[int, int, int, int]
    """B, H, T, K."""


class CompileRecord(Record):
    """A small function compiled by torch.compile and run, forward and backward."""

    works: bool
    seconds: float
    words: str | None = None
    """Why not."""


class DiskRecord(Record):
    folder: str
    free_bytes: int | None = None
    bytes: int | None = None
    """Written to a file that was taken away again."""
    write_seconds: float | None = None
    """With the flush to the disk itself."""
    read_seconds: float | None = None
    """After the system was told to forget it; None where it cannot be told."""
    fault: str | None = None


class HostRecord(Record):
    platform: str
    python: str
    memory_bytes: int
    available_bytes: int
    swap_bytes: int
    swap_used_bytes: int
    gpu_can_page: bool = formerly("card_can_page", "gpu_can_page")
    """The driver lends the host's memory to a full card instead of refusing: on Windows, and under WSL."""


class CheckupRecord(Record):
    at: datetime
    host: HostRecord
    disk: DiskRecord
    inventory: Inventory
    device: DeviceRecord | None = None
    device_fault: str | None = None
    """Why torch could not tell about any device."""
    compiling: CompileRecord | None = None
    """None: not tried."""
    ceilings: Ceilings | None = None
    remembered: bool = False
    """Whether the ceilings were measured at another time."""
    kept: bool = True
    """False: they were disturbed too much to be remembered."""
    cache_fault: str | None = None
    """Why they could not be written down."""
    ceilings_fault: str | None = None
    disturbances: tuple[Disturbance, ...] = ()
    """While the ceilings were measured."""
