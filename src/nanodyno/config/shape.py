# pyright: strict
"""What a model is made of. Everything with a default is GPT-2's own, unless a run asks otherwise."""

from dataclasses import dataclass, fields, replace
from typing import Literal

WHOLE, WINDOWED = "L", "S"
"""Letters of a window pattern, nanochat's: long and short."""


@dataclass(frozen=True)
class ModelShape:
    """A model once its vocabulary is known."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    vocab_size: int
    bias: bool
    dropout: float
    gelu: Literal["exact", "tanh"]
    zero_init: bool = False
    embedding_init: float = 0.02
    positions: Literal["learned", "rope"] = "learned"
    rope_base: float = 10_000.0
    norm: Literal["layer", "rms"] = "layer"
    activation: Literal["gelu", "relu2"] = "gelu"
    qk_norm: bool = False
    n_kv_head: int | None = None
    window: int | None = None
    window_pattern: str = "SSSL"
    value_embeddings: int = 0
    untied_head: bool = False
    logit_softcap: float | None = None

    @property
    def head_size(self) -> int:
        return self.n_embd // self.n_head

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values; each serves as many heads of queries."""
        return self.n_kv_head or self.n_head

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_size

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Of each block: how many positions one looks at, itself included; None is all before it."""
        if self.window is None:
            return (None,) * self.n_layer
        letters = (self.window_pattern[block % len(self.window_pattern)] for block in range(self.n_layer))
        return tuple(self.window if letter == WINDOWED else None for letter in letters)

    @property
    def blocks_by_window(self) -> dict[int | None, int]:
        """How many blocks have which window, whatever their number."""
        rounds, rest = divmod(self.n_layer, len(self.window_pattern))
        windowed = rounds * self.window_pattern.count(WINDOWED)
        windowed += self.window_pattern[:rest].count(WINDOWED)
        return {None: self.n_layer} if self.window is None else {
            self.window: windowed, None: self.n_layer - windowed,
        }  # fmt: skip

    @property
    def value_tables(self) -> tuple[int | None, ...]:
        """Of each block: which value embedding it mixes in; the first blocks share theirs with the last."""
        count, first_of_last = self.value_embeddings, self.n_layer - self.value_embeddings
        return tuple(
            block if block < count else block - first_of_last if block >= first_of_last else None
            for block in range(self.n_layer)
        )

    @property
    def is_gpt2(self) -> bool:
        """Whether it is the model as published."""
        published = {key: getattr(ModelShape, key) for key in OF_THE_BLOCK}
        return replace(self, **published) == self


_NAMES = [each.name for each in fields(ModelShape)]
OF_THE_BLOCK = tuple(_NAMES[_NAMES.index("positions") :])
"""Settings that leave GPT-2."""
OF_THE_START = ("zero_init", "embedding_init")
"""Settings that leave the model as it is, and begin elsewhere."""
