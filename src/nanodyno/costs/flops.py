"""How much work a token is, forward and backward: exactly, and by nanoGPT's formula.

A product of an m x k by a k x n matrix is 2 m k n FLOP, and training takes three of them: one forward, two
backward. Recomputation and element-wise work are not counted.
"""

from nanodyno.config import ModelShape
from nanodyno.costs.parameters import parameters

NANOGPT_PEAK_FLOPS = 312e12
"""An A100's bf16 peak: what nanoGPT divides by, whatever the card."""


def flops_per_token(shape: ModelShape, vocab_size: int | None = None) -> int:
    """6 x matmul weights + 6 L C (T + 1): causal attention looks at (T + 1) / 2 positions on average.

    Where a block has a window, at those within it; then a fraction of a FLOP is rounded away. Give the
    tokenizer's own vocabulary as vocab_size, since work on padded rows of the head serves nothing.
    """
    T = shape.block_size
    return (2 * flops_per_sequence(shape, vocab_size) + T) // (2 * T)


def flops_per_sequence(shape: ModelShape, vocab_size: int | None = None) -> int:
    """Of block_size tokens. A position's queries meet as many keys as it sees, twice, times three."""
    useful = shape if vocab_size is None else shape.replaced(vocab_size=vocab_size)
    attention = 12 * shape.n_embd * positions_seen(shape)
    return 6 * parameters(useful).matmul_weights * shape.block_size + attention


def positions_seen(shape: ModelShape) -> int:
    """By all positions of a sequence in all blocks: 1, 2, 3, ... and from a window's size on no more."""
    T = shape.block_size
    seen = 0
    for window, blocks in shape.blocks_by_window.items():
        w = T if window is None else min(window, T)
        seen += blocks * (w * (w + 1) // 2 + (T - w) * w)
    return seen


def nanogpt_flops_per_token(shape: ModelShape) -> int:
    """6 (N - wpe) + 12 L H Q T: nanoGPT counts attention to the future, norms and the padded head as well."""
    attention = 12 * shape.n_layer * shape.n_embd * shape.block_size
    return 6 * parameters(shape).nanogpt + attention
