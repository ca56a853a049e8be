"""What is shown of a preparation."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from nanodyno.records.events import Message
from nanodyno.records.preparation import PreparationProgress, PreparationRecord, PreparationStarted
from nanodyno.report.preparation import make_preparation_display, preparation_table

STARTED = PreparationStarted(
    folder=Path("data/texts"),
    source="files",
    inputs=3,
    input_bytes=2**30,
    tokenizer="gpt2",
    workers=2,
    done_tokens=1_000_000,
    wanted_tokens=None,
)


def progress(tokens: int, seconds: float, fraction: float) -> PreparationProgress:
    return PreparationProgress(tokens=tokens, documents=1, seconds=seconds, fraction=fraction)


def shown(*events: Any, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=terminal)
    display = make_preparation_display(console)
    for event in events:
        display(event)
    display.close()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_plain_lines_tell_tokens_rate_and_time_left_every_ten_seconds() -> None:
    # From 2% after 1 s to 27% after 11 s: 2.5% a second, so 73% take 29 s.
    events = [progress(0, 1.0, 0.02), progress(500_000, 6.0, 0.1), progress(2_000_000, 11.0, 0.27)]
    lines = shown(STARTED, *events).splitlines()
    assert lines == [
        "preparing data/texts from files: 3 files of 1.00 GiB, tokenizer gpt2, 2 threads; "
        "1.00M tokens are there already",
        "27% | 3.00M tokens | 200,000 tok/s | ETA 29 s",
    ]


def test_a_terminal_sees_a_bar_and_messages_above_it() -> None:
    events = [progress(0, 0.0, 0.0), Message("[sic] a file"), progress(10**6, 10.0, 0.5)]
    text = shown(STARTED, *events, terminal=True)
    assert "[sic] a file" in text
    assert "100,000 tok/s" in text
    assert "50%" in text


def record(**changes: Any) -> PreparationRecord:
    reported: dict[str, Any] = {
        "folder": Path("data/texts"),
        "source": "files",
        "tokenizer": "gpt2",
        "vocab_size": 50257,
        "dtype": "uint16",
        "fingerprint": "0",
        "inputs": 3,
        "bad_inputs": (),
        "train_tokens": 990_000,
        "val_tokens": 10_000,
        "train_documents": 990,
        "val_documents": 10,
        "shards": 2,
        "bytes": 2_000_000,
        "empty": 0,
        "low_score": 0,
        "broken": 0,
        "duplicates": 7,
        "invalid_utf8": 0,
        "repaired_parts": 0,
        "new_tokens": 1_000_000,
        "seconds": 4.0,
    }
    return PreparationRecord(**(reported | changes))


def table(entry: PreparationRecord) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(preparation_table(entry))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_the_totals_and_only_what_was_left_out() -> None:
    text = table(record())
    for words in ("990,000", "990 train, 10 val", "7 left out", "250,000 tok/s"):
        assert words in text
    assert "empty documents" not in text
    assert "broken lines" not in text


def test_a_table_of_nothing_new_has_no_rate() -> None:
    assert "tok/s" not in table(record(new_tokens=0))
