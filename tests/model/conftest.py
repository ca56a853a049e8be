"""Small models whose every number is drawn, so that no weight hides behind a zero or a one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nanodyno.config import ModelShape
from nanodyno.model.gpt import GPT
from nanodyno.model.modern import make_model


def build_shape(**changes: Any) -> ModelShape:
    values: dict[str, Any] = {
        "n_layer": 2,
        "n_head": 2,
        "n_embd": 16,
        "block_size": 8,
        "vocab_size": 24,
        "bias": True,
        "dropout": 0.0,
        "gelu": "exact",
    }
    return ModelShape(**(values | changes))


def build_model(shape: ModelShape, dtype: torch.dtype = torch.float64) -> GPT:
    """Weights of 0.3 instead of 0.02: attention and GELU then leave their linear middle."""
    generator = torch.Generator().manual_seed(11)
    model = make_model(shape).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            middle = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(middle + 0.3 * drawn)
    return model


@pytest.fixture
def shape() -> Callable[..., ModelShape]:
    return build_shape


@pytest.fixture
def drawn_model() -> Callable[..., GPT]:
    return build_model


@pytest.fixture
def tokens() -> Callable[..., torch.Tensor]:
    def draw(rows: int = 3, columns: int = 8, vocab_size: int = 24, seed: int = 5) -> torch.Tensor:
        return torch.randint(vocab_size, (rows, columns), generator=torch.Generator().manual_seed(seed))

    return draw
