"""What the card has to do: FLOPs of products and attention, bytes moved, kernels started.

A product reads both factors and writes its result once; a kernel between products reads and writes what its
code does. C width, L blocks, N positions, V vocabulary; h and r are bytes of a factor and of the residual
stream.
"""

from dataclasses import dataclass
from math import ceil

from nanodyno.costs.flops import positions_seen
from nanodyno.costs.parameters import parameters
from nanodyno.costs.setup import Setup

FLOAT = 4
TILE = 128
"""Attention computes whole tiles on the diagonal: on average half of one more than causality asks for."""


@dataclass(frozen=True)
class Work:
    product_flops: float = 0
    fp8_flops: float = 0
    product_bytes: float = 0
    attention_flops: float = 0
    moved_bytes: float = 0
    eager_bytes: float = 0
    """Moved by torch's own kernels, which are slower."""
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
            self.eager_bytes,
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
    by_adamw = count - setup.taken
    moments = 2 * (2 if setup.moments_dtype == "bfloat16" else FLOAT)
    update = by_adamw * 4 * FLOAT  # weights and gradients, read and written
    norm = count * FLOAT
    cost = setup.step_cost
    own = Work(
        product_flops=cost.matmul_flops,
        product_bytes=cost.matmul_bytes,
        moved_bytes=cost.moved_bytes,
        kernels=cost.kernels,
    )
    if setup.kernels == "autograd":
        return Work(moved_bytes=update + norm + by_adamw * 2 * moments, kernels=20) + own
    on_gpu = 0 if setup.offload_moments else by_adamw * 2 * moments
    casts = Work(moved_bytes=count * (FLOAT + setup.half)) + _fp8_weights(setup)
    adamw = Work(
        moved_bytes=update + norm + on_gpu,
        host_bytes=by_adamw * 2 * moments - on_gpu,
        kernels=20 + 4 * setup.shape.n_layer,
    )
    return adamw + casts + own


def _fp8_weights(setup: Setup) -> Work:
    """Read for the largest (2 bytes), multiplied (4), cast (3), and laid out the other way (2), by 64
    operations whatever the depth (docs/log)."""
    if not setup.fp8:
        return Work()
    shape = setup.shape
    weights = 11 * shape.n_layer * shape.n_embd**2 + shape.vocab_size * shape.n_embd
    return Work(moved_bytes=11 * weights, kernels=64)


def _block_weights(setup: Setup) -> int:
    """q, k and v, what comes after attention, and both of the MLP."""
    C, W = setup.shape.n_embd, setup.shape.kv_width
    return C * (C + 2 * W) + C * C + 8 * C * C


def _block_products(setup: Setup, weight_gradient_bytes: int) -> Work:
    """Forward, and backward twice: of the input, and of the weights."""
    C, W, h, N = setup.shape.n_embd, setup.shape.kv_width, setup.half, setup.positions
    weights = _block_weights(setup)
    flops = 3 * 2 * N * weights
    in_fp8 = 2 * N * (11 + 8) * C * C if setup.fp8 else 0
    in_and_out = C + (C + 2 * W) + 2 * C + 5 * C + 5 * C
    traffic = 3 * in_and_out * h * N + weights * (2 * h + weight_gradient_bytes)
    return Work(product_flops=flops - in_fp8, fp8_flops=in_fp8, product_bytes=traffic, kernels=12)


def _attention(setup: Setup) -> Work:
    shape = setup.shape
    seen = positions_seen(shape) / shape.n_layer / shape.block_size
    return Work(attention_flops=6 * setup.positions * shape.n_embd * (2 * seen - 1 + TILE), kernels=4)


def _of_modern_parts(setup: Setup) -> Work:
    """Turning and norming q and k, and mixing values, each forward and backward; not measured on a card."""
    shape, h, N = setup.shape, setup.half, setup.positions
    turned = 4 * (shape.n_embd + shape.kv_width) if shape.positions == "rope" or shape.qk_norm else 0
    mixed = 6 * shape.kv_width * 2 * shape.value_embeddings / shape.n_layer
    tables = shape.value_embeddings / shape.n_layer * 4 * FLOAT * shape.vocab_size * shape.kv_width
    return Work(moved_bytes=N * h * (turned + mixed) + tables)


def _by_hand(setup: Setup) -> Work:
    """The same by kernels of our own: gradients of tables are added where they lie."""
    shape, h, N = setup.shape, setup.half, setup.positions
    C, turns = shape.n_embd, shape.positions == "rope" or shape.qk_norm
    mixing = 2 * shape.value_embeddings / shape.n_layer
    turned = 2 * (2 + 3) * h if turns else 0  # q and k: read and written; back also what was left of them
    mixed = mixing * (4 * h + 4 * h + 2 * FLOAT)
    return Work(moved_bytes=N * C * (turned + mixed), kernels=2 * turns + 2 * mixing)


