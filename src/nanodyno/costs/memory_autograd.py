"""Memory of the micro-step by torch's autograd (model/gpt.py), eager and compiled, and of evaluations.

Everything is bytes. Eager lifetimes are torch's own; a compiled micro-step saves the same for its backward
pass and differs in the loss, where softmax and its gradient are made in the place of the logits.
"""

from dataclasses import replace

from nanodyno.costs.parameters import parameters
from nanodyno.costs.parts import Peak, highest
from nanodyno.costs.setup import Setup

FLOAT = 4
STATISTICS = 8
EVALUATED_LOGITS = 2**25
"""Logits that an evaluation has in memory at once (train/evaluate.py)."""


def autograd_peak(setup: Setup) -> Peak:
    held = _held(setup)
    with_blocks = replace(held, casts=_casts(setup), activations=_activations(setup))
    if setup.micro_steps == 1:  # gradients are let go of by an update, and come as activations go
        with_blocks = replace(with_blocks, grads=0)
    last = setup.positions * setup.shape.n_embd * FLOAT
    moments = [replace(with_blocks, logits_and_loss=loss, largest_temporary=last) for loss in _losses(setup)]
    in_block = replace(with_blocks, largest_temporary=_in_block(setup))
    at_the_end = replace(held, largest_temporary=_at_the_end(setup))
    updating = replace(held, largest_temporary=setup.step_cost.temporary_bytes)
    return highest([*moments, in_block, at_the_end, updating])


def _held(setup: Setup) -> Peak:
    count = parameters(setup.shape)
    moments = 2 * FLOAT * (count.total - setup.taken) + setup.state_bytes * setup.taken
    return Peak(weights=FLOAT * count.total, grads=FLOAT * count.total, optimizer=moments)


def _casts(setup: Setup) -> int:
    """Autocast's copies of what enters a product, kept for the backward pass."""
    if setup.dtype == "float32":
        return 0
    shape = setup.shape
    biases = (7 * shape.n_embd + 2 * shape.kv_width) * shape.n_layer if shape.bias else 0
    head = shape.vocab_size * shape.n_embd
    entering = parameters(shape).matmul_weights + biases
    return setup.half * (entering if setup.loss_chunk_size is None else entering - head)


def _activations(setup: Setup) -> int:
    """Kept by the blocks: two residual streams and norms, q, k, v, attention, and the MLP around GELU."""
    shape, h = setup.shape, setup.half
    C = shape.n_embd
    dropped = 2 * C if shape.dropout else 0  # a byte each: which ones
    statistics = 2 * (STATISTICS if shape.norm == "layer" else FLOAT) + FLOAT * shape.n_head
    block = 2 * setup.residual * C + h * (12 * C + 2 * shape.kv_width) + statistics + dropped
    whole = shape.n_layer * (block + _of_other_heads(setup)) + (C if shape.dropout else 0)
    return setup.positions * (whole + _of_values(setup))


def _of_other_heads(setup: Setup) -> int:
    """q and k as they were, turned or normed, beside q, k and v as they came."""
    shape = setup.shape
    if shape.positions == "learned" and not shape.qk_norm:
        return 0
    norms = FLOAT * (shape.n_head + shape.kv_heads) if shape.qk_norm else 0
    return setup.half * (shape.n_embd + 2 * shape.kv_width) + norms


def _of_values(setup: Setup) -> int:
    """The value embeddings of a position, and the values that they are mixed into; eager, cast for each."""
    shape = setup.shape
    mixing = 2 * shape.value_embeddings  # blocks
    looked_up = shape.value_embeddings if setup.compiled else mixing
    return setup.half * shape.kv_width * (mixing + looked_up)


def _losses(setup: Setup) -> list[int]:
    shape, h, N = setup.shape, setup.half, setup.positions
    head = shape.vocab_size * shape.n_embd
    feeds = N * (shape.n_embd * h + STATISTICS)
    if setup.loss_chunk_size is None:
        logits = N * shape.vocab_size
        # Eager: softmax and its gradient in fp32, and that of the logits; compiled: all in one place, then
        # the head's gradient.
        capped = 0 if shape.logit_softcap is None else 2 * FLOAT  # eager: divided, and bent
        return [feeds + (logits * h + head * h if setup.compiled else (2 * FLOAT + h + capped) * logits)]
    return _losses_by_rows(setup, head, feeds)


