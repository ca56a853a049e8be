"""Text goes to ids and back; what the text says is never taken for a special token."""

import argparse
import ast
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiktoken

from nanodyno.data.tokenizers import (
    END_OF_TEXT,
    TiktokenTokenizer,
    get_tokenizer,
    open_tokenizer,
    train_bpe,
)
from nanodyno.errors import NanodynoError


def test_bytes_are_their_own_ids() -> None:
    tokenizer = get_tokenizer("bytes")
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (257, 256)
    assert tokenizer.encode("Aé").tolist() == [65, 0xC3, 0xA9]
    assert tokenizer.decode([65, 0xC3, 0xA9]) == "Aé"


def test_half_a_character_is_shown_as_a_replacement() -> None:
    assert get_tokenizer("bytes").decode([65, 0xC3]) == "A\ufffd"


def test_bytes_leave_out_padding_ids_and_show_the_end_of_a_text() -> None:
    assert get_tokenizer("bytes").decode([65, 256, 257, 300, 66]) == "A<|endoftext|>B"


def test_gpt2_encodes_hello_world_as_published(gpt2_files: Path) -> None:
    tokenizer = get_tokenizer("gpt2")
    assert gpt2_files.is_dir()
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (50257, 50256)
    assert tokenizer.encode("Hello world").tolist() == [15496, 995]
    assert tokenizer.decode([15496, 995]) == "Hello world"


@pytest.mark.usefixtures("gpt2_files")
def test_a_special_token_spelled_out_in_a_text_is_ordinary_text() -> None:
    tokenizer = get_tokenizer("gpt2")
    ids = tokenizer.encode("<|endoftext|>").tolist()
    assert 50256 not in ids
    assert tokenizer.decode(ids) == "<|endoftext|>"


@pytest.mark.usefixtures("gpt2_files")
def test_gpt2_leaves_out_the_padding_of_its_vocabulary() -> None:
    assert get_tokenizer("gpt2").decode([15496, 50303, 995, 50256]) == "Hello world<|endoftext|>"


def test_without_files_and_network_gpt2_says_which_two_files_to_put_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tiktoken.load
    import tiktoken.registry

    def unreachable(address: str) -> bytes:
        raise ConnectionError(address)

    monkeypatch.setattr(tiktoken.load, "read_file", unreachable)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(NanodynoError, match="gpt2 tokenizer's files") as caught:
        get_tokenizer("gpt2")
    hint = str(caught.value.hint)
    assert "--tokenizer=bytes" in hint
    assert "set TIKTOKEN_CACHE_DIR to that folder" in hint
    store = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main"
    # sha1sum of the two addresses
    assert f"{store}/vocab.bpe as {tmp_path / '6d1cbeee0f20b3d9449abfede4726ed8212e3aee'}" in hint
    assert f"{store}/encoder.json as {tmp_path / '6c7ea1a7e38e3a7f062df639a5b80947f075ffe6'}" in hint


