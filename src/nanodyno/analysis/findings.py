"""A conclusion as data: a code and its numbers. Words come when it is shown, in the reader's language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["wrong", "caution", "fact", "next"]
"""wrong: something told cannot be so; caution: what does not follow; fact: what does; next: what to do."""
Number = float | int | str | bool | None | Sequence["Number"] | Mapping[str, "Number"]


@dataclass(frozen=True)
class Finding:
    code: str
    severity: Severity
    runs: tuple[str, ...]
    """That it is about."""
    numbers: Mapping[str, Number] = field(default_factory=dict[str, Number])
