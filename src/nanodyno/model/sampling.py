"""Text from a trained model."""

from collections.abc import Iterator, Sequence

import torch

from nanodyno.model.gpt import GPT

COLDEST = 1e-4
"""Below it the division would overflow, and the likeliest token is all that is left."""


@torch.inference_mode()
def generate(  # noqa: PLR0913 - each is one dial of sampling
    model: GPT,
    prompt: Sequence[int],
    vocab_size: int,
    max_tokens: int,
    temperature: float,
    top_k: int | None,
    generator: torch.Generator,
) -> Iterator[int]:
    """Goes on from a prompt of at least one token, with a model in eval mode.

    Yields token ids below vocab_size (the padding rows of the head are never drawn). Temperature 0 takes the
    likeliest token. The context is cut to the last block_size tokens.
    """
    device = model.tokens.weight.device
    tokens = torch.tensor([list(prompt)], dtype=torch.long, device=device)
    for _ in range(max_tokens):
        context = tokens[:, -model.shape.block_size :]
        logits = model.logits(model.hidden(context)[:, -1])[0, :vocab_size].float()
        token = _draw(logits, temperature, top_k, generator)
        tokens = torch.cat([tokens, token.view(1, 1)], dim=1)
        yield int(token)


def _draw(
    logits: torch.Tensor, temperature: float, top_k: int | None, generator: torch.Generator
) -> torch.Tensor:
    if temperature < COLDEST:
        return logits.argmax()
    logits = logits / temperature
    if top_k is not None and top_k < logits.numel():
        logits = logits.masked_fill(logits < logits.topk(top_k).values[-1], float("-inf"))
    probabilities = logits.softmax(-1).cpu()
    return torch.multinomial(probabilities, 1, generator=generator).to(logits.device)
