"""What a user asked for, as a source, a plan and a tokenizer."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nanodyno.data.manifest import PARTS
from nanodyno.data.prepare.documents import KeptDocument, documents, pieces
from nanodyno.data.prepare.hub import NAMED, HubName, hub_name
from nanodyno.data.prepare.hubfiles import HubFiles, hub_files
from nanodyno.data.prepare.plan import SHARD_TOKENS, DocumentSplit, PreparationPlan, differences, read_plan
from nanodyno.data.prepare.reading import blocks, suffix_of
from nanodyno.data.prepare.runner import Planner, PreparationResources, prepare, prepared_otherwise, verify
from nanodyno.data.prepare.sources import LocalFiles, embedded, local_files
from nanodyno.data.tokenizers import Tokenizer, get_tokenizer, open_tokenizer, train_bpe, trained_name
from nanodyno.errors import NanodynoError
from nanodyno.records.events import Message
from nanodyno.records.preparation import PreparationRecord

EMBEDDED = "python"
DOWNLOADS = "downloads"

AnySource = LocalFiles | HubFiles


@dataclass(frozen=True)
class Choices:
    """How the text is to be read and encoded; dedup None is on for files of one's own, off for the hub."""

    tokenizer: str = "gpt2"
    train_bpe: int | None = None
    text_column: str = "text"
    split: DocumentSplit = "file"
    min_score: float | None = None
    val: float = 0.01
    dedup: bool | None = None
    tokens: int | None = None
    shard_tokens: int = SHARD_TOKENS
    skip_bad: bool = False


@dataclass(frozen=True)
class Destination(PreparationResources):
    """Where it goes and with what means; keep leaves what was fetched where it is."""

    keep: bool = False


def run_preparation(typed: str, choices: Choices, place: Destination) -> PreparationRecord:
    """Prepare a source into a folder, or go on where it stopped."""
    source = find_source(typed, place)
    if isinstance(source, LocalFiles) and place.folder.resolve() == source.root.resolve():
        raise NanodynoError(
            f"{place.folder} is the folder of the source text", "choose another folder with --out"
        )
    return prepare(source, place, _planner(source, choices, place))


def run_verification(typed: str | None, place: Destination, skip_bad: bool = False) -> PreparationRecord:
    """Check a prepared folder and mend it from its source, or from the one that is named now."""
    plan = read_plan(place.folder)
    if plan is None:
        raise NanodynoError(
            f"{place.folder} has no {PARTS} folder: `nanodyno prepare` did not make it",
            "give the folder that was given to --out",
        )
    tokenizer = open_tokenizer(plan.tokenizer, place.folder)
    _check_tokenizer(tokenizer, plan, place.folder)
    plan = plan.model_copy(update={"skip_bad": plan.skip_bad or skip_bad})
    return verify(plan, tokenizer, place, lambda: _same_source(typed or plan.path, plan, place))


def find_source(typed: str, place: Destination) -> AnySource:
    """`python`, fineweb-edu and fineweb by name, else what is on this disk, else a dataset of the hub."""
    if typed == EMBEDDED:
        return embedded()
    is_named = typed.partition("/")[0].partition("@")[0] in NAMED
    if not is_named and Path(typed).exists():
        return local_files(typed)
    wanted, _, revision = typed.partition("@")
    name = None if typed.count("/") == 1 and suffix_of(typed) else hub_name(wanted)
    if name is None:
        raise NanodynoError(
            f"no file or folder {typed}, and it cannot be a dataset on the Hugging Face hub",
            f"sources: {EMBEDDED}, {', '.join(NAMED)}, a path, or ORG/NAME on the Hugging Face hub",
        )
    if not is_named:
        place.watch(Message(f"there is no file or folder {typed} here: asking the hub for it"))
    return hub_files(
        name,
        place.folder / PARTS / DOWNLOADS,
        place.keep,
        lambda text: place.watch(Message(text)),
        revision or _begun_revision(name, place.folder) or "main",
    )


def default_folder(typed: str, data_dir: Path) -> Path:
    """data/NAME: of a path its last part without suffix, of the hub's datasets the name and what of it."""
    if typed.partition("/")[0] in NAMED or not Path(typed).exists():
        return data_dir / "-".join(part for part in typed.partition("@")[0].split("/") if part)
    path = Path(typed).resolve()
    return data_dir / (path.name if path.is_dir() else path.name.partition(".")[0])


def _planner(source: AnySource, choices: Choices, place: Destination) -> Planner:
    def plan_with(tokenizer: Tokenizer) -> PreparationPlan:
        dedup = isinstance(source, LocalFiles) if choices.dedup is None else choices.dedup
        return PreparationPlan(
            source=source.name,
            path=source.path,
            inputs=source.inputs,
            tokenizer=tokenizer.name,
            tokenizer_sha256=tokenizer.sha256,
            vocab_size=tokenizer.vocab_size,
            end_of_text=tokenizer.end_of_text,
            text_column=choices.text_column,
            split=choices.split,
            min_score=choices.min_score,
            val=choices.val,
            dedup=dedup,
            tokens=choices.tokens,
            shard_tokens=choices.shard_tokens,
            skip_bad=choices.skip_bad,
        )

    def planner(old: PreparationPlan | None) -> tuple[PreparationPlan, Tokenizer]:
        if choices.train_bpe is None:
            tokenizer = get_tokenizer(choices.tokenizer)
        elif old is not None:
            wanted = trained_name(choices.train_bpe)
            if old.tokenizer != wanted:  # told before one is trained, which would replace the folder's own
                raise prepared_otherwise(place.folder, [f'tokenizer "{old.tokenizer}", not "{wanted}"'])
            tokenizer = open_tokenizer(old.tokenizer, place.folder)
        else:
            place.watch(Message(f"training a tokenizer of {choices.train_bpe} tokens"))
            plan = plan_with(get_tokenizer("bytes"))
            tokenizer = train_bpe(_texts(source, plan), choices.train_bpe, place.folder)
        return plan_with(tokenizer), tokenizer

    return planner


def _texts(source: AnySource, plan: PreparationPlan) -> Iterator[str]:
    """The documents of a source as they come, for a tokenizer to learn from."""
    for given in source.inputs:
        for document in documents(blocks(source.present(given, None), given, plan), plan, None):
            if isinstance(document, KeptDocument):
                yield from (piece.decode(errors="replace") for piece in pieces(document.text))


def _same_source(typed: str, plan: PreparationPlan, place: Destination) -> AnySource:
    """The source that a folder was prepared from, or an error that says how this one differs."""
    source = find_source(typed, place)
    now = plan.model_copy(update={"source": source.name, "inputs": source.inputs})
    if others := differences(plan, now):
        raise NanodynoError(
            f"{typed} is not what {place.folder} was prepared from: that had {'; '.join(others)}",
            f"give the right source: nanodyno prepare SOURCE --verify {place.folder}",
        )
    return source


def _check_tokenizer(tokenizer: Tokenizer, plan: PreparationPlan, folder: Path) -> None:
    if tokenizer.sha256 != plan.tokenizer_sha256:
        raise NanodynoError(
            f"the tokenizer {plan.tokenizer} is not the one that {folder} was prepared with",
            "put its files back, or prepare the folder again",
        )


def _begun_revision(name: HubName, folder: Path) -> str | None:
    """The commit that a folder was begun with: going on never mixes two."""
    old = read_plan(folder)
    begun, _, revision = (old.path if old else "").rpartition("@")
    return revision if begun == f"{name.repo}/{name.path}".rstrip("/") else None
