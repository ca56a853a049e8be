"""Which part of training a kernel or operator belongs to, by its name alone.

By name, because a CUDA graph replays kernels without the operators that asked for them. Inductor's names list
what was fused; a library's name its kind; a kernel that says nothing about itself is element-wise.
"""

import re

from nanodyno.config.optimizers import OPTIMIZERS
from nanodyno.records.probe import BreakdownPart

# In this order: a flash-attention kernel is built with cutlass, and is no plain matrix product.
KERNELS: dict[BreakdownPart, re.Pattern[str]] = {
    "optimizer": re.compile(
        "|".join(
            ["multi_tensor_apply", "adam", "lpnorm", "unscale", "clip_grad", *map(re.escape, OPTIMIZERS)]
        ),
        re.I,
    ),
    "attention": re.compile(r"flash|fmha|attention|attn|sdpa|dot_product|cudnn::fusion", re.I),
    "loss": re.compile(
        r"log_?softmax|softmax_online|cunn_softmax|softmax_warp|nll|cross_?entropy|_loss", re.I
    ),
    "matmul": re.compile(r"gemm|gemv|cutlass|nvjet|xmma|wgmma|splitk|cublas|matmul|(^|_)b?mm(_|$)", re.I),
    "copies": re.compile(r"memcpy|memset|direct_copy|catarray|fillfunctor|(^|_)copy(_|$)", re.I),
}
# Inductor: poi, red and per are loops over elements, whatever their neighbours were; tem is a template.
INDUCTOR_LOOP = re.compile(r"^triton_(poi|red|per|for)_fused")
OPERATORS: dict[BreakdownPart, re.Pattern[str]] = {
    "optimizer": re.compile(r"Optimizer\.|_foreach_|_fused_adam|linalg_vector_norm|_amp_"),
    "attention": re.compile(r"scaled_dot_product|ScaledDotProduct|_attention"),
    "loss": re.compile(r"cross_entropy|CrossEntropy|nll_loss|NllLoss|log_softmax|LogSoftmax"),
    "matmul": re.compile(r"mm$|::linear|::matmul|mkldnn|mkl_|[Mm]mBackward"),
    "copies": re.compile(r"copy_|_to_copy|::clone|::cat$|::fill_|::zero_|::contiguous"),
}
WHOLE: frozenset[BreakdownPart] = frozenset({"optimizer", "attention", "loss"})
"""What these operators call belongs to them: a product inside attention is attention."""


def part_of_kernel(name: str) -> BreakdownPart:
    if INDUCTOR_LOOP.match(name):
        return "loss" if KERNELS["loss"].search(name) else "element-wise"
    return _first(KERNELS, name)


def part_of_operator(name: str, within: BreakdownPart | None) -> BreakdownPart:
    """within: the part of the operator that called it."""
    if within in WHOLE:
        return within
    return _first(OPERATORS, name)


def _first(known: dict[BreakdownPart, re.Pattern[str]], name: str) -> BreakdownPart:
    for part, words in known.items():
        if words.search(name):
            return part
    return "element-wise"
