# pyright: strict
"""What a setting may be: types with their ranges, and the words in which a refusal tells them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field

DEVICES = r"auto|cpu|mps|cuda(:[0-9]{1,4})?"
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Accepts:
    """What a field accepts, in a user's words."""

    words: str


def one_of(choices: Iterable[str]) -> str:
    *first, last = [f'"{choice}"' for choice in choices]
    return f"{', '.join(first)} or {last}"


def _whole(value: object) -> object:
    """An integral float is a whole number, because 1e3 is how people write a thousand."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Integral = BeforeValidator(_whole)
Count = Annotated[int, _Integral, Field(ge=1, le=LARGEST), Accepts("a whole number of at least 1")]
MaybeCount = Annotated[Count | None, Accepts("a whole number of at least 1")]
Natural = Annotated[int, _Integral, Field(ge=0, le=LARGEST), Accepts("a whole number of at least 0")]
Positive = Annotated[float, Field(gt=0), Accepts("a number above 0")]
Rate = Annotated[float, Field(gt=0), Accepts('a number above 0, or "auto" in `train`')]
NotNegative = Annotated[float, Field(ge=0), Accepts("a number of at least 0")]
BelowOne = Annotated[float, Field(ge=0, lt=1), Accepts("a number of at least 0 and below 1")]
Share = Annotated[float, Field(gt=0, le=1), Accepts("a number above 0 and at most 1")]
Switch = Annotated[bool, Accepts("true or false")]
NonEmptyText = Annotated[str, Field(min_length=1), Accepts("text that is not empty")]
MaybeText = Annotated[NonEmptyText | None, Accepts("text that is not empty")]
MaybePositive = Annotated[Positive | None, Accepts("a number above 0")]
Pattern = Annotated[
    str,
    Field(pattern="^[SL]+$", max_length=64),
    Accepts('letters S (window) and L (all before), like "SSSL"'),
]
DeviceName = Annotated[
    str,
    Field(pattern=f"^({DEVICES})$"),
    Accepts('"auto", "cpu", "cuda", "cuda:N" or "mps"'),
]
