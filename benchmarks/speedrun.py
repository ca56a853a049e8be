"""What recipes reach on a prepared dataset, in seconds of training alone: many short trials in one process.

    python benchmarks/speedrun.py make CORPUS --out data/reference      # once: parquet to train.bin, val.bin
    python benchmarks/speedrun.py pack data/reference reference.xz      # for a machine without tokenizer
    python benchmarks/speedrun.py unpack reference.xz --out data/reference
    python benchmarks/speedrun.py unpack reference.xz --out data/clean --held-out openstax
    python benchmarks/speedrun.py run TRIALS.toml --data data/reference --seconds 560 --json OUT.jsonl

`make` numbers the documents of all files in order with GPT-2's tokenizer, each after an end-of-text; of these
the first 1,048,576 tokens are the val set and the rest is train. `pack` makes half of that for a journey.
`unpack --held-out SOURCE` has the first 1,048,576 tokens of that source as val, and as train what is neither
of the source nor of the val set above: a model of it can be judged by both.
TRIALS.toml has `tokens` (or `max_iters`) and settings for all trials at the top, and one table a trial with
what it changes: "default" takes a setting back; `over = "NAME"` begins with another trial's settings, and
`over = "best"` with those of the one that ended lowest so far, so that a list of changes is a search.
speedrun.toml has those tried (--only NAME ...: some of them, in that order):

    tokens = 50_000_000
    batch_size = 64
    [plain]
    [muon]
    optimizer = "muon"
    seeds = [1337, 1338]

--train-seconds takes the place of `tokens`: a short trial tells how many tokens train in so long. --also has
other datasets, whose val sets are evaluated at the end too. A trial begins only if it will end within
--seconds, judged by the slowest before it. --target tells which of them reached a val loss, and in how many
seconds where they looked on their way (--looks). Settings on the command line (--KEY=VALUE) hold for all.
--limit-gib lets torch's allocator have no more than a smaller card. Without --data each trial has a dataset
of its own, of which --val-tokens are evaluated: speedrun_bytes.toml asks on a CPU what of a recipe holds for
other text. A trial that fails is told and left; where it leaves a process no card, another process goes on
with the next (--first, counted from 0).
"""

import argparse
import io
import json
import lzma
import os
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nanodyno.recipes.commandline import parse_overrides
from trials import EVALUATED, Trial, config_for, run_trial

