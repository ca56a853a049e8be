"""What the card has to do: FLOPs of products and attention, bytes moved, kernels started.

A product reads both factors and writes its result once; a kernel between products reads and writes what its
code does. C width, L blocks, N positions, V vocabulary; h and r are bytes of a factor and of the residual
stream.
"""

from dataclasses import dataclass
from math import ceil

from nanodyno.costs.parameters import parameters
from nanodyno.costs.setup import Setup

FLOAT = 4
TILE = 128
"""Attention computes whole tiles on the diagonal: on average half of one more than causality asks for."""
BLOCK_WEIGHTS = 12
"""Of C x C: 3 for q, k and v, 1 after attention, 4 and 4 in the MLP."""
BLOCK_TRAFFIC = 16
"""Of N x C: what a block's four products read and write."""


@dataclass(frozen=True)
class Work:
    product_flops: float = 0
    fp8_flops: float = 0
    product_bytes: float = 0
    attention_flops: float = 0
    moved_bytes: float = 0
    host_bytes: float = 0
    kernels: float = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(*(mine + its for mine, its in zip(self._all(), other._all(), strict=True)))

    def __mul__(self, times: float) -> "Work":
        return Work(*(mine * times for mine in self._all()))

    def _all(self) -> tuple[float, ...]:
        return (
            self.product_flops,
            self.fp8_flops,
            self.product_bytes,
            self.attention_flops,
            self.moved_bytes,
            self.host_bytes,
            self.kernels,
        )


def micro_step(setup: Setup) -> Work:
    if setup.kernels == "fused":
        return (_fused_block(setup) + _again(setup)) * setup.shape.n_layer + _fused_ends(setup)
    return _autograd_block(setup) * setup.shape.n_layer + _autograd_ends(setup)


def per_iteration(setup: Setup) -> Work:
    """Once for all micro-steps: the update, the gradient's norm, and the fused way's casts."""
    count = parameters(setup.shape).total
    moments = 2 * (2 if setup.moments_dtype == "bfloat16" else FLOAT)
    update = count * 4 * FLOAT  # weights and gradients, read and written
    norm = count * FLOAT
    if setup.kernels == "autograd":
        return Work(moved_bytes=update + norm + count * 2 * moments, kernels=20)
    on_card = 0 if setup.offload_moments else count * 2 * moments
    casts = count * (FLOAT + setup.half) + (count * 8 if setup.fp8 else 0)
    return Work(
        moved_bytes=update + norm + on_card + casts,
        host_bytes=count * 2 * moments - on_card,
        kernels=20 + 4 * setup.shape.n_layer,
    )


def _block_products(setup: Setup, weight_gradient_bytes: int) -> Work:
    """Forward, and backward twice: of the input, and of the weights."""
    C, h, N = setup.shape.n_embd, setup.half, setup.positions
    weights = BLOCK_WEIGHTS * C * C
    flops = 3 * 2 * N * weights
    in_fp8 = 2 * N * (11 + 8) * C * C if setup.fp8 else 0
    traffic = 3 * BLOCK_TRAFFIC * h * N * C + weights * (2 * h + weight_gradient_bytes)
    return Work(product_flops=flops - in_fp8, fp8_flops=in_fp8, product_bytes=traffic, kernels=12)


def _attention(setup: Setup) -> Work:
    shape = setup.shape
    return Work(attention_flops=6 * setup.positions * shape.n_embd * (shape.block_size + TILE), kernels=4)


def _fused_block(setup: Setup) -> Work:
    C, h, r, N = setup.shape.n_embd, setup.half, setup.residual, setup.positions
    cast = 0 if r == h else h
    norms = 2 * ((2 * r + 2 * h) + (3 * r + h + cast))
    gelu = 8 * h + 12 * h
    fp8 = 3 * (h + 1) + 4 if setup.fp8 else 0
    biases = 9 * h if setup.shape.bias else 0
    own = Work(moved_bytes=N * C * (norms + gelu + fp8 + biases), kernels=6)
    return own + _block_products(setup, 2 * FLOAT) + _attention(setup)


def _again(setup: Setup) -> Work:
    """What a block makes again in its backward pass."""
    C, h, r, N = setup.shape.n_embd, setup.half, setup.residual, setup.positions
    if setup.recompute == "none":
        return Work()
    light = Work(moved_bytes=N * C * (2 * h + 4 * h))
    if setup.recompute == "light":
        return light
    up = Work(
        product_flops=8 * N * C * C, product_bytes=5 * h * N * C, moved_bytes=N * C * (r + h), kernels=2
    )
    if setup.recompute == "mlp":
        return light + up
    to_the_middle = Work(
        product_flops=8 * N * C * C,
        product_bytes=6 * h * N * C,
        moved_bytes=N * C * (2 * r + 2 * h),
        kernels=4,
    )
    forward = _attention(setup).attention_flops * 2 / 7  # two products of the seven that there are
    return light + up + to_the_middle + Work(attention_flops=forward)


def _fused_ends(setup: Setup) -> Work:
    """Embedding, last norm, head and loss."""
    shape, h, r, N = setup.shape, setup.half, setup.residual, setup.positions
    C, V = shape.n_embd, shape.vocab_size
    goes = ceil(N / setup.rows)
    flops = 3 * 2 * N * V * C
    in_fp8 = flops * 2 / 3 if setup.fp8 else 0
    return Work(
        product_flops=flops - in_fp8,
        fp8_flops=in_fp8,
        product_bytes=3 * h * N * (C + V) + goes * V * C * (2 * h + 2 * FLOAT),
        moved_bytes=N * C * (5 * r + 5 * h + 3 * FLOAT) + N * V * (3 * h + (1 if setup.fp8 else 0)),
        kernels=8 + 4 * goes,
    )


def _autograd_block(setup: Setup) -> Work:
    """Compiled, what is between products is fused but for sums over rows; eager, each operation passes."""
    C, h, N = setup.shape.n_embd, setup.half, setup.positions
    cast = 0 if h == FLOAT else FLOAT + h
    if setup.compiled:
        between = 2 * ((2 * FLOAT + 2 * h) + (4 * FLOAT + 3 * h)) + 20 * h
        kernels = 12
    else:
        forward = 2 * FLOAT + cast + 2 * FLOAT + h
        backward = cast + 5 * FLOAT + 3 * FLOAT + cast
        between, kernels = 2 * (forward + backward) + 20 * h, 30
    gradients = (
        BLOCK_WEIGHTS * C * C * (cast + 3 * FLOAT + cast)
    )  # cast, added to what is there; weights cast
    dropout = 6 * (2 * h + 1) if setup.shape.dropout else 0
    own = Work(moved_bytes=N * C * (between + dropout) + gradients, kernels=kernels)
    return own + _block_products(setup, h) + _attention(setup)


def _autograd_ends(setup: Setup) -> Work:
    shape, h, N = setup.shape, setup.half, setup.positions
    C, V = shape.n_embd, shape.vocab_size
    goes = ceil(N / setup.rows)
    passes = 4 * h if setup.compiled else 3 * h + 9 * FLOAT
    gradients = V * C * (6 * FLOAT + 3 * h) * (goes if setup.loss_rows else 1)
    return Work(
        product_flops=3 * 2 * N * V * C,
        product_bytes=3 * h * N * (C + V) + goes * V * C * 3 * h,
        moved_bytes=N * V * passes + N * C * 10 * FLOAT + gradients,
        kernels=(20 if setup.compiled else 40) + 8 * goes,
    )
