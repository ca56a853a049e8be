"""What happened in a run: raw facts with units in their names; None means not measured.

Rates, MFU and verdicts are never stored: readers derive them, so that a corrected peak corrects old runs.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from nanodyno.config import RunConfig
from nanodyno.costs.setup import Dtype

Setting = bool | int | float | str | None
FORMAT = "nanodyno-run"
FORMAT_VERSION = 3


Skipped = Literal["overflow", "not-finite", "loss-spike", "norm-spike"]
"""overflow: of fp16's scaled gradients, which its loss scaler answers by scaling less."""
SaveReason = Literal["evaluation", "autosave", "stop"]
StopReason = Literal[
    "finished",
    "interrupted",
    "terminated",
    "max-hours",
    "stop-at",
    "diverged",
    "no-space",
    "no-memory",
    "failed",
]


class Record(BaseModel):
    """Frozen, strict about its keys; NaN and infinity survive JSON as strings."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def formerly(old: str, name: str, default: Any = ...) -> Any:
    """A field that files of before it was renamed have under its old key."""
    return Field(default, validation_alias=AliasChoices(name, old))


class StepRecord(Record):
    """One iteration: its micro-steps and one optimiser update, timed between two synchronisations."""

    iteration: int
    """Counted from 0; the update it made is number iteration + 1."""
    loss: float
    """Mean over all micro-steps, before the update."""
    grad_norm: float | None
    """Before clipping; None when grad_clip is off."""
    learning_rate: float
    tokens: int
    step_seconds: float
    data_seconds: float
    """The part of step_seconds spent waiting for a batch."""
    micro_steps: int | None = None
    """Forward and backward passes of each process; None in runs of before it was noted."""
    micro_grad_norm: float | None = None
    """Of the gradient of the first half of the micro-steps (of the first alone in runs of before), before
    clipping; of several processes the root of the mean square. None where it was not measured: with one
    micro-step it is grad_norm."""
    micro_tokens: int | None = None
    """That it is the mean over."""
    skipped: Skipped | None = None
    """Why the update was left out: the weights are those of the iteration before."""
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_host_bytes: int | None = None
    wall_time: float
    """Unix time at the end of the iteration."""


class EvalRecord(Record):
    """One evaluation, on the same tokens every time."""

    iteration: int
    """Updates made before it: nanoGPT's "step N"."""
    val_loss: float
    train_loss: float
    val_tokens: int
    train_tokens: int
    eval_seconds: float
    wall_time: float


class TelemetryRecord(Record):
    """The machine over a few seconds of training, as its first process sees it.

    Counters are of the time since the sample before; the rest is how things stood at its end. Fields of the
    GPU are of the first process's GPU, and None without one.
    """

    iteration: int
    """Updates made when it was taken."""
    seconds: float
    """That the counters are of."""
    cores: int
    """That the training may run on."""
    quota_cores: float | None = None
    """What a container may use at once, where it has such a limit."""
    busy_core_seconds: float | None = None
    """Of these cores, by any program."""
    own_core_seconds: float | None = None
    """By the processes of this training."""
    stolen_core_seconds: float | None = None
    """Taken from these cores by the host of a virtual machine."""
    waited_seconds: float | None = None
    """The main thread could have run, and another thread had its core."""
    swapped_bytes: int | None = None
    """To and from the disk."""
    load_average: float | None = None
    available_bytes: int | None = None
    """Of the host's memory."""
    sm_mhz: int | None = None
    memory_mhz: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: int | None = None
    gpu_utilization: float | None = None
    """Share of the last moments in which a kernel ran."""
    throttle_reasons: int | None = None
    """NVML's bit mask of why the clocks are not higher."""
    other_gpu_processes: int | None = None
    """Processes of others that compute on the GPU; None where ours cannot be told from theirs."""
    other_gpu_bytes: int | None = None
    """Memory of the GPU that they hold."""
    other_gpu_share: float | None = None
    """Share of the GPU's multiprocessors that they used."""
    wall_time: float


