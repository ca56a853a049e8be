# pyright: strict
"""The settings of a model, and the model that they make. Defaults are GPT-2's own, but for its biases."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, model_validator

from nanodyno.config.attributes import Attributes, setting
from nanodyno.config.kinds import (
    BelowOne,
    Count,
    MaybeCount,
    MaybePositive,
    Natural,
    Pattern,
    Positive,
    Switch,
)

WHOLE, WINDOWED = "L", "S"
"""Letters of a window pattern, nanochat's: long and short."""
STRICT = ConfigDict(strict=True, allow_inf_nan=False)
ALL = "work speed memory loss"


class Declared(BaseModel, frozen=True, extra="forbid", strict=True, allow_inf_nan=False):
    """Fields that are settings, each declared by `setting`; former names are accepted wherever it is read."""

    @classmethod
    def attributes(cls) -> dict[str, Attributes]:
        """The attributes of every setting, in the order of their declaration."""
        return {
            key: each
            for key, info in cls.model_fields.items()
            for each in info.metadata
            if isinstance(each, Attributes)
        }

    @model_validator(mode="before")
    @classmethod
    def _by_present_names(cls, values: Any) -> Any:
        return cls.renamed(cast(Mapping[str, Any], values)) if isinstance(values, Mapping) else values

    @classmethod
    def renamed(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values under the present names; one that is there by its present name is kept."""
        now = cls.present_names()
        old = {now[key]: value for key, value in values.items() if key in now}
        return old | {key: value for key, value in values.items() if key not in now}

    @classmethod
    @cache
    def present_names(cls) -> dict[str, str]:
        """By each former name, the present one."""
        return {old: key for key, each in cls.attributes().items() for old in each.aliases}


class ModelSettings(Declared, frozen=True):
    """What a model is made of, as far as a run's settings say it."""

    n_layer: Count = setting(
        "transformer blocks", 12, group="model", affects=ALL, on_resume="fixed", nanogpt=True,
        asked_by="import compare",
    )  # fmt: skip
    n_head: Count = setting(
        "attention heads (default: n_embd / 64)", group="model", affects=ALL, on_resume="fixed", nanogpt=True,
        nanogpt_default=12, derived_from=("n_embd",), part_of="n_embd", asked_by="import compare",
    )  # fmt: skip
    n_embd: Count = setting(
        "width of the model", 768, group="model", affects=ALL, on_resume="fixed", nanogpt=True,
        asked_by="import compare",
    )  # fmt: skip
    block_size: Count = setting(
        "context length in tokens", 1024, group="model", affects=ALL, on_resume="fixed", nanogpt=True,
        asked_by="import compare",
    )  # fmt: skip
    vocab_size: MaybeCount = setting(
        "vocabulary size of the model (default: the dataset's, padded to a multiple of 64)", None,
        group="model", affects=ALL, on_resume="fixed", none_means="dataset's", part_of="dataset",
        asked_by="import",
    )  # fmt: skip
    bias: Switch = setting(
        "biases in the linear layers and the norms", False, group="model", affects=ALL, on_resume="fixed",
        nanogpt=True, asked_by="import",
    )  # fmt: skip
    dropout: BelowOne = setting(
        "share of activations dropped; 0 for pretraining", 0.0, group="regularization",
        affects="speed memory loss", amount_affects="loss", nanogpt=True,
    )  # fmt: skip
    gelu: Literal["exact", "tanh"] = setting(
        "exact is nanoGPT's, tanh is GPT-2's as published", "exact", group="model", affects=ALL,
        on_resume="fixed", requires="activation=gelu", part_of="activation",
    )  # fmt: skip

    positions: Literal["learned", "rope"] = setting(
        "learned: a position embedding; rope: rotary embeddings", "learned", group="modern",
        affects=ALL, on_resume="fixed",
    )  # fmt: skip
    rope_base: Positive = setting(
        "base of the RoPE frequencies", 10_000.0, group="modern", affects="loss",
        on_resume="fixed", requires="positions=rope", part_of="positions",
    )  # fmt: skip
    norm: Literal["layer", "rms"] = setting(
        "layer: LayerNorm; rms: RMSNorm", "layer", group="modern", affects=ALL, on_resume="fixed",
    )  # fmt: skip
    activation: Literal["gelu", "relu2"] = setting(
        "relu2 is ReLU squared", "gelu", group="modern", affects=ALL, on_resume="fixed",
    )  # fmt: skip
    qk_norm: Switch = setting(
        "RMS norm of queries and keys, without weights", False, group="modern", affects=ALL,
        on_resume="fixed",
    )  # fmt: skip
    n_kv_head: MaybeCount = setting(
        "heads of keys and values; fewer than n_head is GQA (default: n_head)", None, group="modern",
        affects=ALL, on_resume="fixed", autograd_only=True, none_means="n_head",
    )  # fmt: skip
    window: MaybeCount = setting(
        "attention window in positions, itself included (default: all)", None, group="modern",
        affects=ALL, on_resume="fixed", autograd_only=True, none_means="none",
    )  # fmt: skip
    window_pattern: Pattern = setting(
        "blocks with (S) and without (L) the window, repeated over depth", "SSSL", group="modern",
        affects=ALL, on_resume="fixed", requires="window", part_of="window",
    )  # fmt: skip
    value_embeddings: Natural = setting(
        "number of value embeddings, each shared by one of the first and one of the last blocks; at most "
        "n_layer / 2", 0, group="modern", affects=ALL,
        on_resume="fixed",
    )  # fmt: skip
    untied_head: Switch = setting(
        "output head with its own weights", False, group="modern", affects=ALL, on_resume="fixed",
    )  # fmt: skip
    logit_softcap: MaybePositive = setting(
        "cap of the logits: cap * tanh(logits / cap) (default: none)", None, group="modern", affects=ALL,
        amount_affects="loss", on_resume="fixed", none_means="none",
    )  # fmt: skip

    zero_init: Switch = setting(
        "start output projections of the blocks, and an untied head, at zero", False,
        group="initialization", affects="loss", on_resume="fixed",
    )  # fmt: skip
    embedding_init: Positive = setting(
        "initial standard deviation of the token embedding", 0.02, group="initialization",
        affects="loss", on_resume="fixed",
    )  # fmt: skip


class ModelShape(ModelSettings, frozen=True):
    """A model once its vocabulary is known."""

    vocab_size: Count  # pyright: ignore[reportGeneralTypeIssues] - without a default here

    def replaced(self, **changes: Any) -> Self:
        return self.model_copy(update=changes)

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
        return all(getattr(self, key) == default for key, default in _PUBLISHED.items())


_PUBLISHED = {
    key: ModelSettings.model_fields[key].default
    for key, each in ModelSettings.attributes().items()
    if each.group == "modern"
}
