"""Speeds of trainings that were measured on a GPU, over those that its class predicts for them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nanodyno.analysis.account import Account
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import IMPOSSIBLE, audit, with_found_shape
from nanodyno.config import PLACES, SETTINGS, SIZE_KEYS, build_config, keys_where
from nanodyno.costs.calibration import MeasuredSpeed, expected_of
from nanodyno.costs.setup import Dtype, Setup, settle
from nanodyno.costs.target import Target
from nanodyno.costs.time import iteration_time
from nanodyno.errors import NanodynoError
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.hardware.gpus import Gpu, find_gpu
from nanodyno.records.measured import MeasuredFiles

BATCH = {"batch_size", "gradient_accumulation_steps", "tokens_per_iter", "batch_ramp"}
OF_SPEED = frozenset(keys_where(lambda each: "speed" in each.affects)) - BATCH - PLACES - {"parallel"}
"""Settings that the time of a micro-step follows from."""
OWN_LN_ERROR, FOREIGN_LN_ERROR = 0.08, 0.11
"""Of a prediction by nanodyno's own trainings on such a GPU, and by those of other programs."""
SHRINK = 0.5
LEAST_FACTOR = 0.4
"""Of what its class predicts. What is farther off was throttled, or is mislabelled."""


@dataclass(frozen=True)
class KnownSpeed:
    """One training on one GPU of the table."""

    gpu: Gpu
    tokens_per_second: float
    expected_tokens_per_second: float
    """By the GPU's class, or for the GPU that nanodyno was measured on by its own rates."""
    own: bool = False
    """Whether nanodyno trained it, and not another program."""
    fused: bool = False

    @property
    def factor(self) -> float:
        return self.tokens_per_second / self.expected_tokens_per_second


@dataclass(frozen=True)
class Measurements:
    """What was measured of GPUs, by files."""

    speeds: tuple[KnownSpeed, ...] = ()
    ceilings: tuple[Ceilings, ...] = ()
    unused: tuple[str, ...] = ()
    """Files with results of which no speed follows that others can be compared with."""

    @property
    def gpus(self) -> tuple[str, ...]:
        """Return the names of the GPUs that something is known of."""
        names = [*(each.gpu.label for each in self.speeds), *map(_name, self.ceilings)]
        return tuple(dict.fromkeys(names))

    def applied_to(self, target: Target) -> Target:
        """Return the target with what is known of such a GPU. Its own ceilings stay where it has some."""
        known = [each for each in self.ceilings if _is_of(each, target)]
        newest = max(known, key=lambda each: each.measured_at, default=None)
        return replace(
            target,
            ceilings=target.ceilings or newest,
            trained=None if target.gpu is None else speed_of(self.speeds, target.gpu),
        )

    def include(self, target: Target) -> bool:
        """Return whether anything is known of such a GPU."""
        return any(each.gpu == target.gpu for each in self.speeds) or any(
            _is_of(each, target) for each in self.ceilings
        )


def measurements_of(files: MeasuredFiles) -> Measurements:
    speeds: list[KnownSpeed] = []
    unused: list[str] = []
    for run in files.runs:
        known = known_speed(with_found_shape(account_of(run)))
        if known is None:
            unused.append(run.folder.name)
        else:
            speeds.append(known)
    return Measurements(tuple(speeds), files.ceilings, tuple(unused))


def speed_of(known: Sequence[KnownSpeed], gpu: Gpu) -> MeasuredSpeed | None:
    """Return how much faster trainings on a GPU were than its class predicts: the median of ln ratios.

    nanodyno's own trainings count before those of other programs. Of these half of the deviation is taken
    for the GPU's, the rest for the program's: of public rows, one program predicts another on the same GPU
    with an error of 15%.
    """
    of_gpu = [each for each in known if each.gpu == gpu]
    own = [each for each in of_gpu if each.own]
    found = [math.log(each.factor) for each in own or of_gpu]
    if not found:
        return None
    fused = any(each.fused for each in own)
    if own:
        return MeasuredSpeed(math.exp(statistics.median(found)), OWN_LN_ERROR, fused)
    return MeasuredSpeed(math.exp(SHRINK * statistics.median(found)), FOREIGN_LN_ERROR)


def known_speed(account: Account) -> KnownSpeed | None:
    """Return a run's speed beside the one that its GPU's class predicts for it.

    None where its log does not report enough, on a GPU that is not in the table, of several processes, where
    the host limits the speed, and for a speed that the GPU cannot have reached alone.
    """
    speed, gpu = account.speed.tokens_per_second, account.gpu
    setup = None if gpu is None or account.processes != 1 else _setup(account, gpu)
    if speed is None or gpu is None or setup is None:
        return None
    if any(finding.code in IMPOSSIBLE for finding in audit(account)):
        return None
    time = iteration_time(setup, expected_of(gpu, setup.dtype))
    known = KnownSpeed(
        gpu, speed.value, time.tokens_per_second, not account.foreign, setup.kernels == "fused"
    )
    if time.launch_bound or not LEAST_FACTOR < known.factor < 1 / LEAST_FACTOR:
        return None  # it is the host's speed, or another GPU's
    return known


def _setup(account: Account, gpu: Gpu) -> Setup | None:
    """Return the switches that it trained with. Of a float32 elsewhere, TF32 may have been allowed in it."""
    speed, shape, dtype = account.speed, account.shape, _dtype(account.dtype)
    compiled = account.settings.get("compile", True if account.mfu_is_nanogpts else None)
    if shape is None or compiled is None or (account.foreign and dtype == "float32"):
        return None
    micro_batch = _micro_batch(speed.tokens_per_iter, speed.micro_steps, shape.block_size)
    if micro_batch is None or speed.micro_steps is None:
        return None
    used = account.in_effect
    settings: dict[str, Any] = {
        key: value
        for key, value in account.settings.items()
        if key in OF_SPEED and value != SETTINGS[key].none_means
    }
    settings |= {"compile": compiled, "kernels": used.get("kernels", settings.get("kernels", "autograd"))}
    settings |= {"recompute": used["recompute"]} if "recompute" in used else {}
    batch = {"batch_size": micro_batch, "gradient_accumulation_steps": speed.micro_steps}
    try:
        config = build_config({**shape.model_dump(include={*SIZE_KEYS}), **settings, **batch})
        shape = shape.replaced(n_head=config.n_head)  # of 64 where a log reports none
        if shape.n_embd % shape.n_head:
            return None
        setup = settle(config, shape, dtype, gpu.memory_bytes)
    except NanodynoError:
        return None
    attention = used.get("attention")
    return replace(setup, attention=attention) if isinstance(attention, str) else setup


def _dtype(name: str) -> Dtype:
    if name in ("float32", "bfloat16"):
        return name
    return "float16"


def _micro_batch(tokens: int | None, micro_steps: int | None, block_size: int) -> int | None:
    if not tokens or not micro_steps:
        return None
    sequences, rest = divmod(tokens, micro_steps * block_size)
    return sequences if sequences and not rest else None


def _is_of(ceilings: Ceilings, target: Target) -> bool:
    """By the table, and by the driver's name of a GPU that is not in it."""
    return _gpu(ceilings) == target.gpu if target.gpu is not None else ceilings.device.name == target.name


def _name(ceilings: Ceilings) -> str:
    gpu = _gpu(ceilings)
    return ceilings.device.name if gpu is None else gpu.label


def _gpu(ceilings: Ceilings) -> Gpu | None:
    device = ceilings.device
    return find_gpu(device.name, device.memory_bytes, device.multiprocessors)
