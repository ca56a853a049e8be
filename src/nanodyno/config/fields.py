# pyright: strict
"""Every setting of a run: its type, its range, its default and one line on what it does."""

import math
from collections.abc import Mapping
from typing import Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field

from nanodyno.config.kinds import (
    BelowOne,
    Count,
    Device,
    MaybeCount,
    MaybePositive,
    MaybeText,
    Means,
    Natural,
    NotNegative,
    Pattern,
    Positive,
    Rate,
    Share,
    Switch,
    Text,
    one_of,
)
from nanodyno.config.optimizers import OptimizerSettings
from nanodyno.config.ramp import Ramp, read_ramp
from nanodyno.config.shape import OF_THE_BLOCK, OF_THE_START, ModelShape

IGNORED_KEYS = frozenset({"always_save_checkpoint", "backend"})
VOCABULARY_MULTIPLE = 64
HEAD_SIZE = 64
DEFAULT_ACCUMULATION = 40
DEFAULT_EVAL_TOKENS = 1_048_576
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


class ModelAndBatch(BaseModel):
    """The settings that come before those of optimizers: pydantic orders fields by class."""

    # model
    n_layer: Count = Field(default=12, description="transformer blocks")
    n_head: Count = Field(description="attention heads (default: n_embd / 64)")
    n_embd: Count = Field(default=768, description="width of the model")
    block_size: Count = Field(default=1024, description="tokens of context")
    vocab_size: MaybeCount = Field(
        default=None, description="rows of the embedding (default: the dataset's, padded to a multiple of 64)"
    )
    bias: Switch = Field(default=False, description="biases in the linear layers and the norms")
    dropout: BelowOne = Field(default=0.0, description="share of activations dropped; 0 for pretraining")
    gelu: Literal["exact", "tanh"] = Field(
        default="exact", description="exact is nanoGPT's, tanh is GPT-2's as published"
    )

    # the modern block: each is GPT-2's own by default
    positions: Literal["learned", "rope"] = Field(
        default="learned", description="rope turns queries and keys by their position, without a table"
    )
    rope_base: Positive = Field(default=10_000.0, description="how slowly the slowest pair of rope turns")
    norm: Literal["layer", "rms"] = Field(default="layer", description="rms subtracts no mean, has no bias")
    activation: Literal["gelu", "relu2"] = Field(default="gelu", description="relu2 is ReLU squared")
    qk_norm: Switch = Field(default=False, description="RMS norm of queries and keys, without weights")
    n_kv_head: MaybeCount = Field(
        default=None,
        description="heads of keys and values, fewer than n_head to share them (default: n_head)",
    )
    window: MaybeCount = Field(
        default=None, description="positions that attention looks at, itself included (default: all)"
    )
    window_pattern: Pattern = Field(
        default="SSSL", description="blocks with the window (S) and without (L), repeated over the blocks"
    )
    value_embeddings: Natural = Field(
        default=0,
        description="tables of token embeddings mixed into attention's values, each shared by one of the "
        "first and one of the last blocks; at most n_layer / 2",
    )
    untied_head: Switch = Field(default=False, description="an output head of its own")
    logit_softcap: MaybePositive = Field(
        default=None, description="logits become cap * tanh(logits / cap) (default: none)"
    )
    zero_init: Switch = Field(
        default=False, description="what writes into the residual stream, and an untied head, begin at zero"
    )
    embedding_init: Positive = Field(
        default=0.02, description="standard deviation of the token embedding at the start"
    )

    # batch
    batch_size: Count = Field(default=12, description="sequences per micro-step (the micro-batch)")
    gradient_accumulation_steps: Count = Field(
        description=f"micro-steps per iteration (default: {DEFAULT_ACCUMULATION}, or from tokens_per_iter)"
    )
    tokens_per_iter: Count = Field(
        description="tokens per iteration, the effective batch (default: batch_size * block_size * "
        "gradient_accumulation_steps)"
    )
    batch_ramp: MaybeText = Field(
        default=None,
        description="grows tokens_per_iter: 10M:131072,50M:262144 from so many tokens on; noise: by "
        "the measured noise, to 16 times or noise:524288 that far; the learning rate grows by the root",
    )


