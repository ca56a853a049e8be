"""AdamW over a model that lies in one stretch of memory: one launch updates all of it.

It does what torch.optim.AdamW with fused=True does and keeps its state as that one does, so that a checkpoint
of either loads into the other. Clipping is a factor in the same pass, and gradients leave it as zeros.
"""

from collections import defaultdict
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from nanodyno.config import RunConfig
from nanodyno.errors import NanodynoError
from nanodyno.model.flat import ALIGNED, Flat
from nanodyno.model.kernels import plain
from nanodyno.model.optimizer import EPS, groups

MOMENTS = ("exp_avg", "exp_avg_sq")


class FlatAdamW:
    """No torch.optim.Optimizer, whose making imports torch's compiler: that takes as long as torch itself.

    `state` is empty until the first step; then its moments are views of two stretches laid out as `flat`.

    `bf16_moments` (class *different*) halves the stretches; they are then rounded by chance, see
    plain.rounded. `offload` keeps them in the host's memory, which the kernel of a GPU reads and writes
    itself: slow, but the card then holds nothing of them.
    """

    def __init__(
        self,
        flat: Flat,
        config: RunConfig,
        bf16_moments: bool = False,
        offload: bool = False,
        kernels: ModuleType = plain,
    ) -> None:
        common = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2), "eps": EPS}
        self.param_groups: list[dict[str, Any]] = [common | group for group in groups(flat.places, config)]
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self.flat = flat
        self._adamw_ = kernels.adamw_
        self._moments_dtype = torch.bfloat16 if bf16_moments else flat.parameters.dtype
        self._offload = offload and flat.parameters.is_cuda
        self._unclipped = torch.ones((), device=flat.parameters.device)
        self._moments: tuple[Tensor, Tensor] | None = None
        self._cautious = config.cautious_decay
        self._step = torch.zeros(())  # on the host, which needs to know it without waiting for the device
        self._entries: dict[Tensor, dict[str, Tensor]] = {}

    def use(self, kernels: ModuleType) -> None:
        """From the next step on."""
        self._adamw_ = kernels.adamw_

    @torch.no_grad()
    def warm_up(self) -> None:
        """Compiles the kernel by a step of a few numbers that belong to nothing."""
        few = torch.zeros(ALIGNED, dtype=self.flat.parameters.dtype, device=self.flat.parameters.device)
        first, second = (moment[:ALIGNED].clone() for moment in self.adopt())
        if self._offload:
            first, second = first.pin_memory(), second.pin_memory()
        update = plain.Update(1, 0.0, 0.9, 0.95, EPS, 0.0, self._cautious)
        self._adamw_(few, few.clone(), first, second, self._unclipped, ALIGNED, update, False)

    @torch.no_grad()
    def step(self, *, clip: Tensor | None = None, keep_gradients: bool = False) -> None:
        """`clip`, a number on the device, is multiplied into every gradient; see clip_coefficient."""
        moments = self.adopt()
        self._step += 1
        self._adamw_(
            self.flat.parameters,
            self.flat.gradients,
            *moments,
            self._unclipped if clip is None else clip,
            self.flat.decayed,
            self._update(),
            keep_gradients,
        )
        if self._offload:  # who reads memory of the host does not wait for the device
            torch.cuda.current_stream(self.flat.parameters.device).synchronize()

    @torch.no_grad()
    def adopt(self) -> tuple[Tensor, Tensor]:
        """Copies what was put into `state` from outside, as by a checkpoint, to where the kernel works."""
        if self._moments is None:
            self._moments = (self._stretch(), self._stretch())
            self._entries = {each: self._entry(each, self._moments) for each in self.flat.places}
        if not all(self._is_own(parameter) for parameter in self.flat.places):
            self._step.fill_(self._common_step())
            for parameter, own in self._entries.items():
                foreign = self.state.get(parameter) or dict.fromkeys(MOMENTS, self._step.new_zeros(()))
                for key in MOMENTS:
                    own[key].copy_(foreign[key])
                self.state[parameter] = own
        return self._moments

    def _stretch(self) -> Tensor:
        parameters = self.flat.parameters
        device = torch.device("cpu") if self._offload else parameters.device
        return torch.zeros(
            parameters.shape, dtype=self._moments_dtype, device=device, pin_memory=self._offload
        )

    def _entry(self, parameter: Tensor, moments: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        views = (self.flat.view(moment, parameter) for moment in moments)
        return {"step": self._step} | dict(zip(MOMENTS, views, strict=True))

    def _is_own(self, parameter: Tensor) -> bool:
        there = self.state.get(parameter, {})
        return all(there.get(key) is tensor for key, tensor in self._entries[parameter].items())

    def _common_step(self) -> float:
        """Of all parameters: one launch corrects all of them for the same count."""
        counts = {float(self.state.get(p, {}).get("step", 0.0)) for p in self.flat.places}
        if len(counts) > 1:
            raise NanodynoError(
                f"the optimizer state has parameters of {min(counts):g} and of {max(counts):g} updates",
                "load a checkpoint of this optimizer whose parameters were all trained together",
            )
        return counts.pop()

    def _update(self) -> plain.Update:
        matrices, vectors = self.param_groups
        assert matrices["lr"] == vectors["lr"], "one launch has one learning rate"
        beta1, beta2 = matrices["betas"]
        return plain.Update(
            step=int(self._step),
            learning_rate=matrices["lr"],
            beta1=beta1,
            beta2=beta2,
            eps=matrices["eps"],
            weight_decay=matrices["weight_decay"],
            cautious=self._cautious,
        )


def gradient_norm(flat: Flat) -> Tensor:
    """Of all gradients together. Row by row first: on the CPU a norm of many millions is off by a percent."""
    return torch.linalg.vector_norm(flat.gradients.view(-1, ALIGNED), dim=1).square().sum().sqrt()


def clip_coefficient(norm: Tensor, grad_clip: float) -> Tensor:
    """What gradients are multiplied with to have at most this norm, as in torch's clip_grad_norm_; 0: one."""
    if grad_clip == 0:
        return torch.ones_like(norm)
    return (grad_clip / (norm + 1e-6)).clamp(max=1.0)