class StartRecord(Record):
    """A process took up the run, new or where it stood."""

    kind: Literal["start"] = "start"
    iteration: int
    process: int
    host: str
    processes: int = 1
    """That train together."""
    wall_time: float


class PreparedRecord(Record):
    """The process that started is ready to train: compiled, measured and fallen back where it had to."""

    kind: Literal["prepared"] = "prepared"
    iteration: int
    setup: dict[str, Setting]
    """What the speed from here on depends on and a resume may change: the device, the arithmetic, settings.
    Runs of before it was recorded have none."""
    wall_time: float


class SaveRecord(Record):
    """A checkpoint came to the disk; its time is no part of any step's."""

    kind: Literal["save"] = "save"
    iteration: int
    reason: SaveReason
    save_seconds: float
    saved_bytes: int
    wall_time: float


class SplitRecord(Record):
    """Memory ran out: from this iteration on, smaller micro-batches at the same tokens per iteration."""

    kind: Literal["split"] = "split"
    iteration: int
    batch_size: int
    batch_size_before: int
    recompute: str | None = None
    """What is made again from here on; None where nothing was prepared anew."""
    wall_time: float


class StopRecord(Record):
    """The process that trained ended in order; after a kill there is none."""

    kind: Literal["stop"] = "stop"
    iteration: int
    reason: StopReason
    words: str | None = None
    """What was told, when it failed."""
    wall_time: float


HistoryRecord = Annotated[
    StartRecord | PreparedRecord | SaveRecord | SplitRecord | StopRecord, Field(discriminator="kind")
]
"""What happened to a run besides its steps and evaluations; a resume takes nothing of it back."""


class MachineRecord(Record):
    """The machine as the driver and the operating system name it."""

    device_type: Literal["cpu", "cuda", "mps"]
    device_name: str
    device_memory_bytes: int | None = None
    multiprocessors: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cpu_name: str
    cpu_count: int
    cpu_threads: int
    """Threads torch computes with on the CPU."""
    platform: str


class VersionsRecord(Record):
    nanodyno: str
    python: str
    torch: str
    cuda: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None


class DataRecord(Record):
    dataset: str
    tokenizer: str | None
    vocab_size: int
    """Of the tokenizer; the model's own (padded) is RunRecord.vocab_size."""
    train_tokens: int
    val_tokens: int
    fingerprint: str
    stamp: str | None = None
    """Of the files' sizes and times: as long as it is the same, their sums need no second look."""


class ArithmeticRecord(Record):
    """What the run really used, after fallbacks."""

    device: str
    dtype: Dtype
    kernels: Literal["fused", "autograd"] = "autograd"
    triton: bool = False
    """Whether fused kernels are Triton's; without it their twins in plain torch ran."""
    compiled: bool
    """By torch.compile, which fused kernels do without."""
    compile_seconds: float | None = None
    """Wall time of the first micro-step, with all that was compiled and measured for it."""
    attention: str | None = None
    """The backend that was asked for or measured to be the fastest; None is torch's own choice."""
    attention_seconds: dict[str, float] | None = None
    """What each backend took, forward and backward in one block, where they were measured."""
    gemm_algorithm: Literal["torch", "measured"] = formerly("products", "gemm_algorithm", "torch")
    """Who chose the algorithms of the matrix products: torch, or the clock."""
    recompute: str = "none"
    cuda_graph: bool = False
    processes: int = 1
    """Each on a device of its own."""


class AnyRunRecord(Record):
    """What run.json says of every run."""

    format: Literal["nanodyno-run"] = "nanodyno-run"
    version: int = FORMAT_VERSION
    name: str
    started_at: datetime
    """Of an imported run: when it was imported, since logs do not tell when they began."""
    command: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Fallbacks, ignored settings, what a log left open: in the words shown to the user."""
    resumed_at_iterations: tuple[int, ...] = ()


class RunRecord(AnyRunRecord):
    """A run of ours: everything that is known before the first iteration ends."""

    config: RunConfig
    vocab_size: int
    machine: MachineRecord
    versions: VersionsRecord
    data: DataRecord
    arithmetic: ArithmeticRecord


def utc_now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