class RunConfig(OptimizerSettings, ModelAndBatch):
    """A run under nanoGPT's names. Fields without a default are derived: `build_config` is the door."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    # optimiser
    learning_rate: Rate = Field(
        default=6e-4,
        description="peak learning rate; auto: `train` finds it by short trainings first, and tells",
    )
    min_lr: NotNegative = Field(description="learning rate after the decay (default: learning_rate / 10)")
    warmup_iters: Natural = Field(default=2000, description="iterations of linear warm-up")
    lr_decay_iters: Count = Field(description="iteration at which min_lr is reached (default: max_iters)")
    max_iters: Count = Field(default=600_000, description="iterations of the whole run")
    weight_decay: NotNegative = Field(default=0.1, description="weight decay, on matrices only")
    beta1: BelowOne = Field(default=0.9, description="AdamW's first beta")
    beta2: BelowOne = Field(default=0.95, description="AdamW's second beta")
    grad_clip: NotNegative = Field(default=1.0, description="largest norm of the gradient; 0 is no clipping")
    decay_lr: Switch = Field(default=True, description="follow the schedule; false keeps learning_rate")
    schedule: Literal["cosine", "linear", "constant", "wsd"] = Field(
        default="cosine", description="shape after the warm-up; wsd holds the peak and decays at the end"
    )
    wsd_decay_fraction: Share = Field(
        default=0.2, description="share of lr_decay_iters that wsd spends decaying"
    )
    embedding_lr: MaybePositive = Field(
        default=None,
        description="peak for value embeddings, and for token embeddings that are not the head too "
        "(default: learning_rate)",
    )
    cautious_decay: Switch = Field(
        default=False, description="weight decay only where the update goes the same way"
    )

    # data
    dataset: Text = Field(
        default="python", description="a name under data/, a path, or python for the embedded corpus"
    )
    tokenizer: Literal["bytes", "gpt2"] = Field(
        default="gpt2", description="tokenizer of the embedded corpus; other datasets have their own"
    )
    seed: Natural = Field(default=1337, description="seed of the weights, the data order and dropout")

    # evaluation
    eval_interval: Count = Field(default=2000, description="iterations between evaluations")
    eval_tokens: Count = Field(
        description=f"tokens of each split that an evaluation reads (default: {DEFAULT_EVAL_TOKENS})"
    )
    eval_iters: MaybeCount = Field(
        default=None,
        description="eval_tokens counted in micro-batches, as nanoGPT does; eval_tokens is better, since "
        "it does not move with batch_size",
    )
    eval_only: Switch = Field(default=False, description="evaluate once and stop")
    log_interval: Count = Field(default=1, description="iterations between lines of the log")

    # system
    device: Device = Field(default="auto", description="auto, cpu, cuda, cuda:N or mps")
    threads: MaybeCount = Field(default=None, description="threads on a CPU (default: torch's choice)")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="precision of the matrix products; auto takes the best the device has"
    )
    compile: Switch = Field(
        default=True,
        description="compile with torch.compile: the model (kernels=autograd), and an optimizer's own step "
        "on a GPU",
    )
    kernels: Literal["auto", "fused", "autograd"] = Field(
        default="auto",
        description="fused: the micro-step written by hand, on Triton kernels (auto takes it on a GPU with "
        "bfloat16); autograd: torch's own",
    )
    attention: Literal["auto", "cudnn-packed", "cudnn", "flash", "efficient", "flex", "fa3", "math"] = Field(
        default="auto",
        description="backend of the attention; auto: the fastest that runs, measured (kernels=fused) or by "
        "torch's own choice (autograd)",
    )
    products: Literal["auto", "torch"] = Field(
        default="auto",
        description="algorithms of the matrix products; auto: the fastest of cuBLAS's, measured once per "
        "card and shape (kernels=fused on CUDA); torch: its own choice",
    )
    loss_rows: MaybeCount = Field(
        default=None,
        description="positions whose logits are in memory at once (default: by the card's memory where "
        "kernels=fused, else all)",
    )
    recompute: Literal["auto", "none", "light", "mlp", "full"] = Field(
        default="auto",
        description="what the backward pass makes again instead of keeping it: light is norms and GELU, mlp "
        "also its first product, full whole blocks; auto the least that fits",
    )
    cuda_graph: Switch = Field(
        default=True,
        description="launch a micro-step, and an optimizer's own step, as one CUDA graph (kernels=fused)",
    )
    residual_dtype: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="precision of the residual stream in training; bfloat16 is other arithmetic, faster and "
        "smaller (evaluations keep float32)",
    )
    moments_dtype: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="precision of AdamW's moments; bfloat16 is other arithmetic and halves their memory",
    )
    fp8: Switch = Field(
        default=False,
        description="the large matrix products of training in fp8 (from Ada and Hopper on): other "
        "arithmetic, faster (evaluations stay in bfloat16)",
    )
    offload_moments: Switch = Field(
        default=False, description="keep AdamW's moments in the host's memory: slower updates, larger models"
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        default="ddp",
        description="under torchrun: ddp has the whole model in every process, fsdp a share of it",
    )
    keep_checkpoints: Count = Field(
        default=2,
        description="checkpoints kept: this many of the last, and of those saved at an evaluation the best",
    )
    bad_update: Literal["stop", "skip"] = Field(
        default="stop",
        description="at a loss or gradient that is no number or leaps: stop the run, or skip the update "
        "(ten in a row stop it)",
    )
    spike_zscore: NotNegative = Field(
        default=0.0,
        description="standard deviations above the latest losses or gradient norms that make a leap; 0 looks "
        "for none",
    )
    init_from: Literal["scratch", "resume"] = Field(
        default="scratch", description="scratch, or resume to go on with the run in out_dir"
    )
    out_dir: MaybeText = Field(default=None, description="folder of the run (default: runs/NAME)")

    @property
    def ramp(self) -> Ramp:
        """Without batch_ramp, one that does not rise."""
        first = self.tokens_per_iter
        return Ramp(first) if self.batch_ramp is None else read_ramp(self.batch_ramp, first)

    @property
    def sequences_divided(self) -> int:
        """What a micro-batch has to divide: the iterations of every size that the run will have."""
        return math.gcd(*self.ramp.sizes) // self.block_size

    def model_shape(self, vocab_size: int) -> ModelShape:
        """The model of this run with `vocab_size` embedding rows, used as given: padding is the caller's."""
        return ModelShape(
            n_layer=self.n_layer,
            n_head=self.n_head,
            n_embd=self.n_embd,
            block_size=self.block_size,
            vocab_size=vocab_size,
            bias=self.bias,
            dropout=self.dropout,
            gelu=self.gelu,
            **{key: getattr(self, key) for key in (*OF_THE_START, *OF_THE_BLOCK)},
        )

    @property
    def beyond_hand(self) -> str | None:
        """The first setting that the kernels by hand do not know."""
        return self.beyond_hand_of(dict(self))

    @property
    def halves_stream_by_hand(self) -> bool:
        """Whether a bf16 residual stream is asked for that only the fused way has: a modern model has one."""
        return self.residual_dtype != "float32" and self.model_shape(1).is_gpt2

    @classmethod
    def beyond_hand_of(cls, values: Mapping[str, object]) -> str | None:
        there = {
            "window": values.get("window") is not None,
            "n_kv_head": values.get("n_kv_head") not in (None, values.get("n_head")),
        }
        return next((f"{key}={values[key]}" for key, is_there in there.items() if is_there), None)


def accepted(key: str) -> str:
    """What a field takes, in words that fit after "must be"."""
    info = RunConfig.model_fields[key]
    if get_origin(info.annotation) is Literal:
        return one_of(get_args(info.annotation))
    return next(each.words for each in info.metadata if isinstance(each, Means))


def is_ignored(key: str) -> bool:
    """Whether nanoGPT has this key and we accept it without effect."""
    return key in IGNORED_KEYS or key.startswith("wandb_")


def padded_vocab_size(n: int) -> int:
    """The next multiple of 64, which matrix products like better: 50257 becomes 50304."""
    return -(-n // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
