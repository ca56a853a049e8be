"""A real SIGKILL at random moments: what is left can be read, and gone on with."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nanodyno.config import RunConfig
from nanodyno.records.store import read_run
from nanodyno.train.runner import Job, run_training

# One process loads torch, by a run of its own; each run to be killed is a fork of it.
CHILD = """
import os, signal, sys, time
from pathlib import Path
import torch
from nanodyno.config import RunConfig
from nanodyno.train.runner import Job, run_training

data, root, settings, *moments = sys.argv[1:]
config = RunConfig.model_validate_json(settings)

def train(name, config):
    run_training(Job(config, name, Path(root) / name, data_folder=Path(data)), lambda event: None)

torch.set_num_threads(1)
train("first", config.model_copy(update={"max_iters": 1}))
for name, moment in enumerate(moments):
    pid = os.fork()
    if pid == 0:
        train(str(name), config)
    steps = Path(root) / str(name) / "steps.jsonl"
    while not (steps.exists() and steps.stat().st_size):
        time.sleep(0.001)
    time.sleep(float(moment))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_run_killed_at_a_random_moment_is_readable_and_can_be_gone_on_with(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]
) -> None:
    draw = random.Random(7)
    moments = [str(draw.uniform(0.0, 0.2)) for _ in range(4)]
    settings = config(n_layer=1, n_embd=16, batch_size=1, eval_interval=2, eval_tokens=16, max_iters=10**6)
    subprocess.run(
        [sys.executable, "-c", CHILD, str(data_folder), str(tmp_path), settings.model_dump_json(), *moments],
        check=True,
        timeout=60,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    for name in map(str, range(4)):
        run = read_run(tmp_path / name)
        assert run.iterations_done >= 1
        assert [step.iteration for step in run.steps] == list(range(run.iterations_done))
        assert [entry.iteration for entry in run.evals] == [2 * count for count in range(len(run.evals))]
        assert not run.finished
        if not list(run.folder.glob("checkpoints/iter-????????")):
            continue
        end = run.iterations_done + 3
        again = settings.model_copy(update={"init_from": "resume", "max_iters": end})
        run_training(Job(again, name, run.folder, data_folder=data_folder), lambda _: None)
        assert [step.iteration for step in read_run(run.folder).steps] == list(range(end))
        assert read_run(run.folder).finished
