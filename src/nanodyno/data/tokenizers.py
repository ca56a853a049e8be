"""Text to token ids and back: plain bytes, and GPT-2's vocabulary through tiktoken."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import tiktoken

from nanodyno.errors import NanodynoError

END_OF_TEXT = "<|endoftext|>"


class Tokenizer(Protocol):
    """What preparation and sampling need of a tokenizer."""

    @property
    def name(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def end_of_text(self) -> int: ...

    def encode(self, text: str) -> np.ndarray:
        """Token ids of ordinary text: a special token spelled out in the text is text like any other."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids: broken UTF-8 is replaced, padding ids beyond the vocabulary are left out."""
        ...


class BytesTokenizer:
    """One token a byte of UTF-8, and one for the end of a text: needs no files and no training."""

    name = "bytes"
    vocab_size = 257
    end_of_text = 256

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode("utf-8", errors="replace"), dtype=np.uint8)

    def decode(self, ids: Iterable[int]) -> str:
        known = (i for i in ids if i < self.vocab_size)
        spelled = (END_OF_TEXT.encode() if i == self.end_of_text else bytes([i]) for i in known)
        return b"".join(spelled).decode("utf-8", errors="replace")


class Gpt2Tokenizer:
    """GPT-2's byte-pair encoding as tiktoken computes it."""

    name = "gpt2"
    vocab_size = 50257
    end_of_text = 50256

    def __init__(self) -> None:
        # requests' errors, which tiktoken lets through, are OSErrors; a damaged file is a ValueError.
        try:
            self._encoding = tiktoken.get_encoding("gpt2")
        except (OSError, ValueError) as error:
            raise NanodynoError(
                "the gpt2 tokenizer's files are not on this machine and could not be downloaded",
                hint="use --tokenizer=bytes, which needs no files, or point TIKTOKEN_CACHE_DIR at a folder "
                "that a machine with a network has filled",
            ) from error

    def encode(self, text: str) -> np.ndarray:
        return self._encoding.encode_to_numpy(text, disallowed_special=())

    def decode(self, ids: Iterable[int]) -> str:
        return self._encoding.decode([i for i in ids if i < self.vocab_size], errors="replace")


_TOKENIZERS: dict[str, type[BytesTokenizer] | type[Gpt2Tokenizer]] = {
    "bytes": BytesTokenizer,
    "gpt2": Gpt2Tokenizer,
}


def get_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of that name, ready to use."""
    if name not in _TOKENIZERS:
        raise NanodynoError(f"unknown tokenizer {name!r}", hint=f"known: {', '.join(_TOKENIZERS)}")
    return _TOKENIZERS[name]()
