"""From the name a user typed to an opened dataset."""

from difflib import SequenceMatcher
from pathlib import Path

from nanodyno.data.embedded import Progress, embedded_dataset
from nanodyno.data.manifest import told_os_errors
from nanodyno.data.shards import Dataset, NoDataset, check_vocabulary, datasets_in, is_dataset, open_dataset
from nanodyno.errors import NanodynoError

EMBEDDED = "python"


def resolve_dataset(
    name: str, data_dir: Path, tokenizer: str, vocab_size: int | None, progress: Progress | None = None
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
        f"no dataset {name!r} in {data_dir}, nor a folder of that path",
        hint=f"there is: {', '.join(there)} (python is the embedded corpus, always there); `nanodyno prepare "
        "fineweb-edu/10BT --out data/edu` makes edu. A folder with nanoGPT's train.bin and val.bin will do: "
        "give its path and vocab_size",
    )


def why_unopened(name: str, error: NanodynoError) -> str:
    """What `resolve_dataset` refused it for: a dataset that is not there is no mistake of its own."""
    return f"dataset {name} is not here" if isinstance(error, NoDataset) else error.message


@told_os_errors()
def _folder_of(name: str, data_dir: Path) -> Path | None:
    """The folder that name means; a folder called "python" counts only when it is a dataset in data_dir."""
    if name == EMBEDDED:
        return data_dir / name if is_dataset(data_dir / name) else None
    return next((folder for folder in (data_dir / name, Path(name)) if folder.is_dir()), None)


def _distance(typed: str, known: str) -> float:
    return 1.0 - SequenceMatcher(None, typed, known).ratio()
