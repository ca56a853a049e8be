"""What nanochat is measured with: its own rules, every window once an epoch, steps for so many seconds."""

import argparse
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch

SCRIPT = """
parser.add_argument("--weight-decay", type=float, default=0.28, help="of matrices")
parser.add_argument("--eval-tokens", type=int, default=80*524288)
parser.add_argument("--run", type=str, default="dummy")
parser.add_argument("--steps", type=int, default=-1)
parser.add_argument("--fp8", action="store_true")
"""


@pytest.fixture(scope="module")
def program(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("nanochat_program")


@pytest.fixture(scope="module")
def peer(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("peer_nanochat")


def test_defaults_are_those_of_the_checkout(program: ModuleType) -> None:
    assert program.read_defaults(SCRIPT) == {"weight-decay": 0.28, "run": "dummy", "steps": -1}


def test_rates_decay_and_momentum_follow_from_the_batch_the_size_and_the_steps(program: ModuleType) -> None:
    defaults = {"weight-decay": 0.28, "warmup-steps": 40, "warmdown-ratio": 0.65, "final-lr-frac": 0.05}
    rules = program.Rules(
        defaults, tokens_per_step=2**15, scaling_parameters=50, reference_parameters=125, steps=1000
    )
    assert rules.rate_scale == 0.25
    assert rules.weight_decay == pytest.approx(0.28 * 0.25 * 2.5)
    assert [rules.rate_at(step) for step in (0, 39, 40, 350, 675, 1000)] == pytest.approx(
        [1 / 40, 1.0, 1.0, 1.0, 0.525, 0.05]
    )
    assert [rules.momentum_at(step) for step in (0, 200, 400, 1000)] == pytest.approx(
        [0.85, 0.91, 0.97 - 50 / 650 * 0.07, 0.90]
    )
    assert [rules.weight_decay_at(step) for step in (0, 500, 1000)] == pytest.approx([0.175, 0.0875, 0.0])


def test_every_window_comes_once_an_epoch_in_an_order_of_the_seed(program: ModuleType) -> None:
    epochs = program.Epochs(np.arange(41, dtype=np.uint16), rows=2, length=4, device=torch.device("cpu"))
    assert epochs.windows == 10

    def starts(seed: int) -> list[int]:
        epochs.restart(seed)
        batches = [epochs.next_batch() for _ in range(10)]
        assert all(torch.equal(inputs + 1, targets) for inputs, targets in batches)
        return [int(row[0]) for inputs, _ in batches for row in inputs]

    first = starts(1)
    assert sorted(first[:10]) == sorted(first[10:]) == list(range(0, 40, 4))
    assert first[:10] != first[10:]
    assert starts(1) == first != starts(2)


def test_steps_fill_the_seconds(peer: ModuleType) -> None:
    assert peer.steps_for(60.0, 0.025) == 2400
    assert peer.steps_for(0.01, 1.0) == 1


def test_a_run_has_micro_batches_of_at_most_32_that_divide_its_step(peer: ModuleType) -> None:
    runs = [peer.read_run(text) for text in ("d8:16384", "d8:32768", "d8:65536")]
    assert [run.program for run in runs] == [(8, 16), (8, 32), (8, 32)]
    with pytest.raises(argparse.ArgumentTypeError):
        peer.read_run("d8:40000")
