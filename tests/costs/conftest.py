import pytest

from nanodyno.config import ModelShape


def gpt2(n_embd: int, n_head: int, *, bias: bool = False, vocab_size: int = 50304) -> ModelShape:
    return ModelShape(
        n_layer=12,
        n_head=n_head,
        n_embd=n_embd,
        block_size=1024,
        vocab_size=vocab_size,
        bias=bias,
        dropout=0.0,
        gelu="exact",
    )


@pytest.fixture
def narrow() -> ModelShape:
    """The case's model before the change."""
    return gpt2(384, 6)


@pytest.fixture
def wide() -> ModelShape:
    """The case's model after it."""
    return gpt2(768, 12)


@pytest.fixture
def published() -> ModelShape:
    """OpenAI's GPT-2: biases, and no padding."""
    return gpt2(768, 12, bias=True, vocab_size=50257)
