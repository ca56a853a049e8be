"""The kernels of a GPU, all Triton's."""

from nanodyno.model.kernels.adamw import adamw_
from nanodyno.model.kernels.embedding import embed, embed_backward
from nanodyno.model.kernels.gelu import gelu, gelu_backward_
from nanodyno.model.kernels.loss import cross_entropy_
from nanodyno.model.kernels.norm import add_norm, norm_backward, partial_rows
from nanodyno.model.kernels.quantise import quantise
from nanodyno.model.kernels.relu import relu2, relu2_backward_
from nanodyno.model.kernels.rope import apply_rope_, apply_rope_backward_
from nanodyno.model.kernels.values import mix_values_, mix_values_backward_

__all__ = [
    "adamw_",
    "add_norm",
    "apply_rope_",
    "apply_rope_backward_",
    "cross_entropy_",
    "embed",
    "embed_backward",
    "gelu",
    "gelu_backward_",
    "mix_values_",
    "mix_values_backward_",
    "norm_backward",
    "partial_rows",
    "quantise",
    "relu2",
    "relu2_backward_",
]  # fmt: skip
