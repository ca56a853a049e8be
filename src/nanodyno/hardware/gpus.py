"""What a GPU can do by its datasheet: the table in gpus.csv and the lookup in it.

Tensor peaks are dense, with fp32 accumulation, at the specified boost clock. An unknown GPU has no row: its
MFU is then unknown, never taken from another GPU's peak.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
TENSOR_DTYPES = frozenset({"bfloat16", "float16"})

# A 16 GB card with ECC on shows as little as 14.6 GiB; the nearest two cards of one name are 10 and 12 GB.
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
    """GeForce has tensor cores at half rate and runs above its rated clock; see costs/calibration.py."""
    memory: str
    """GDDR, HBM or LPDDR."""
    memory_bytes: int
    """The nominal size; drivers show up to a tenth less."""
    multiprocessors: int | None
    boost_mhz: int | None
    """At which the tensor peak is reckoned; None where the source gives the peak alone."""
    tensor_flops: float | None
    """None on cards older than tensor cores."""
    tensor_dtype: str | None
    """bfloat16, which implies float16 at the same rate; or float16, on cards older than bfloat16."""
    fp32_flops: float
    bandwidth_bytes_per_second: float
    tdp_watts: float
    basis: str
    source: str

    def peak_flops_per_second(self, dtype: str) -> float | None:
        """FLOP/s at which this card's datasheet multiplies matrices of a dtype; None where it cannot."""
        if dtype == "float32":
            return self.fp32_flops
        if dtype in ("float16", self.tensor_dtype):
            return self.tensor_flops
        return None

    @property
    def boost_hertz(self) -> float | None:
        """Return the boost clock. Where the source gives none, it follows from the fp32 peak."""
        if self.boost_mhz is not None:
            return self.boost_mhz * 1e6
        return self.fp32_flops / (self.multiprocessors * FP32_PER_CLOCK) if self.multiprocessors else None

    @property
    def label(self) -> str:
        """The name, with its memory where that is what tells it from another."""
        alone = len(_gpus_by_words()[parse_name(self.name).words]) == 1
        return self.name if alone or parse_name(self.name).memory_gb else f"{self.name} {self.memory_gb}GB"

    @property
    def memory_gb(self) -> int:
        return self.memory_bytes // GIB


def find_gpu(device_name: str, memory_bytes: int | None, multiprocessors: int | None = None) -> Gpu | None:
    """The card that a driver means by a name, told from its namesakes by memory and multiprocessors.

    The whole name has to agree: an RTX A1000 is no A100 and a laptop part is not its desktop namesake.
    Without a memory, cards of one name and one peak are as good as one (the first row is returned), others
    are not.
    """
    rows = _rows(parse_name(device_name), multiprocessors)
    if memory_bytes is None:
        peaks = {(row.tensor_flops, row.fp32_flops) for row in rows}
        return rows[0] if len(peaks) == 1 else None
    near = [row for row in rows if _differs_by(row, memory_bytes) <= _MEMORY_TOLERANCE * row.memory_bytes]
    return min(near, key=lambda row: _differs_by(row, memory_bytes), default=None)


def gpu_named(words: str) -> Gpu:
    """The card that a person means: `4070`, `RTX 3080 12GB`, `a100-sxm4-80gb`."""
    typed = parse_name(words)
    rows = [row for row in all_gpus() if typed.words and _is_meant(typed, row)]
    if len(rows) == 1:
        return rows[0]
    begins = [row for row in all_gpus() if _begins(typed, row)]
    several = rows or (begins if typed.memory_gb is None and len(begins) > 1 else [])
    if several:
        raise NanodynoError(f"{words!r} matches more than one GPU", f"name one of: {_listed(several)}")
    raise NanodynoError(f"unknown GPU {words!r}", _unknown_hint(words, typed, begins))


def _is_meant(typed: GpuName, row: Gpu) -> bool:
    name = parse_name(row.name)
    return typed.words in (name.words, name.model) and _agree(typed, row)


