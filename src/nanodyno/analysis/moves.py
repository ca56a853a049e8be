# pyright: strict
"""What each setting can move: `compare` and `attribute` both ask here, so that they cannot disagree.

*Can* is meant: a setting that adds a pass over the weights can move the speed, be it by 1%. What an iteration
spends microseconds on (a rate, a judgement of two numbers, a launch more) cannot.
"""

from collections.abc import Set
from typing import Literal, get_args

from nanodyno.config import IGNORED, SETTINGS

Kind = Literal[
    "model", "function", "split", "batch", "optimizer", "learning", "pass", "speed", "precision", "data",
    "length", "reading", "record", "other",
]  # fmt: skip
"""What a change is, as `compare` puts it into words: its group and what it affects decide."""
_KNOWN = {**SETTINGS, **IGNORED}
_OF_LOGS = frozenset({"name"})
"""What a log has besides settings, which affects nothing."""
OF_MACHINE = ("device_name", "processes", "driver", "cpu_threads", "torch", "cuda", "nanodyno")
"""What a run was made with besides its settings; another version of nanodyno could move the loss as well."""


def order_of(key: str, kind: Kind) -> tuple[int, int]:
    """The place of a change among others: by its kind, then as settings are declared."""
    keys = list(_KNOWN)
    return get_args(Kind).index(kind), keys.index(key) if key in keys else len(keys)


def kind_of(key: str, before: object, after: object) -> Kind:
    if key not in _KNOWN:
        known = affected(key, before, after)
        return "record" if not known else "speed" if known == {"speed"} else "other"
    group, affects = _KNOWN[key].group, affected(key, before, after)
    if "work" in affects:
        return "model"
    if "loss" not in affects:
        return _of_no_loss(group, affects)
    if affects == {"loss"}:
        of_loss: dict[str, Kind] = {
            "data": "data", "evaluation": "reading", "model": "function", "modern": "function",
        }  # fmt: skip
        return of_loss.get(group, "learning")
    others: dict[str, Kind] = {"batch": "batch", "precision": "precision"}
    return others.get(group, "pass" if _KNOWN[key].amount_affects else "optimizer")


def _of_no_loss(group: str, affects: Set[str]) -> Kind:
    if affects:
        return "split" if group == "batch" else "speed"
    return "length" if group == "schedule" else "record"


def affected(key: str, before: object, after: object) -> Set[str]:
    """What a change can affect; of a setting that is not known, both speed and loss."""
    if key not in _KNOWN:
        alone = key in OF_MACHINE and key != "nanodyno"
        return set() if key in _OF_LOGS else {"speed"} if alone else {"speed", "loss"}
    return _KNOWN[key].affects_between(before, after)


def moves_speed(key: str, before: object, after: object) -> bool:
    return "speed" in affected(key, before, after)


def moves_loss(key: str, before: object, after: object) -> bool:
    """At equal tokens; but for rounding."""
    return "loss" in affected(key, before, after)
