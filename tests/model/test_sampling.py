"""Tokens drawn from a model."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

import pytest
import torch

from nanodyno.config import ModelShape
from nanodyno.model.gpt import GPT
from nanodyno.model.sampling import generate

PROMPT: tuple[int, ...] = (3, 1, 4, 1, 5)


@pytest.fixture
def model(shape: Callable[..., ModelShape], drawn_model: Callable[..., GPT]) -> GPT:
    return drawn_model(shape(vocab_size=64), torch.float32).eval()


def draw(  # noqa: PLR0913 - each is one dial of sampling
    model: GPT,
    prompt: Sequence[int] = PROMPT,
    vocab_size: int = 50,
    max_tokens: int = 20,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return list(generate(model, prompt, vocab_size, max_tokens, temperature, top_k, generator))


def next_logits(model: GPT, prompt: Sequence[int], vocab_size: int = 50) -> torch.Tensor:
    with torch.no_grad():
        return model.logits(model.hidden(torch.tensor([list(prompt)])))[0, -1, :vocab_size]


def single_draws(
    model: GPT, count: int, vocab_size: int, temperature: float, top_k: int | None
) -> Counter[int]:
    generator = torch.Generator().manual_seed(1)
    draws = (generate(model, PROMPT, vocab_size, 1, temperature, top_k, generator) for _ in range(count))
    return Counter(chain.from_iterable(draws))


def test_temperature_zero_takes_the_likeliest_token_each_time(model: GPT) -> None:
    context: list[int] = list(PROMPT)
    for token in draw(model, temperature=0.0, max_tokens=3):
        assert token == int(next_logits(model, context).argmax())
        context.append(token)
    assert len(context) == 8


def test_as_many_tokens_as_asked_for(model: GPT) -> None:
    assert len(draw(model, max_tokens=7)) == 7
    assert draw(model, max_tokens=0) == []


def test_the_same_seed_draws_the_same_text_and_another_seed_another(model: GPT) -> None:
    assert draw(model, seed=4) == draw(model, seed=4)
    assert draw(model, seed=4) != draw(model, seed=5)


def test_top_k_keeps_only_the_k_likeliest(model: GPT) -> None:
    best = set(next_logits(model, PROMPT).topk(3).indices.tolist())
    assert set(single_draws(model, 200, 50, 5.0, top_k=3)) == best
    assert len(single_draws(model, 200, 50, 5.0, top_k=None)) > 20


def test_top_1_is_the_likeliest_whatever_the_temperature(model: GPT) -> None:
    assert draw(model, temperature=9.0, top_k=1) == draw(model, temperature=0.0)


def test_top_k_beyond_the_vocabulary_changes_nothing(model: GPT) -> None:
    assert draw(model, top_k=1000) == draw(model)


def test_tokens_come_as_often_as_their_softmax_at_that_temperature_says(model: GPT) -> None:
    expected = (next_logits(model, PROMPT, 3) / 2.0).softmax(-1).tolist()
    drawn = single_draws(model, 800, 3, 2.0, None)
    for token, probability in enumerate(expected):
        # Four standard deviations of a share over 800 draws.
        assert drawn[token] / 800 == pytest.approx(
            probability, abs=4 * (probability * (1 - probability) / 800) ** 0.5
        )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_padding_is_never_drawn_even_when_it_is_likeliest(model: GPT, temperature: float) -> None:
    with torch.no_grad():
        favoured = model.hidden(torch.tensor([PROMPT]))[0, -1]
        model.tokens.weight[50:] = 100 * favoured
    assert int(next_logits(model, PROMPT, 64).argmax()) >= 50
    assert max(draw(model, temperature=temperature)) < 50


def test_a_long_prompt_counts_by_its_last_block(model: GPT) -> None:
    long = [7] * 30 + [*range(8)]
    assert draw(model, long) == draw(model, range(8))
    assert draw(model, long) != draw(model, [7] * 8)
