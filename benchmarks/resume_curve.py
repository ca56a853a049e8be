"""A run that was killed and resumed beside runs that were not: is it further from them than they are apart?

Each run is a process of its own with the same seed. A killed run gets SIGKILL a few iterations after its
first checkpoint, and the same command goes on. Besides, a checkpoint is loaded into a new trainer on the
device and saved again: the restored state is bitwise equal when both have the same checksums.

    python benchmarks/resume_curve.py gpt2-384 --iterations 60 --save-at 30 --runs 3 --dataset=DIR
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nanodyno.data.resolve import resolve_dataset
from nanodyno.records.store import read_run
from nanodyno.train import checkpoint
from nanodyno.train.device import choose
from nanodyno.train.trainer import Trainer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--save-at", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    given, settings = parser.parse_known_args()
    with tempfile.TemporaryDirectory(dir=Path()) as folder:
        whole = [
            curve(given, settings, Path(folder) / f"whole-{number}", None) for number in range(given.runs)
        ]
        killed = [
            curve(given, settings, Path(folder) / f"killed-{number}", given.save_at + 2 + number)
            for number in range(given.runs)
        ]
        exact = restored_exactly(Path(folder) / "killed-0")
    print(f"the restored state is {'' if exact else 'NOT '}bitwise equal")
    tell("reruns without a kill", itertools.combinations(whole, 2))
    tell("killed and resumed against those", itertools.product(killed, whole))
    tell("killed and resumed among themselves", itertools.combinations(killed, 2))


def curve(
    given: argparse.Namespace, settings: list[str], folder: Path, kill_after: int | None
) -> list[float]:
    """The losses of a run, killed once after that iteration."""
    command = [sys.executable, "-m", "nanodyno", "train", given.recipe, f"--out_dir={folder}", "--log=plain"]
    command += [f"--max_iters={given.iterations}", f"--lr_decay_iters={given.iterations}", "--log_interval=1"]
    command += [f"--eval_interval={given.save_at}", "--eval_tokens=16384", *settings]
    if kill_after is not None:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("iter") and int(line.split()[1].split("/")[0]) >= kill_after:
                    child.kill()
                    break
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    run = read_run(folder)
    assert [step.iteration for step in run.steps] == list(range(given.iterations))
    print(f"{folder.name}: last loss {run.steps[-1].loss!r}, resumed at {run.record.resumed_at_iterations}")
    return [step.loss for step in run.own_steps]


def restored_exactly(folder: Path) -> bool:
    record = read_run(folder).own
    found = checkpoint.newest(folder / "checkpoints")
    assert found is not None
    config = record.config
    dataset = resolve_dataset(config.dataset, Path("data"), config.tokenizer, config.vocab_size)
    trainer = Trainer(config, dataset, record.vocab_size, choose(config))
    trainer.restore(found.checkpoint)
    again = folder / "again"
    trainer.save(again, "autosave")
    names = [found.checkpoint.folder, checkpoint.folder_for(again, trainer.iteration)]
    sums = [json.loads((name / checkpoint.STATE_FILE).read_text())["sha256"] for name in names]
    return sums[0] == sums[1]


def tell(what: str, pairs: Iterable[tuple[list[float], list[float]]]) -> None:
    apart = [[abs(a - b) for a, b in zip(*pair, strict=True)] for pair in pairs]
    if apart:
        mean = statistics.fmean(itertools.chain.from_iterable(apart))
        most = max(itertools.chain.from_iterable(apart))
        print(f"{what} ({len(apart)} pairs): mean {mean:.3g}, largest {most:.3g}")


if __name__ == "__main__":
    main()
