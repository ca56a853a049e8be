"""One of the processes that torchrun starts for test_processes.py; its argument is a job in JSON.

For `ddp`, `fsdp`, `fused` and `unsaved`, as far as they are there: the gradients of the first iteration in
float64, written beside the run's folder by the first process, unless there are deaths or there is no folder
yet; and the run itself. `deaths` are pairs of rank and iteration, one for each attempt of the launcher, at
which that process kills itself.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from nanodyno.config import RunConfig
from nanodyno.data.resolve import resolve_dataset
from nanodyno.errors import NanodynoError
from nanodyno.train.device import choose
from nanodyno.train.engine import Engine
from nanodyno.train.job import TrainingJob
from nanodyno.train.parallel import whole
from nanodyno.train.processes import Processes, open_processes
from nanodyno.train.runner import run_training
from nanodyno.train.stepper import Stepper
from nanodyno.train.trainer import Trainer


def write_gradients(config: RunConfig, data: Path, out: Path) -> None:
    torch.set_default_dtype(torch.float64)
    with open_processes() as processes:
        found = gradients(config, data, processes)
        if processes.first:
            save_file(found, out)
    torch.set_default_dtype(torch.float32)


def gradients(config: RunConfig, data: Path, processes: Processes) -> dict[str, torch.Tensor]:
    choice = choose(config)
    processes.connect(choice.device)
    dataset = resolve_dataset(config.dataset, data, config.tokenizer, None)
    trainer = Trainer(config, dataset, 320, choice, processes)
    if config.parallel == "fsdp":
        assert trainer.warm_up().compiled  # which must leave no trace in the gradients
    trainer.engine.get_ready()
    with trainer.batches.loading(0) as loader:
        trainer.engine.gradients(loader, trainer.batches.steps)
    named = trainer.engine.model.named_parameters()
    return {name: whole(p.grad).clone() for name, p in named if p.grad is not None}


def die_at(rank: int, iteration: int) -> None:
    if os.environ["RANK"] != str(rank):
        return
    step = Stepper.step

    def deadly(self: Stepper, engine: Engine, at: int) -> object:
        if at == iteration:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, engine, at)

    Stepper.step = deadly  # pyright: ignore[reportAttributeAccessIssue]


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    data, deaths = Path(job["data"]), job.get("deaths", [])
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if attempt < len(deaths):
        die_at(*deaths[attempt])
    for way in ("ddp", "fsdp", "fused", "unsaved"):
        if way not in job:
            continue
        config, folder = RunConfig(**job[way]["settings"]), Path(job[way]["folder"])
        if folder.exists() and not deaths:
            write_gradients(config, data, folder.with_suffix(".safetensors"))
        try:
            keeps = way != "unsaved"
            run_training(TrainingJob(config, "run", folder, data_folder=data, keeps=keeps), lambda _: None)
        except NanodynoError as error:
            sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
