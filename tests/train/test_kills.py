"""A run that is killed again and again ends as if nothing had been: the same records to the last bit."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nanodyno.config import RunConfig
from nanodyno.records.store import Run, read_run

CHILD = Path(__file__).with_name("kill_child.py")
DRAW = random.Random(3)
KILLS = {
    "whole": [],
    # By the clock, wherever that falls: in a step, an evaluation or a save.
    "seconds": [f"{who}seconds:{DRAW.uniform(0, 0.12):.4f}" for who in ("", "group ") for _ in range(4)],
    # A stretch takes up the records (5 renames), writes one line a step, and about 70 times for a save.
    "write": [f"write:{number}" for number in (1, 3, 5, 8, 20, 45, 77, 100)],
    "fsync": [f"fsync:{number}" for number in (1, 2, 5, 8, 11, 13, 14, 16)],
    "rename": [f"rename:{number}" for number in (1, 2, 3, 4, 5, 5, 6, 6)],
    "unlink": [f"unlink:{number}" for number in (1, 2, 3, 4, 5, 7, 9, 11)],
}


def facts(run: Run) -> tuple[object, ...]:
    """Everything but times and memory, and the last weights."""
    return (
        [
            (step.iteration, step.loss, step.grad_norm, step.learning_rate, step.skipped)
            for step in run.own_steps
        ],
        [(entry.iteration, entry.val_loss, entry.train_loss) for entry in run.evals],
        run.finished,
        (run.folder / "checkpoints" / "iter-00000040" / "model.safetensors").read_bytes(),
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_again_and_again_a_run_ends_to_the_bit_as_if_nothing_had_been(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]
) -> None:
    settings = config(n_layer=1, n_embd=16, batch_size=1, dropout=0.1, eval_interval=6, max_iters=40)
    kills = {str(tmp_path / name): kills for name, kills in KILLS.items()}
    done = subprocess.run(
        [sys.executable, str(CHILD), str(data_folder), settings.model_dump_json(), json.dumps(kills)],
        stdout=subprocess.PIPE,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
    )
    struck = {Path(folder).name: count for folder, count in json.loads(done.stdout).items()}
    assert sum(struck.values()) >= 30, struck
    assert all(struck[name] >= 5 for name in KILLS if name != "whole"), struck
    whole = read_run(tmp_path / "whole")
    assert [step.iteration for step in whole.steps] == list(range(40))
    for name in KILLS:
        assert facts(read_run(tmp_path / name)) == facts(whole), name
