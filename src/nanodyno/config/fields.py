# pyright: strict
"""Every setting of a run, declared once: its type, range, default, help text and attributes; and queries."""

import math
from collections.abc import Callable, Mapping
from typing import Literal, get_args, get_origin

from nanodyno.config.attributes import Attributes, effects, setting
from nanodyno.config.kinds import (
    Accepts,
    BelowOne,
    Count,
    DeviceName,
    MaybeCount,
    MaybePositive,
    MaybeText,
    Natural,
    NonEmptyText,
    NotNegative,
    Rate,
    Share,
    Switch,
    one_of,
)
from nanodyno.config.optimizers import COMPILED, OptimizerSettings
from nanodyno.config.ramp import Ramp, read_ramp
from nanodyno.config.shape import ModelSettings, ModelShape

VOCABULARY_MULTIPLE = 64
HEAD_SIZE = 64
DEFAULT_ACCUMULATION = 40
DEFAULT_EVAL_TOKENS = 1_048_576
MICRO_BATCH = ("batch_size", "block_size")


class RunConfig(OptimizerSettings, ModelSettings, frozen=True):
    """A run under nanoGPT's names. Fields without a default are derived: `build_config` is the door."""

    # batch
    batch_size: Count = setting(
        "sequences per micro-step (the micro-batch)", 12, group="batch", affects="speed memory", nanogpt=True,
        tuned=True, asked_by="import compare",
    )  # fmt: skip
    gradient_accumulation_steps: Count = setting(
        f"micro-steps per iteration (default: {DEFAULT_ACCUMULATION}, or from tokens_per_iter)",
        group="batch", affects="speed memory", nanogpt=True, derived_from=("tokens_per_iter", *MICRO_BATCH),
        pair="tokens_per_iter", asked_by="import compare",
    )  # fmt: skip
    tokens_per_iter: Count = setting(
        "tokens per iteration, the batch size in tokens (default: batch_size * block_size * "
        "gradient_accumulation_steps)", group="batch", affects="speed loss",
        derived_from=("gradient_accumulation_steps", *MICRO_BATCH),
    )  # fmt: skip
    batch_ramp: MaybeText = setting(
        "grows tokens_per_iter, and the learning rate by the square root. 10M:131072,50M:262144: sizes from "
        "so many tokens on. noise: by the measured noise, up to 16 times; noise:524288: up to that size",
        None, group="batch", affects="speed loss", none_means="none", part_of="tokens_per_iter",
        in_experiment="untimed",
    )  # fmt: skip

    # learning rate
    learning_rate: Rate = setting(
        "peak learning rate; auto: `train` first finds it by short training runs", 6e-4,
        group="schedule", affects="loss", nanogpt=True, asked_by="import compare",
    )  # fmt: skip
    min_lr: NotNegative = setting(
        "learning rate after the decay (default: learning_rate / 10)", group="schedule", affects="loss",
        nanogpt=True, nanogpt_default=6e-5, derived_from=("learning_rate",), part_of="learning_rate",
        idle_unless=("decay_lr=True", "schedule=cosine|linear|wsd"),
    )  # fmt: skip
    warmup_iters: Natural = setting(
        "iterations of linear warm-up", 2000, group="schedule", affects="loss", nanogpt=True,
        idle_unless=("decay_lr=True",),
    )  # fmt: skip
    lr_decay_iters: Count = setting(
        "iteration at which min_lr is reached (default: max_iters)", group="schedule", affects="loss",
        nanogpt=True, nanogpt_default=600_000, derived_from=("max_iters",), part_of="max_iters",
        idle_unless=("decay_lr=True", "schedule=cosine|linear|wsd"),
    )  # fmt: skip
    max_iters: Count = setting(
        "iterations of the whole run", 600_000, group="schedule", affects="", nanogpt=True,
    )  # fmt: skip
    weight_decay: NotNegative = setting(
        "weight decay, on matrices only", 0.1, group="regularization", affects="loss", nanogpt=True,
    )  # fmt: skip
    beta1: BelowOne = setting("AdamW's first beta", 0.9, group="optimizer", affects="loss", nanogpt=True)
    beta2: BelowOne = setting("AdamW's second beta", 0.95, group="optimizer", affects="loss", nanogpt=True)
    grad_clip: NotNegative = setting(
        "largest norm of the gradient; 0 for no clipping", 1.0, group="regularization",
        affects="speed memory loss", amount_affects="loss", nanogpt=True,
    )  # fmt: skip
    decay_lr: Switch = setting(
        "follow the schedule; false keeps learning_rate", True, group="schedule", affects="loss",
        nanogpt=True,
    )  # fmt: skip
    schedule: Literal["cosine", "linear", "constant", "wsd"] = setting(
        "shape after the warm-up; wsd holds the peak and decays at the end", "cosine", group="schedule",
        affects="loss", idle_unless=("decay_lr=True",),
    )  # fmt: skip
    wsd_decay_fraction: Share = setting(
        "share of lr_decay_iters that wsd spends decaying", 0.2, group="schedule", affects="loss",
        requires="schedule=wsd", part_of="schedule",
    )  # fmt: skip
    embedding_lr: MaybePositive = setting(
        "peak learning rate of value embeddings, and of untied token embeddings "
        "(default: learning_rate)", None, group="optimizer", affects="loss", none_means="learning_rate",
        idle_unless=("untied_head=True|value_embeddings=1",),
    )  # fmt: skip
    cautious_decay: Switch = setting(
        "weight decay only where the update shrinks the weight too", False, group="regularization",
        affects="speed memory loss", requires="weight_decay",
    )  # fmt: skip

    # data
    dataset: NonEmptyText = setting(
        "a name under data/, a path, or python for the embedded corpus", "python", group="data",
        affects="loss", on_resume="fixed", nanogpt=True, nanogpt_default="openwebtext", asked_by="compare",
    )  # fmt: skip
    tokenizer: Literal["bytes", "gpt2"] = setting(
        "tokenizer of the embedded corpus; other datasets have their own", "gpt2", group="data",
        affects="loss", on_resume="fixed", part_of="dataset", idle_unless=("dataset=python",),
    )  # fmt: skip
    seed: Natural = setting(
        "seed of the weights, the data order and dropout", 1337, group="initialization", affects="loss",
        on_resume="fixed", in_experiment="held",
    )  # fmt: skip

    # evaluation
    eval_interval: Count = setting(
        "iterations between evaluations", 2000, group="evaluation", affects="", nanogpt=True,
    )  # fmt: skip
    eval_tokens: Count = setting(
        f"tokens of each split that an evaluation reads (default: {DEFAULT_EVAL_TOKENS})", group="evaluation",
        affects="loss", derived_from=("eval_iters", *MICRO_BATCH), in_experiment="held",
    )  # fmt: skip
    eval_iters: MaybeCount = setting(
        "eval_tokens in micro-batches, as in nanoGPT; eval_tokens does not change with batch_size",
        None, group="evaluation", affects="loss", nanogpt=True,
        nanogpt_default=200, pair="eval_tokens", none_means="eval_tokens", in_experiment="held",
    )  # fmt: skip
    eval_only: Switch = setting(
        "evaluate once and stop", False, group="evaluation", affects="", on_resume="command", nanogpt=True,
    )  # fmt: skip
    log_interval: Count = setting(
        "iterations between log lines", 1, group="record", affects="", on_resume="command",
        nanogpt=True,
    )  # fmt: skip

    # system
    device: DeviceName = setting(
        "auto, cpu, cuda, cuda:N or mps", "auto", group="system", affects="speed memory", nanogpt=True,
        in_experiment="place",
    )  # fmt: skip
    threads: MaybeCount = setting(
        "CPU threads (default: torch's choice)", None, group="system", affects="speed memory",
        none_means="torch's choice", tuned=True,
    )  # fmt: skip
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "precision of the matmuls; auto is the best that the device has", "auto", group="precision",
        affects="speed memory loss", nanogpt=True, asked_by="compare",
    )  # fmt: skip
    compile: Switch = setting(
        "use torch.compile: for the model (kernels=autograd), and for some optimizers on a GPU",
        True, group="system", affects="speed memory", nanogpt=True, tuned=True, idle_unless=(COMPILED,),
        asked_by="compare",
    )  # fmt: skip
    kernels: Literal["auto", "fused", "autograd"] = setting(
        "fused: written-out backward pass with Triton kernels (auto takes it on a GPU with bfloat16); "
        "autograd: PyTorch's autograd", "auto", group="system", affects="speed memory", tuned=True,
    )  # fmt: skip
    attention: Literal[
        "auto", "cudnn-packed", "cudnn", "flash", "efficient", "flex", "fa3", "math"
    ] = setting(
        "attention backend; auto: the fastest one as measured (kernels=fused), or torch's choice "
        "(autograd)", "auto", group="system", affects="speed memory",
    )  # fmt: skip
    gemm_algorithm: Literal["auto", "torch"] = setting(
        "GEMM autotuning; auto: the fastest cuBLAS algorithm, measured once per GPU and shape "
        "(kernels=fused on CUDA); torch: torch's choice", "auto", group="system",
        affects="speed memory", idle_unless=("kernels=auto|fused", "device=cuda"),
        aliases=("products",),
    )  # fmt: skip
    loss_chunk_size: MaybeCount = setting(
        "positions whose logits are in memory at once (default: by the GPU's memory with "
        "kernels=fused, else all)", None, group="system", affects="speed memory", none_means="by memory",
        tuned=True,
        aliases=("loss_rows",),
    )  # fmt: skip
    recompute: Literal["auto", "none", "light", "mlp", "full"] = setting(
        "what the backward pass recomputes to save memory: light (norms and GELU), mlp (also "
        "its first matmul), full (whole blocks). auto is the least that fits", "auto", group="system",
        affects="speed memory", tuned=True,
    )  # fmt: skip
    cuda_graph: Switch = setting(
        "launch a micro-step, and the step of some optimizers, as one CUDA graph (kernels=fused)", True,
        group="system", affects="speed memory", tuned=True, idle_unless=("kernels=auto|fused", "device=cuda"),
    )  # fmt: skip
    residual_dtype: Literal["float32", "bfloat16"] = setting(
        "precision of the residual stream in training; bfloat16 changes the results, is faster and "
        "smaller (evaluations keep float32)", "float32", group="precision", affects="speed memory loss",
        tuned=True,
    )  # fmt: skip
    moments_dtype: Literal["float32", "bfloat16"] = setting(
        "precision of AdamW's moments; bfloat16 changes the results and halves their memory", "float32",
        group="precision", affects="speed memory loss", tuned=True, requires="optimizer=adamw",
    )  # fmt: skip
    fp8: Switch = setting(
        "large matmuls of training in fp8 (Ada, Hopper or newer): faster, changes the results "
        "(evaluations stay in bfloat16)", False, group="precision",
        affects="speed memory loss", tuned=True,
    )  # fmt: skip
    offload_moments: Switch = setting(
        "keep AdamW's moments in host memory: slower updates, larger models", False, group="system",
        affects="speed memory", arithmetic="exact", tuned=True, requires="optimizer=adamw",
    )  # fmt: skip
    parallel: Literal["ddp", "fsdp"] = setting(
        "under torchrun: ddp keeps the whole model in each process, fsdp a share of it", "ddp",
        group="system", affects="speed memory", in_experiment="held",
        idle_unless=("torchrun --nproc_per_node=2",),
    )  # fmt: skip
    keep_checkpoints: Count = setting(
        "number of latest checkpoints to keep, besides the best one saved at an evaluation", 2,
        group="record", affects="", on_resume="command",
    )  # fmt: skip
    bad_update: Literal["stop", "skip"] = setting(
        "at a loss or gradient that is NaN/inf or a spike: stop the run, or skip the update "
        "(ten in a row stop it)", "stop", group="optimizer", affects="loss", part_of="spike_zscore",
    )  # fmt: skip
    spike_zscore: NotNegative = setting(
        "loss-spike guard: standard deviations above the latest losses or gradient norms that count "
        "as a spike; 0 for off", 0.0, group="optimizer", affects="loss",
    )  # fmt: skip
    init_from: Literal["scratch", "resume"] = setting(
        "scratch, or resume to resume the run in out_dir", "scratch", group="initialization",
        affects="loss", on_resume="command", nanogpt=True, in_experiment="place",
    )  # fmt: skip
    out_dir: MaybeText = setting(
        "folder of the run (default: runs/NAME)", None, group="record", affects="", on_resume="command",
        nanogpt=True, none_means="runs/NAME", in_experiment="place",
    )  # fmt: skip

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
        settings = {key: getattr(self, key) for key in ModelShape.model_fields}
        settings["vocab_size"] = vocab_size
        return ModelShape(**settings)

    @property
    def fused_unsupported(self) -> str | None:
        """The first setting that the kernels by hand do not know."""
        return self.fused_unsupported_of(dict(self))

    @property
    def halves_stream_by_hand(self) -> bool:
        """Whether a bf16 residual stream is asked for that only the fused way has: a modern model has one."""
        return self.residual_dtype != "float32" and self.model_shape(1).is_gpt2

    @classmethod
    def fused_unsupported_of(cls, values: Mapping[str, object]) -> str | None:
        for key, each in cls.attributes().items():
            usual = cls.model_fields[key].default, values.get(each.none_means or "")
            if each.autograd_only and key in values and values[key] not in usual:
                return f"{key}={values[key]}"
        return None


