"""What is known of a vocabulary before any data are read."""

from pathlib import Path
from typing import Any

from nanodyno.data.resolve import vocabulary_of


def test_data_that_do_not_say_their_vocabulary_are_no_missing_data(tunings: Any, tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / f"{split}.bin").write_bytes(bytes(2 * 5000))
    found = vocabulary_of(tunings.config(dataset=str(tmp_path)))
    assert found.notes == (f"{tmp_path} does not report its vocabulary: a vocabulary of 50,257 is assumed",)
    assert (found.assumed, found.train_tokens) == (True, 5000)
    assert found.refused is not None
    given = vocabulary_of(tunings.config(dataset=str(tmp_path), vocab_size=50304))
    assert (given.model, given.assumed, given.refused, given.notes) == (50304, False, None, ())


def test_a_vocabulary_is_padded_and_one_that_is_not_here_is_assumed(tunings: Any) -> None:
    own = vocabulary_of(tunings.config())
    assert (own.model, own.data, own.notes) == (50304, 50257, ())
    given = vocabulary_of(tunings.config(vocab_size=1000))
    assert (given.model, given.data, given.notes) == (1000, 1000, ())
    assert vocabulary_of(tunings.config(tokenizer="bytes")).model % 64 == 0
    missing = vocabulary_of(tunings.config(dataset="nowhere"))
    assert (missing.model, missing.train_tokens, missing.refused) == (50304, None, None)
    assert "dataset nowhere is not here" in missing.notes[0]
