"""cuBLASLt's matrix products with a say in the algorithm, in the library that torch has loaded.

Torch takes the first algorithm that cuBLASLt proposes for a form, and its proposals are no measurements.
"""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nanodyno.model.matmul import Units

PROPOSALS = 16
"""Asked for; it has about eight for a form."""
WORKSPACE_BYTES = 32 * 2**20
"""What torch allows on Hopper as well."""
FULLY_ALIGNED = 256

# cuBLAS's own numbers, from cublasLt.h and library_types.h
_TYPES = {
    torch.float32: 0,
    torch.float16: 2,
    torch.bfloat16: 14,
    torch.float8_e4m3fn: 28,
    torch.float8_e5m2: 29,
}
_COMPUTE_32F = 68
_SCALE_32F = 0
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4
_UNIT_A, _UNIT_B, _FAST = 17, 18, 25
_MOST_WORKSPACE, _REDUCTIONS, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)
_REDUCE_IN_FP32 = 2
_NO_MEMORY = 3
_HALVES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class GemmProblem:
    """All that an algorithm depends on: out (m x n) = a (m x k) @ b (k x n), or added to what is there."""

    m: int
    k: int
    n: int
    a_transposed: bool
    """A transposed view: the first index is the one whose neighbours are neighbours in memory."""
    b_transposed: bool
    strides: tuple[int, int, int]
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    add: bool
    alignments: tuple[int, int, int]
    fast: bool | None
    """Of fp8: sums in the tensor cores' own precision. Others have no choice."""


@dataclass(frozen=True)
class Algorithm:
    """cuBLASLt's own description, which holds for one version of it."""

    code: bytes
    workspace_bytes: int


