"""The embedded corpus as a dataset, prepared on first use and again when Python has changed."""

import platform
from pathlib import Path

from nanodyno.data.corpus import CORPUS_VERSION, stdlib_bytes, stdlib_documents
from nanodyno.data.manifest import MANIFEST, reported_os_errors
from nanodyno.data.shards import SPLITS, Dataset, open_dataset
from nanodyno.data.tokenizers import get_tokenizer
from nanodyno.data.writer import write_dataset
from nanodyno.records.events import Notify

BYTES_PER_TOKEN = {"bytes": 1.0, "gpt2": 2.14}
"""GPT-2's on the library of Python 3.11."""


def embedded_dataset(data_dir: Path, tokenizer_name: str, progress: Notify | None = None) -> Dataset:
    """data_dir/python-TOKENIZER, opened; prepared first when missing or made from another Python."""
    folder = data_dir / f"python-{tokenizer_name}"
    source = {
        "corpus": "python-stdlib",
        "corpus_version": CORPUS_VERSION,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
    }
    with reported_os_errors():
        there = (folder / MANIFEST).exists()
    if there:
        dataset = open_dataset(folder)
        if dataset.source == source:
            return dataset
    tokenizer = get_tokenizer(tokenizer_name)
    tell = progress or (lambda _: None)
    tell(f"preparing {folder} from the source of Python {source['python']}'s standard library")
    dataset = write_dataset(folder, tokenizer, {split: stdlib_documents(split) for split in SPLITS}, source)
    tell(f"prepared {folder}: {dataset.tokens('train'):,} train and {dataset.tokens('val'):,} val tokens")
    return dataset


def embedded_tokens(tokenizer_name: str) -> int:
    """About as many as its train split has, of a corpus that was not prepared."""
    return round(stdlib_bytes("train") / BYTES_PER_TOKEN[tokenizer_name])
