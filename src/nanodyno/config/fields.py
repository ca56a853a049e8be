# pyright: strict
"""Every setting of a run: its type, its range, its default and one line on what it does."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nanodyno.config.ramp import Ramp, read_ramp

IGNORED_KEYS = frozenset({"always_save_checkpoint", "backend"})
VOCABULARY_MULTIPLE = 64
HEAD_SIZE = 64
DEVICES = r"auto|cpu|mps|cuda(:[0-9]{1,4})?"
LARGEST = 2**63 - 1
DEFAULT_ACCUMULATION = 40
DEFAULT_EVAL_TOKENS = 1_048_576
STRICT = ConfigDict(strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class _Means:
    """What a field accepts, in a user's words."""

    words: str


def _whole(value: object) -> object:
    """An integral float is a whole number, because 1e3 is how people write a thousand."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Integral = BeforeValidator(_whole)
_Count = Annotated[int, _Integral, Field(ge=1, le=LARGEST), _Means("a whole number of at least 1")]
_MaybeCount = Annotated[_Count | None, _Means("a whole number of at least 1")]
_Natural = Annotated[int, _Integral, Field(ge=0, le=LARGEST), _Means("a whole number of at least 0")]
_Positive = Annotated[float, Field(gt=0), _Means("a number above 0")]
_NotNegative = Annotated[float, Field(ge=0), _Means("a number of at least 0")]
_BelowOne = Annotated[float, Field(ge=0, lt=1), _Means("a number of at least 0 and below 1")]
_Share = Annotated[float, Field(gt=0, le=1), _Means("a number above 0 and at most 1")]
_Switch = Annotated[bool, _Means("true or false")]
_Text = Annotated[str, Field(min_length=1), _Means("text that is not empty")]
_MaybeText = Annotated[_Text | None, _Means("text that is not empty")]
_Device = Annotated[
    str,
    Field(pattern=f"^({DEVICES})$"),
    _Means('"auto", "cpu", "cuda", "cuda:N" or "mps"'),
]


@dataclass(frozen=True)
class ModelShape:
    """What the model is made of once its vocabulary is known."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    vocab_size: int
    bias: bool
    dropout: float
    gelu: Literal["exact", "tanh"]

    @property
    def head_size(self) -> int:
        return self.n_embd // self.n_head