class _Proposal(ctypes.Structure):
    _fields_ = (
        ("algorithm", ctypes.c_uint8 * 64),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def form_of(a: Tensor, b: Tensor, out: Tensor, add: bool, units: Units | None = None) -> GemmProblem | None:
    """None for what is left to torch: other precisions, single rows or columns, and views with gaps."""
    if (a.dtype.itemsize, b.dtype.itemsize) != ((2, 2) if units is None else (1, 1)):
        return None
    if out.dtype not in (_HALVES if units is not None else (a.dtype, torch.float32)):
        return None
    if min(*a.shape, *b.shape) < 2 or 1 not in a.stride() or 1 not in b.stride() or out.stride(1) != 1:
        return None
    return GemmProblem(
        m=a.shape[0], k=a.shape[1], n=b.shape[1],
        a_transposed=a.stride(1) != 1, b_transposed=b.stride(1) != 1,
        strides=(max(a.stride()), max(b.stride()), out.stride(0)),
        dtypes=(a.dtype, b.dtype, out.dtype), add=add,
        alignments=(_alignment(a), _alignment(b), _alignment(out)),
        fast=None if units is None else units.fast,
    )  # fmt: skip


def _alignment(tensor: Tensor) -> int:
    address = tensor.data_ptr()
    return min(address & -address, FULLY_ALIGNED)


class CublasError(RuntimeError):
    """A call that the library refused."""


class CublasLt:
    """OSError where the library is not to be found, CublasError where it refuses."""

    def __init__(self) -> None:
        major = (torch.version.cuda or "").partition(".")[0]
        name = f"cublasLt64_{major}.dll" if os.name == "nt" else f"libcublasLt.so.{major}"
        self._library = ctypes.CDLL(name)
        self._library.cublasLtGetVersion.restype = ctypes.c_size_t
        self._handle = self._new("cublasLtCreate")
        self._descriptions: dict[GemmProblem, _Description] = {}

    @property
    def version(self) -> int:
        return self._library.cublasLtGetVersion()

    def proposals(self, form: GemmProblem, units: Units | None = None) -> list[Algorithm]:
        description = self._description(form, units)
        preference = self._new("cublasLtMatmulPreferenceCreate")
        a, b, out = form.alignments
        wanted_attributes = {
            _MOST_WORKSPACE: ctypes.c_uint64(WORKSPACE_BYTES),
            _REDUCTIONS: ctypes.c_uint32(_REDUCE_IN_FP32),
        }
        wanted_attributes |= {
            at: ctypes.c_uint32(size) for at, size in zip(_ALIGNMENTS, (b, a, out, out), strict=True)
        }
        for attribute, value in wanted_attributes.items():
            self._call("cublasLtMatmulPreferenceSetAttribute", preference, attribute, *_bytes_of(value))
        found, count = (_Proposal * PROPOSALS)(), ctypes.c_int()
        self._call(
            "cublasLtMatmulAlgoGetHeuristic", self._handle, description.operation,
            description.b, description.a, description.out, description.out,
            preference, PROPOSALS, found, ctypes.byref(count),
        )  # fmt: skip
        self._call("cublasLtMatmulPreferenceDestroy", preference)
        return [
            Algorithm(bytes(each.algorithm), each.workspace_bytes)
            for each in found[: count.value]
            if each.state == 0
        ]

    def run(
        self,
        form: GemmProblem,
        algorithm: Algorithm,
        a: Tensor,
        b: Tensor,
        out: Tensor,
        units: Units | None = None,
    ) -> None:
        """On the current stream. cuBLAS counts columns first, so that it is given out^T = b^T a^T."""
        description = self._description(form, units)
        workspace = torch.empty(algorithm.workspace_bytes, dtype=torch.uint8, device=out.device)
        one, before = ctypes.c_float(1.0), ctypes.c_float(float(form.add))
        self._call(
            "cublasLtMatmul", self._handle, description.operation, ctypes.byref(one),
            _address(b), description.b, _address(a), description.a, ctypes.byref(before),
            _address(out), description.out, _address(out), description.out,
            (ctypes.c_uint8 * 64).from_buffer_copy(algorithm.code),
            _address(workspace), ctypes.c_size_t(algorithm.workspace_bytes),
            ctypes.c_void_p(torch.cuda.current_stream(out.device).cuda_stream),
        )  # fmt: skip

    def _description(self, form: GemmProblem, units: Units | None) -> "_Description":
        if form not in self._descriptions:
            self._descriptions[form] = self._described(form)
        description = self._descriptions[form]
        if units is not None:
            for attribute, unit in ((_UNIT_A, units.b), (_UNIT_B, units.a)):
                self._set(description.operation, attribute, _address(unit))
        return description

    def _described(self, form: GemmProblem) -> "_Description":
        operation = self._new("cublasLtMatmulDescCreate", _COMPUTE_32F, _SCALE_32F)
        for attribute, transposed in ((_TRANSPOSE_A, form.b_transposed), (_TRANSPOSE_B, form.a_transposed)):
            self._set(operation, attribute, ctypes.c_int32(transposed))
        if form.fast is not None:
            self._set(operation, _FAST, ctypes.c_int8(form.fast))
        of_a, of_b, of_out = form.dtypes
        a, b, out = form.strides
        return _Description(
            operation,
            self._layout(of_a, (form.k, form.m), form.a_transposed, a),
            self._layout(of_b, (form.n, form.k), form.b_transposed, b),
            self._layout(of_out, (form.n, form.m), False, out),
        )

    def _set(self, operation: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._call("cublasLtMatmulDescSetAttribute", operation, attribute, *_bytes_of(value))

    def _layout(self, dtype: torch.dtype, sides: tuple[int, int], transposed: bool, stride: int) -> Any:
        rows, columns = reversed(sides) if transposed else sides
        return self._new(
            "cublasLtMatrixLayoutCreate",
            _TYPES[dtype],
            ctypes.c_uint64(rows),
            ctypes.c_uint64(columns),
            ctypes.c_int64(stride),
        )

    def _new(self, function: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call(function, ctypes.byref(made), *arguments)
        return made

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status == _NO_MEMORY:
            raise torch.OutOfMemoryError(f"{function} found no memory")
        if status != 0:
            raise CublasError(f"{function} gave status {status}")


@dataclass(frozen=True)
class _Description:
    operation: ctypes.c_void_p
    a: ctypes.c_void_p
    b: ctypes.c_void_p
    out: ctypes.c_void_p


def _address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _bytes_of(value: Any) -> Sequence[Any]:
    return ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))
