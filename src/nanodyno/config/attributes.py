# pyright: strict
"""What is declared of a setting besides its type: every list of settings is a query over these."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import Field

Group = Literal[
    "model", "modern", "initialization", "batch", "schedule", "optimizer", "regularization", "data",
    "evaluation", "precision", "system", "record",
]  # fmt: skip
"""modern: parts of the model that GPT-2 does not have. record: what is written where."""
SettingEffect = Literal["work", "speed", "memory", "loss"]
"""work: the operations of a token. loss: at equal tokens, by more than rounding."""
OnResume = Literal["fixed", "free", "command"]
"""fixed: a resume with another value is refused. command: it is of one command and makes no other run."""
InExperiment = Literal["varied", "untimed", "held", "place"]
"""What `attribute` makes of a change: a factor; one only where losses are measured (a probe times the first
size of a batch); the same in every measurement; or no change at all (where it ran, what it is called)."""
Arithmetic = Literal["exact", "rounding", "different"]
"""What may change of the numbers: nothing, the order of sums, the precision or the formula (DESIGN.md)."""
Asker = Literal["import", "compare"]
ABSENT = (None, 0, "none")


@dataclass(frozen=True)
class Attributes:
    """All that is known of a setting. `keys_where` asks for them."""

    group: Group
    affects: frozenset[SettingEffect]
    """What it can affect. A pass over the weights can affect the speed, be it by 1%; what an iteration spends
    microseconds on (a rate, a judgement of two numbers) cannot."""
    on_resume: OnResume
    nanogpt: bool
    """Whether nanoGPT's train.py has it, by the same name."""
    arithmetic: Arithmetic
    amount_affects: frozenset[SettingEffect] | None = None
    """What a change from one amount to another affects, where `affects` is of its presence."""
    derived_from: tuple[str, ...] = ()
    """The settings that give its value where it is left out; it is in proportion to the first."""
    pair: str | None = None
    """The setting that says in tokens what this one counts in micro-batches: either gives the other."""
    part_of: str | None = None
    """The setting that it is changed with: the two are one change."""
    requires: str | None = None
    """The setting (key=value, or a key that must be there) without which it is refused, if it is set."""
    idle_unless: tuple[str, ...] = ()
    """Conditions without which it does nothing, which is reported (see `idle.py`)."""
    none_means: str | None = None
    """What None stands for: another setting, none (the part is left out), or words."""
    nanogpt_default: object = None
    """What a nanoGPT file means by leaving it out, where our own default or derivation is another."""
    in_experiment: InExperiment = "varied"
    tuned: bool = False
    """Whether `tune` may change it."""
    autograd_only: bool = False
    """Whether the fused engine does not have it, where it is set."""
    asked_by: frozenset[Asker] = frozenset()
    """Who asks for it where the log of another program does not have it."""
    aliases: tuple[str, ...] = ()
    """Its former names, the oldest first: they are accepted everywhere, and noted."""

    def affects_between(self, before: object, after: object) -> frozenset[SettingEffect]:
        """What a change from one value to the other can affect."""
        amounts = self.amount_affects is not None and before not in ABSENT and after not in ABSENT
        return self.amount_affects if amounts and self.amount_affects is not None else self.affects


def setting(  # noqa: PLR0913 - one parameter per attribute
    description: str,
    default: Any = ...,
    *,
    group: Group,
    affects: str,
    on_resume: OnResume = "free",
    nanogpt: bool = False,
    arithmetic: Arithmetic | None = None,
    amount_affects: str | None = None,
    asked_by: str = "",
    **others: Any,
) -> Any:
    """A field of a config with its attributes. Without a default it is derived (see `build.py`)."""
    if arithmetic is None:
        arithmetic = "different" if "loss" in affects else "rounding" if affects else "exact"
    attributes = Attributes(
        group=group,
        affects=effects(affects),
        on_resume=on_resume,
        nanogpt=nanogpt,
        arithmetic=arithmetic,
        amount_affects=None if amount_affects is None else effects(amount_affects),
        asked_by=frozenset(_words(asked_by, Asker)),
        **others,
    )
    info = Field(default=default, description=description)
    info.metadata.append(attributes)
    return info


def effects(words: str) -> frozenset[SettingEffect]:
    return frozenset(_words(words, SettingEffect))


def _words(text: str, kind: Any) -> list[Any]:
    words = text.split()
    assert set(words) <= set(get_args(kind)), f"{text!r} is not of {get_args(kind)}"
    return words
