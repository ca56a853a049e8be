"""Two processes over gloo against one: the same gradients, the same curve, and what a death does."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from nanodyno.config import RunConfig
from nanodyno.errors import NanodynoError
from nanodyno.records.store import Run, read_run
from nanodyno.train.device import DeviceChoice
from nanodyno.train.job import TrainingJob
from nanodyno.train.runner import refuse_together, run_training
from nanodyno.train.trainer import Trainer

CHILD = Path(__file__).with_name("process_child.py")
TWO = {"batch_size": 2, "gradient_accumulation_steps": 6}
WAYS: dict[str, dict[str, Any]] = {
    "ddp": {"parallel": "ddp"},
    "fsdp": {"parallel": "fsdp"},
    "fused": {"kernels": "fused"},
}


def launch(job: dict[str, object], restarts: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += [f"--max-restarts={restarts}", str(CHILD), json.dumps(job)]
    quiet = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return subprocess.run(
        command, env=os.environ | quiet, capture_output=True, text=True, timeout=600, check=False
    )


def test_two_processes_have_the_gradients_and_the_curve_of_one_and_pass_a_run_on(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig], trainer: Callable[..., Trainer]
) -> None:
    """One process, two, and one again: stopped at 20 and at 60 of 100 iterations, whole and in shares."""
    schedule = {"max_iters": 100, "lr_decay_iters": 100, "eval_interval": 50, **TWO}

    def alone(name: str, **changes: Any) -> Run:
        settings = config(**(schedule | changes))
        run_training(TrainingJob(settings, name, tmp_path / name, data_folder=data_folder), lambda _: None)
        return read_run(tmp_path / name)

    whole = alone("whole")
    job: dict[str, object] = {"data": str(data_folder)}
    norms: dict[str, list[float | None]] = {}
    for way, changes in WAYS.items():
        alone(way, **changes, max_iters=20)
        settings = config(**(schedule | changes | {"max_iters": 60, "init_from": "resume"}))
        job[way] = {"settings": settings.model_dump(), "folder": str(tmp_path / way)}
    settings = config(**(schedule | WAYS["fsdp"] | {"max_iters": 2}))
    job["unsaved"] = {"settings": settings.model_dump(), "folder": str(tmp_path / "unsaved")}
    done = launch(job)
    assert done.returncode == 0, done.stderr
    assert read_run(tmp_path / "unsaved").finished
    assert not (tmp_path / "unsaved" / "checkpoints").exists()
    for way, changes in WAYS.items():
        # Fused ones are clipped while they are applied, and their products are of float32.
        fused = way == "fused"
        reference = float64_gradients(trainer, **({"grad_clip": 0.0} if fused else {}))
        gradients = load_file(tmp_path / f"{way}.safetensors")
        assert gradients.keys() == reference.keys()
        worst = max((gradients[name] - reference[name]).abs().max().item() for name in reference)
        assert worst < (1e-6 if fused else 1e-10)
        assert read_run(tmp_path / way).own.arithmetic.processes == 2
        passed = alone(way, **changes, init_from="resume")
        assert [step.iteration for step in passed.steps] == list(range(100))
        assert passed.record.resumed_at_iterations == (20, 60)
        differences = [abs(a.loss - b.loss) for a, b in zip(whole.own_steps, passed.own_steps, strict=True)]
        assert max(differences) < 1e-4
        assert [step.micro_steps for step in passed.steps] == [6] * 20 + [3] * 40 + [6] * 40
        assert {step.tokens for step in passed.steps} == {192}
        norms[way] = [step.micro_grad_norm for step in passed.own_steps]
        assert [norm is not None for norm in norms[way]] == [True] * 20 + [way != "fsdp"] * 40 + [True] * 40
        val_losses = {entry.iteration: entry.val_loss for entry in passed.evals}
        for entry in whole.evals:
            assert val_losses[entry.iteration] == pytest.approx(entry.val_loss, abs=1e-4)
        assert {entry.val_tokens for entry in passed.evals} == {whole.evals[0].val_tokens}
    assert norms["ddp"] == pytest.approx(norms["fused"], rel=1e-3)
    # At 20 still the weights of one process, of which the first two micro-steps are now one in each.
    first = [step.micro_grad_norm for step in whole.own_steps]
    assert norms["ddp"][19] == pytest.approx(first[19], rel=1e-3)
    assert norms["ddp"][20] != pytest.approx(first[20], rel=1e-3)


def float64_gradients(trainer: Callable[..., Trainer], **changes: Any) -> dict[str, torch.Tensor]:
    """Of the first iteration, by this process alone."""
    torch.set_default_dtype(torch.float64)
    try:
        ours = trainer(**TWO, **changes)
        with ours.batches.loading(0) as loader:
            ours.engine.gradients(loader, ours.batches.steps)
        return {name: p.grad for name, p in ours.engine.model.named_parameters() if p.grad is not None}
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_process_that_dies_is_named_by_the_others_and_a_restart_goes_on(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]
) -> None:
    settings = config(**TWO, max_iters=12, eval_interval=4)
    train = {"settings": settings.model_dump(), "folder": str(tmp_path / "run")}
    # The first attempt loses process 1 at iteration 6, the second one process 0 at iteration 10.
    done = launch({"data": str(data_folder), "ddp": train, "deaths": [[1, 6], [0, 10]]}, restarts=2)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        named = rf"error: process {rank} \(pid \d+ on .+\) has died or hangs"
        assert re.search(named, done.stderr), done.stderr
    run = read_run(tmp_path / "run")
    assert run.finished
    assert [step.iteration for step in run.steps] == list(range(12))
    assert run.record.resumed_at_iterations == (4, 8)


def test_a_mistake_of_the_first_ends_the_others_too(
    data_folder: Path, tmp_path: Path, config: Callable[..., RunConfig]
) -> None:
    train = {"settings": config(dataset="tyni", **TWO).model_dump(), "folder": str(tmp_path / "run")}
    done = launch({"data": str(data_folder), "ddp": train})
    assert done.returncode == 1
    assert "error: no dataset 'tyni'" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "3 micro-steps cannot be divided among 2 processes"),
        ({**TWO, "parallel": "fsdp", "dtype": "float16"}, "no loss scaler"),
        ({**TWO, "device": "cuda:1"}, "cuda:1 .* 2 processes"),
    ],
)
def test_what_two_processes_cannot_do_is_refused(
    config: Callable[..., RunConfig], changes: dict[str, Any], words: str
) -> None:
    settings = config(**changes)
    with pytest.raises(NanodynoError, match=words):
        refuse_together(settings, DeviceChoice(torch.device("cpu"), changes.get("dtype", "float32")), 2)
