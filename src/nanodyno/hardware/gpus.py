"""What a GPU can do by its datasheet: the table in gpus.csv and the lookup in it.

Tensor peaks are dense, with fp32 accumulation, at the specified boost clock. An unknown GPU has no row: its
MFU is then unknown, never taken from another GPU's peak.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from nanodyno.errors import NanodynoError, nearest_names
from nanodyno.hardware.names import GpuName, parse_name

GIB = 2**30
TERA, GIGA = 1e12, 1e9
BASES = frozenset({"datasheet", "whitepaper", "rule", "third-party"})
"""Where a tensor peak is from; rule: FLOP per clock and multiprocessor, times both from the source named."""
FP32_PER_CLOCK = 256
"""FLOP of a multiprocessor: 128 lanes, as every architecture from Ada on has them."""
BFLOAT16_ONLY = "bfloat16 only"
APPLE = "Apple"
NOT_NVIDIA = frozenset({APPLE, "Instinct", "Radeon"})
"""Families without fused kernels (train/kernels.py: choose_way)."""
TENSOR_DTYPES = frozenset({"bfloat16", "float16", BFLOAT16_ONLY})

# A 16 GB GPU with ECC on shows as little as 14.6 GiB; the nearest two GPUs of one name are 10 and 12 GB.
_MEMORY_TOLERANCE = 0.10
_MOST_NAMED = 6
_OTHERWISE = (
    "--memory-limit 8GB in place of --gpu predicts whether it fits; `nanodyno plan --gpus` lists the GPUs, "
    "and `nanodyno doctor` measures the one in a machine"
)


@dataclass(frozen=True)
class Gpu:
    """One row of the table: a GPU, or one of its variants when one name was sold with several memories."""

    name: str
    architecture: str
    """Ampere, Ada and so on: costs/calibration.py knows rates by it."""
    family: str
    """GeForce has tensor cores at half rate and runs above its rated clock; see costs/calibration.py. The
    maker of a laptop chooses power and clock, so a GeForce Laptop has the highest that NVIDIA lists."""
    memory: str
    """GDDR, HBM or LPDDR."""
    memory_bytes: int
    """The nominal size; drivers show up to a tenth less. Of unified memory, the largest that was sold."""
    multiprocessors: int | None
    """Or what its maker calls so: AMD's compute units, Apple's GPU cores."""
    boost_mhz: int | None
    """At which the tensor peak is reckoned; None where the source gives the peak alone."""
    tensor_flops: float | None
    """None on GPUs without tensor cores."""
    tensor_dtype: str | None
    """bfloat16, or float16 on GPUs without bfloat16."""
    fp32_flops: float
    bandwidth_bytes_per_second: float
    tdp_watts: float
    """Of an Apple chip, the power of the whole machine."""
    basis: str
    source: str
    float16_as_fast: bool = True
    """Whether the tensor peak of bfloat16 is that of float16 too."""

    def peak_flops_per_second(self, dtype: str) -> float | None:
        """Return the FLOP/s of matmuls in a dtype by the datasheet, or None if it gives none."""
        if dtype == "float32":
            return self.fp32_flops
        if dtype == self.tensor_dtype or (dtype == "float16" and self.float16_as_fast):
            return self.tensor_flops
        return None

    @property
    def is_unified(self) -> bool:
        """Return whether the memory is the host's, and of the size that was bought with it."""
        return self.memory == "LPDDR"

    @property
    def boost_hertz(self) -> float | None:
        """Return the boost clock. Where the source gives none, it follows from the fp32 peak."""
        if self.boost_mhz is not None:
            return self.boost_mhz * 1e6
        each = FP32_PER_CLOCK / 2 if self.architecture == "Volta" else FP32_PER_CLOCK
        return self.fp32_flops / (self.multiprocessors * each) if self.multiprocessors else None

    @property
    def label(self) -> str:
        """Return the name, with the memory where that tells it from another or is unified."""
        name = parse_name(self.name)
        rows = _gpus_by_words()[name.words]
        return (
            self.name
            if (len(rows) == 1 and not self.is_unified) or name.memory_gb
            else f"{self.name} {self.memory_gb}GB"
        )

    @property
    def memory_gb(self) -> int:
        return self.memory_bytes // GIB


def find_gpu(device_name: str, memory_bytes: int | None, multiprocessors: int | None = None) -> Gpu | None:
    """Return the GPU that a driver means by a name, or None if the table has no such GPU.

    The whole name has to agree: an RTX A1000 is no A100 and a laptop GPU is not its desktop namesake. Memory
    and multiprocessors tell GPUs of one name apart. Without a memory, GPUs of one name and one peak are as
    good as one (the first row is returned), others are not. A GPU in unified memory has the memory given.
    """
    rows = _rows(parse_name(device_name), multiprocessors)
    if memory_bytes is None:
        peaks = {(row.tensor_flops, row.fp32_flops) for row in rows}
        return rows[0] if len(peaks) == 1 else None
    near = [row for row in rows if _differs_by(row, memory_bytes) <= _MEMORY_TOLERANCE * row.memory_bytes]
    if not near and rows and rows[0].is_unified and memory_bytes < rows[0].memory_bytes:
        return replace(rows[0], memory_bytes=memory_bytes)
    return min(near, key=lambda row: _differs_by(row, memory_bytes), default=None)


