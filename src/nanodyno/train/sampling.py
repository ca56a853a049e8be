"""Text from a checkpoint: opens it, encodes the prompt and decodes what the model draws."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch

from nanodyno.data.tokenizers import Tokenizer, open_tokenizer
from nanodyno.errors import NanodynoError
from nanodyno.model.modern import make_model
from nanodyno.model.sampling import generate
from nanodyno.train import checkpoint
from nanodyno.train.checkpoint import Checkpoint
from nanodyno.train.device import choose_device


@dataclass(frozen=True)
class Dials:
    prompt: str
    tokens: int
    temperature: float
    top_k: int | None
    seed: int


def sample_text(
    checkpoints: Path,
    dials: Dials,
    device: str,
    tokenizer_name: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """Yields pieces of text as they are drawn, up to the end of the document."""
    return next(sample_texts(checkpoints, dials, device, tokenizer_name, tell))


def sample_texts(
    checkpoints: Path,
    dials: Dials,
    device: str,
    tokenizer_name: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Iterator[str]]:
    """One text after the other without end; the second is what the next seed would draw."""
    saved = _newest(checkpoints, tell)
    name = saved.tokenizer or tokenizer_name
    if name is None:
        raise NanodynoError(
            "this run's dataset does not say which tokenizer made it",
            "name it: --tokenizer=gpt2, --tokenizer=bytes, or another tiktoken encoding",
        )
    tokenizer = open_tokenizer(name, checkpoints.parent)
    if saved.shape.vocab_size < tokenizer.vocab_size:
        raise NanodynoError(
            f"the model has {saved.shape.vocab_size} tokens and the tokenizer {name} {tokenizer.vocab_size}",
            "the run was trained with another tokenizer",
        )
    model = make_model(saved.shape).to(choose_device(device)).eval()
    checkpoint.load_model(saved, model)
    prompt = [tokenizer.end_of_text, *tokenizer.encode(dials.prompt).tolist()]
    known = min(saved.vocab_size, tokenizer.vocab_size)
    for seed in count(dials.seed):
        generator = torch.Generator().manual_seed(seed)
        drawn = generate(model, prompt, known, dials.tokens, dials.temperature, dials.top_k, generator)
        yield _pieces(tokenizer, drawn)


def _newest(checkpoints: Path, tell: Callable[[str], None]) -> Checkpoint:
    found = checkpoint.newest(checkpoints)
    if found is None:
        raise NanodynoError(
            f"there is no checkpoint under {checkpoints}",
            "a run saves its first checkpoint at its first evaluation after the start, or at its end",
        )
    for words in found.damaged:
        tell(f"{words}; iteration {found.checkpoint.progress.iteration} is taken instead")
    return found.checkpoint


def _pieces(tokenizer: Tokenizer, drawn: Iterator[int]) -> Iterator[str]:
    """Decodes token by token, holding back a character until all its bytes are there."""
    pending: list[int] = []
    for token in drawn:
        if token == tokenizer.end_of_text:
            break
        pending.append(token)
        text = tokenizer.decode(pending)
        if not text.endswith("�") or len(pending) >= 4:
            yield text
            pending = []
    if pending:
        yield tokenizer.decode(pending)