def _fused_block(setup: Setup) -> Work:
    C, h, r, N = setup.shape.n_embd, setup.half, setup.residual, setup.positions
    cast = 0 if r == h else h
    norms = 2 * ((2 * r + 2 * h) + (3 * r + h + cast))
    gelu = 8 * h + 12 * h
    fp8 = 3 * (h + 1) + 4 if setup.fp8 else 0
    biases = 9 * h if setup.shape.bias else 0
    own = Work(moved_bytes=N * C * (norms + gelu + fp8 + biases), kernels=6)
    return own + _block_products(setup, 2 * FLOAT) + _attention(setup) + _by_hand(setup)


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
    cast = _cast(setup)
    # Weights and their gradients are cast, and added to what is there.
    gradients = _block_weights(setup) * (cast + cast + 3 * FLOAT)
    between, kernels = _compiled_between(setup) if setup.compiled else _eager_between(setup)
    own = _moved(setup, setup.positions * setup.shape.n_embd * between + gradients, kernels)
    return own + _block_products(setup, setup.half) + _attention(setup) + _of_modern_parts(setup)


def _moved(setup: Setup, count: float, kernels: int) -> Work:
    if setup.compiled:
        return Work(moved_bytes=count, kernels=kernels)
    return Work(eager_bytes=count, kernels=kernels)


def _cast(setup: Setup) -> int:
    return 0 if setup.half == FLOAT else FLOAT + setup.half


def _eager_between(setup: Setup) -> tuple[int, int]:
    """Bytes of N x C and kernels: each operation passes over memory."""
    h, cast = setup.half, _cast(setup)
    forward = 2 * (2 * FLOAT + cast + 2 * FLOAT + h) + 8 * h  # norm, cast, addition; GELU
    # Casts there and back, a norm in two passes, addition; GELU; q's, k's and v's gradients put together.
    backward = 2 * (cast + cast + 5 * FLOAT + 3 * FLOAT) + 12 * h + 6 * h
    dropout = 6 * (2 * h + 1) if setup.shape.dropout else 0
    biases = 9 * h if setup.shape.bias else 0
    casts = 22 if setup.shape.bias else 14
    kernels = 15 + (casts if cast else 0) + (10 if biases else 0) + (4 if dropout else 0)
    return forward + backward + dropout + biases, kernels


def _compiled_between(setup: Setup) -> tuple[int, int]:
    """What is between products is fused but for sums over rows, and autograd adds the gradients.

    25 kernels: casts of weights and gradients 8, gradients added 6, norms 8, GELU 2, q, k and v together 1.
    """
    h = setup.half
    between = 2 * ((2 * FLOAT + 2 * h) + (4 * FLOAT + 3 * h)) + 20 * h + 6 * h
    dropout = 6 * (2 * h + 1) if setup.shape.dropout else 0
    return between + dropout, 25


def _autograd_ends(setup: Setup) -> Work:
    """Embedding, last norm, head and loss."""
    shape, h, N = setup.shape, setup.half, setup.positions
    C, V, cast = shape.n_embd, shape.vocab_size, _cast(setup)
    parts = ceil(N / setup.rows)
    stream = N * C * (13 * FLOAT + 2 * cast)
    # The head is cast, its gradient cast and added to the embedding's, which began as zeros, and to what is
    # there.
    head = V * C * (2 * cast + 7 * FLOAT)
    loss, kernels = _compiled_loss(setup, parts) if setup.compiled else _eager_loss(setup, parts)
    products = Work(
        product_flops=3 * 2 * N * V * C, product_bytes=3 * h * N * (C + V) + parts * V * C * 3 * h
    )
    return products + _moved(setup, N * V * loss + stream + head + _by_rows(setup, parts), kernels)


def _by_rows(setup: Setup, parts: int) -> int:
    """What the loss by rows (model/loss.py) moves besides logits: the head's gradient summed over the parts
    and scaled, and that of the last norm put together and scaled."""
    if setup.loss_chunk_size is None:
        return 0
    shape, h = setup.shape, setup.half
    summed = parts * (2 * FLOAT + h) + FLOAT
    return shape.n_embd * (shape.vocab_size * (summed + 2 * FLOAT) + setup.positions * (2 * h + 2 * FLOAT))


def _eager_loss(setup: Setup, parts: int) -> tuple[int, int]:
    """Bytes a logit, and operations of the ends. At once: softmax, its gradient's zeros, the gradient. By
    rows: to fp32, largest, difference, exponential and sum; both again; times the weight, and back."""
    h, cast = setup.half, _cast(setup)
    casts, bias = int(cast > 0), int(setup.shape.bias)
    if setup.loss_chunk_size is None:
        return 2 * h + 4 * FLOAT, 21 + 4 * casts + bias
    return cast + 13 * FLOAT + h, 27 + 3 * casts + bias + (26 + casts) * parts


def _compiled_loss(setup: Setup, parts: int) -> tuple[int, int]:
    """At once, in the logits' place; by rows, the softmax in fp32 lies between."""
    h = setup.half
    if setup.loss_chunk_size is None:
        return 4 * h, 25
    return 3 * h + 2 * FLOAT, 25 + 6 * parts