def gpu_named(words: str) -> Gpu:
    """Return the GPU that a person means: `4070`, `4070 laptop`, `RTX 3080 12GB`, `7900 xtx`, `m2 max 32gb`.

    The beginning of a name will do where only one GPU has it. Raises NanodynoError for an unknown name and
    for one that several GPUs have, with their names.
    """
    typed = parse_name(words)
    begins = [row for row in all_gpus() if _begins(typed, row)]
    rows = [row for row in begins if typed.said in parse_name(row.name).meanings]
    meant = [row for row in rows or begins if _agree(typed, row)]
    if len(meant) == 1:
        return _with_memory(meant[0], typed)
    if meant:
        raise NanodynoError(f"{words!r} matches more than one GPU", f"name one of: {_listed(meant)}")
    raise NanodynoError(f"unknown GPU {words!r}", _unknown_hint(words, rows or begins))


def _begins(typed: GpuName, row: Gpu) -> bool:
    """Return whether what was typed is the beginning of a name, as `a100` is of several."""
    name = parse_name(row.name)
    size = len(typed.model)
    return size > 0 and typed.model == name.model[:size] and set(typed.series) <= set(name.series)


def _with_memory(row: Gpu, typed: GpuName) -> Gpu:
    """Return a GPU with the unified memory that was typed."""
    typed_gb = typed.memory_gb if row.is_unified else None
    return row if typed_gb in (None, row.memory_gb) else replace(row, memory_bytes=typed_gb * GIB)


def _unknown_hint(words: str, begins: Sequence[Gpu]) -> str:
    models = {" ".join(parse_name(row.name).model): row.label for row in all_gpus()}
    near = nearest_names(words, [row.label for row in all_gpus()], models, most=3, cutoff=0.5)
    known = _listed(begins) if begins else ", ".join(near)
    return f"did you mean {known}? If not, {_OTHERWISE}" if known else _OTHERWISE


def _listed(rows: Sequence[Gpu]) -> str:
    labels = [row.label for row in rows]
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return ", ".join(labels[:_MOST_NAMED]) + more


def _rows(name: GpuName, multiprocessors: int | None) -> list[Gpu]:
    """Return the GPUs of this name, as far as it and the multiprocessors tell them apart."""
    return [
        row
        for row in _gpus_by_words().get(name.words, ())
        if _agree(name, row)
        if multiprocessors is None or row.multiprocessors is None or multiprocessors in _counts(row)
    ]


def _counts(row: Gpu) -> tuple[int | None, ...]:
    """Return the multiprocessors that torch may report. ROCm counts pairs of RDNA's compute units."""
    number = row.multiprocessors
    if number is None or not row.architecture.startswith("RDNA"):
        return (number,)
    return number, number // 2


def _agree(name: GpuName, row: Gpu) -> bool:
    """Return whether a memory in a name is that in the row's name or, if that has none, the row's own."""
    if name.memory_gb is None or (row.is_unified and 0 < name.memory_gb <= row.memory_gb):
        return True
    return name.memory_gb == (parse_name(row.name).memory_gb or row.memory_gb)


def _differs_by(row: Gpu, memory_bytes: int) -> int:
    return abs(row.memory_bytes - memory_bytes)


@cache
def all_gpus() -> tuple[Gpu, ...]:
    """Return the table, in its own order."""
    return read_gpus(files("nanodyno.hardware").joinpath("gpus.csv").read_text(encoding="utf-8"))


@cache
def _gpus_by_words() -> dict[tuple[str, ...], tuple[Gpu, ...]]:
    names: dict[tuple[str, ...], tuple[Gpu, ...]] = {}
    for gpu in all_gpus():
        words = parse_name(gpu.name).words
        names[words] = (*names.get(words, ()), gpu)
    return names


def read_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the rows of a table; ValueError names the first line that cannot be right."""
    gpus: list[Gpu] = []
    seen: set[tuple[GpuName, int]] = set()
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        try:
            gpu = _gpu(row)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number} of the GPU table: {error}") from error
        key = (parse_name(gpu.name), gpu.memory_bytes)
        if key in seen:
            raise ValueError(f"line {number} of the GPU table: {gpu.name} is there twice")
        seen.add(key)
        gpus.append(gpu)
    return tuple(gpus)


def _gpu(row: Mapping[str, str]) -> Gpu:
    tensor = _positive(row, "tensor_tflops") if row["tensor_tflops"] else None
    dtype = row["tensor_dtype"] or None
    float16_as_fast = dtype != BFLOAT16_ONLY
    if (tensor is None) != (dtype is None) or (dtype is not None and dtype not in TENSOR_DTYPES):
        raise ValueError(f"tensor_dtype {dtype} beside tensor_tflops {tensor}")
    if not row["name"] or row["basis"] not in BASES or not row["source"]:
        raise ValueError("name, basis or source is missing")
    if not all(row[column] for column in ("architecture", "family", "memory")):
        raise ValueError("architecture, family or memory is missing")
    return Gpu(
        name=row["name"],
        architecture=row["architecture"],
        family=row["family"],
        memory=row["memory"],
        memory_bytes=int(_positive(row, "memory_gb")) * GIB,
        multiprocessors=int(row["multiprocessors"]) if row["multiprocessors"] else None,
        boost_mhz=int(row["boost_mhz"]) if row["boost_mhz"] else None,
        tensor_flops=None if tensor is None else tensor * TERA,
        tensor_dtype=dtype if float16_as_fast else "bfloat16",
        fp32_flops=_positive(row, "fp32_tflops") * TERA,
        bandwidth_bytes_per_second=_positive(row, "bandwidth_gb_s") * GIGA,
        tdp_watts=_positive(row, "tdp_w"),
        basis=row["basis"],
        source=row["source"],
        float16_as_fast=float16_as_fast,
    )


def _positive(row: Mapping[str, str], column: str) -> float:
    value = float(row[column])
    if not 0 < value < float("inf"):
        raise ValueError(f"{column} is {value}")
    return value
