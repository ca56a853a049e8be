"""What differs between two runs' settings, and what each setting can move at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nanodyno.analysis.account import Account
from nanodyno.config import OF_THE_BLOCK, OF_THE_START
from nanodyno.records.imported import Setting

Kind = Literal[
    "model", "split", "batch", "optimiser", "learning", "speed", "precision", "data", "length", "record",
    "other",
]  # fmt: skip
"""split: how an iteration's tokens are cut into micro-steps, which changes no sum but by rounding. optimiser:
another formula of the update, which takes another time."""
KINDS: dict[Kind, tuple[str, ...]] = {
    "model": (
        "n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias", "gelu", *OF_THE_BLOCK,
    ),
    "split": ("batch_size", "gradient_accumulation_steps"),
    "batch": ("tokens_per_iter", "batch_ramp"),
    "optimiser": ("optimizer", "cautious_decay"),
    "learning": (
        "learning_rate", "muon_lr", "embedding_lr", "muon_momentum", "schedule", "wsd_decay_fraction",
        *OF_THE_START, "min_lr", "decay_lr", "warmup_iters", "lr_decay_iters", "weight_decay",
        "beta1", "beta2", "grad_clip", "dropout", "bad_update", "spike_zscore", "seed", "init_from",
    ),
    "speed": (
        "compile", "kernels", "attention", "products", "loss_rows", "recompute", "cuda_graph",
        "offload_moments", "device", "parallel",
    ),
    "precision": ("dtype", "residual_dtype", "moments_dtype", "fp8"),
    "data": ("dataset", "tokenizer"),
    "length": ("max_iters",),
    "record": (
        "eval_interval", "eval_iters", "eval_tokens", "eval_only", "log_interval", "keep_checkpoints",
        "out_dir", "name", "always_save_checkpoint", "wandb_log", "wandb_project", "wandb_run_name",
    ),
}  # fmt: skip
_KIND: dict[str, Kind] = {key: kind for kind, keys in KINDS.items() for key in keys}
MOVES_SPEED: frozenset[Kind] = frozenset(
    {"model", "split", "batch", "optimiser", "speed", "precision", "other"}
)
MOVES_LOSS: frozenset[Kind] = frozenset(
    {"model", "batch", "optimiser", "learning", "precision", "data", "other"}
)


FOLLOWERS = {"min_lr": "learning_rate", "lr_decay_iters": "max_iters", "n_head": "n_embd"}
"""Keys commonly derived from another: changed in proportion to it, they are no change of their own."""


@dataclass(frozen=True)
class Change:
    key: str
    before: Setting
    after: Setting
    follows: bool = False
    """Another change in the same proportion."""

    @property
    def kind(self) -> Kind:
        return _KIND.get(self.key, "other")

    @property
    def moves_speed(self) -> bool:
        return self.kind in MOVES_SPEED

    @property
    def moves_loss(self) -> bool:
        return self.kind in MOVES_LOSS


@dataclass(frozen=True)
class Changes:
    """`unknown` are keys that could matter and that one of the two does not tell: they may have changed."""

    changed: tuple[Change, ...]
    unknown: tuple[str, ...]

    def that_move(self, what: Literal["speed", "loss"]) -> tuple[Change, ...]:
        """A split that leaves the tokens of an iteration as they were moves no loss."""
        return tuple(
            each for each in self.changed if (each.moves_speed if what == "speed" else each.moves_loss)
        )


TELLING = (
    "n_layer", "n_head", "n_embd", "block_size", "batch_size", "gradient_accumulation_steps",
    "learning_rate", "dtype", "compile", "dataset",
)  # fmt: skip
"""Missing, these leave a question open; of others a default is as good as told."""


def changes_between(before: Account, after: Account) -> Changes:
    one, other = _known(before), _known(after)
    both = [key for key in one if key in other]
    changed = [Change(key, one[key], other[key]) for key in both if not _same(one[key], other[key])]
    if before.data and after.data and before.data.fingerprint == after.data.fingerprint:
        changed = [each for each in changed if each.kind != "data"]  # by another path
    changed = [_told_apart(each, changed) for each in changed if each.kind != "record"]
    is_itself = replace(after, name=before.name) == before
    unknown = [key for key in TELLING if not is_itself and (key not in one or key not in other)]
    order = list(_KIND)
    changed.sort(key=lambda each: order.index(each.key) if each.key in _KIND else len(order))
    return Changes(tuple(changed), tuple(unknown))


def _told_apart(change: Change, changed: Sequence[Change]) -> Change:
    leader = next((each for each in changed if each.key == FOLLOWERS.get(change.key)), None)
    if leader is None or _ratio(leader) is None or _ratio(leader) != _ratio(change):
        return change
    return replace(change, follows=True)


def _ratio(change: Change) -> float | None:
    before, after = change.before, change.after
    if not (isinstance(before, int | float) and isinstance(after, int | float) and before):
        return None
    return round(after / before, 9)


def _known(account: Account) -> Mapping[str, Setting]:
    """What is told, and what was worked out from it."""
    known = dict(account.settings)
    if account.tokens_per_iter is not None:
        known["tokens_per_iter"] = account.tokens_per_iter
    if account.shape is not None and account.shape_found:
        known |= {"n_layer": account.shape.n_layer, "n_embd": account.shape.n_embd}
    return known


def _same(one: Setting, other: Setting) -> bool:
    return one == other or repr(one) == repr(other)  # as NaN is to NaN
