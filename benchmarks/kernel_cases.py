"""What benchmarks/kernels.py measures: each of our kernels.

kernel_modern.py has those of what came after GPT-2, kernel_products.py the rest of a step.

Bytes are those that must move: every input read once and every output written once, whatever a kernel keeps
for itself. FLOPs are those of matrix products. Shapes: N positions, T of a sequence, C width, V vocabulary.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from nanodyno.config import ModelShape
from nanodyno.costs.parameters import parameters
from nanodyno.model.gpt import NORM_EPS
from nanodyno.model.kernels import plain

Inputs = tuple[Any, ...]
Run = Callable[..., tuple[Tensor, ...]]

HEAD_SIZE = 64
LAYERS = 12
CHECKED_ROWS = 1024
"""Of what would be too large in float64."""
UPDATE = plain.Update(step=10, learning_rate=6e-4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1)


def _all(inputs: Inputs) -> Inputs:
    return inputs


@dataclass(frozen=True)
class Case:
    """`run` does it on what `make` makes and returns all it wrote; `twin` is the same for float64."""

    name: str
    moved: int
    flops: int
    make: Callable[[], Inputs]
    run: Run
    twin: Run
    checked: Callable[[Inputs], Inputs] = _all
    """The part of the inputs that the error is taken on."""


@dataclass(frozen=True)
class Size:
    width: int
    positions: int
    block: int
    vocabulary: int
    half: torch.dtype
    device: torch.device
    kernels: ModuleType

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        return (torch.randn(*shape, device=self.device) * scale).to(dtype)

    def halves(self, *shape: int, scale: float = 1.0) -> Tensor:
        return self.normal(*shape, dtype=self.half, scale=scale)

    def ids(self, *shape: int) -> Tensor:
        return torch.randint(self.vocabulary, shape, device=self.device)

    @property
    def half_bytes(self) -> int:
        return self.half.itemsize


def kernel_cases(size: Size) -> Iterator[Case]:
    yield from norm_cases(size)
    yield from gelu_cases(size)
    yield loss_case(size)
    yield from embedding_cases(size)
    yield from adamw_cases(size)


def error(case: Case) -> float:
    """The largest relative error of any output, by the norm, against the twin on the same inputs."""
    inputs = case.checked(case.make())
    doubled = [each.double() if _is_real(each) else each for each in inputs]
    pairs = zip(case.run(*inputs), case.twin(*doubled), strict=True)
    return max(_relative(_summed(got), _summed(wanted)) for got, wanted in pairs)


def _is_real(each: object) -> bool:
    return isinstance(each, Tensor) and each.is_floating_point()


def _summed(out: Tensor) -> Tensor:
    """Partial sums, the only outputs of three dimensions, are one sum in as many parts as a kernel likes."""
    return out.sum(0).double() if out.ndim == 3 else out.double()


def _relative(got: Tensor, wanted: Tensor) -> float:
    return ((got - wanted).norm() / wanted.norm()).item()


def norm_cases(at: Size, centred: bool = True) -> Iterator[Case]:
    N, C, h, k = at.positions, at.width, at.half_bytes, at.kernels
    statistics = N * (8 if centred else 4)
    kind = "" if centred else ", rms"

    def add(kernels: ModuleType, half: torch.dtype, x: Tensor, y: Tensor, weight: Tensor) -> Inputs:
        out = kernels.add_norm(x, y, weight, None, half, NORM_EPS, centred)
        return tuple(each for each in out if each is not None)

    yield Case(
        f"add_norm{kind}",
        N * C * (4 + h + 4 + h) + statistics + C * 4,
        0,
        lambda: (at.normal(N, C), at.halves(N, C), at.normal(C)),
        partial(add, k, at.half),
        partial(add, plain, torch.float64),
    )

    def make() -> Inputs:
        x, weight = at.normal(N, C), at.normal(C)
        mean, rstd = plain.add_norm(x, None, weight, None, at.half, NORM_EPS, centred)[2:]
        partials = torch.zeros(k.partial_rows(at.device, C, torch.float32), 1, C, device=at.device)
        return at.halves(N, C), x, mean, rstd, weight, at.normal(N, C), partials

    def back(kernels: ModuleType, again: bool, *given: Any) -> Inputs:
        dn, x, mean, rstd, weight, dx, partials = given
        flat = partials.flatten(1)
        out = kernels.norm_backward(dn, x, mean, rstd, weight, None, dx, flat, None, again)
        return *(each for each in out if each is not None), partials

    for again in (False, True):
        yield Case(
            f"norm_backward{kind}{', again' if again else ''}",
            N * C * (h + 4 + 4 + 4 + h + h * again) + statistics + C * 12,
            0,
            make,
            partial(back, k, again),
            partial(back, plain, again),
        )


def gelu_cases(at: Size) -> Iterator[Case]:
    shape = (at.positions, 4 * at.width)
    once = shape[0] * shape[1] * at.half_bytes

    def forward(kernels: ModuleType, u: Tensor) -> Inputs:
        return (kernels.gelu(u, "none"),)

    def backward(kernels: ModuleType, again: bool, u: Tensor, dg: Tensor) -> Inputs:
        kernels.gelu_backward_(u, dg, "none", again)
        return (dg, u) if again else (dg,)

    runs = partial(forward, at.kernels), partial(forward, plain)
    yield Case("gelu", 2 * once, 0, lambda: (at.halves(*shape),), *runs)
    for again in (False, True):
        yield Case(
            f"gelu_backward_{', again' if again else ''}",
            (3 + again) * once,
            0,
            lambda: (at.halves(*shape), at.halves(*shape)),
            partial(backward, at.kernels, again),
            partial(backward, plain, again),
        )


def loss_case(at: Size, cap: float | None = None) -> Case:
    N, V = at.positions, at.vocabulary

    def make() -> Inputs:
        scale = torch.full((), 1 / N, device=at.device)
        return at.halves(N, V), at.ids(N), scale, torch.empty(N, device=at.device)

    def run(kernels: ModuleType, logits: Tensor, targets: Tensor, scale: Tensor, losses: Tensor) -> Inputs:
        kernels.cross_entropy_(logits, targets, scale, losses, None, cap)
        return logits, losses

    def first_rows(inputs: Inputs) -> Inputs:
        logits, targets, scale, losses = inputs
        return logits[:CHECKED_ROWS], targets[:CHECKED_ROWS], scale, losses[:CHECKED_ROWS]

    moved = N * V * 2 * at.half_bytes + N * 12
    name = "cross_entropy_" if cap is None else "cross_entropy_, capped"
    return Case(name, moved, 0, make, partial(run, at.kernels), partial(run, plain), first_rows)


def embedding_cases(at: Size, placed: bool = True) -> Iterator[Case]:
    N, C, T, V = at.positions, at.width, at.block, at.vocabulary
    ids = at.ids(N // T, T)
    rows = ids.unique().numel()
    places = T if placed else 0
    kind = "" if placed else ", no positions"

    def positions() -> Tensor | None:
        return at.normal(T, C) if placed else None

    def embed(kernels: ModuleType, wide: torch.dtype, *given: Tensor) -> Inputs:
        return (kernels.embed(*given, wide),)

    yield Case(
        f"embed{kind}",
        (rows + places + N) * C * 4 + N * 8,
        0,
        lambda: (at.normal(V, C), positions(), ids),
        partial(embed, at.kernels, torch.float32),
        partial(embed, plain, torch.float64),
    )

    def back(kernels: ModuleType, dx: Tensor, inputs: Tensor, *gradients: Tensor) -> Inputs:
        kernels.embed_backward(dx, inputs, *gradients)
        return gradients[: 1 + placed]

    yield Case(
        f"embed_backward{kind}",
        (N + 2 * rows + 2 * places) * C * 4 + N * 8,
        0,
        lambda: (at.normal(N, C), ids, at.normal(V, C), positions()),
        partial(back, at.kernels),
        partial(back, plain),
    )


def adamw_cases(at: Size) -> Iterator[Case]:
    """Over all parameters of the model, whatever the number of positions."""
    heads = at.width // HEAD_SIZE
    shape = ModelShape(
        n_layer=LAYERS, n_head=heads, n_embd=at.width, block_size=at.block, vocab_size=at.vocabulary
    )
    total = parameters(shape).total

    def run(kernels: ModuleType, *given: Tensor) -> Inputs:
        p, g, m, v, clip = given
        kernels.adamw_(p, g, m, v, clip, total, UPDATE, False)
        return p, m, v

    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):

        def make(dtype: torch.dtype = dtype) -> Inputs:
            p, g = at.normal(total, scale=0.02), at.normal(total, scale=1e-3)
            m, v = at.normal(total, scale=1e-3), at.normal(total, scale=1e-3).square()
            return p, g, m.to(dtype), v.to(dtype), torch.full((), 0.5, device=at.device)

        yield Case(
            f"adamw_, {name} moments",
            total * (16 + 4 * dtype.itemsize),
            0,
            make,
            partial(run, at.kernels),
            partial(run, plain),
        )
