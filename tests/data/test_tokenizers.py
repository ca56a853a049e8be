"""Text goes to ids and back; what the text says is never taken for a special token."""

from pathlib import Path

import pytest

from nanodyno.data.tokenizers import get_tokenizer
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


def test_gpt2_without_its_files_and_without_a_network_tells_the_ways_out(
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
    assert "--tokenizer=bytes" in str(caught.value.hint)
    assert "TIKTOKEN_CACHE_DIR" in str(caught.value.hint)


def test_an_unknown_tokenizer_is_answered_with_the_known_ones() -> None:
    with pytest.raises(NanodynoError, match="'gpt3'") as caught:
        get_tokenizer("gpt3")
    assert caught.value.hint == "known: bytes, gpt2"
