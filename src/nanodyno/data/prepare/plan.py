"""What is prepared and how: everything that the output depends on, as one value that is kept beside it."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nanodyno.data.manifest import PARTS, PLAN, again_hint
from nanodyno.errors import NanodynoError

SHARD_TOKENS = 100_000_000

DocumentSplit = Literal["file", "blank-lines"]

# Where a source lies and whether bad input is passed over may differ from one attempt to the next.
_MAY_CHANGE = {"path", "skip_bad"}
# What another tokenizer brings with it: its name says enough.
_OF_TOKENIZER = {"tokenizer_sha256", "vocab_size", "end_of_text"}


class Frozen(BaseModel):
    """A record of the preparation that is written as JSON and trusted only once checked."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Input(Frozen):
    """One file of a source, or many small texts taken together; names are POSIX paths within the source."""

    name: str
    bytes: int
    members: tuple[str, ...] = Field(default=(), strict=False)


class PreparationPlan(Frozen):
    """All that decides the bytes of the output. The number of workers is not in it."""

    source: str
    """What the text is: `files`, `python 3.11.2`, or a dataset of the hub and what was chosen of it."""
    path: str
    """Where the files were, as it was typed."""
    inputs: tuple[Input, ...] = Field(strict=False)
    tokenizer: str
    tokenizer_sha256: str
    vocab_size: int
    end_of_text: int
    text_column: str = "text"
    split: DocumentSplit = "file"
    min_score: float | None = None
    val: float = 0.01
    dedup: bool = True
    tokens: int | None = None
    shard_tokens: int = SHARD_TOKENS
    skip_bad: bool = False

    @property
    def dtype(self) -> Literal["uint16", "uint32"]:
        return "uint16" if self.vocab_size <= 2**16 else "uint32"

    @property
    def val_below(self) -> int:
        """A document is val when the first 8 bytes of its hash, big-endian, are below this."""
        return int(self.val * 2**64)

    @property
    def bytes(self) -> int:
        return sum(given.bytes for given in self.inputs)


def val_rule(plan: PreparationPlan) -> str:
    return (
        f"val when the first 8 bytes (big-endian) of blake2b-128 of the document are below {plan.val_below}"
    )


def parts_folder(folder: Path) -> Path:
    return folder / PARTS


def write_plan(folder: Path, plan: PreparationPlan) -> None:
    write_aside(parts_folder(folder) / PLAN, plan.model_dump_json(indent=1) + "\n")


def read_plan(folder: Path) -> PreparationPlan | None:
    """The plan that folder was prepared by; None when there is none."""
    path = parts_folder(folder) / PLAN
    try:
        return PreparationPlan.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        raise NanodynoError(f"{path} cannot be read: {_first_line(error)}", again_hint(folder)) from error


def differences(old: PreparationPlan, new: PreparationPlan) -> list[str]:
    """In words, what the two would prepare differently."""
    reported_old, reported_new = old.model_dump(), new.model_dump()
    same = _MAY_CHANGE if old.tokenizer == new.tokenizer else _MAY_CHANGE | _OF_TOKENIZER
    keys = [key for key in reported_new if key not in same and reported_old[key] != reported_new[key]]
    return [_difference(key, reported_old[key], reported_new[key]) for key in keys]


def write_aside(path: Path, text: str) -> None:
    """Replace path as a whole or not at all."""
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _difference(key: str, old: Any, new: Any) -> str:
    if key == "inputs":
        return _input_difference(old, new)
    return f"{key.replace('_', '-')} {json.dumps(old)}, not {json.dumps(new)}"


def _input_difference(old: tuple[dict[str, Any], ...], new: tuple[dict[str, Any], ...]) -> str:
    if len(old) != len(new):
        return f"{len(old)} input files, not {len(new)}"
    first_old, first_new = next(pair for pair in zip(old, new, strict=True) if pair[0] != pair[1])
    if first_old["name"] != first_new["name"]:
        return f"an input {first_old['name']}, not {first_new['name']}"
    return f"{first_old['name']} of {first_old['bytes']} bytes, not {first_new['bytes']}"


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
