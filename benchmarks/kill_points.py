"""Kills a real `nanodyno train` again and again at random moments, lets it end, and compares to the bit.

Half of the kills strike the process, half its whole process group; the moment is drawn from the start of the
interpreter on, so that it falls into loading, compiling, training, evaluating and saving alike. One thread
and deterministic algorithms, as a comparison to the bit needs.

    python benchmarks/kill_points.py --kills 30 [--compile]
"""

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nanodyno.records.store import Run, read_run

PROGRAM = "import torch; torch.use_deterministic_algorithms(True); from nanodyno.cli.main import main; main()"
SETTINGS = ["--n_layer=2", "--n_embd=64", "--n_head=2", "--block_size=64", "--batch_size=4", "--device=cpu"]
SETTINGS += ["--gradient_accumulation_steps=2", "--dropout=0.1", "--eval_tokens=4096", "--log_interval=1"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--iterations", type=int, default=3000)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    with tempfile.TemporaryDirectory(dir=Path()) as folder:
        command = [sys.executable, "-c", PROGRAM, "train", "demo", *SETTINGS, f"--compile={given.compile}"]
        command += [f"--max_iters={given.iterations}", f"--eval_interval={given.iterations // 60}"]
        began = time.monotonic()
        start(command, Path(folder) / "whole").wait()
        whole = read_run(Path(folder) / "whole")
        print(
            f"uninterrupted: {time.monotonic() - began:.1f} s, last loss {whole.steps[-1].loss!r}", flush=True
        )
        where: collections.Counter[str] = collections.Counter()
        while sum(where.values()) < given.kills:
            moment = kill(start(command, Path(folder) / "killed"), draw)
            if moment is None:
                break  # the run has ended before; more --iterations leave room for all kills
            where[moment] += 1
        start(command, Path(folder) / "killed").wait()
        killed = read_run(Path(folder) / "killed")
    print(
        f"{sum(where.values())} kills while "
        + ", ".join(f"{doing}: {count}" for doing, count in where.most_common())
    )
    print(f"resumed at {len(killed.record.resumed_at_iterations)} different iterations")
    print("to the last bit the same" if facts(killed) == facts(whole) else "NOT THE SAME")


def start(command: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    one = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    log = folder.with_suffix(".log").open("wb")
    return subprocess.Popen(
        [*command, f"--out_dir={folder}"], env=one, stdout=log, stderr=log, start_new_session=True
    )


def kill(child: "subprocess.Popen[bytes]", draw: random.Random) -> str | None:
    """What the run was doing, as far as its folder tells; None when it had ended."""
    time.sleep(draw.uniform(0.5, 9.0))
    folder = Path(child.args[-1].partition("=")[2])  # pyright: ignore
    saving = any(folder.glob("checkpoints/*.new"))
    if child.poll() is not None:
        return None
    (os.killpg if draw.random() < 0.5 else os.kill)(child.pid, signal.SIGKILL)
    child.wait()
    lines = folder.with_suffix(".log").read_text().splitlines()
    if saving:
        return "saving"
    return "training" if any(line.startswith("iter") for line in lines) else "starting"


def facts(run: Run) -> tuple[object, ...]:
    steps = [(step.iteration, step.loss, step.grad_norm, step.learning_rate) for step in run.steps]
    return steps, [(entry.iteration, entry.val_loss, entry.train_loss) for entry in run.evals], run.finished


if __name__ == "__main__":
    main()
