"""How many parameters a model has, by part."""

from dataclasses import dataclass

from nanodyno.config import ModelShape


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by part; biases count with the layer they belong to."""

    token_embedding: int
    """Unless it is untied, the output head too: held once, and a matrix product only there."""
    positions: int
    attention: int
    mlp: int
    norms: int
    matmul_weights: int
    """Weights that enter a matrix product: those of attention, mlp and the head, without biases."""
    block_matrices: int
    """Of those, the ones of the blocks."""
    head: int = 0
    """Of its own; 0 where it is the token embedding."""
    value_embeddings: int = 0

    @property
    def total(self) -> int:
        return (
            self.token_embedding
            + self.positions
            + self.attention
            + self.mlp
            + self.norms
            + self.head
            + self.value_embeddings
        )

    @property
    def nanogpt(self) -> int:
        """What nanoGPT reports as its number of parameters: all but those that are only looked up."""
        looked_up = self.token_embedding if self.head else 0
        return self.total - self.positions - self.value_embeddings - looked_up


def parameters(shape: ModelShape) -> ParameterCount:
    """Two norms a layer and one at the end; a block that mixes in a value embedding has two shares for it."""
    layers, width, kv = shape.n_layer, shape.n_embd, shape.kv_width
    attention_weights = layers * (width * (width + 2 * kv) + width * width)
    mlp_weights = layers * (4 * width * width + 4 * width * width)
    head_weights = shape.vocab_size * width
    biases = int(shape.bias)
    norm = width if shape.norm == "rms" else width + biases * width
    shares = 2 * 2 * shape.value_embeddings  # for a table, one of the first blocks and one of the last
    return ParameterCount(
        token_embedding=head_weights,
        positions=shape.block_size * width if shape.positions == "learned" else 0,
        attention=attention_weights + biases * layers * (2 * width + 2 * kv) + shares,
        mlp=mlp_weights + biases * layers * (4 * width + width),
        norms=(2 * layers + 1) * norm,
        matmul_weights=attention_weights + mlp_weights + head_weights,
        block_matrices=attention_weights + mlp_weights,
        head=head_weights if shape.untied_head else 0,
        value_embeddings=shape.value_embeddings * shape.vocab_size * kv,
    )
