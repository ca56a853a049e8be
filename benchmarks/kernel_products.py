"""What of a training step is not our own: its attention by each backend, and its matrix products.

FLOPs and bytes are counted as in kernel_cases.py.
"""

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor

from kernel_cases import CHECKED_ROWS, HEAD_SIZE, Case, Inputs, Size
from nanodyno.model.attention import AttendPacked, packed
from nanodyno.model.matmul import Multiply, by_torch
from nanodyno.train.attention import CANDIDATES
from nanodyno.train.gemm_autotuning import GemmAutotuner


def attention_cases(at: Size) -> Iterator[Case]:
    """Each backend, forward alone and with its backward pass. Of those that do not run, the caller hears."""
    N, C, T, h = at.positions, at.width, at.block, at.half_bytes
    heads = C // HEAD_SIZE
    flops = 2 * N * (T + 1) * C  # two products of each pair of positions that is not in the future
    sums = N * heads * 4

    def first_sequence(inputs: Inputs) -> Inputs:
        return tuple(each[:T] for each in inputs)

    def forward(attend: AttendPacked, qkv: Tensor) -> Inputs:
        return (attend(qkv, qkv.shape[0] // T, heads).out,)

    def both(attend: AttendPacked, qkv: Tensor, dout: Tensor) -> Inputs:
        attended = attend(qkv, qkv.shape[0] // T, heads)
        return attended.out, attended.backward(dout)

    twin = packed("math")
    for name in CANDIDATES if at.device.type == "cuda" else ("torch",):
        yield Case(
            f"attention {name}, forward",
            N * C * 4 * h + sums,
            flops,
            lambda: (at.halves(N, 3 * C),),
            partial(_late, forward, name),
            partial(forward, twin),
            first_sequence,
        )
        yield Case(
            f"attention {name}, both",
            N * C * (4 + 8) * h + 2 * sums,
            flops * 7 // 2,  # the backward pass has five products
            lambda: (at.halves(N, 3 * C), at.halves(N, C)),
            partial(_late, both, name),
            partial(both, twin),
            first_sequence,
        )


def _late(run: Callable[..., Inputs], name: str, *inputs: Tensor) -> Inputs:
    """A backend that is not installed is found out when it is called."""
    return run(packed(name), *inputs)


def product_cases(at: Size) -> Iterator[Case]:
    """Forward, gradient of the input, and gradient of the weight added in place in float32.

    On a card by the algorithms that a run would choose.
    """
    N, C, h = at.positions, at.width, at.half_bytes
    fastest = GemmAutotuner(at.device) if at.device.type == "cuda" else None
    layers = {"qkv": (C, 3 * C), "out": (C, C), "up": (C, 4 * C), "down": (4 * C, C)}
    for name, (i, o) in (layers | {"head": (C, at.vocabulary)}).items():
        flops, moved = 2 * N * i * o, (N * i + N * o + i * o) * h

        def make(i: int = i, o: int = o) -> Inputs:
            return at.halves(N, i), at.halves(o, i, scale=0.02)

        def make_back(i: int = i, o: int = o) -> Inputs:
            return at.halves(N, o), at.halves(o, i, scale=0.02)

        def make_weight(i: int = i, o: int = o) -> Inputs:
            return at.normal(o, i), at.halves(N, o), at.halves(N, i)

        moved_weight = (N * i + N * o) * h + i * o * 8
        for kind, count, inputs, run, part in (
            ("forward", moved, make, _forward, _first_rows),
            ("input", moved, make_back, _input, _first_rows),
            ("weight", moved_weight, make_weight, _weight, _first_columns),
        ):
            if fastest is not None:
                with fastest.learning():
                    run(fastest, *inputs())
            yield Case(
                f"{name}, {kind}",
                count,
                flops,
                inputs,
                partial(run, fastest or by_torch),
                partial(run, by_torch),
                part,
            )


def _forward(multiply: Multiply, x: Tensor, weight: Tensor) -> Inputs:
    return _product(multiply, x, weight.t())


def _input(multiply: Multiply, dy: Tensor, weight: Tensor) -> Inputs:
    return _product(multiply, dy, weight)


def _product(multiply: Multiply, a: Tensor, b: Tensor) -> Inputs:
    out = a.new_empty(a.shape[0], b.shape[1])
    multiply(a, b, out, False)
    return (out,)


def _weight(multiply: Multiply, gradient: Tensor, dy: Tensor, x: Tensor) -> Inputs:
    multiply(dy.t(), x, gradient, True)
    return (gradient,)


def _first_rows(inputs: Inputs) -> Inputs:
    x, weight = inputs
    return x[:CHECKED_ROWS], weight


def _first_columns(inputs: Inputs) -> Inputs:
    gradient, dy, x = inputs
    return gradient[:CHECKED_ROWS], dy[:, :CHECKED_ROWS], x
