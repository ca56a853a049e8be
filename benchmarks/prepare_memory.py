"""Peak resident memory of `nanodyno prepare` on a corpus that it generates, of any size.

    python benchmarks/prepare_memory.py FOLDER [--gib 5] [--tokenizer gpt2]

FOLDER takes the corpus and the output, about one and a half times the size, and is left for another run. A
fifth of the text each is one plain text file that is a single document, JSON lines under zstd, a parquet file
of one single row group, and two of usual ones. Words are drawn from a seeded vocabulary, so no two documents
are identical. The command runs in a process of its own, whose peak the system tells.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DOCUMENT_WORDS = 1200
VOCABULARY = 20_000
GIB = 2**30


def documents(seed: int, size: int) -> Iterator[str]:
    """Texts of about 7 KB, frequent words more often, until they make up size bytes."""
    dice = np.random.default_rng(seed)
    lengths = np.random.default_rng(0).integers(2, 11, VOCABULARY)
    letters = np.random.default_rng(1).choice(list("etaoinshrdlcumwfgypbvk"), (VOCABULARY, 10))
    words = ["".join(row[:length]) for row, length in zip(letters, lengths, strict=True)]
    made = 0
    while made < size:
        drawn = (VOCABULARY ** dice.random(DOCUMENT_WORDS)).astype(np.int64).tolist()
        chosen = [words[index] for index in drawn]
        chosen[12::12] = [f"{word}.\n" for word in chosen[12::12]]
        text = " ".join(chosen)
        made += len(text) + 1
        yield text


def write_text(path: Path, seed: int, size: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for text in documents(seed, size):
            file.write(text + "\n")


def write_json_lines(path: Path, seed: int, size: int) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        for text in documents(seed, size):
            file.write(json.dumps({"text": text}).encode() + b"\n")


def write_parquet(path: Path, seed: int, size: int, group_bytes: int) -> None:
    schema = pa.schema([("text", pa.large_string())])
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        texts: list[str] = []
        held = 0
        for text in documents(seed, size):
            texts.append(text)
            held += len(text)
            if held >= group_bytes:
                writer.write_table(pa.table({"text": texts}, schema=schema))
                texts, held = [], 0
        if texts:
            writer.write_table(pa.table({"text": texts}, schema=schema))


def generate(folder: Path, gib: float) -> None:
    folder.mkdir(parents=True)
    share = int(gib * GIB / 5)
    write_text(folder / "one.txt", 10, share)
    write_json_lines(folder / "lines.jsonl.zst", 11, share)
    write_parquet(folder / "single.parquet", 12, share, share * 2)
    for number in (0, 1):
        write_parquet(folder / f"usual-{number}.parquet", 20 + number, share, 8 * 2**20)


def prepared(corpus: Path, out: Path, tokenizer: str) -> tuple[int, int]:
    """Tokens, and the peak of the command's process in bytes."""
    command = ["prepare", str(corpus), "--out", str(out), "--tokenizer", tokenizer, "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "nanodyno", *command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    record = json.load(process.stdout)
    usage = os.wait4(process.pid, 0)[2]
    return record["train_tokens"] + record["val_tokens"], usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gib", type=float, default=5.0)
    parser.add_argument("--tokenizer", default="gpt2")
    parser.add_argument("--generate", action="store_true", help="make the corpus and end")
    chosen = parser.parse_args()
    corpus, out = chosen.folder / f"corpus-{chosen.gib:g}", chosen.folder / "out"
    if chosen.generate:
        generate(corpus, chosen.gib)
        return
    if not corpus.exists():
        # In a process of its own: a child begins with its parent's peak.
        subprocess.run([sys.executable, *sys.argv, "--generate"], check=True)
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    tokens, peak = prepared(corpus, out, chosen.tokenizer)
    seconds = time.perf_counter() - began
    print(f"{tokens:,} tokens of {chosen.gib:g} GiB in {seconds:.0f} s, peak {peak / GIB:.2f} GiB resident")


if __name__ == "__main__":
    main()
