"""What benchmarks/kernels.py measures of the parts that came after GPT-2.

Bytes are counted as in kernel_cases.py.
"""

from collections.abc import Iterator
from functools import partial
from types import ModuleType

import torch
from torch import Tensor

from kernel_cases import HEAD_SIZE, Case, Inputs, Size, embedding_cases, loss_case, norm_cases
from nanodyno.model.gpt import NORM_EPS
from nanodyno.model.kernels import plain

LOGIT_CAP = 15.0


def modern_cases(size: Size) -> Iterator[Case]:
    yield from norm_cases(size, centred=False)
    yield from relu_cases(size)
    yield loss_case(size, LOGIT_CAP)
    yield from embedding_cases(size, placed=False)
    yield from turn_cases(size)
    yield from value_cases(size)


def relu_cases(at: Size) -> Iterator[Case]:
    shape = (at.positions, 4 * at.width)
    once = shape[0] * shape[1] * at.half_bytes

    def forward(kernels: ModuleType, u: Tensor) -> Inputs:
        return (kernels.relu2(u),)

    def backward(kernels: ModuleType, again: bool, u: Tensor, dg: Tensor) -> Inputs:
        kernels.relu2_backward_(u, dg, again)
        return (dg, u) if again else (dg,)

    runs = partial(forward, at.kernels), partial(forward, plain)
    yield Case("relu2", 2 * once, 0, lambda: (at.halves(*shape),), *runs)
    for again in (False, True):
        yield Case(
            f"relu2_backward_{', again' if again else ''}",
            (3 + again) * once,
            0,
            lambda: (at.halves(*shape), at.halves(*shape)),
            partial(backward, at.kernels, again),
            partial(backward, plain, again),
        )


def turn_cases(at: Size) -> Iterator[Case]:
    """Normed and turned; heads of the values are neither."""
    N, C, T = at.positions, at.width, at.block
    heads = C // HEAD_SIZE
    once = N * 2 * C * at.half_bytes
    beside = N * 2 * heads * 4 + T * HEAD_SIZE * 4  # 1 / deviations, and the angles

    def angles() -> tuple[Tensor, Tensor]:
        angle = at.normal(T, HEAD_SIZE // 2)
        return angle.cos(), angle.sin()

    def forward(kernels: ModuleType, qkv: Tensor, cos: Tensor, sin: Tensor) -> Inputs:
        rstd = kernels.apply_rope_(qkv, heads, T, (cos, sin), True, NORM_EPS)
        return qkv[:, : 2 * C], rstd

    def backward(kernels: ModuleType, dqkv: Tensor, *given: Tensor) -> Inputs:
        qkv, rstd, cos, sin = given
        kernels.apply_rope_backward_(dqkv, qkv, rstd, heads, T, (cos, sin), True)
        return (dqkv[:, : 2 * C],)

    def make() -> Inputs:
        return at.halves(N, 3 * C), *angles()

    def make_back() -> Inputs:
        qkv, cos, sin = make()
        rstd = plain.apply_rope_(qkv, heads, T, (cos, sin), True, NORM_EPS)
        return at.halves(N, 3 * C), qkv, rstd, cos, sin

    runs = partial(forward, at.kernels), partial(forward, plain)
    yield Case("apply_rope_", 2 * once + beside, 0, make, *runs)
    runs = partial(backward, at.kernels), partial(backward, plain)
    yield Case("apply_rope_backward_", 3 * once + beside, 0, make_back, *runs)


def value_cases(at: Size) -> Iterator[Case]:
    N, C, V, h = at.positions, at.width, at.vocabulary, at.half_bytes
    ids = at.ids(N)
    rows = ids.unique().numel()
    read = rows * C * h + N * 8 + 2 * 4  # of the table, tokens and shares

    def given() -> Inputs:
        return at.halves(V, C), ids, torch.full((2,), 0.5, device=at.device)

    def forward(kernels: ModuleType, qkv: Tensor, *given: Tensor) -> Inputs:
        before = kernels.mix_values_(qkv, *given)
        return qkv[:, 2 * C :], before

    def backward(kernels: ModuleType, dqkv: Tensor, *given: Tensor) -> Inputs:
        kernels.mix_values_backward_(dqkv, *given)
        return dqkv[:, 2 * C :], *given[-2:]

    def make_back() -> Inputs:
        gradients = at.normal(V, C), torch.zeros(2, device=at.device)
        return at.halves(N, 3 * C), at.halves(N, C), *given(), *gradients

    runs = partial(forward, at.kernels), partial(forward, plain)
    yield Case("mix_values_", 3 * N * C * h + read, 0, lambda: (at.halves(N, 3 * C), *given()), *runs)
    moved = 3 * N * C * h + read + rows * C * 8 + 2 * 8
    runs = partial(backward, at.kernels), partial(backward, plain)
    yield Case("mix_values_backward_", moved, 0, make_back, *runs)
