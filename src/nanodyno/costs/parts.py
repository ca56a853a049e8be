"""A peak of memory by component, for either way of a micro-step."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """Bytes of tensors at one moment, by what they are for."""

    weights: int = 0
    grads: int = 0
    optimizer: int = 0
    casts: int = 0
    activations: int = 0
    logits_and_loss: int = 0
    largest_temporary: int = 0

    @property
    def total(self) -> int:
        return (
            self.weights
            + self.grads
            + self.optimizer
            + self.casts
            + self.activations
            + self.logits_and_loss
            + self.largest_temporary
        )


def highest(moments: Iterable[Peak]) -> Peak:
    return max(moments, key=lambda moment: moment.total)
