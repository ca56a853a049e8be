"""The fastest algorithm of cuBLASLt for each matrix product of a run: measured once, remembered."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import hexdigits
from typing import Any, Literal

import torch
from torch import Tensor

from nanodyno.model.cublaslt import Algorithm, CublasError, CublasLt, GemmProblem, form_of
from nanodyno.model.matmul import Units, by_torch
from nanodyno.records.remembered import cache_file, recall, remember
from nanodyno.train.device import gpu_key
from nanodyno.train.engine import last_words
from nanodyno.train.graph import captured, replay_seconds

CALLS, ROUNDS = 4, 5
WORTH = 0.99
"""Of torch's own time, that another algorithm must stay below."""


@dataclass(frozen=True)
class FastestGemm:
    algorithm: Algorithm | None
    """None is torch's own choice."""
    seconds: float
    torch_seconds: float


@dataclass(frozen=True)
class _Given:
    a: Tensor
    b: Tensor
    out: Tensor
    add: bool
    units: Units | None


class GemmAutotuner:
    """A Multiply. Forms that it has not learnt are left to torch."""

    def __init__(self, device: torch.device, cache: Path | None = None) -> None:
        self._device = device
        self._lt = CublasLt()
        self._path = cache or cache_file("products.json")
        self._stream: torch.cuda.Stream | None = None
        self._fastest: dict[GemmProblem, FastestGemm] = {}
        self._known: dict[str, Any] | None = None
        """What is remembered, while learning."""

    def __call__(self, a: Tensor, b: Tensor, out: Tensor, add: bool, units: Units | None = None) -> None:
        given = _Given(a, b, out, add, units)
        form = form_of(a, b, out, add, units)
        if self._known is not None and form is not None and form not in self._fastest:
            self._fastest[form] = self._learnt(self._known, form, given)
        fastest = self._fastest.get(form) if form is not None else None
        if form is None or fastest is None or fastest.algorithm is None:
            by_torch(a, b, out, add, units)
        else:
            self._run(form, fastest.algorithm, given)

    @property
    def has_learnt(self) -> bool:
        return bool(self._fastest)

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Measures the forms that it meets, on what it is given: sums in `out` are spoilt meanwhile."""
        known = self._known = recall(self._path, _is_fastest)
        before = dict(known)
        self._stream = torch.cuda.Stream(self._device)
        try:
            yield
        finally:
            self._known = None
            new = {key: entry for key, entry in known.items() if before.get(key) != entry}
            if new:
                remember(self._path, recall(self._path, _is_fastest) | new)

    def _learnt(self, known: dict[str, Any], form: GemmProblem, given: "_Given") -> FastestGemm:
        key = gpu_key(self._device, self._lt.version, form)
        if key in known:
            code, workspace, seconds, torch_seconds = known[key]
            algorithm = Algorithm(bytes.fromhex(code), workspace) if code else None
            if algorithm is None or self._runs(form, algorithm, given):
                return FastestGemm(algorithm, seconds, torch_seconds)
        fastest = self._measured(form, given)
        chosen = fastest.algorithm
        code, workspace = (chosen.code.hex(), chosen.workspace_bytes) if chosen else ("", 0)
        known[key] = [code, workspace, fastest.seconds, fastest.torch_seconds]
        return fastest

    def _measured(self, form: GemmProblem, given: "_Given") -> FastestGemm:
        algorithms: list[Algorithm | None] = [None]
        by_torch(given.a, given.b, given.out, given.add, given.units)
        graphs = [self._graph(lambda: by_torch(given.a, given.b, given.out, given.add, given.units))]
        for algorithm in self._proposals(form, given):
            if self._runs(form, algorithm, given):
                algorithms.append(algorithm)
                graphs.append(self._graph(lambda chosen=algorithm: self._run(form, chosen, given)))
        rounds = [[replay_seconds(graph) for graph in graphs] for _ in range(ROUNDS + 1)][1:]
        seconds = [statistics.median(each) / CALLS for each in zip(*rounds, strict=True)]
        best = min(range(len(seconds)), key=seconds.__getitem__)
        best = best if seconds[best] < WORTH * seconds[0] else 0
        return FastestGemm(algorithms[best], seconds[best], seconds[0])

    def _proposals(self, form: GemmProblem, given: "_Given") -> list[Algorithm]:
        try:
            return self._lt.proposals(form, given.units)
        except CublasError:  # it has none for this form
            return []

    def _run(self, form: GemmProblem, algorithm: Algorithm, given: "_Given") -> None:
        self._lt.run(form, algorithm, given.a, given.b, given.out, given.units)

    def _runs(self, form: GemmProblem, algorithm: Algorithm, given: "_Given") -> bool:
        """What was proposed or remembered may yet not be had."""
        try:
            self._run(form, algorithm, given)
        except (CublasError, ValueError):
            return False
        return True

    def _graph(self, run: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Of several calls: on a small product the host would be timed otherwise."""
        torch.cuda.synchronize(self._device)

        def several() -> None:
            for _ in range(CALLS):
                run()

        return captured(several, self._device, self._stream)


def gemm_autotuner(
    wanted: Literal["auto", "torch"], device: torch.device
) -> tuple[GemmAutotuner | None, tuple[str, ...]]:
    """And, where there are none though there might be, why."""
    if wanted == "torch" or device.type != "cuda":
        return None, ()
    try:
        return GemmAutotuner(device), ()
    except (OSError, RuntimeError) as error:
        return None, (f"matrix products are torch's own choice, somewhat slower: {last_words(error)}",)


def _is_fastest(entry: object) -> bool:
    match entry:
        case [str(code), int(), float(), float()]:
            return len(code) % 2 == 0 and set(code) <= set(hexdigits)
    return False
