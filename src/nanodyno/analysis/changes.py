"""What differs between two runs' settings, and which differences follow from others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nanodyno.analysis.account import Account
from nanodyno.analysis.moves import OF_MACHINE, Kind, kind_of, moves_loss, moves_speed, order_of
from nanodyno.config import SETTINGS, SIZE_KEYS, keys_where, padded_vocab_size
from nanodyno.records.imported import Setting

FOLLOWERS = {
    key: each.derived_from[0] for key, each in SETTINGS.items() if each.derived_from and each.group != "batch"
}
"""Keys derived from another: changed in proportion to it, they are no change of their own."""
COMES_WITH = {
    "device_name": ("device",),
    "driver": ("device", "device_name"),
    "cpu_threads": ("threads", "device", "device_name"),
    "cuda": ("torch", "device"),
}
"""Keys of the machine that change with another one, whatever their values."""


@dataclass(frozen=True)
class SettingChange:
    key: str
    before: Setting
    after: Setting
    follows: str | None = None
    """The key of another change that this one comes with."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.key, self.before, self.after)

    @property
    def moves_speed(self) -> bool:
        return moves_speed(self.key, self.before, self.after)

    @property
    def moves_loss(self) -> bool:
        return moves_loss(self.key, self.before, self.after)


@dataclass(frozen=True)
class Changes:
    """`unknown` are keys that could matter and that one of the two does not tell: they may have changed."""

    changed: tuple[SettingChange, ...]
    unknown: tuple[str, ...]

    def that_move(self, what: Literal["speed", "loss"]) -> tuple[SettingChange, ...]:
        """A split that leaves the tokens of an iteration as they were moves no loss."""
        return tuple(
            each for each in self.changed if (each.moves_speed if what == "speed" else each.moves_loss)
        )


TELLING = keys_where(lambda each: "compare" in each.asked_by)
"""Missing, these leave a question open, as does the device; of others a default is as good as told."""


def changes_between(before: Account, after: Account) -> Changes:
    one, other = _known(before), _known(after)
    derived = not ("vocab_size" in one and "vocab_size" in other)
    rows = _rows(before), _rows(after)
    if derived and rows[0] is not None and rows[1] is not None:
        one["vocab_size"], other["vocab_size"] = rows
    both = [key for key in one if key in other]
    changed = [SettingChange(key, one[key], other[key]) for key in both if not _same(one[key], other[key])]
    changed = [each for each in changed if each.key != "dataset" or not _same_name(each)]
    if before.data and after.data and before.data.fingerprint == after.data.fingerprint:
        changed = [each for each in changed if each.kind != "data"]  # by another path
    changed = [_reported_apart(each, changed, derived) for each in changed if each.kind != "record"]
    is_itself = replace(after, name=before.name) == before
    asked = () if is_itself else (*TELLING, "device_name")
    unknown = [key for key in asked if key not in one or key not in other]
    changed.sort(key=lambda each: order_of(each.key, each.kind))
    return Changes(tuple(changed), tuple(unknown))


def dataset_name(dataset: str) -> str:
    """The last part of a path: where a dataset lies says nothing of what it is."""
    return dataset.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _same_name(change: SettingChange) -> bool:
    return dataset_name(str(change.before)) == dataset_name(str(change.after))


def _reported_apart(
    change: SettingChange, changed: Sequence[SettingChange], vocabulary_follows: bool
) -> SettingChange:
    """A vocabulary that no setting gives comes with the text; other followers keep their proportion."""
    if change.key == "vocab_size" and vocabulary_follows:
        text = next((each.key for each in changed if each.kind == "data"), None)
        return replace(change, follows=text)
    if change.key in COMES_WITH:
        keys = {each.key for each in changed}
        return replace(change, follows=next((key for key in COMES_WITH[change.key] if key in keys), None))
    leader = next((each for each in changed if each.key == FOLLOWERS.get(change.key)), None)
    ratios = None if leader is None else _ratio(leader), _ratio(change)
    if leader is None or None in ratios or not math.isclose(ratios[0] or 0.0, ratios[1] or 0.0):
        return change
    return replace(change, follows=leader.key)


def _ratio(change: SettingChange) -> float | None:
    before, after = change.before, change.after
    if not (isinstance(before, int | float) and isinstance(after, int | float) and before):
        return None
    return after / before


def _known(account: Account) -> dict[str, Setting]:
    """What is reported as it took effect, and what was worked out from it."""
    known = {**account.settings, **account.in_effect}
    if known.get("init_from") == "resume":
        known["init_from"] = "scratch"  # of the last command alone: a run that is gone on with began as any
    if account.tokens_per_iter is not None:
        known["tokens_per_iter"] = account.tokens_per_iter
    if account.shape is not None and account.shape_found:
        known |= account.shape.model_dump(include={*SIZE_KEYS})
    return known | _machine(account)


def _machine(account: Account) -> dict[str, Setting]:
    """What it was made with, as far as it is reported."""
    known: dict[str, Setting] = {
        **account.environment,
        "device_name": account.device_name if account.gpu is None else account.gpu.label,
        "processes": account.processes if account.processes_reported else None,
    }
    if account.device_type == "cpu":
        known.pop("cpu_threads", None)  # they are its `threads`
    return {key: value for key, value in known.items() if key in OF_MACHINE and value is not None}


def _rows(account: Account) -> int | None:
    """Of the embedding, as far as they are known; a shape worked out from a log assumes its vocabulary."""
    own = None if account.foreign or account.shape is None else account.shape.vocab_size
    known = own or account.vocabulary
    return None if known is None else padded_vocab_size(known)


def _same(one: Setting, other: Setting) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-9):
        return True  # learning_rate/10 and the number that someone wrote
    return one == other or repr(one) == repr(other)  # as NaN is to NaN