def _losses_by_rows(setup: Setup, head: int, feeds: int) -> list[int]:
    """model/loss.py: in the loop, where the gradient of the head is made, and in the backward pass."""
    h, N, C = setup.half, setup.positions, setup.shape.n_embd
    logits = setup.rows * setup.shape.vocab_size
    wide = 0 if h == FLOAT else 1  # the logits once more in fp32
    hidden = 0 if h == FLOAT or setup.compiled else FLOAT * N * C
    cast = h * head if h != FLOAT else 0
    looped = feeds + hidden + N * (h * C + FLOAT) + FLOAT * head + cast
    capped = 0 if setup.shape.logit_softcap is None else 2
    softmax = FLOAT * logits if setup.compiled else (2 + wide + capped) * FLOAT * logits
    return [
        looped + h * logits + softmax,
        looped + h * logits + h * head,
        N * STATISTICS + 3 * FLOAT * N * C + 2 * FLOAT * head,
    ]


def _in_block(setup: Setup) -> int:
    """Where the last block's backward pass begins: the gradients of the residual stream and of GELU's output,
    of the weights after it, and the head's, which waits for the embedding's."""
    shape, h, N = setup.shape, setup.half, setup.positions
    C = shape.n_embd
    cast = 0 if h == FLOAT else h * C
    return N * (FLOAT * C + cast + 4 * h * C) + 4 * h * C * C + FLOAT * shape.vocab_size * C


def _at_the_end(setup: Setup) -> int:
    """Of a backward pass: the embedding's gradient beside the head's; compiled, every gradient anew."""
    head = FLOAT * setup.shape.vocab_size * setup.shape.n_embd
    if setup.compiled and setup.micro_steps > 1:
        return FLOAT * parameters(setup.shape).total + head
    return 3 * head  # both, and their sum


def idle_bytes(setup: Setup, peak: Peak) -> int:
    """What the allocator holds in vain of the first micro-step's logits, where all of them are there at once.

    Gradients and moments come after them, stay, and take their place apart; the next micro-steps then need
    another place as large.
    """
    if setup.loss_chunk_size is not None:
        return 0
    logits = setup.positions * setup.shape.vocab_size
    largest = logits * (setup.half if setup.compiled else FLOAT)
    whole = logits * (setup.half if setup.compiled else 2 * FLOAT + setup.half)
    return min(max(0, whole - peak.grads - peak.optimizer), largest)


def evaluation_bytes(setup: Setup) -> int:
    """What an evaluation adds to the weights: no gradients, one block at a time, few logits at once."""
    shape, N, h = setup.shape, setup.positions, setup.half
    C, V = shape.n_embd, shape.vocab_size
    rows = min(N, max(1, EVALUATED_LOGITS // V))
    tables = FLOAT * N * shape.kv_width * shape.value_embeddings  # held for the last blocks
    in_mlp = tables + N * C * (3 * FLOAT + 8 * h)
    before_gelu = tables + N * C * (3 * FLOAT + 5 * h) + (0 if h == FLOAT else 4 * h * C * C)
    bent = FLOAT + (0 if h == FLOAT else h)  # in units of the cap, and as they were
    capped = 0 if shape.logit_softcap is None else bent
    in_loss = FLOAT * N * C + rows * V * (2 * FLOAT + capped)
    in_head = FLOAT * N * C + rows * V * h + (0 if h == FLOAT else h * V * C)
    return max(in_mlp, before_gelu, tables + _turning_keys(setup), in_loss, in_head)


def _turning_keys(setup: Setup) -> int:
    """Of an evaluation's attention, with its queries turned and kept beside what they were."""
    shape, N, h = setup.shape, setup.positions, setup.half
    C, W = shape.n_embd, shape.kv_width
    if shape.positions == "learned":
        return 0
    mixed = h * W if shape.value_embeddings else 0
    normed = h * (C + W) if shape.qk_norm else 0
    widened = 0 if h == FLOAT else h * C
    return N * (2 * FLOAT * C + h * (C + 2 * W) + mixed + normed + widened + 2 * FLOAT * W)
