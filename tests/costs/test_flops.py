import random
from fractions import Fraction

import pytest

from nanodyno.config import ModelShape
from nanodyno.costs.flops import flops_per_token, nanogpt_flops_per_token


def product(rows: int, inner: int, columns: int) -> int:
    """FLOP of one matrix product: a multiplication and an addition for each of its terms."""
    return 2 * rows * inner * columns


def walk(shape: ModelShape) -> Fraction:
    """FLOP per token, counted position by position and head by head over every product of the layers."""
    width, head_width = shape.n_embd, shape.n_embd // shape.n_head
    forward = 0
    for position in range(shape.block_size):
        for _ in range(shape.n_layer):
            forward += 3 * product(1, width, width)  # query, key and value
            for _ in range(shape.n_head):
                seen = position + 1
                forward += product(1, head_width, seen) + product(1, seen, head_width)
            forward += product(1, width, width)  # the heads put together
            forward += product(1, width, 4 * width) + product(1, 4 * width, width)
        forward += product(1, width, shape.vocab_size)
    backward = 2 * forward  # each product's gradient is one product for either factor
    return Fraction(forward + backward, shape.block_size)


def test_gpt2_124m_takes_797_9_megaflop_per_token(wide):
    # 6 x (84,934,656 + 50257 x 768) + 6 x 12 x 768 x 1025
    assert flops_per_token(wide, vocab_size=50257) == 741_192_192 + 56_678_400 == 797_870_592


def test_the_narrow_model_of_the_case_takes_271_5_megaflop_per_token(narrow):
    # 6 x (21,233,664 + 50257 x 384) + 6 x 12 x 384 x 1025
    assert flops_per_token(narrow, vocab_size=50257) == 243_194_112 + 28_339_200 == 271_533_312


def test_without_a_tokenizers_vocabulary_the_models_own_is_counted(wide):
    padding = 6 * 768 * (50304 - 50257)
    assert flops_per_token(wide) == flops_per_token(wide, vocab_size=50257) + padding


def test_nanogpts_formula_gives_854_8_and_300_0_megaflop_for_the_case(wide, narrow):
    # 6 x 123,587,328 + 12 x 12 x 768 x 1024 and 6 x 40,560,000 + 12 x 12 x 384 x 1024
    assert nanogpt_flops_per_token(wide) == 741_523_968 + 113_246_208 == 854_770_176
    assert nanogpt_flops_per_token(narrow) == 243_360_000 + 56_623_104 == 299_983_104


@pytest.mark.parametrize("bias", [False, True])
def test_the_formula_agrees_with_a_walk_over_every_matrix_product(bias):
    shape = ModelShape(
        n_layer=3, n_head=5, n_embd=40, block_size=17, vocab_size=101, bias=bias, dropout=0.0, gelu="exact"
    )
    assert flops_per_token(shape) == walk(shape)


def test_the_formula_agrees_with_the_walk_at_the_cases_size(narrow):
    assert flops_per_token(narrow) == walk(narrow)


@pytest.mark.parametrize("seed", range(12))
def test_the_formula_agrees_with_the_walk_for_random_models(seed):
    draw = random.Random(seed)
    heads = draw.randint(1, 6)
    shape = ModelShape(
        n_layer=draw.randint(1, 5),
        n_head=heads,
        n_embd=heads * draw.randint(1, 70),
        block_size=draw.randint(1, 40),
        vocab_size=draw.randint(2, 60_000),
        bias=draw.random() < 0.5,
        dropout=0.0,
        gelu="exact",
    )
    assert flops_per_token(shape) == walk(shape)
