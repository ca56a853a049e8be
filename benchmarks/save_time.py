"""What a save costs: seconds and bytes of each, and the share of the training time that saving takes.

Trains a recipe for a while with a save after every few seconds of training, and reads the records. The share
at the defaults follows from the median save, the recipe's interval between evaluations and an autosave of 15
minutes.

    python benchmarks/save_time.py gpt2-768 --saves 8 --every 4s --dataset=DIR
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from nanodyno.records.store import Run, read_run
from nanodyno.records.types import SaveRecord

AUTOSAVE_SECONDS = 900


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--saves", type=int, default=8)
    parser.add_argument("--every", default="4s", help="time of training between two saves")
    parser.add_argument("--hours", type=float, default=0.05, help="most that this may take")
    given, settings = parser.parse_known_args()
    with tempfile.TemporaryDirectory(dir=Path()) as folder:
        run = train(given, settings, Path(folder) / "run")
    show(run, given.saves)


def train(given: argparse.Namespace, settings: list[str], folder: Path) -> Run:
    command = [sys.executable, "-m", "nanodyno", "train", given.recipe, f"--out_dir={folder}", "--log=plain"]
    command += [f"--autosave={given.every}", f"--max-hours={given.hours}", "--eval_tokens=65536"]
    with subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        saved = 0
        for line in child.stdout:
            saved += line.startswith("saved")
            if saved == given.saves:
                child.terminate()
                saved += 1
            print(line, end="")
    return read_run(folder)


def show(run: Run, wanted: int) -> None:
    saves = [entry for entry in run.history if isinstance(entry, SaveRecord)][:wanted]
    seconds = sorted(save.save_seconds for save in saves)
    step = statistics.median(step.step_seconds for step in run.own_steps[3:])
    between = run.own.config.eval_interval * step
    # Evaluations save too, and put the autosave off; both together never save more often than this.
    interval = min(between, AUTOSAVE_SECONDS)
    median = statistics.median(seconds)
    print(f"\nsaves {len(saves)}, {saves[0].saved_bytes / 2**30:.3f} GiB each")
    print(f"seconds: median {median:.2f}, {seconds[0]:.2f} to {seconds[-1]:.2f}")
    print(
        f"iteration {step * 1000:.1f} ms, an evaluation every {between:.0f} s, a save every {interval:.0f} s"
    )
    share, worst = (each / (interval + each) for each in (median, seconds[-1]))
    print(f"lost to saving: {share:.3%} by the median save, {worst:.3%} by the slowest")


if __name__ == "__main__":
    main()
