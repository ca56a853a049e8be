"""`nanodyno prepare` end to end against the tokenizer alone and against nanoGPT's method, on the same text.

    python benchmarks/prepare_speed.py CORPUS [--threads 2] [--rounds 10] [--files 2]

CORPUS is a folder of parquet files with a column `text`. Ours is everything that the command does: reading,
hashing for identical documents, encoding, writing, checksums, manifest. The tokenizer alone is tiktoken's
encode_ordinary_batch over the same texts, in memory beforehand, a file at a time, its lists thrown away.
nanoGPT's method is what its prepare.py does after loading: `datasets.map` with encode_ordinary in as many
processes as threads, then one pass into a memmap of uint16 (needs `pip install datasets`); turning the
parquet files into its cache is not counted. All three take turns, each round in the opposite order of the
one before; the ratio is of rates in tokens, its interval Student's t over rounds. Beside a busy neighbour
the wall's clock says little: the second ratio is of tokens per second of the CPU, those of `map` included.
"""

import argparse
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import tiktoken

from measure import t_interval
from nanodyno.data.prepare.request import Choices, Destination, run_preparation

ENCODING = "gpt2"
MEMMAP_BATCHES = 1024


def ours(corpus: Path, threads: int, scratch: Path) -> int:
    out = scratch / "ours"
    record = run_preparation(str(corpus), Choices(ENCODING), Destination(out, threads, lambda _: None))
    shutil.rmtree(out)
    return record.new_tokens


def tokenizer_alone(files: list[list[str]], threads: int) -> int:
    encoding = tiktoken.get_encoding(ENCODING)
    return sum(
        sum(map(len, encoding.encode_ordinary_batch(texts, num_threads=threads))) + len(texts)
        for texts in files
    )


def encode_row(row: dict[str, str]) -> dict[str, object]:
    """nanoGPT's map function: the tokens of a text and the end of the text after them."""
    encoding = tiktoken.get_encoding(ENCODING)
    ids = encoding.encode_ordinary(row["text"])
    ids.append(encoding.eot_token)
    return {"ids": ids, "len": len(ids)}


def nanogpt_method(table: Any, threads: int, scratch: Path) -> int:
    """table is a Dataset of Hugging Face's datasets."""
    cache = scratch / "map.arrow"
    tokenized = table.map(
        encode_row,
        remove_columns=table.column_names,
        num_proc=threads,
        load_from_cache_file=False,
        cache_file_name=str(cache),
    )
    total = int(np.sum(tokenized["len"], dtype=np.uint64))
    path = scratch / "train.bin"
    array = np.memmap(path, dtype=np.uint16, mode="w+", shape=(total,))
    batches, index = min(MEMMAP_BATCHES, len(tokenized)), 0
    for number in range(batches):
        batch = tokenized.shard(batches, number, contiguous=True).with_format("numpy")
        ids = np.concatenate(batch["ids"])
        array[index : index + len(ids)] = ids
        index += len(ids)
    array.flush()
    for made in [path, *scratch.glob("map*.arrow")]:
        made.unlink()
    return total


def load_for_nanogpt(corpus: Path, scratch: Path) -> object:
    import datasets  # pyright: ignore[reportMissingImports]

    datasets.disable_progress_bars()
    files = [str(path) for path in sorted(corpus.glob("*.parquet"))]
    return datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(scratch / "cache"))


@dataclass(frozen=True)
class Measured:
    tokens: int
    wall_seconds: float
    cpu_seconds: float


def measured(work: Callable[[], int]) -> Measured:
    began, cpu = time.perf_counter(), sum(os.times()[:4])
    tokens = work()
    return Measured(tokens, time.perf_counter() - began, sum(os.times()[:4]) - cpu)


def reported_ratio(name: str, clock: str, ours: list[float], rival: list[float]) -> str:
    found = t_interval([math.log(a / b) for a, b in zip(ours, rival, strict=True)])
    mean, low, high = (math.exp(value) for value in (found.mean, found.low, found.high))
    return f"ours / {name}, {clock}: {mean:.2f} [{low:.2f}, {high:.2f}] over {found.n} rounds"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--files", type=int, default=2, help="how many of the corpus's files")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch, corpus = Path(folder), Path(folder, "corpus")
        corpus.mkdir()
        paths = sorted(chosen.corpus.glob("*.parquet"))[: chosen.files]
        for path in paths:
            (corpus / path.name).symlink_to(path.resolve())
        table = load_for_nanogpt(corpus, scratch)
        texts = [pq.read_table(path, columns=["text"])["text"].to_pylist() for path in paths]
        sides: dict[str, Callable[[], int]] = {
            "ours": lambda: ours(corpus, chosen.threads, scratch),
            "encode_ordinary_batch": lambda: tokenizer_alone(texts, chosen.threads),
            "nanoGPT's method": lambda: nanogpt_method(table, chosen.threads, scratch),
        }
        found: dict[str, list[Measured]] = {name: [] for name in sides}
        for number in range(chosen.rounds):
            for name in list(sides)[:: -1 if number % 2 else 1]:
                entry = measured(sides[name])
                found[name].append(entry)
                rate = f"{entry.tokens / entry.wall_seconds:,.0f} tok/s"
                print(f"{name:>22}: {entry.wall_seconds:.2f} s, {entry.cpu_seconds:.2f} s of CPU, {rate}")
    for name in list(sides)[1:]:
        for clock in ("wall", "cpu"):
            rates = {
                side: [entry.tokens / getattr(entry, f"{clock}_seconds") for entry in entries]
                for side, entries in found.items()
            }
            print(reported_ratio(name, clock, rates["ours"], rates[name]))


if __name__ == "__main__":
    main()
