"""Text to token ids and back: plain bytes, tiktoken's encodings, and a byte-pair encoding of one's own.

All of them take any Python string: what is not Unicode text (half of a surrogate pair) is replaced, and a
special token that a text spells out is text like any other.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tiktoken

from nanodyno.errors import NanodynoError

END_OF_TEXT = "<|endoftext|>"
TRAINED_FILE = "tokenizer.json"

# GPT-2's rule for cutting a text into words, as tiktoken spells it: quantifiers that do not step back.
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_TRAINED = "bpe-"

_STORE = "https://openaipublic.blob.core.windows.net"
_ADDRESSES = {
    "gpt2": (f"{_STORE}/gpt-2/encodings/main/vocab.bpe", f"{_STORE}/gpt-2/encodings/main/encoder.json"),
    "p50k_edit": (f"{_STORE}/encodings/p50k_base.tiktoken",),
    "o200k_harmony": (f"{_STORE}/encodings/o200k_base.tiktoken",),
}

# Beyond this many characters an odd text that the pattern's engine gave up on is cut wherever it may be.
_CUT_CHARACTERS = 10_000
# Between the last two blanks of a long stretch of them the pattern cuts too, so nothing changes there.
_LONG_BLANKS = re.compile(r"(?=\s\S)(?<=\s{1000})")


class Tokenizer(Protocol):
    """What preparation and sampling need of a tokenizer."""

    @property
    def name(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def end_of_text(self) -> int: ...

    @property
    def sha256(self) -> str:
        """Of the vocabulary and the rules: equal hashes mean equal ids for every text."""
        ...

    def encode(self, text: str) -> np.ndarray:
        """Token ids of ordinary text: a special token spelled out in the text is text like any other."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """encode of each text. Threads that call it run side by side where the tokenizer is compiled code."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids: broken UTF-8 is replaced, padding ids beyond the vocabulary are left out."""
        ...


class BytesTokenizer:
    """One token a byte of UTF-8, and one for the end of a text: needs no files and no training."""

    name = "bytes"
    vocab_size = 257
    end_of_text = 256
    sha256 = hashlib.sha256(b"one token a byte of UTF-8, 256 is the end of a text").hexdigest()

    def encode(self, text: str) -> np.ndarray:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = _repaired(text).encode()
        return np.frombuffer(data, dtype=np.uint8)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        known = (i for i in ids if i < self.vocab_size)
        spelled = (END_OF_TEXT.encode() if i == self.end_of_text else bytes([i]) for i in known)
        return b"".join(spelled).decode("utf-8", errors="replace")


VOCABULARIES = {"gpt2": 50257, "bytes": BytesTokenizer.vocab_size}
"""Of those that a config may name, known without opening one."""


class TiktokenTokenizer:
    """A byte-pair encoding as tiktoken computes it, GPT-2's or another."""

    def __init__(self, name: str, encoding: tiktoken.Encoding) -> None:
        self.name = name
        self.vocab_size = encoding.n_vocab
        self.end_of_text = encoding.encode_single_token(END_OF_TEXT)
        self._encoding = encoding

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its whole vocabulary: another machine needs none of its files."""
        encoding = self._encoding
        return _unpickled, (self.name, encoding._pat_str, encoding._mergeable_ranks, encoding._special_tokens)

    @property
    def sha256(self) -> str:
        return _hash_of(self._encoding)

    def encode(self, text: str) -> np.ndarray:
        # encode_ordinary is no faster, makes a list first, and where this raises it ends in a Rust panic.
        try:
            return self._encoding.encode_to_numpy(text, disallowed_special=())
        except UnicodeEncodeError:
            return self.encode(_repaired(text))
        except ValueError:
            return np.concatenate([self._encode_piece(piece) for piece in _LONG_BLANKS.split(text)])

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(map(self._spelled, ids)).decode("utf-8", errors="replace")

    def _encode_piece(self, piece: str) -> np.ndarray:
        """One piece of a text on which the engine of the pattern, whose stack has an end, gave up."""
        try:
            return self._encoding.encode_to_numpy(piece, disallowed_special=())
        except ValueError:
            starts = range(0, len(piece), _CUT_CHARACTERS)
            return np.concatenate([self.encode(piece[start : start + _CUT_CHARACTERS]) for start in starts])

    def _spelled(self, number: int) -> bytes:
        """A token's bytes; none for the padding of a vocabulary and the numbers that it leaves out."""
        try:
            return self._encoding.decode_single_token_bytes(number)
        except KeyError:
            return b""


def get_tokenizer(name: str) -> Tokenizer:
    """The tokenizer that goes by that name everywhere: `bytes`, or one of tiktoken's encodings."""
    if name == BytesTokenizer.name:
        return BytesTokenizer()
    known = tiktoken.list_encoding_names()
    if name not in known:
        raise NanodynoError(f"unknown tokenizer {name!r}", hint=f"known: {', '.join(['bytes', *known])}")
    # requests' errors, which tiktoken lets through, are OSErrors; a damaged file is a ValueError.
    try:
        return TiktokenTokenizer(name, tiktoken.get_encoding(name))
    except (OSError, ValueError) as error:
        raise NanodynoError(
            f"the {name} tokenizer's files are not on this machine and could not be downloaded",
            hint=f"use --tokenizer=bytes, which needs no files, or {_files_hint(name)}",
        ) from error