SETTINGS: Mapping[str, Attributes] = RunConfig.attributes()
IGNORED: Mapping[str, Attributes] = {
    "backend": Attributes("system", effects("speed memory"), "free", True, "rounding"),
    **dict.fromkeys(
        ("always_save_checkpoint", "wandb_log", "wandb_project", "wandb_run_name"),
        Attributes("record", effects(""), "command", True, "exact"),
    ),
}
"""Settings of nanoGPT's that are accepted and have no effect here; logs of other programs have them too."""


def accepted(key: str) -> str:
    """What a field takes, in words that fit after "must be"."""
    info = RunConfig.model_fields[key]
    if get_origin(info.annotation) is Literal:
        return one_of(get_args(info.annotation))
    return next(each.words for each in info.metadata if isinstance(each, Accepts))


def is_ignored(key: str) -> bool:
    """Whether nanoGPT has this key and we accept it without effect."""
    return key in IGNORED or key.startswith("wandb_")


def present_name(key: str) -> str:
    """The name of a setting that was given by a former one; any other key is itself."""
    return RunConfig.present_names().get(key, key)


def first_name(key: str) -> str:
    """The oldest name of a setting: what is found again by its settings outlives a new name."""
    return next((old for old, now in RunConfig.present_names().items() if now == key), key)