def _begins(typed: GpuName, row: Gpu) -> bool:
    """`a100` is the beginning of several."""
    size = len(typed.words)
    name = parse_name(row.name)
    return size > 0 and typed.words in (name.words[:size], name.model[:size])


def _unknown_hint(words: str, typed: GpuName, begins: Sequence[Gpu]) -> str:
    if typed.is_mobile:
        why = "laptop parts are not in the table, since their makers choose the clocks"
        return f"{why}{_namesake_words(typed)}; {_OTHERWISE}"
    models = {" ".join(parse_name(row.name).model): row.label for row in all_gpus()}
    near = nearest_names(words, [row.label for row in all_gpus()], models, most=3, cutoff=0.5)
    known = _listed(begins) if begins else ", ".join(near)
    return f"did you mean {known}? If not, {_OTHERWISE}" if known else _OTHERWISE


def _namesake_words(typed: GpuName) -> str:
    """Of the card that a laptop part is named after, which it is not."""
    names = {row.name: parse_name(row.name).words for row in all_gpus()}
    namesakes = [name for name, words in names.items() if typed.words[: len(words)] == words]
    return f" ({max(namesakes, key=len)} is a desktop card)" if namesakes else ""


def _listed(rows: Sequence[Gpu]) -> str:
    labels = [row.label for row in rows]
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return ", ".join(labels[:_MOST_NAMED]) + more


def _rows(name: GpuName, multiprocessors: int | None) -> list[Gpu]:
    """Of this name, as far as it and the multiprocessors tell."""
    return [
        row
        for row in _gpus_by_words().get(name.words, ())
        if _agree(name, row)
        if multiprocessors is None or row.multiprocessors in (None, multiprocessors)
    ]


def _agree(name: GpuName, row: Gpu) -> bool:
    """Whether a memory in a name is the one in the row's name or, where that has none, the row's own."""
    return name.memory_gb in (None, parse_name(row.name).memory_gb or row.memory_gb)


def _differs_by(row: Gpu, memory_bytes: int) -> int:
    return abs(row.memory_bytes - memory_bytes)


@cache
def all_gpus() -> tuple[Gpu, ...]:
    """The table, in its own order."""
    return read_gpus(files("nanodyno.hardware").joinpath("gpus.csv").read_text(encoding="utf-8"))


@cache
def _gpus_by_words() -> dict[tuple[str, ...], tuple[Gpu, ...]]:
    names: dict[tuple[str, ...], tuple[Gpu, ...]] = {}
    for gpu in all_gpus():
        words = parse_name(gpu.name).words
        names[words] = (*names.get(words, ()), gpu)
    return names


def read_gpus(text: str) -> tuple[Gpu, ...]:
    """The rows of a table; ValueError names the first that cannot be right."""
    gpus: list[Gpu] = []
    seen: set[tuple[GpuName, int]] = set()
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        try:
            gpu = _gpu(row)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number} of the card table: {error}") from error
        key = (parse_name(gpu.name), gpu.memory_bytes)
        if key in seen:
            raise ValueError(f"line {number} of the card table: {gpu.name} is there twice")
        seen.add(key)
        gpus.append(gpu)
    return tuple(gpus)


def _gpu(row: Mapping[str, str]) -> Gpu:
    tensor = _positive(row, "tensor_tflops") if row["tensor_tflops"] else None
    dtype = row["tensor_dtype"] or None
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
        tensor_dtype=dtype,
        fp32_flops=_positive(row, "fp32_tflops") * TERA,
        bandwidth_bytes_per_second=_positive(row, "bandwidth_gb_s") * GIGA,
        tdp_watts=_positive(row, "tdp_w"),
        basis=row["basis"],
        source=row["source"],
    )


def _positive(row: Mapping[str, str], column: str) -> float:
    value = float(row[column])
    if not 0 < value < float("inf"):
        raise ValueError(f"{column} is {value}")
    return value