class RunConfig(BaseModel):
    """A run under nanoGPT's names. Fields without a default are derived: `build_config` is the door."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    # model
    n_layer: _Count = Field(default=12, description="transformer blocks")
    n_head: _Count = Field(description="attention heads (default: n_embd / 64)")
    n_embd: _Count = Field(default=768, description="width of the model")
    block_size: _Count = Field(default=1024, description="tokens of context")
    vocab_size: _MaybeCount = Field(
        default=None, description="rows of the embedding (default: the dataset's, padded to a multiple of 64)"
    )
    bias: _Switch = Field(default=False, description="biases in the linear layers and the norms")
    dropout: _BelowOne = Field(default=0.0, description="share of activations dropped; 0 for pretraining")
    gelu: Literal["exact", "tanh"] = Field(
        default="exact", description="exact is nanoGPT's, tanh is GPT-2's as published"
    )

    # batch
    batch_size: _Count = Field(default=12, description="sequences per micro-step (the micro-batch)")
    gradient_accumulation_steps: _Count = Field(
        description=f"micro-steps per iteration (default: {DEFAULT_ACCUMULATION}, or from tokens_per_iter)"
    )
    tokens_per_iter: _Count = Field(
        description="tokens per iteration, the effective batch (default: batch_size * block_size * "
        "gradient_accumulation_steps)"
    )
    batch_ramp: _MaybeText = Field(
        default=None,
        description="grows tokens_per_iter: 10M:131072,50M:262144 from so many tokens on; noise: by "
        "the measured noise, to 16 times or noise:524288 that far; the learning rate grows by the root",
    )

    # optimiser
    learning_rate: _Positive = Field(
        default=6e-4,
        description="peak learning rate; auto: `train` finds it by short trainings first, and tells",
    )
    min_lr: _NotNegative = Field(description="learning rate after the decay (default: learning_rate / 10)")
    warmup_iters: _Natural = Field(default=2000, description="iterations of linear warm-up")
    lr_decay_iters: _Count = Field(description="iteration at which min_lr is reached (default: max_iters)")
    max_iters: _Count = Field(default=600_000, description="iterations of the whole run")
    weight_decay: _NotNegative = Field(default=0.1, description="AdamW's decay, on matrices only")
    beta1: _BelowOne = Field(default=0.9, description="AdamW's first beta")
    beta2: _BelowOne = Field(default=0.95, description="AdamW's second beta")
    grad_clip: _NotNegative = Field(default=1.0, description="largest norm of the gradient; 0 is no clipping")
    decay_lr: _Switch = Field(default=True, description="follow the schedule; false keeps learning_rate")
    schedule: Literal["cosine", "linear", "constant", "wsd"] = Field(
        default="cosine", description="shape after the warm-up; wsd holds the peak and decays at the end"
    )
    wsd_decay_fraction: _Share = Field(
        default=0.2, description="share of lr_decay_iters that wsd spends decaying"
    )

    # data
    dataset: _Text = Field(
        default="python", description="a name under data/, a path, or python for the embedded corpus"
    )
    tokenizer: Literal["bytes", "gpt2"] = Field(
        default="gpt2", description="tokenizer of the embedded corpus; other datasets have their own"
    )
    seed: _Natural = Field(default=1337, description="seed of the weights, the data order and dropout")

    # evaluation
    eval_interval: _Count = Field(default=2000, description="iterations between evaluations")
    eval_tokens: _Count = Field(
        description=f"tokens of each split that an evaluation reads (default: {DEFAULT_EVAL_TOKENS})"
    )
    eval_iters: _MaybeCount = Field(
        default=None,
        description="eval_tokens counted in micro-batches, as nanoGPT does; eval_tokens is better, since "
        "it does not move with batch_size",
    )
    eval_only: _Switch = Field(default=False, description="evaluate once and stop")
    log_interval: _Count = Field(default=1, description="iterations between lines of the log")

    # system
    device: _Device = Field(default="auto", description="auto, cpu, cuda, cuda:N or mps")
    threads: _MaybeCount = Field(default=None, description="threads on a CPU (default: torch's choice)")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="precision of the matrix products; auto takes the best the device has"
    )
    compile: _Switch = Field(
        default=True, description="compile the model with torch.compile, where kernels=autograd"
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
    loss_rows: _MaybeCount = Field(
        default=None,
        description="positions whose logits are in memory at once (default: by the card's memory where "
        "kernels=fused, else all)",
    )
    recompute: Literal["auto", "none", "light", "mlp", "full"] = Field(
        default="auto",
        description="what the backward pass makes again instead of keeping it: light is norms and GELU, mlp "
        "also its first product, full whole blocks; auto the least that fits",
    )
    cuda_graph: _Switch = Field(
        default=True, description="launch a micro-step as one CUDA graph, where kernels=fused"
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
    fp8: _Switch = Field(
        default=False,
        description="the large matrix products of training in fp8 (from Ada and Hopper on): other "
        "arithmetic, faster (evaluations stay in bfloat16)",
    )
    offload_moments: _Switch = Field(
        default=False, description="keep AdamW's moments in the host's memory: slower updates, larger models"
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        default="ddp",
        description="under torchrun: ddp has the whole model in every process, fsdp a share of it",
    )
    keep_checkpoints: _Count = Field(
        default=2, description="checkpoints kept: this many of the last, and the one with the best val loss"
    )
    bad_update: Literal["stop", "skip"] = Field(
        default="stop",
        description="at a loss or gradient that is no number or leaps: stop the run, or skip the update "
        "(ten in a row stop it)",
    )
    spike_zscore: _NotNegative = Field(
        default=0.0,
        description="standard deviations above the latest losses or gradient norms that make a leap; 0 looks "
        "for none",
    )
    init_from: Literal["scratch", "resume"] = Field(
        default="scratch", description="scratch, or resume to go on with the run in out_dir"
    )
    out_dir: _MaybeText = Field(default=None, description="folder of the run (default: runs/NAME)")

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
        )


def accepted(key: str) -> str:
    """What a field takes, in words that fit after "must be"."""
    info = RunConfig.model_fields[key]
    if get_origin(info.annotation) is Literal:
        *first, last = [f'"{choice}"' for choice in get_args(info.annotation)]
        return f"{', '.join(first)} or {last}"
    return next(each.words for each in info.metadata if isinstance(each, _Means))


def is_ignored(key: str) -> bool:
    """Whether nanoGPT has this key and we accept it without effect."""
    return key in IGNORED_KEYS or key.startswith("wandb_")


def padded_vocab_size(n: int) -> int:
    """The next multiple of 64, which matrix products like better: 50257 becomes 50304."""
    return -(-n // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
