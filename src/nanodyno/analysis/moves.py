# pyright: strict
"""What each setting can move: `compare` and `attribute` both ask here, so that they cannot disagree.

*Can* is meant: a setting that adds a pass over the weights can move the speed, be it by 1%. What an iteration
spends microseconds on (a rate, a judgement of two numbers, a launch more) cannot.
"""

from typing import Literal

from nanodyno.config import OF_THE_BLOCK, OF_THE_START

Kind = Literal[
    "model", "function", "split", "batch", "optimiser", "learning", "pass", "speed", "precision", "data",
    "length", "reading", "record", "other",
]  # fmt: skip
SPLIT_KEYS = ("batch_size", "gradient_accumulation_steps")
_NO_WORK = ("rope_base",)
_OF_TEXT = ("dataset", "tokenizer")
KINDS: dict[Kind, tuple[str, ...]] = {
    # Other sizes or other steps for each token.
    "model": (
        "n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias", "gelu",
        *(key for key in OF_THE_BLOCK if key not in _NO_WORK),
    ),
    # Another model by a number alone, for the same work.
    "function": _NO_WORK,
    # How an iteration's tokens are cut into micro-steps, which changes no sum but by rounding.
    "split": SPLIT_KEYS,
    # Updates come after other amounts of tokens: fewer of them for as many tokens are also less work.
    "batch": ("tokens_per_iter", "batch_ramp"),
    # Another formula of the update, which takes another time.
    "optimiser": ("optimizer", "cautious_decay"),
    # Numbers that the same update is given, or that decide whether it is made. init_from is here because a
    # log may have begun from published weights.
    "learning": (
        "learning_rate", "muon_lr", "embedding_lr", "muon_momentum", "schedule", "wsd_decay_fraction",
        *OF_THE_START, "min_lr", "decay_lr", "warmup_iters", "lr_decay_iters", "weight_decay",
        "beta1", "beta2", "bad_update", "spike_zscore", "seed", "init_from",
    ),
    # A pass over gradients or activations that is made or not; dropout also leaves the kernels by hand.
    "pass": ("grad_clip", "dropout"),
    # The same sums in another order or another place.
    "speed": (
        "compile", "kernels", "attention", "products", "loss_rows", "recompute", "cuda_graph",
        "offload_moments", "device", "threads", "parallel", "backend",
    ),
    "precision": ("dtype", "residual_dtype", "moments_dtype", "fp8"),
    # Their vocabulary moves the speed, which is a setting of its own.
    "data": _OF_TEXT,
    # By itself only where a run ends; what decays with it is lr_decay_iters.
    "length": ("max_iters",),
    # Over which text a val loss is taken: other text has another loss. The clock does not run meanwhile.
    "reading": ("eval_tokens", "eval_iters"),
    "record": (
        "eval_interval", "eval_only", "log_interval", "keep_checkpoints", "out_dir", "name",
        "always_save_checkpoint", "wandb_log", "wandb_project", "wandb_run_name",
    ),
}  # fmt: skip
_KIND: dict[str, Kind] = {key: kind for kind, keys in KINDS.items() for key in keys}
ORDER = list(_KIND)
_AMOUNTS: dict[str, Kind] = {"grad_clip": "learning", "dropout": "learning", "logit_softcap": "function"}
"""There or not is one thing; where it is there on both sides, how much takes no time: then it is this."""
_ABSENT = (None, 0, "none")
MOVES_SPEED: frozenset[Kind] = frozenset(
    {"model", "split", "batch", "optimiser", "pass", "speed", "precision", "other"}
)
MOVES_LOSS: frozenset[Kind] = frozenset(
    {
        "model", "function", "batch", "optimiser", "learning", "pass", "precision", "data", "reading",
        "other",
    }
)  # fmt: skip


def kind_of(key: str, before: object, after: object) -> Kind:
    if key in _AMOUNTS and before not in _ABSENT and after not in _ABSENT:
        return _AMOUNTS[key]
    return _KIND.get(key, "other")


def moves_speed(key: str, before: object, after: object) -> bool:
    return kind_of(key, before, after) in MOVES_SPEED


def moves_loss(key: str, before: object, after: object) -> bool:
    """At equal tokens; but for rounding."""
    return kind_of(key, before, after) in MOVES_LOSS
