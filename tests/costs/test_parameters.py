import random

import torch

from nanodyno.config import ModelShape, build_config
from nanodyno.costs.parameters import parameters
from nanodyno.model.gpt import GPT
from nanodyno.recipes import load_settings


def test_the_wide_model_of_the_case_by_part(wide):
    count = parameters(wide)
    assert count.token_embedding == 50304 * 768 == 38_633_472
    assert count.positions == 1024 * 768 == 786_432
    assert count.attention == 12 * 4 * 768 * 768 == 28_311_552
    assert count.mlp == 12 * 8 * 768 * 768 == 56_623_104
    assert count.norms == 25 * 768 == 19_200
    assert count.total == 124_373_760
    assert count.nanogpt == 123_587_328
    assert count.matmul_weights == 123_568_128


def test_the_narrow_model_of_the_case_has_40_6_million_by_nanogpts_count(narrow):
    assert parameters(narrow).nanogpt == 40_560_000


def test_published_gpt2_has_124_439_808_parameters(published):
    # With biases a layer gains 4 x 768 in attention, 5 x 768 in the mlp and 2 x 768 in its norms.
    count = parameters(published)
    assert count.total == 124_439_808
    assert count.attention == 28_311_552 + 12 * 4 * 768
    assert count.mlp == 56_623_104 + 12 * 5 * 768
    assert count.norms == 2 * 19_200


def test_biases_enter_no_matrix_product(wide, published):
    padding = (50304 - 50257) * 768
    assert parameters(published).matmul_weights == parameters(wide).matmul_weights - padding


def test_every_recipe_has_as_many_parameters_as_its_model() -> None:
    for name in ("demo", "gpt2-384", "gpt2-768"):
        config = build_config(load_settings(name).values)
        shape = config.model_shape(50304 if config.tokenizer == "gpt2" else 320)
        assert parameters(shape).total == counted(shape), name


def test_200_random_models_have_as_many_parameters_as_predicted() -> None:
    draw = random.Random(7)
    for _ in range(200):
        heads = draw.randint(1, 8)
        shape = ModelShape(
            n_layer=draw.randint(1, 6),
            n_head=heads,
            n_embd=heads * draw.choice([8, 16, 64, 96]),
            block_size=draw.randint(1, 2048),
            vocab_size=draw.randint(2, 60_000),
            bias=draw.random() < 0.5,
            dropout=0.0,
            gelu="exact",
        )
        assert parameters(shape).total == counted(shape), shape


def counted(shape: ModelShape) -> int:
    """The model itself, on a device where tensors have no memory."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in GPT(shape).parameters())