@pytest.mark.parametrize("name", tiktoken.list_encoding_names())
def test_the_files_reported_are_those_that_tiktoken_asks_for(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tiktoken.load
    import tiktoken.registry

    asked: list[str] = []

    def unreachable(address: str) -> bytes:
        asked.append(address)
        raise ConnectionError(address)

    monkeypatch.setattr(tiktoken.load, "read_file", unreachable)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(NanodynoError) as caught:
        get_tokenizer(name)
    assert f"{asked[0]} as " in str(caught.value.hint)


def test_an_unknown_tokenizer_is_answered_with_the_known_ones() -> None:
    with pytest.raises(NanodynoError, match="'gpt3'") as caught:
        get_tokenizer("gpt3")
    assert str(caught.value.hint).startswith("known: bytes, gpt2, r50k_base, p50k_base")


ODD_TEXTS = ["", "\ud800x", "\x00\x01", "e\u0301\u200d\U0001f600", "\ufeffBOM", END_OF_TEXT * 3]


@pytest.mark.usefixtures("gpt2_files")
@pytest.mark.parametrize("name", ["bytes", "gpt2"])
def test_a_batch_is_its_texts_one_by_one_and_odd_text_comes_back_with_lone_halves_replaced(name: str) -> None:
    tokenizer = get_tokenizer(name)
    batch = tokenizer.encode_batch(ODD_TEXTS)
    assert [ids.tolist() for ids in batch] == [tokenizer.encode(text).tolist() for text in ODD_TEXTS]
    assert tokenizer.end_of_text not in np.concatenate(batch)
    assert [tokenizer.decode(ids.tolist()) for ids in batch] == ["", "\ufffdx", *ODD_TEXTS[2:]]


@pytest.mark.usefixtures("gpt2_files")
def test_blanks_beyond_the_stack_of_the_pattern_are_encoded_all_the_same() -> None:
    """GPT-2's rule for any number of blanks: all but the last are a word, and that one leads the next."""
    tokenizer = get_tokenizer("gpt2")
    blanks = " " * 1_100_000
    ids = tokenizer.encode(f"Hello{blanks} world")
    expected = [15496, *tokenizer.encode(blanks).tolist(), 995]
    assert ids.tolist() == expected


def test_letters_beyond_the_stack_of_a_pattern_are_encoded_all_the_same() -> None:
    """A pattern that steps back over letters, as o200k_base's does, with 256 bytes for a vocabulary."""
    encoding = tiktoken.Encoding(
        "stepping",
        pat_str=r"[a-z]+(?!\w)|.",
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={END_OF_TEXT: 256},
    )
    tokenizer = TiktokenTokenizer("stepping", encoding)
    text = "x" * 1_100_000 + "1"
    with pytest.raises(ValueError, match="stack"):
        encoding.encode_to_numpy(text)
    assert (
        tokenizer.encode(text).tobytes() == np.frombuffer(text.encode(), np.uint8).astype(np.uint32).tobytes()
    )


def test_numbers_that_a_vocabulary_leaves_out_are_left_out_of_the_text() -> None:
    letters = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding(
        "gap", pat_str=".", mergeable_ranks=letters, special_tokens={END_OF_TEXT: 300}
    )
    tokenizer = TiktokenTokenizer("gap", encoding)
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (301, 300)
    assert tokenizer.decode([65, 270, 66, 300, 999]) == "AB<|endoftext|>"


@pytest.mark.usefixtures("gpt2_files")
def test_the_hash_tells_vocabularies_and_rules_apart() -> None:
    def hashed(pattern: str, end: int) -> str:
        letters = {bytes([byte]): byte for byte in range(256)}
        encoding = tiktoken.Encoding(
            "any", pat_str=pattern, mergeable_ranks=letters, special_tokens={END_OF_TEXT: end}
        )
        return TiktokenTokenizer("any", encoding).sha256

    names = [get_tokenizer(name).sha256 for name in ("bytes", "gpt2")]
    assert len({*names, hashed(".", 256), hashed(".", 257), hashed(r"\w|.", 256)}) == 5
    assert hashed(".", 256) == hashed(".", 256)


@pytest.mark.usefixtures("gpt2_files")
def test_a_tokenizer_goes_to_a_machine_that_has_none_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken.registry

    tokenizer = get_tokenizer("gpt2")
    sent = pickle.dumps(tokenizer)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setattr(tiktoken.registry, "ENCODING_CONSTRUCTORS", {})
    arrived = pickle.loads(sent)
    assert (arrived.name, arrived.sha256) == ("gpt2", tokenizer.sha256)
    assert arrived.encode("Hello world").tolist() == [15496, 995]


DOCUMENTS = [inspect.getsource(module) for module in (ast, argparse, inspect)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[TiktokenTokenizer, Path]:
    folder = tmp_path_factory.mktemp("trained")
    return train_bpe(DOCUMENTS, 600, folder), folder


def test_a_bpe_joins_the_most_frequent_pair_first(tmp_path: Path) -> None:
    """Of the pairs, (a, b) occurs three times and (b, c) once; 258 has room for one of them."""
    tokenizer = train_bpe(["ab", "ab", "ab", "bc"], 258, tmp_path)
    assert (tokenizer.name, tokenizer.vocab_size, tokenizer.end_of_text) == ("bpe-258", 258, 257)
    joined, b, c = tokenizer.encode("abbc").tolist()
    assert joined == 256
    assert tokenizer.decode([b, c, joined, 257]) == "bcab<|endoftext|>"


def test_a_trained_bpe_gives_the_ids_of_the_library_that_trained_it(
    trained: tuple[TiktokenTokenizer, Path],
) -> None:
    from tokenizers import Tokenizer as Reference

    tokenizer, folder = trained
    reference = Reference.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.vocab_size == reference.get_vocab_size() == 600
    assert reference.token_to_id(END_OF_TEXT) == tokenizer.end_of_text == 599
    texts = [*DOCUMENTS, "  naïve \n\n 12345'll e\u0301", " " * 1000 + "x"]
    expected = [encoding.ids for encoding in reference.encode_batch(texts)]
    assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == expected


def test_a_trained_bpe_is_opened_again_from_its_folder_and_keeps_spelled_out_tokens_as_text(
    trained: tuple[TiktokenTokenizer, Path],
) -> None:
    tokenizer, folder = trained
    again = open_tokenizer("bpe-600", folder)
    assert again.sha256 == tokenizer.sha256
    for text in (*ODD_TEXTS[2:], DOCUMENTS[0]):
        ids = again.encode(text).tolist()
        assert 599 not in ids
        assert again.decode(ids) == text


def test_training_on_the_same_documents_gives_the_same_file(
    trained: tuple[TiktokenTokenizer, Path], tmp_path: Path
) -> None:
    train_bpe(iter(DOCUMENTS), 600, tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == (trained[1] / "tokenizer.json").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_training_looks_at_no_more_documents_than_reach_its_sample(tmp_path: Path) -> None:
    taken: list[str] = []

    def documents() -> Iterator[str]:
        for text in ("ab\ud800", "abab", "never"):
            taken.append(text)
            yield text

    train_bpe(documents(), 300, tmp_path, sample_bytes=9)  # 2 and 3 bytes of U+FFFD, then 4
    assert taken == ["ab\ud800", "abab"]


def test_a_vocabulary_without_room_for_one_merge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match="vocabulary of 257"):
        train_bpe(["ab"], 257, tmp_path)


@pytest.mark.parametrize(
    "content", [None, "{", "[]", "{}", '{"model": {"vocab": {"a": 0}}, "added_tokens": []}']
)
def test_a_trained_tokenizer_that_is_missing_or_damaged_is_named(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(NanodynoError, match=re.escape(str(tmp_path / "tokenizer.json"))):
        open_tokenizer("bpe-600", tmp_path)


def test_a_tokenizer_that_needs_no_folder_is_opened_by_its_name(tmp_path: Path) -> None:
    assert open_tokenizer("bytes", tmp_path).name == "bytes"