def keys_where(test: Callable[[Attributes], object]) -> tuple[str, ...]:
    """The settings whose attributes pass, in the order of their declaration."""
    return tuple(key for key, each in SETTINGS.items() if test(each))


def keys_led_by(leader: str) -> tuple[str, ...]:
    """A setting and those that are changed with it as one: the leader comes first."""
    return (leader, *keys_where(lambda each: each.part_of == leader))


def other_value(key: str) -> object:
    """What a setting of two values is where it is not its default."""
    info = RunConfig.model_fields[key]
    choices = (False, True) if info.annotation is bool else get_args(info.annotation)
    (other,) = (choice for choice in choices if choice != info.default)
    return other


def padded_vocab_size(n: int) -> int:
    """The next multiple of 64, which matrix products like better: 50257 becomes 50304."""
    return -(-n // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


COUNTED_IN_MICRO_BATCHES = keys_where(lambda each: each.pair)
"""They follow from settings in tokens, and so change with the micro-batch."""
PLACES = frozenset(keys_where(lambda each: each.in_experiment == "place"))
"""Where something ran and what it was called."""
SPLIT_KEYS = keys_where(lambda each: each.group == "batch" and "loss" not in each.affects)
"""How an iteration's tokens are cut into micro-steps, which changes no sum but by rounding."""
TEXT_KEYS = keys_where(lambda each: each.group == "data")
"""Which text, in which tokens."""
SIZE_KEYS = keys_where(
    lambda each: each.group == "model" and "compare" in each.asked_by and not each.derived_from
)
"""What parameters and FLOPs are of, besides the vocabulary; no default stands in for them."""