def open_tokenizer(name: str, folder: Path) -> Tokenizer:
    """A dataset's tokenizer: get_tokenizer's, or the one that was trained for it and lies in its folder."""
    if not name.startswith(_TRAINED):
        return get_tokenizer(name)
    path = folder / TRAINED_FILE
    try:
        reported = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NanodynoError(
            f"cannot read {path}, the tokenizer that was trained for {folder.name}: {error}",
            hint=f"put {TRAINED_FILE} back beside the dataset's manifest, or prepare the dataset again",
        ) from error
    try:
        return TiktokenTokenizer(name, _trained_encoding(name, reported))
    except (ValueError, KeyError, TypeError) as error:
        raise NanodynoError(
            f"{path} is not a tokenizer that nanodyno trained: {error}",
            hint=f"prepare {folder} again",
        ) from error


def train_bpe(
    documents: Iterable[str], vocab_size: int, folder: Path, sample_bytes: int = 2**28
) -> TiktokenTokenizer:
    """A byte-pair encoding of the first sample_bytes of these documents, saved as folder/tokenizer.json.

    Hugging Face's tokenizers trains it and can read the file; tiktoken computes the same ids four times as
    fast. The same documents give the same file. The vocabulary is smaller than asked when the text has no
    more pairs to join.
    """
    from tokenizers import Tokenizer as Trained
    from tokenizers import decoders, models, pre_tokenizers, trainers

    if vocab_size <= 257:
        raise NanodynoError(
            f"a vocabulary of {vocab_size} is too small: bytes and end-of-text alone take 257",
            hint="use 258 or more; 8192 suits a small model",
        )
    trained = Trained(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    trained.train_from_iterator(_sample(documents, sample_bytes), trainer)
    trained.add_special_tokens([END_OF_TEXT])
    reported = trained.to_str()
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"{TRAINED_FILE}.{os.getpid()}.partial"
    aside.write_text(reported, encoding="utf-8")
    aside.replace(folder / TRAINED_FILE)
    name = trained_name(vocab_size)
    return TiktokenTokenizer(name, _trained_encoding(name, reported))


def trained_name(vocab_size: int) -> str:
    """What a BPE is called that was trained for a vocabulary of that size."""
    return f"{_TRAINED}{vocab_size}"


def _unpickled(
    name: str, pattern: str, ranks: dict[bytes, int], special: dict[str, int]
) -> TiktokenTokenizer:
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    return TiktokenTokenizer(name, encoding)


@cache
def _hash_of(encoding: tiktoken.Encoding) -> str:
    digest = hashlib.sha256(encoding._pat_str.encode())
    for token, number in sorted(encoding._mergeable_ranks.items(), key=lambda item: item[1]):
        digest.update(b"\n%d %s" % (number, token.hex().encode()))
    for text, number in sorted(encoding._special_tokens.items()):
        digest.update(b"\n%d special %s" % (number, text.encode().hex().encode()))
    return digest.hexdigest()


def _trained_encoding(name: str, reported: str) -> tiktoken.Encoding:
    """The encoding in a tokenizer.json of ours: ids rise in the order of the merges, as tiktoken needs."""
    content = json.loads(reported)
    byte_of = _byte_of_letter()
    ranks = {bytes(byte_of[c] for c in token): number for token, number in content["model"]["vocab"].items()}
    special = {token["content"]: int(token["id"]) for token in content["added_tokens"]}
    if list(special) != [END_OF_TEXT]:
        raise ValueError(f"its special tokens are {list(special)}")
    return tiktoken.Encoding(name, pat_str=_WORDS, mergeable_ranks=ranks, special_tokens=special)


def _byte_of_letter() -> dict[str, int]:
    """GPT-2's letters for bytes: a visible character of Latin-1 is itself, the others come after Latin-1."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)) - set(visible))
    return {chr(byte): byte for byte in visible} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


def _sample(documents: Iterable[str], most_bytes: int) -> Iterator[str]:
    """The documents up to the one that reaches most_bytes: the trainer keeps every word that it meets."""
    taken = 0
    for text in documents:
        whole = _repaired(text)
        yield whole
        taken += len(whole.encode())
        if taken >= most_bytes:
            return


def _repaired(text: str) -> str:
    """The text with U+FFFD for every half of a surrogate pair, which no UTF-8 can hold."""
    return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")


def _files_hint(name: str) -> str:
    """Which files tiktoken looks for and where, for a person who carries them over by hand."""
    cache = Path(os.environ.get("TIKTOKEN_CACHE_DIR") or Path(tempfile.gettempdir()) / "data-gym-cache")
    addresses = _ADDRESSES.get(name, (f"{_STORE}/encodings/{name}.tiktoken",))
    steps = [f"{address} as {cache / hashlib.sha1(address.encode()).hexdigest()}" for address in addresses]
    return (
        f"on a machine with a network save {' and '.join(steps)}, and set TIKTOKEN_CACHE_DIR to that folder"
    )