TARGET = 3.1665
"""nanoGPT's best recipe on the reference corpus: 125.8M tokens in 246 s on an H200."""
VOCAB_SIZE = 50304
END_OF_TEXT = 50256
SPECIAL = ("tokens", "seeds", "over")
LEFT_OUT = "default"
"""A value that takes a setting back which the top of the file has."""
BEST = "best"
OF_16_BITS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 3, "lp": 1, "pb": 1}]
SOURCES = "sources.txt"
"""A line a document of the whole, val's first; nothing where the corpus says none."""
MEASURED = 100
"""Iterations of the trial that tells how many tokens train in --train-seconds."""
FRAMES_TOLD = 4
"""Of where a trial failed, the innermost."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("corpus", type=Path)
    making.add_argument("--out", type=Path, required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("data", type=Path)
    packing.add_argument("packed", type=Path)
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("packed", type=Path)
    unpacking.add_argument("--out", type=Path, required=True)
    unpacking.add_argument("--held-out", metavar="SOURCE")
    running = commands.add_parser("run")
    running.add_argument("trials", type=Path)
    running.add_argument("--data", type=Path)
    running.add_argument("--only", nargs="+")
    running.add_argument("--first", type=int, default=0)
    running.add_argument("--seconds", type=float, default=560.0)
    running.add_argument("--train-seconds", type=float)
    running.add_argument("--also", type=Path, nargs="+", default=[])
    running.add_argument("--looks", type=int, default=0)
    running.add_argument("--val-tokens", type=int, default=EVALUATED)
    running.add_argument("--target", type=float, default=TARGET)
    running.add_argument("--limit-gib", type=float)
    running.add_argument("--json", type=Path)
    given, others = parser.parse_known_args()
    if given.command == "make":
        make(given.corpus, given.out)
    elif given.command == "pack":
        pack(given.data, given.packed)
    elif given.command == "unpack":
        whole = np.load(io.BytesIO(lzma.decompress(given.packed.read_bytes())))
        tokens, sources = whole["tokens"], whole["sources"]
        train, val = split_of(tokens) if given.held_out is None else held_out(tokens, sources, given.held_out)
        write(train, val, given.out)
    else:
        run(given, parse_overrides(others))


def make(corpus: Path, out: Path) -> None:
    import pyarrow.parquet as parquet

    from nanodyno.data.tokenizers import get_tokenizer

    tokenizer = get_tokenizer("gpt2")
    pieces: list[np.ndarray] = []
    sources: list[str] = []
    for path in sorted(corpus.glob("*.parquet")):
        table = parquet.read_table(path)
        for text in table["text"].to_pylist():
            pieces += [np.array([tokenizer.end_of_text]), np.asarray(tokenizer.encode(text))]
        if "source" in table.column_names:
            sources += table["source"].to_pylist()
    write(*split_of(np.concatenate(pieces).astype(np.uint16)), out)
    (out / SOURCES).write_text("".join(f"{source}\n" for source in sources))


def split_of(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return tokens[EVALUATED:], tokens[:EVALUATED]


def held_out(tokens: np.ndarray, sources: np.ndarray, source: str) -> tuple[np.ndarray, np.ndarray]:
    """Train and val, where the source is of no document of train."""
    documents = np.cumsum(tokens == END_OF_TEXT) - 1
    if len(sources) != documents[-1] + 1 or source not in sources:
        there = ", ".join(sorted(set(sources.tolist()))) or "none"
        raise SystemExit(f"{source} cannot be held out: the sources are {there}")
    of_source = (sources == source)[documents]
    elsewhere = ~of_source
    elsewhere[:EVALUATED] = False
    return tokens[elsewhere], tokens[of_source][:EVALUATED]


def write(train: np.ndarray, val: np.ndarray, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    train.tofile(out / "train.bin")
    val.tofile(out / "val.bin")
    print(f"{len(train):,} tokens of train, {len(val):,} of val, in {out}")


def pack(data: Path, packed: Path) -> None:
    tokens = np.concatenate([np.fromfile(data / name, np.uint16) for name in ("val.bin", "train.bin")])
    listed = data / SOURCES
    sources = listed.read_text().split() if listed.exists() else []
    whole = io.BytesIO()
    np.savez(whole, tokens=tokens, sources=np.array(sources, dtype=str))
    packed.write_bytes(lzma.compress(whole.getvalue(), filters=OF_16_BITS))


@dataclass(frozen=True)
class Planned:
    name: str
    seed: int
    base: dict[str, Any]
    own: dict[str, Any]

    def settings(self, best: dict[str, Any] | None) -> dict[str, Any]:
        base = self.base if best is None or self.own.get("over") != BEST else best
        whole = base | self.own | {"seed": self.seed}
        return {key: value for key, value in whole.items() if value != LEFT_OUT}


def planned(path: Path, only: list[str] | None, overrides: dict[str, object]) -> Iterator[Planned]:
    """One for each seed, the first seed of all trials first."""
    read = tomllib.loads(path.read_text())
    tables = {name: table for name, table in read.items() if isinstance(table, dict)}
    named = {table["over"] for table in tables.values() if "over" in table} - {BEST}
    if unknown := sorted(({*(only or ())} | named) - tables.keys()):
        raise SystemExit(f"no trial is called {', '.join(unknown)}; there are {', '.join(tables)}")
    common = {key: value for key, value in read.items() if key not in tables}
    chosen: dict[str, dict[str, Any]] = {name: tables[name] | overrides for name in only or tables}

    def beneath(table: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        over = table.get("over")
        if over is None or (over == BEST and len(above) == 1):
            return common
        if over in (BEST, *above):
            raise SystemExit(
                f"{' over '.join((*above, over))}: a trial is over another that stands for itself"
            )
        return beneath(tables[over], (*above, over)) | tables[over]

    bases = {name: beneath(table, (name,)) for name, table in chosen.items()}
    seeds = {name: seeds_of(bases[name] | table) for name, table in chosen.items()}
    for place in range(max(map(len, seeds.values()))):
        for name, table in chosen.items():
            if place < len(seeds[name]):
                yield Planned(name, seeds[name][place], bases[name], table)


def seeds_of(settings: dict[str, Any]) -> list[int]:
    return settings.get("seeds", [settings.get("seed", 1337)])


@dataclass
class Pace:
    """Of the slowest trials so far."""

    seconds_per_token: float = 0.0
    other_seconds: float = 0.0

    def expected(self, tokens: int) -> float:
        return self.other_seconds + tokens * self.seconds_per_token

    def learn(self, trial: Trial, wall_seconds: float) -> None:
        self.seconds_per_token = max(self.seconds_per_token, trial.train_seconds / trial.tokens)
        self.other_seconds = max(self.other_seconds, wall_seconds - trial.train_seconds)


def run(given: argparse.Namespace, overrides: dict[str, object]) -> None:
    began, pace = time.perf_counter(), Pace()
    limit_memory(given.limit_gib)
    plan = list(planned(given.trials, given.only, overrides))
    lowest, best = float("inf"), None
    for number, each in enumerate(plan[given.first :], given.first):
        left = given.seconds - (time.perf_counter() - began)
        name, settings = each.name, each.settings(best)
        own = {key: value for key, value in settings.items() if key not in SPECIAL}
        if given.data:
            own |= {"dataset": str(given.data.resolve()), "vocab_size": VOCAB_SIZE}
        try:
            trial = trial_within(left, own, settings.get("tokens"), given, pace)
        except NoTime as error:
            print(f"{name}: left out, {error}", flush=True)
            continue
        except Exception as error:  # the next trial may work, and device time is short
            print(f"{name}: {type(error).__name__}: {str(error)[:500]}", flush=True)
            traceback.print_exc(limit=-FRAMES_TOLD)
            if gpu_is_lost():
                go_on_elsewhere(number + 1, given.seconds - (time.perf_counter() - began))
            continue
        if trial.val_loss < lowest:
            lowest, best = trial.val_loss, settings
        print(words(name, trial, given.target), flush=True)
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps({"name": name, "settings": own, **asdict(trial)}, default=str) + "\n")


class NoTime(Exception):
    pass


def trial_within(
    left: float, own: dict[str, Any], tokens: int | None, given: argparse.Namespace, pace: Pace
) -> Trial:
    began, seconds, config = time.perf_counter(), given.train_seconds, config_for(own, tokens)
    needed = pace.expected(config.max_iters * config.tokens_per_iter)
    if seconds is not None:
        needed = pace.other_seconds + seconds
    if needed > left:
        raise NoTime(f"{left:.0f} s are left and it would take {needed:.0f}")
    if seconds is not None:
        short = run_trial(config_for(own | {"max_iters": MEASURED}, None), Path("data"), val_tokens=1)
        config = config_for(own, round(seconds * short.tokens_per_second))
    trial = run_trial(config, Path("data"), given.val_tokens, given.looks, given.also)
    pace.learn(trial, time.perf_counter() - began)
    return trial


def limit_memory(gib: float | None) -> None:
    if gib and torch.cuda.is_available():
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(gib * 2**30 / whole)


def gpu_is_lost() -> bool:
    """After a fault inside a kernel, all that a process asks of its card fails."""
    try:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def go_on_elsewhere(first: int, seconds: float) -> None:
    print(
        f"the card is lost to this process: another goes on, with {seconds:.0f} s left and none as the best",
        flush=True,
    )
    sys.stderr.flush()
    later = ("--first", str(first), "--seconds", str(seconds))
    os.execv(sys.executable, [sys.executable, *sys.argv, *later])


def words(name: str, trial: Trial, target: float) -> str:
    tables, others = trial.value_embeddings / 1e6, (trial.parameters - trial.value_embeddings) / 1e6
    looks = (*trial.losses, (trial.tokens, trial.train_seconds, trial.val_loss))
    sooner = next((seconds for _, seconds, loss in looks if loss <= target), None)
    reached = "" if sooner is None else f" REACHED {target} by {sooner:.1f} s"
    peak = "" if trial.peak_gib is None else f", peak {trial.peak_gib:.1f} GiB"
    lines = [
        f"{name} seed {trial.seed}: val {trial.val_loss:.4f} after {trial.train_seconds:.1f} s of training, "
        f"{trial.tokens / 1e6:.1f}M tokens, {trial.tokens_per_second:,.0f} tok/s{reached}",
        f"train {trial.train_loss:.4f}; {others:.1f}M parameters and {tables:.1f}M of value embeddings; "
        f"prepared in {trial.prepared_seconds:.0f} s, wall {trial.wall_seconds:.0f} s{peak}; attention "
        f"{trial.attention or 'as torch chooses'}; val of {trial.val_tokens:,} tokens",
        *(f"val {loss:.4f} of {name}" for name, loss in trial.also.items()),
        *(f"{tokens / 1e6:.1f}M tokens {seconds:.1f} s {loss:.4f}" for tokens, seconds, loss in trial.losses),
        *trial.notes,
    ]
    return "\n    ".join(lines)


if __name__ == "__main__":
    main()
