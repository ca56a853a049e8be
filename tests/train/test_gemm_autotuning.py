"""Which algorithm a product gets, with made-up times; the arithmetic is torch's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nanodyno.model import cublaslt
from nanodyno.model.cublaslt import Algorithm, CublasError, GemmProblem
from nanodyno.model.matmul import Units, by_torch
from nanodyno.train import gemm_autotuning
from nanodyno.train.gemm_autotuning import GemmAutotuner, gemm_autotuner

CPU = torch.device("cpu")
Times = dict[str, float]


class Machine:
    """A card on which each algorithm takes the seconds that a test says, `torch` among them."""

    def __init__(self, patch: pytest.MonkeyPatch, cache: Path) -> None:
        self.seconds: Times = {"torch": 4e-4, "a": 2e-4, "b": 3e-4}
        self.broken: set[str] = set()
        self.version = 1
        self.ran: list[str] = []
        self.measured = 0
        self._cache = cache
        patch.setattr(gemm_autotuning, "CublasLt", lambda: self)
        patch.setattr(gemm_autotuning, "by_torch", self._by_torch)
        patch.setattr(gemm_autotuning, "captured", self._captured)
        patch.setattr(
            gemm_autotuning, "replay_seconds", lambda name: self.seconds[name] * gemm_autotuning.CALLS
        )
        patch.setattr(cublaslt, "_alignment", lambda _: 256)  # as on a card, but not in a host's memory
        patch.setattr(torch.cuda, "Stream", lambda _: None)
        patch.setattr(torch.cuda, "synchronize", lambda _: None)
        patch.setattr(torch.cuda, "get_device_name", lambda _: "a card")

    def proposals(self, form: GemmProblem, units: Units | None) -> list[Algorithm]:
        assert (form.fast is None) == (units is None)
        if "all" in self.broken:
            raise CublasError("cublasLtMatmulAlgoGetHeuristic gave status 15")
        return [Algorithm(name.encode(), 8) for name in self.seconds if name != "torch"]

    def run(
        self, form: GemmProblem, algorithm: Algorithm, a: Tensor, b: Tensor, out: Tensor, units: Units | None
    ) -> None:
        name = algorithm.code.decode()
        if name in self.broken:
            raise CublasError("cublasLtMatmul gave status 15")
        self.ran.append(name)
        by_torch(a, b, out, form.add, units)

    def _by_torch(self, *given: Any) -> None:
        self.ran.append("torch")
        by_torch(*given)

    def _captured(self, several: Callable[[], None], *_: object) -> str:
        several()
        self.measured += 1
        return self.ran[-1]

    def new(self) -> GemmAutotuner:
        return GemmAutotuner(CPU, self._cache)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "nanodyno" / "products.json")


def multiply(multiply: GemmAutotuner, m: int = 4) -> Tensor:
    a, b = (torch.ones(m, 8, dtype=torch.bfloat16), torch.full((8, 2), 0.5, dtype=torch.bfloat16))
    out = torch.empty(m, 2, dtype=torch.bfloat16)
    multiply(a, b, out, False)
    return out


def learn(machine: Machine, m: int = 4) -> GemmAutotuner:
    fastest = machine.new()
    with fastest.learning():
        multiply(fastest, m)
    return fastest


def used(machine: Machine, fastest: GemmAutotuner, m: int = 4) -> str:
    machine.ran.clear()
    assert multiply(fastest, m).tolist() == [[4.0, 4.0]] * m
    (name,) = machine.ran
    return name


def test_the_fastest_is_used_after_learning(machine: Machine) -> None:
    assert used(machine, learn(machine)) == "a"


def test_products_in_fp8_are_learnt_apart_with_their_units(machine: Machine) -> None:
    fastest = learn(machine)
    a, b = (torch.ones(4, 8).to(torch.float8_e4m3fn), torch.ones(8, 2).to(torch.float8_e4m3fn))
    out, units = torch.empty(4, 2, dtype=torch.bfloat16), Units(torch.tensor(0.5), torch.tensor(3.0), True)
    machine.seconds["b"] = 1e-9
    with fastest.learning():
        fastest(a, b, out, False, units)
    assert out.tolist() == [[12.0, 12.0]] * 4
    assert machine.ran[-1] == "b"
    assert used(machine, fastest) == "a"


def test_torch_keeps_what_no_other_does_clearly_faster(machine: Machine) -> None:
    machine.seconds = {"torch": 4e-4, "a": 3.98e-4, "b": 5e-4}
    assert used(machine, learn(machine)) == "torch"


def test_a_form_that_was_not_learnt_is_torchs(machine: Machine) -> None:
    fastest = learn(machine)
    assert used(machine, fastest, m=6) == "torch"
    assert used(machine, machine.new()) == "torch"


def test_a_proposal_that_does_not_run_is_passed_over(machine: Machine) -> None:
    machine.broken = {"a"}
    assert used(machine, learn(machine)) == "b"


def test_a_form_without_proposals_is_torchs(machine: Machine) -> None:
    machine.broken = {"all"}
    assert used(machine, learn(machine)) == "torch"


def test_what_others_remember_meanwhile_is_kept(machine: Machine, tmp_path: Path) -> None:
    fastest = machine.new()
    with fastest.learning():
        multiply(fastest)
        learn(machine, m=6)
    assert len(json.loads((tmp_path / "nanodyno" / "products.json").read_text())) == 2


def test_memory_that_runs_out_is_not_taken_for_a_verdict(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(machine, "run", out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        learn(machine)


def test_a_later_run_remembers(machine: Machine) -> None:
    learn(machine)
    learn(machine, m=6)
    measured = machine.measured
    machine.seconds["b"] = 1e-9
    assert used(machine, learn(machine)) == "a"
    assert used(machine, learn(machine, m=6), m=6) == "a"
    assert machine.measured == measured


def test_what_is_remembered_and_does_not_run_is_measured_again(machine: Machine) -> None:
    learn(machine)
    machine.broken = {"a"}
    assert used(machine, learn(machine)) == "b"
    measured = machine.measured
    assert used(machine, learn(machine)) == "b"
    assert machine.measured == measured


def test_another_version_of_the_library_is_measured_again(machine: Machine) -> None:
    learn(machine)
    machine.version, machine.seconds["b"] = 2, 1e-9
    assert used(machine, learn(machine)) == "b"


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"key": 3}', '{"key": ["aa", 1, 2]}', '{"key": ["ax", 1, 0.5, 0.5]}', "\x00"]
)
def test_a_damaged_memory_is_measured_again(machine: Machine, tmp_path: Path, damage: str) -> None:
    learn(machine)
    path = tmp_path / "nanodyno" / "products.json"
    path.write_text(damage)
    machine.seconds["b"] = 1e-9
    assert used(machine, learn(machine)) == "b"
    assert len(json.loads(path.read_text())) == 1


def test_a_run_without_the_library_goes_on_with_torchs_choice_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "99.1")
    found, (note,) = gemm_autotuner("auto", torch.device("cuda"))
    assert found is None
    assert note.startswith("matrix products are torch's own choice, somewhat slower: ")
    assert "cublasLt" in note


def test_nothing_is_looked_for_on_a_cpu_or_where_torchs_choice_is_wanted() -> None:
    assert gemm_autotuner("auto", CPU) == gemm_autotuner("torch", torch.device("cuda")) == (None, ())
