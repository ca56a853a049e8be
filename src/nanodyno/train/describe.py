"""run.json of a run that is about to begin."""

import platform
import subprocess

import torch

from nanodyno import __version__
from nanodyno.config import SETTINGS, RunConfig
from nanodyno.config.attributes import ABSENT
from nanodyno.data.shards import Dataset
from nanodyno.data.stamp import stamp
from nanodyno.records.types import ArithmeticRecord, DataRecord, RunRecord, Setting, VersionsRecord, utc_now
from nanodyno.schedule import learning_rate_at
from nanodyno.train.device import DeviceChoice, describe_machine
from nanodyno.train.engine import Prepared
from nanodyno.train.job import TrainingJob
from nanodyno.train.kernels import Way, choose_way


def describe(
    job: TrainingJob, choice: DeviceChoice, dataset: Dataset, vocab_size: int, processes: int
) -> RunRecord:
    way = choose_way(job.config, choice, processes)
    return RunRecord(
        name=job.name,
        started_at=utc_now(),
        command=job.command,
        config=job.config,
        vocab_size=vocab_size,
        machine=describe_machine(choice.device),
        versions=_versions(),
        data=DataRecord(
            dataset=dataset.name,
            tokenizer=dataset.tokenizer,
            vocab_size=dataset.vocab_size,
            train_tokens=dataset.tokens("train"),
            val_tokens=dataset.tokens("val"),
            fingerprint=dataset.fingerprint,
            stamp=stamp(shard.path for shard in dataset.shards()),
        ),
        arithmetic=arithmetic(job.config, way, choice, processes),
        notes=(*job.notes, *choice.notes, *([way.note] if way.note else []), *_schedule_notes(job.config)),
    )


def arithmetic(config: RunConfig, way: Way, choice: DeviceChoice, processes: int) -> ArithmeticRecord:
    """What is known before a micro-step is prepared."""
    return ArithmeticRecord(
        device=str(choice.device),
        dtype=choice.dtype,
        kernels=way.kernels,
        compiled=False,
        attention=None if config.attention == "auto" else config.attention,
        processes=processes,
    )


def as_prepared(before: ArithmeticRecord, prepared: Prepared) -> ArithmeticRecord:
    """The same after it: what was compiled, chosen and measured."""
    took = prepared.compiled or before.kernels == "fused"
    return before.model_copy(
        update={
            "compiled": prepared.compiled,
            "compile_seconds": prepared.seconds if took else None,
            "attention": prepared.attention,
            "attention_seconds": dict(prepared.attention_seconds) or None,
            "recompute": prepared.recompute,
            "cuda_graph": prepared.cuda_graph,
            "triton": prepared.triton,
            "gemm_algorithm": prepared.gemm_algorithm,
        }
    )


def speed_setup(record: RunRecord) -> dict[str, Setting]:
    """What the speed of the next iterations depends on and a resume may change, after all fallbacks."""
    asked = {
        key: value if each.amount_affects is None else value not in ABSENT
        for key, each in SETTINGS.items()
        for value in [getattr(record.config, key)]
        if "speed" in each.affects and each.on_resume == "free" and each.group != "batch"
    }
    seconds = {"compile_seconds", "attention_seconds"}
    used = record.arithmetic.model_dump(mode="json", exclude=seconds | {"device", "processes"})
    machine = record.machine
    return {**asked, **used, "device": machine.device_name, "threads": machine.cpu_threads}


def _schedule_notes(config: RunConfig) -> list[str]:
    if not config.decay_lr or config.warmup_iters < config.max_iters:
        ends = config.decay_lr and config.schedule != "constant" and config.lr_decay_iters < config.max_iters
        grown = ", times the root of the batch's growth," if config.batch_ramp else ""
        words = (
            f"the learning rate stays at {config.min_lr:.2e}{grown} from iteration "
            f"{config.lr_decay_iters} on; --lr_decay_iters={config.max_iters} would stretch its decay"
        )
        return [words] if ends else []
    highest = learning_rate_at(config, config.max_iters - 1)
    return [
        f"warm-up takes {config.warmup_iters} iterations and the run has {config.max_iters}: the learning "
        f"rate ends at {highest:.2e} and never reaches {config.learning_rate:.2e}"
    ]


def _versions() -> VersionsRecord:
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain")
    return VersionsRecord(
        nanodyno=__version__,
        python=platform.python_version(),
        torch=torch.__version__,
        cuda=torch.version.cuda,
        git_commit=commit or None,
        git_dirty=None if status is None else bool(status),
    )


def _git(*arguments: str) -> str | None:
    """Of the folder the run was started in, where a user's own changes are; None outside a repository."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
