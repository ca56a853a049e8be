"""The update of a model that lies in one stretch of memory, where one launch of AdamW does not do."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from nanodyno.config import RunConfig
from nanodyno.model.batched import Alike, BatchedOptimizer, make_own, taken
from nanodyno.model.flat import Flat
from nanodyno.model.flat_adamw import FlatAdamW
from nanodyno.model.kernels import plain
from nanodyno.model.optimizer import Optimizer, of_embeddings, only_looked_up


def make_flat_optimizer(
    model: nn.Module, flat: Flat, config: RunConfig, kernels: ModuleType = plain
) -> "FlatAdamW | FlatUpdate":
    """`model` lies in `flat`."""
    how = (config.moments_dtype == "bfloat16", config.offload_moments, kernels)
    own = set(taken(model, config).values())
    if not own and config.embedding_lr is None:
        return FlatAdamW(flat, config, *how)
    named = dict(model.named_parameters())
    apart = only_looked_up(named) if config.embedding_lr is not None else ()
    embeddings = [each for name, each in named.items() if name in apart and each not in own]
    others = [each for each in flat.places if each not in {*own, *embeddings}]
    parts = [FlatAdamW(flat.stretch(each), config, *how) for each in _runs(flat, embeddings, others)]
    if embeddings:  # they lie together, so that the first part is all of them
        for group in parts[0].param_groups:
            group |= of_embeddings(config)
    in_order = [each for each in flat.places if each in own]
    return FlatUpdate(parts, make_own(model, config) if own else None, flat, in_order)


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
        return optimizer.own is None or not optimizer.own.takes(parameter)
    return isinstance(optimizer, FlatAdamW)


class FlatUpdate:
    """Several stretches, each with a learning rate of its own for AdamW, and one that another optimizer may
    have taken from it. It has the one state of all of them, laid out as torch's optimizers have it."""

    def __init__(
        self, parts: Sequence[FlatAdamW], own: BatchedOptimizer | None, flat: Flat, by_own: Sequence[Tensor]
    ) -> None:
        self.own = own
        self._parts = parts
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = [group for part in parts for group in part.param_groups]
        for part in parts:
            part.state = self.state
        if own is not None:
            self.param_groups += own.param_groups
            own.state = self.state
            self._by_own = flat.stretch(by_own)
            self._places: dict[Tensor, dict[str, Tensor]] = {}
            self._alike: list[Alike] = []
            self._rates = torch.zeros(0)
            self._replay: Callable[[], None] | None = None

    def use(self, kernels: ModuleType) -> None:
        for part in self._parts:
            part.use(kernels)

    def warm_up(self) -> None:
        """Of AdamW; the other optimizer may compile, which may fail, and is warmed up by itself."""
        for part in self._parts:
            part.warm_up()

    def adopt(self) -> None:
        for part in self._parts:
            part.adopt()
        self._adopt_own()

    @torch.no_grad()
    def step(self, *, clip: Tensor | None = None) -> None:
        """As FlatAdamW's. Nothing waits for the device, which has AdamW to do while the other is launched."""
        for part in self._parts:
            part.step(clip=clip)
        if self.own is None:
            return
        self._adopt_own()
        self._rates.copy_(self.own.rates(self._alike), non_blocking=True)
        if clip is not None:
            self._rates[:, -1] = clip
        if self._replay is None:
            self._step_of_own()
        else:
            self._replay()

    def capture(self, captured: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """From now on the other's step is what `captured` makes of it: the replay of a CUDA graph."""
        self.adopt()
        self._replay = captured(self._step_of_own)

    def let_go(self) -> None:
        """Of the graph."""
        self._replay = None

    @torch.no_grad()
    def _step_of_own(self) -> None:
        """With the rates and the clipping that lie ready."""
        assert self.own is not None
        self.own.take(self._alike, self._rates)
        self._by_own.gradients.zero_()

    def _adopt_own(self) -> None:
        if self.own is None:
            return
        if not self._places:
            flat = self._by_own
            wholes = {name: torch.zeros_like(flat.parameters) for name in self.own.states}
            self._places = {
                each: {name: flat.view(whole, each) for name, whole in wholes.items()} for each in flat.places
            }
        self.own.adopt(self._places)
        if not self._alike:
            self._alike = self.own.alike()
            self._rates = self.own.rates(self._alike, still=True)
