"""How many parameters a model has, by part."""

from dataclasses import dataclass

from nanodyno.config import ModelShape


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by part; biases count with the layer they belong to."""

    token_embedding: int
    """Tied with the output projection: held once, and a matrix product only there."""
    positions: int
    attention: int
    mlp: int
    norms: int
    matmul_weights: int
    """Weights that enter a matrix product: those of attention, mlp and the tied head, without biases."""

    @property
    def total(self) -> int:
        return self.token_embedding + self.positions + self.attention + self.mlp + self.norms

    @property
    def nanogpt(self) -> int:
        """What nanoGPT reports as its number of parameters: all but the position embedding."""
        return self.total - self.positions


def parameters(shape: ModelShape) -> ParameterCount:
    """Counts GPT-2: learned positions, tied head, two norms a layer and one at the end."""
    layers, width = shape.n_layer, shape.n_embd
    attention_weights = layers * (3 * width * width + width * width)
    mlp_weights = layers * (4 * width * width + 4 * width * width)
    head_weights = shape.vocab_size * width
    biases = int(shape.bias)
    return ParameterCount(
        token_embedding=head_weights,
        positions=shape.block_size * width,
        attention=attention_weights + biases * layers * (3 * width + width),
        mlp=mlp_weights + biases * layers * (4 * width + width),
        norms=(2 * layers + 1) * (width + biases * width),
        matmul_weights=attention_weights + mlp_weights + head_weights,
    )
