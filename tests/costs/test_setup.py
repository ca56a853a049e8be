"""What a plan takes for granted is what the trainer decides."""

from itertools import product
from typing import Any

import pytest
import torch
from tests.costs.live import gpt

from nanodyno.config import build_config
from nanodyno.costs.setup import settle
from nanodyno.errors import NanodynoError
from nanodyno.train.device import DeviceChoice
from nanodyno.train.kernels import choose_way

CHOICES = {
    "kernels": ("auto", "fused", "autograd"),
    "dropout": (0.0, 0.1),
    "recompute": ("auto", "none", "mlp"),
    "residual_dtype": ("float32", "bfloat16"),
    "fp8": (False, True),
    "attention": ("auto", "cudnn-packed"),
}


def outcome(decide: Any) -> str:
    try:
        return decide()
    except NanodynoError:
        return "refused"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_plan_takes_the_way_that_training_takes_and_refuses_what_it_refuses(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanodyno.train.kernels.why_no_triton", lambda _: None)
    monkeypatch.setattr("nanodyno.train.kernels._capability", lambda _: (9, 0))
    choice = DeviceChoice(torch.device("cuda", 0), dtype)
    seen = set()
    for values in product(*CHOICES.values()):
        config = build_config(dict(zip(CHOICES, values, strict=True)))
        trained = outcome(lambda config=config: choose_way(config, choice).kernels)
        planned = outcome(lambda config=config: settle(config, gpt(1, 1, 64, 512), dtype, None).kernels)
        assert planned == trained, values
        seen.add(trained)
    assert {"autograd", "refused"} <= seen


def test_the_trainers_own_word_on_the_way_counts() -> None:
    config = build_config({"batch_size": 4})
    assert settle(config, gpt(1, 1, 64, 512), "bfloat16", None, "autograd").compiled is True
