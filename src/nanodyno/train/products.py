"""The fastest algorithm of cuBLASLt for each matrix product of a run: measured once, remembered."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanodyno.model.cublaslt import Algorithm, CublasLt, Form, form_of
from nanodyno.model.products import by_torch
from nanodyno.records.remembered import cache_file, recall, remember
from nanodyno.train.device import card_key, is_out_of_memory
from nanodyno.train.graph import captured, replay_seconds

CALLS, ROUNDS = 4, 5
WORTH = 0.99
"""Of torch's own time, that another algorithm must stay below."""


@dataclass(frozen=True)
class Fastest:
    algorithm: Algorithm | None
    """None is torch's own choice."""
    seconds: float
    torch_seconds: float


class FastestProducts:
    """A Multiply. Forms that it has not learnt are left to torch."""

    def __init__(self, device: torch.device, cache: Path | None = None) -> None:
        self._device = device
        self._lt = CublasLt()
        self._path = cache or cache_file("products.json")
        self._fastest: dict[Form, Fastest] = {}
        self._known: dict[str, Any] | None = None
        """What is remembered, while learning."""

    def __call__(self, a: Tensor, b: Tensor, out: Tensor, add: bool) -> None:
        form = form_of(a, b, out, add)
        if self._known is not None and form is not None and form not in self._fastest:
            self._fastest[form] = self._learnt(self._known, form, a, b, out)
        fastest = self._fastest.get(form) if form is not None else None
        if form is None or fastest is None or fastest.algorithm is None:
            by_torch(a, b, out, add)
        else:
            self._lt.run(form, fastest.algorithm, a, b, out)

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Measures the forms that it meets, on what it is given: sums in `out` are spoilt meanwhile."""
        known = self._known = recall(self._path, _is_fastest)
        before = len(known)
        try:
            yield
        finally:
            self._known = None
            if len(known) > before:
                remember(self._path, known)

    def _learnt(self, known: dict[str, Any], form: Form, a: Tensor, b: Tensor, out: Tensor) -> Fastest:
        key = card_key(self._device, self._lt.version, form)
        if key in known:
            code, workspace, seconds, torch_seconds = known[key]
            algorithm = Algorithm(bytes.fromhex(code), workspace) if code else None
            return Fastest(algorithm, seconds, torch_seconds)
        fastest = self._measured(form, a, b, out)
        chosen = fastest.algorithm
        code, workspace = (chosen.code.hex(), chosen.workspace_bytes) if chosen else ("", 0)
        known[key] = [code, workspace, fastest.seconds, fastest.torch_seconds]
        return fastest

    def _measured(self, form: Form, a: Tensor, b: Tensor, out: Tensor) -> Fastest:
        algorithms: list[Algorithm | None] = [None]
        graphs = [self._graph(lambda: by_torch(a, b, out, form.add))]
        for algorithm in self._lt.proposals(form):
            try:
                graphs.append(self._graph(lambda chosen=algorithm: self._lt.run(form, chosen, a, b, out)))
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                continue  # proposed, but not to be had
            algorithms.append(algorithm)
        rounds = [[replay_seconds(graph) for graph in graphs] for _ in range(ROUNDS + 1)][1:]
        seconds = [statistics.median(each) / CALLS for each in zip(*rounds, strict=True)]
        best = min(range(len(seconds)), key=seconds.__getitem__)
        best = best if seconds[best] < WORTH * seconds[0] else 0
        return Fastest(algorithms[best], seconds[best], seconds[0])

    def _graph(self, run: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Of several calls: on a small product the host would be timed otherwise."""
        run()
        torch.cuda.synchronize(self._device)

        def several() -> None:
            for _ in range(CALLS):
                run()

        return captured(several, self._device)


def _is_fastest(entry: object) -> bool:
    match entry:
        case [str(), int(), float(), float()]:
            return True
    return False
