"""From the name a user typed to an opened dataset."""

from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from nanodyno.config import RunConfig, padded_vocab_size
from nanodyno.data.embedded import embedded_dataset, embedded_tokens
from nanodyno.data.manifest import reported_os_errors
from nanodyno.data.shards import Dataset, NoDataset, check_vocabulary, datasets_in, is_dataset, open_dataset
from nanodyno.data.tokenizers import VOCABULARIES
from nanodyno.errors import NanodynoError
from nanodyno.records.events import Notify

DATA_FOLDER = Path("data")
EMBEDDED = "python"


@dataclass(frozen=True)
class Vocabulary:
    """What is known of a config's data before any of them is read."""

    model: int
    """Rows of the embedding, which may be padded."""
    data: int
    train_tokens: int | None
    """None where the dataset is not here."""
    estimated: bool = False
    """Whether those are, for a corpus that was not prepared yet."""
    assumed: bool = False
    """Whether the vocabulary is its tokenizer's, for want of the dataset."""
    unopened: str | None = None
    """Why the dataset was not opened."""
    refused: str | None = None
    """Why training would not take the dataset, where it is here."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a measurement has to report of it."""
        words = f"{self.unopened}: a vocabulary of {self.data:,} is assumed"
        return (words,) if self.assumed else ()


def vocabulary_of(config: RunConfig, data_dir: Path = DATA_FOLDER) -> Vocabulary:
    """Return the vocabulary that training would have. The embedded corpus is not made for this."""
    own, tokens = VOCABULARIES[config.tokenizer], None
    embedded = config.dataset == EMBEDDED
    name = f"{EMBEDDED}-{config.tokenizer}" if embedded else config.dataset
    unopened = refused = None
    try:
        dataset = resolve_dataset(name, data_dir, config.tokenizer, config.vocab_size)
        own, tokens = dataset.vocab_size, dataset.tokens("train")
    except NanodynoError as error:
        unopened = why_unopened(config.dataset, error)
        if embedded:
            tokens = embedded_tokens(config.tokenizer)
        elif not isinstance(error, NoDataset):
            refused = error.message if error.hint is None else f"{error.message} ({error.hint})"
            with suppress(NanodynoError):  # a folder that does not say its vocabulary, as if it had this one
                tokens = resolve_dataset(name, data_dir, config.tokenizer, own).tokens("train")
    given = config.vocab_size
    return Vocabulary(
        model=padded_vocab_size(own) if given is None else given,
        data=own if given is None else min(own, given),
        train_tokens=tokens,
        estimated=embedded and unopened is not None,
        assumed=given is None and not embedded and unopened is not None,
        unopened=unopened,
        refused=refused,
    )


def resolve_dataset(
    name: str, data_dir: Path, tokenizer: str, vocab_size: int | None, progress: Notify | None = None
) -> Dataset:
    """A dataset in data_dir, else a folder by its path; "python" is the embedded corpus in the tokenizer.

    A folder's own manifest says its tokenizer; the tokenizer given here chooses for the embedded corpus only.
    """
    folder = _folder_of(name, data_dir)
    if folder:
        return open_dataset(folder, vocab_size)
    if name == EMBEDDED:
        dataset = embedded_dataset(data_dir, tokenizer, progress)
        check_vocabulary(dataset, vocab_size)
        return dataset
    there = sorted({EMBEDDED, *datasets_in(data_dir)}, key=lambda other: _distance(name, other))
    raise NoDataset(
        f"no dataset {name!r} in {data_dir}/, and no folder at that path",
        hint=f"datasets: {', '.join(there)} (python is the built-in corpus). `nanodyno prepare "
        "fineweb-edu/10BT --out data/edu` makes edu. A folder with nanoGPT's train.bin and val.bin works "
        "too: give its path and vocab_size",
    )


def why_unopened(name: str, error: NanodynoError) -> str:
    """What `resolve_dataset` refused it for: a dataset that is not there is no mistake of its own."""
    return f"dataset {name} is not here" if isinstance(error, NoDataset) else error.message


@reported_os_errors()
def _folder_of(name: str, data_dir: Path) -> Path | None:
    """The folder that name means; a folder called "python" counts only when it is a dataset in data_dir."""
    if name == EMBEDDED:
        return data_dir / name if is_dataset(data_dir / name) else None
    return next((folder for folder in (data_dir / name, Path(name)) if folder.is_dir()), None)


def _distance(typed: str, known: str) -> float:
    return 1.0 - SequenceMatcher(None, typed, known).ratio()
