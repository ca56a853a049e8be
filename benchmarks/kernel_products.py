"""What of a training step is not our own: its attention by each backend, and its matrix products.

FLOPs and bytes are counted as in kernel_cases.py.
"""

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor

from kernel_cases import CHECKED_ROWS, HEAD_SIZE, Case, Inputs, Size
from nanodyno.model.attention import AttendPacked, packed
from nanodyno.model.fused import _add_product_
from nanodyno.train.attention import CANDIDATES


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
    """Forward, gradient of the input, and gradient of the weight added in place in float32."""
    N, C, h = at.positions, at.width, at.half_bytes
    layers = {"qkv": (C, 3 * C), "out": (C, C), "up": (C, 4 * C), "down": (4 * C, C)}
    for name, (i, o) in (layers | {"head": (C, at.vocabulary)}).items():
        flops, moved = 2 * N * i * o, (N * i + N * o + i * o) * h

        def make(i: int = i, o: int = o) -> Inputs:
            return at.halves(N, i), at.halves(o, i, scale=0.02)

        def make_back(i: int = i, o: int = o) -> Inputs:
            return at.halves(N, o), at.halves(o, i, scale=0.02)

        def make_weight(i: int = i, o: int = o) -> Inputs:
            return at.normal(o, i), at.halves(N, o), at.halves(N, i)

        yield Case(f"{name}, forward", moved, flops, make, _forward, _forward, _first_rows)
        yield Case(f"{name}, input", moved, flops, make_back, _input, _input, _first_rows)
        moved_weight = (N * i + N * o) * h + i * o * 8
        yield Case(f"{name}, weight", moved_weight, flops, make_weight, _weight, _weight, _first_columns)


def _forward(x: Tensor, weight: Tensor) -> Inputs:
    return (x @ weight.t(),)


def _input(dy: Tensor, weight: Tensor) -> Inputs:
    return (dy @ weight,)


def _weight(gradient: Tensor, dy: Tensor, x: Tensor) -> Inputs:
    _add_product_(gradient, dy, x)
    return (gradient,)


def _first_rows(inputs: Inputs) -> Inputs:
    x, weight = inputs
    return x[:CHECKED_ROWS], weight


def _first_columns(inputs: Inputs) -> Inputs:
    gradient, dy, x = inputs
    return gradient[:CHECKED_ROWS], dy[:, :CHECKED_ROWS], x
