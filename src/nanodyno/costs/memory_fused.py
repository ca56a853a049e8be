"""Memory of the micro-step written by hand (model/fused.py) on its kernels.

Everything is bytes; sizes are per position unless they say otherwise. Lifetimes follow the code: a block's
backward pass has what all blocks kept, and its own temporaries; the loss has the buffer of logits instead.
"""

from dataclasses import replace

from nanodyno.costs.parts import Peak, highest
from nanodyno.costs.setup import Setup

ALIGNED = 128
"""Elements to which a parameter's place is rounded up (model/flat.py)."""
SHARES = 2
"""Of a block that mixes a value embedding in."""
NOTED_BYTES = 4096 * 4
"""Of the largest values of one tensor in fp8 (model/fp8.py)."""
LANES = {4: 8192, 2: 12288}
"""Of a multiprocessor in the norms' backward pass, by the bytes of the residual stream (kernels/norm.py)."""


def fused_peak(setup: Setup, multiprocessors: int) -> Peak:
    held = _held(setup, multiprocessors)
    N = setup.positions
    kept = setup.shape.n_layer * _kept(setup) * N + _mixed(setup)
    moments = [
        replace(held, activations=kept, largest_temporary=held.largest_temporary + N * each)
        for each in (_forward(setup), *_backward(setup))
    ]
    loss, beside = _loss(setup)
    moments.append(
        replace(
            held,
            activations=kept,
            logits_and_loss=loss,
            largest_temporary=held.largest_temporary + beside,
        )
    )
    updating = held.largest_temporary + setup.step_cost.temporary_bytes
    moments.append(replace(held, largest_temporary=updating))
    return highest(moments)


def _held(setup: Setup, multiprocessors: int) -> Peak:
    """From the first iteration to the last."""
    shape = setup.shape
    elements = _flat_elements(setup)
    copies = 2 * (shape.n_layer * 11 * shape.n_embd**2 + shape.vocab_size * shape.n_embd)
    fp8 = copies + (5 * shape.n_layer + 1) * NOTED_BYTES if setup.fp8 else 0
    moments = 0 if setup.offload_moments else 2 * (2 if setup.moments_dtype == "bfloat16" else 4)
    width = 1 << (shape.n_embd - 1).bit_length()
    rows = multiprocessors * max(1, LANES[setup.residual] // width)
    partials = (
        (2 * shape.n_layer + 1) * rows * shape.n_embd * 4 * (2 if shape.bias and shape.norm == "layer" else 1)
    )
    angles = 4 * shape.block_size * shape.head_size if shape.positions == "rope" else 0
    return Peak(
        weights=4 * elements,
        grads=4 * elements,
        optimizer=moments * elements - (moments - setup.state_bytes) * setup.taken,
        casts=setup.half * elements + fp8,
        largest_temporary=partials + angles,
    )


def _flat_elements(setup: Setup) -> int:
    shape = setup.shape
    C, L = shape.n_embd, shape.n_layer
    block = [3 * C * C, C * C, 4 * C * C, 4 * C * C, C, C]
    tables = 1 + shape.value_embeddings + (1 if shape.untied_head else 0)
    ends = [shape.vocab_size * C] * tables + [C] + [SHARES] * 2 * shape.value_embeddings
    if shape.positions == "learned":
        ends += [shape.block_size * C]
    if shape.bias:
        norms = [C, C] if shape.norm == "layer" else []
        block += [3 * C, C, 4 * C, C, *norms]
        ends += norms[:1]
    return L * _aligned(block) + _aligned(ends)


def _aligned(sizes: list[int]) -> int:
    return sum(-(-size // ALIGNED) * ALIGNED for size in sizes)


def _kept(setup: Setup) -> int:
    """By a block, for its backward pass."""
    C, h, r = setup.shape.n_embd, setup.half, setup.residual
    stream = r * C + _statistics(setup)
    if setup.recompute == "full":
        return stream
    kept = 2 * stream + _attended(setup)
    if setup.recompute == "mlp":
        return kept
    kept += 4 * h * C  # before GELU
    if setup.recompute == "light":
        return kept
    return kept + 2 * h * C + (0 if setup.fp8 else 4 * h * C)  # both norms' outputs, and GELU's


def _attended(setup: Setup) -> int:
    """q, k, v, the output, each head's log of sums, and what q's and k's heads were divided by."""
    shape = setup.shape
    normed = 2 * 4 * shape.n_head if shape.qk_norm else 0
    return 4 * setup.half * shape.n_embd + 4 * shape.n_head + normed


def _made_once_more(setup: Setup) -> int:
    """By `full`, of the last block: also its values as they were, which elsewhere are kept."""
    mixes = setup.shape.value_embeddings > 0 and setup.recompute == "full"
    return _attended(setup) + (setup.half * setup.shape.n_embd if mixes else 0)


def _statistics(setup: Setup) -> int:
    """Mean and deviation of a norm's row, in fp32; the RMS norm has no mean."""
    return 8 if setup.shape.norm == "layer" else 4


def _mixed(setup: Setup) -> int:
    """Values before embeddings were mixed in, of all blocks that do; made again with the rest of `full`."""
    blocks = 0 if setup.recompute == "full" else 2 * setup.shape.value_embeddings
    return blocks * setup.positions * setup.half * setup.shape.n_embd


def _forward(setup: Setup) -> int:
    """Of the last block, with what the others kept and its own before any of it is let go of."""
    C, h, r = setup.shape.n_embd, setup.half, setup.residual
    active = 4 * C if setup.fp8 else 4 * h * C
    added = 2 * h * C  # what the MLP before and this one add to the residual stream
    before = r * C if setup.recompute == "full" else 0  # the stream between: elsewhere it is kept
    whole = 2 * (r * C + _statistics(setup)) + _made_once_more(setup) + 6 * h * C + active
    return whole + added + before - _kept(setup)


def _backward(setup: Setup) -> list[int]:
    """Of the last block, whose backward pass comes first, at its three fullest moments."""
    C, h, r = setup.shape.n_embd, setup.half, setup.residual
    cast = 0 if r == h else h * C  # the residual stream's gradient once more, for the products
    again = h * C if setup.recompute != "none" else 0
    always = r * C + cast
    made_again = {"none": 0, "light": 0, "mlp": 4 * h * C, "full": 5 * h * C + r * C + _statistics(setup)}
    attended = _made_once_more(setup) if setup.recompute == "full" else 0
    norm_again = 0 if setup.recompute == "full" else again
    mlp = made_again[setup.recompute] + attended + 4 * h * C + h * C + cast + norm_again
    mlp += 4 * C if setup.fp8 else 0
    attention = attended + cast + 4 * h * C
    return [
        always + mlp,
        always + attention + _attention_workspace(setup),
        always + attention + h * C + cast + again,
    ]


def _attention_workspace(setup: Setup) -> int:
    """fp32 sums of q's gradient; torch's backends make the three gradients apart and put them together."""
    C, h = setup.shape.n_embd, setup.half
    sums = 4 * C + 4 * setup.shape.n_head
    return sums if setup.attention == "cudnn-packed" else sums + 3 * h * C


def _loss(setup: Setup) -> tuple[int, int]:
    """In all: the logits of some rows and what hangs on them; and the last norm, which feeds them."""
    C, h, r, N = setup.shape.n_embd, setup.half, setup.residual, setup.positions
    logits = setup.rows * setup.shape.vocab_size * (h + (1 if setup.fp8 else 0))
    last = r * C + h * C + _statistics(setup)
    return logits + N * (h * C + 4), N * last
