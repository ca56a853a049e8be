# ruff: noqa: N802 - the names are cuBLAS's
"""What cuBLASLt is told, against a stand-in that does what its manual says with host memory."""

import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model import cublaslt
from nanodyno.model.cublaslt import Algorithm, CublasError, CublasLt, GemmProblem, form_of
from nanodyno.model.matmul import Units

VALUES, GRADIENTS = torch.float8_e4m3fn, torch.float8_e5m2
DTYPES = {0: torch.float32, 2: torch.float16, 14: torch.bfloat16, 28: VALUES, 29: GRADIENTS}
SIZES = {3: 4, 4: 4, 17: 8, 18: 8, 25: 1}
"""Of a product's attributes: transposed or not, the addresses of units, fast sums."""
ALGORITHM = bytes(range(64))
HUNGRY = bytes(reversed(ALGORITHM))
NO_MEMORY, UNSUPPORTED = 3, 15


class Library:
    """Column-major matrices and descriptors by number, as the manual of cuBLASLt has them."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.there: dict[int, Any] = {}
        self.wishes: dict[int, dict[int, int]] = {}
        self.workspaces: list[int] = []
        self.cublasLtGetVersion = lambda: 130100

    def _add(self, pointer: Any, thing: Any) -> int:
        number = next(self._numbers)
        pointer._obj.value = number
        self.there[number] = thing
        return 0

    def cublasLtCreate(self, pointer: Any) -> int:
        return self._add(pointer, "handle")

    def cublasLtMatmulDescCreate(self, pointer: Any, compute: int, scale: int) -> int:
        assert (compute, scale) == (68, 0)
        return self._add(pointer, {3: 0, 4: 0})

    def cublasLtMatmulDescSetAttribute(self, which: Any, attribute: int, value: Any, size: Any) -> int:
        assert size.value == SIZES[attribute]
        self.there[which.value][attribute] = value._obj.value
        return 0

    def cublasLtMatrixLayoutCreate(
        self, pointer: Any, kind: int, rows: Any, columns: Any, leading: Any
    ) -> int:
        assert leading.value >= rows.value
        return self._add(pointer, (DTYPES[kind], rows.value, columns.value, leading.value))

    def cublasLtMatmulPreferenceCreate(self, pointer: Any) -> int:
        return self._add(pointer, {})

    def cublasLtMatmulPreferenceSetAttribute(self, which: Any, attribute: int, value: Any, size: Any) -> int:
        assert size.value == (8 if attribute == 1 else 4)
        self.there[which.value][attribute] = value._obj.value
        return 0

    def cublasLtMatmulPreferenceDestroy(self, which: Any) -> int:
        self.wishes[which.value] = self.there.pop(which.value)
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        *_, asked, found, count = arguments
        assert asked >= 3
        for place, state in enumerate((0, UNSUPPORTED, 0)):
            found[place].algorithm[:] = ALGORITHM
            found[place].workspace_bytes = 8 * place
            found[place].state = state
        count._obj.value = 3
        return 0

    def cublasLtMatmul(self, *arguments: Any) -> int:
        _, operation, alpha, *factors, beta, c, c_layout, d, d_layout, algorithm, _, space, _ = arguments
        if bytes(algorithm) != ALGORITHM:
            return NO_MEMORY if bytes(algorithm) == HUNGRY else UNSUPPORTED
        turned = self.there[operation.value]
        left, right = (self._matrix(*each) for each in (factors[:2], factors[2:]))
        product = (left.T if turned[3] else left).double() @ (right.T if turned[4] else right).double()
        for place in (17, 18):
            if place in turned:
                product *= ctypes.c_float.from_address(turned[place]).value
        before, out = self._matrix(c, c_layout), self._matrix(d, d_layout)
        sums = beta._obj.value * before.double() if beta._obj.value else 0.0  # what is there may be no number
        out.copy_(alpha._obj.value * product + sums)
        self.workspaces.append(space.value)
        return 0

    def _matrix(self, address: Any, layout: Any) -> Tensor:
        dtype, rows, columns, leading = self.there[layout.value]
        count = leading * (columns - 1) + rows
        memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address.value)
        return torch.frombuffer(memory, dtype=dtype).as_strided((rows, columns), (1, leading))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(cublaslt.ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=0))
    return library


def drawn(rows: int, columns: int, turned: bool, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    generator = torch.Generator().manual_seed(rows * columns)
    shape = (columns, rows) if turned else (rows, columns)
    tensor = torch.randn(shape, generator=generator).to(dtype)
    return tensor.t() if turned else tensor


def form(a: Tensor, b: Tensor, out: Tensor, add: bool = False) -> GemmProblem:
    found = form_of(a, b, out, add)
    assert found is not None
    return found


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("a_transposed", "b_transposed"), list(itertools.product([False, True], repeat=2)))
def test_a_product_is_the_float64_one_however_its_factors_lie(
    library: Library, a_transposed: bool, b_transposed: bool, out_dtype: torch.dtype, add: bool
) -> None:
    a, b = drawn(3, 5, a_transposed), drawn(5, 4, b_transposed)
    out = drawn(3, 4, False, out_dtype)
    want = a.double() @ b.double() + (out.double() if add else 0)
    CublasLt().run(form(a, b, out, add), Algorithm(ALGORITHM, 24), a, b, out)
    torch.testing.assert_close(out, want.to(out_dtype))
    assert library.workspaces == [24]


def test_rows_of_a_wider_tensor_are_multiplied_where_they_lie(library: Library) -> None:
    del library
    whole = drawn(6, 8, False)
    a, b, out = whole[1:4, :5], drawn(5, 4, True), torch.zeros(5, 9)[2:, :4]
    CublasLt().run(form(a, b, out[:3]), Algorithm(ALGORITHM, 0), a, b, out[:3])
    torch.testing.assert_close(out[:3], (a.double() @ b.double()).float())


@pytest.mark.parametrize("fast", [False, True])
def test_a_product_in_fp8_has_its_units_in_it(library: Library, fast: bool) -> None:
    a, b = drawn(3, 5, False, GRADIENTS), drawn(5, 4, True, VALUES)
    units = Units(torch.tensor(0.5), torch.tensor(4.0), fast)
    out = torch.empty(3, 4, dtype=torch.bfloat16)
    found = form_of(a, b, out, False, units)
    assert found is not None
    CublasLt().run(found, Algorithm(ALGORITHM, 0), a, b, out, units)
    torch.testing.assert_close(out, (2 * a.double() @ b.double()).bfloat16())
    (operation,) = (each for each in library.there.values() if isinstance(each, dict))
    assert operation[25] == fast


def test_proposals_are_those_that_it_can_do_and_wishes_are_reported(library: Library) -> None:
    a, b, out = drawn(3, 5, False), drawn(5, 4, False), torch.empty(3, 4, dtype=torch.bfloat16)
    found = CublasLt().proposals(form(a, b, out))
    assert found == [Algorithm(ALGORITHM, 0), Algorithm(ALGORITHM, 16)]
    (wishes,) = library.wishes.values()
    assert wishes[1] == cublaslt.WORKSPACE_BYTES
    assert wishes[3] == 2, "partial sums are added in fp32"
    assert all(tensor.data_ptr() % wishes[at] == 0 for at, tensor in ((5, b), (6, a), (7, out), (8, out)))


def test_what_it_refuses_is_an_error_that_names_the_call(library: Library) -> None:
    del library
    a, b, out = drawn(3, 5, False), drawn(5, 4, False), torch.empty(3, 4)
    with pytest.raises(CublasError, match="cublasLtMatmul gave status 15"):
        CublasLt().run(form(a, b, out), Algorithm(bytes(64), 0), a, b, out)


def test_memory_that_it_does_not_find_is_reported_from_a_refusal(library: Library) -> None:
    del library
    a, b, out = drawn(3, 5, False), drawn(5, 4, False), torch.empty(3, 4)
    with pytest.raises(torch.OutOfMemoryError):
        CublasLt().run(form(a, b, out), Algorithm(HUNGRY, 0), a, b, out)


def test_its_version_is_known(library: Library) -> None:
    del library
    assert CublasLt().version == 130100


def test_an_address_says_how_far_it_is_aligned() -> None:
    whole = torch.empty(1024, dtype=torch.bfloat16)
    start = -whole.data_ptr() % 256 // 2
    a, b, out = (whole[start + shift :][:4].view(2, 2) for shift in (0, 1, 8))
    assert form(a, b, out).alignments == (256, 2, 16)


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        (torch.empty(3, 5), torch.empty(5, 4), torch.empty(3, 4)),
        (drawn(1, 5, False), drawn(5, 4, False), torch.empty(1, 4)),
        (drawn(3, 10, False)[:, ::2], drawn(5, 4, False), torch.empty(3, 4)),
        (drawn(3, 5, False), drawn(5, 4, False), torch.empty(4, 3).t()),
        (drawn(3, 5, False), drawn(5, 4, False), torch.empty(3, 4, dtype=torch.float16)),
        (drawn(3, 5, False, VALUES), drawn(5, 4, True, VALUES), torch.empty(3, 4)),
    ],
    ids=["fp32", "one row", "gaps", "out turned", "another half", "fp8 without units"],
)
def test_what_is_left_to_torch_has_no_form(a: Tensor, b: Tensor, out: Tensor) -> None:
    assert form_of(a, b, out, False) is None


def test_without_the_library_there_is_an_error_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "99.1")
    with pytest.raises(OSError, match=r"cublasLt.*99"):
        CublasLt()
