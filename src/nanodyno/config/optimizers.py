# pyright: strict
"""Every optimizer: the parameters it takes, the settings it has for itself, and what its step costs.

A new one is an entry and its settings here, and the file that its `implementation` names. AdamW updates the
parameters that the chosen optimizer does not take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator

from nanodyno.config.attributes import setting
from nanodyno.config.kinds import Accepts, BelowOne, MaybePositive, one_of
from nanodyno.config.shape import Declared, ModelShape


@dataclass(frozen=True)
class StepCost:
    """What one step costs on the parameters that an optimizer takes."""

    matmul_flops: int = 0
    matmul_bytes: int = 0
    moved_bytes: int = 0
    kernels: int = 0
    temporary_bytes: int = 0
    """Allocated during the step and free after it."""


def _no_cost(_shape: ModelShape, _fused: bool) -> StepCost:
    return StepCost()


@dataclass(frozen=True)
class OptimizerEntry:
    """What is known of an optimizer without torch."""

    label: str
    """Its name in reports."""
    implementation: str = ""
    """`module:class` of a model.batched.BatchedOptimizer, imported when a run begins. AdamW has none."""
    takes: Literal["block_matrices", "total"] | None = None
    """The parameters that it takes from AdamW, as costs.parameters.ParameterCount counts them."""
    peak: str | None = None
    """The setting that is its peak learning rate, if it has one, which follows learning_rate's schedule."""
    state_bytes: int = 0
    """Of each parameter that it takes."""
    step_cost: Callable[[ModelShape, bool], StepCost] = _no_cost
    """Of a model's shape, by the fused engine or by autograd's."""
    measured: bool = False
    """Whether predictions with it were compared with trainings on the GPU that calibration.json is of."""
    compiles: bool = False
    """Whether torch.compile makes its step on a GPU: worth it for up to eight shapes of tensors."""

    def peak_of(self, config: "OptimizerSettings") -> float | None:
        """Return the peak learning rate that a run sets for it, or None where learning_rate is its peak."""
        return None if self.peak is None else getattr(config, self.peak)


def _muon_cost(shape: ModelShape, fused: bool) -> StepCost:
    """The matrices of the blocks, those of a shape together, with q, k and v apart.

    Bytes of a matrix's number: momentum and update 14, divided by its norm 6, the step 10. The fused engine
    sets gradients to zero apart (4); by autograd they are clipped apart (8), and three tensors are stacked
    and two of them put back (40). A step of Newton-Schulz makes a square of the short side (`grams`), one of
    that, and their matmul with the matrix; to the latter two it adds what was there, which is copied first.
    Launches are those of inductor's code: five kernels, 15 matmuls and ten copies for each of four shapes.

    The most memory goes to the MLP's matrices. Newton-Schulz has them in half precision before, after and
    squared; by autograd weights, gradients and momentum are stacked in fp32 too, and two of them made anew.
    """
    C, W, layers, steps = shape.n_embd, shape.kv_width, shape.n_layer, 5
    sides = [(C, C), (C, C), (W, C), (W, C), (C, 4 * C), (C, 4 * C)]
    flops = sum(4 * short**2 * long + 2 * short**3 for short, long in sides)
    numbers = sum(short * long for short, long in sides)
    grams = sum(short**2 for short, _ in sides)
    apart = 4 if fused else 48
    return StepCost(
        matmul_flops=layers * steps * flops,
        matmul_bytes=layers * steps * (10 * numbers + 12 * grams),
        moved_bytes=layers * (numbers * (30 + apart) + steps * 4 * (numbers + grams)),
        kernels=120,
        temporary_bytes=layers * 4 * C**2 * (3 * 2 if fused else 3 * 2 + 5 * 4),
    )


OPTIMIZERS: dict[str, OptimizerEntry] = {
    "adamw": OptimizerEntry("AdamW", measured=True),
    "muon": OptimizerEntry(
        "Muon",
        implementation="nanodyno.model.muon:Muon",
        takes="block_matrices",
        peak="muon_lr",
        state_bytes=4,
        step_cost=_muon_cost,
        measured=True,
        compiles=True,
    ),
}


def _registered(name: str) -> str:
    if name not in OPTIMIZERS:
        raise ValueError(name)
    return name


OptimizerName = Annotated[str, AfterValidator(_registered), Accepts(one_of(OPTIMIZERS))]


COMPILED = "|".join(
    ["kernels=autograd", *(f"optimizer={name}" for name, each in OPTIMIZERS.items() if each.compiles)]
)
"""Where torch.compile has something to do."""


class OptimizerSettings(Declared, frozen=True):
    """The choice of an optimizer, and the settings of each: RunConfig inherits them."""

    optimizer: OptimizerName = setting(
        f"muon: Muon for the blocks' matrices, AdamW for the rest ({' | '.join(OPTIMIZERS)})", "adamw",
        group="optimizer", affects="speed memory loss", on_resume="fixed",
    )  # fmt: skip
    muon_lr: MaybePositive = setting(
        "peak learning rate of Muon's matrices; the RMS of an update is 0.2 times it, about as with "
        "AdamW (default: learning_rate)", None, group="optimizer", affects="loss",
        none_means="learning_rate", requires="optimizer=muon", part_of="optimizer",
    )  # fmt: skip
    muon_momentum: BelowOne = setting(
        "Muon's Nesterov momentum", 0.95, group="optimizer", affects="loss", requires="optimizer=muon",
        part_of="optimizer",
    )  # fmt: skip
