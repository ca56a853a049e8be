"""What a dataset's manifest.json may say, checked field by field before anything relies on it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nanodyno.errors import NanodynoError

MANIFEST = "manifest.json"
PARTS, PLAN = "parts", "plan.json"
"""The folder beside it in which a preparation keeps what it has done, and what it is to do."""
FORMAT = "nanodyno-shards"
VERSION = 1

# A plain name: no separator, drive or leading dot, so that a manifest cannot reach outside its folder.
FileName = Annotated[str, Field(pattern=r"^\w[\w. -]*$")]
# Above any dataset there is; keeps sizes in bytes within 64 bits.
_MOST_TOKENS = 2**50


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class ShardEntry(_Strict):
    """One token file, as the manifest tells it."""

    file: FileName
    tokens: int = Field(ge=1, le=_MOST_TOKENS)
    documents: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    input: str | None = None
    """The file of the source that it was made from."""


class Manifest(_Strict):
    """The whole of manifest.json."""

    format: Literal["nanodyno-shards"]
    version: Literal[1]
    tokenizer: str = Field(min_length=1)
    tokenizer_sha256: str | None = None
    vocab_size: int = Field(ge=1, le=2**32)
    end_of_text: int | None = Field(ge=0)
    dtype: Literal["uint16", "uint32"]
    source: dict[str, Any]
    val_rule: str | None = None
    splits: dict[str, list[ShardEntry]]

    @model_validator(mode="after")
    def _end_of_text_is_a_token(self) -> Self:
        if self.end_of_text is not None and self.end_of_text >= self.vocab_size:
            raise ValueError(f"end_of_text={self.end_of_text} is outside vocab_size={self.vocab_size}")
        return self


def checked_manifest(path: Path, reported: dict[str, Any]) -> Manifest:
    """What path tells, or an error that names path and the first field that is wrong."""
    if reported.get("format") != FORMAT or reported.get("version") != VERSION:
        raise NanodynoError(
            f"{path} is {reported.get('format')!r} version {reported.get('version')!r}; "
            f"this nanodyno reads {FORMAT!r} version {VERSION}",
            hint="prepare the dataset again, or use the nanodyno that wrote it",
        )
    try:
        return Manifest.model_validate(reported)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "as a whole"
        raise NanodynoError(
            f"{path} is damaged: {field}: {first['msg']}", hint=again_hint(path.parent)
        ) from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """The JSON object in folder's manifest, its fields not yet looked at."""
    path = folder / MANIFEST
    try:
        with reported_os_errors():
            reported = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise NanodynoError(f"{path} is not JSON: {error}", hint=again_hint(folder)) from error
    if not isinstance(reported, dict):
        raise NanodynoError(f"{path} is not a manifest", hint=again_hint(folder))
    return reported


def again_hint(folder: Path) -> str:
    """For datasets that nanodyno has prepared itself; never for a folder of the user's own making."""
    return f"delete {folder} and prepare it again"


@contextmanager
def reported_os_errors() -> Iterator[None]:
    """What the system refuses to read is told with its reason: a permission, a name that is too long."""
    try:
        yield
    except OSError as error:
        raise NanodynoError(
            f"cannot read {error.filename or 'the dataset'}: {error.strerror or error}",
            hint="a dataset is a folder that you may read: give its name in the data folder, or its path",
        ) from error
