"""The update of a model that lies in one stretch of memory, where one launch of AdamW does not do."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from nanodyno.config import RunConfig
from nanodyno.model.flat import Flat
from nanodyno.model.flat_adamw import FlatAdamW
from nanodyno.model.kernels import plain
from nanodyno.model.muon import CLIP, Alike, Muon
from nanodyno.model.optimizer import Optimizer, is_for_muon, make_muon, of_embeddings, only_looked_up


def make_flat_optimizer(
    model: nn.Module, flat: Flat, config: RunConfig, kernels: ModuleType = plain
) -> "FlatAdamW | FlatUpdate":
    """`model` lies in `flat`."""
    how = (config.moments_dtype == "bfloat16", config.offload_moments, kernels)
    if config.optimizer == "adamw" and config.embedding_lr is None:
        return FlatAdamW(flat, config, *how)
    named = list(model.named_parameters())
    of_muon = {each for name, each in named if config.optimizer == "muon" and is_for_muon(name, each)}
    by_muon = [each for each in flat.places if each in of_muon]
    apart = only_looked_up(dict(named)) if config.embedding_lr is not None else ()
    embeddings = [each for name, each in named if name in apart]
    others = [each for each in flat.places if each not in {*of_muon, *embeddings}]
    parts = [FlatAdamW(flat.stretch(each), config, *how) for each in _runs(flat, embeddings, others)]
    if embeddings:  # they lie together, so that the first part is all of them
        for group in parts[0].param_groups:
            group |= of_embeddings(config)
    return FlatUpdate(parts, make_muon(model, config) if by_muon else None, flat, by_muon)


def _runs(flat: Flat, *kinds: Sequence[Tensor]) -> list[list[Tensor]]:
    """Of each kind, those that lie side by side."""
    number = {parameter: place for place, parameter in enumerate(flat.places)}
    runs: list[list[Tensor]] = []
    for kind in kinds:
        last = None
        for parameter in sorted(kind, key=number.__getitem__):
            if last is None or number[parameter] != last + 1:
                runs.append([])
            runs[-1].append(parameter)
            last = number[parameter]
    return runs


def takes_over_moments(optimizer: Optimizer, parameter: Tensor) -> bool:
    """Whether it copies a parameter's moments to where it wants them, wherever they lie."""
    if isinstance(optimizer, FlatUpdate):
        return optimizer.muon is None or not optimizer.muon.takes(parameter)
    return isinstance(optimizer, FlatAdamW)


class FlatUpdate:
    """Several stretches, each with a learning rate of its own for AdamW; the matrices of the blocks may be
    Muon's. It has the one state of all of them, laid out as torch's optimisers have it."""

    def __init__(
        self, parts: Sequence[FlatAdamW], muon: Muon | None, flat: Flat, by_muon: Sequence[Tensor]
    ) -> None:
        self.muon = muon
        self._parts = parts
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = [group for part in parts for group in part.param_groups]
        for part in parts:
            part.state = self.state
        if muon is not None:
            self.param_groups += muon.param_groups
            muon.state = self.state
            self._by_muon = flat.stretch(by_muon)
            self._momenta: dict[Tensor, Tensor] = {}
            self._alike: list[Alike] = []
            self._rates = torch.zeros(0)
            self._replay: Callable[[], None] | None = None

    def use(self, kernels: ModuleType) -> None:
        for part in self._parts:
            part.use(kernels)

    def warm_up(self) -> None:
        """Of AdamW; Muon compiles, which may fail, and is warmed up by itself."""
        for part in self._parts:
            part.warm_up()

    def adopt(self) -> None:
        for part in self._parts:
            part.adopt()
        self._adopt_momenta()

    @torch.no_grad()
    def step(self, *, clip: Tensor | None = None) -> None:
        """As FlatAdamW's. Nothing waits for the device, which has AdamW to do while Muon is launched."""
        for part in self._parts:
            part.step(clip=clip)
        if self.muon is None:
            return
        self._adopt_momenta()
        self._rates.copy_(self.muon.rates(self._alike), non_blocking=True)
        if clip is not None:
            self._rates[:, CLIP] = clip
        if self._replay is None:
            self._step_of_muon()
        else:
            self._replay()

    def capture(self, captured: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """From now on Muon's step is what `captured` makes of it: a graph's replay, once it has been made."""
        self.adopt()
        self._replay = captured(self._step_of_muon)

    def let_go(self) -> None:
        """Of the graph."""
        self._replay = None

    @torch.no_grad()
    def _step_of_muon(self) -> None:
        """With the rates and the clipping that lie ready."""
        assert self.muon is not None
        self.muon.take(self._alike, self._rates)
        self._by_muon.gradients.zero_()

    def _adopt_momenta(self) -> None:
        if self.muon is None:
            return
        if not self._momenta:
            whole, flat = torch.zeros_like(self._by_muon.parameters), self._by_muon
            self._momenta = {each: flat.view(whole, each) for each in flat.places}
        self.muon.adopt(self._momenta)
        if not self._alike:
            self._alike = self.muon.alike()
            self._rates = self.muon.rates(self._alike, still=True)
