"""What the two ways of a micro-step have in common in memory: a peak by component, and the largest of some."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Peak:
    """Bytes of tensors at one moment, by what they are for."""

    weights: int = 0
    grads: int = 0
    optimiser: int = 0
    casts: int = 0
    activations: int = 0
    logits_and_loss: int = 0
    largest_temporary: int = 0

    @property
    def total(self) -> int:
        return (
            self.weights
            + self.grads
            + self.optimiser
            + self.casts
            + self.activations
            + self.logits_and_loss
            + self.largest_temporary
        )


def highest(moments: Iterable[Peak]) -> Peak:
    return max(moments, key=lambda moment: moment.total)


def with_moment(held: Peak, **bytes_of: int) -> Peak:
    """What is held all the time, and what one moment adds."""
    return replace(held, **bytes_of)
