"""The table that keeps up to date, and the reading behind it."""

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nanodyno.records.lock import FolderLock
from nanodyno.records.store import RUN_FILE, STEPS_FILE, run_folders
from nanodyno.records.types import StepRecord
from nanodyno.records.writer import RunWriter
from nanodyno.report.listing import Listing
from nanodyno.report.watch import keep_showing

Builder = Callable[..., Any]


class Screen(Console):
    def __init__(self, terminal: bool, height: int = 20) -> None:
        super().__init__(
            file=io.StringIO(), width=100, height=height, force_terminal=terminal, color_system=None
        )

    @property
    def text(self) -> str:
        assert isinstance(self.file, io.StringIO)
        return self.file.getvalue()


@pytest.fixture
def make(tmp_path: Path, record: Builder, start: Builder) -> Callable[..., Path]:
    """A run folder with some steps and, unless told otherwise, no end: died."""

    def write(name: str, steps: list[StepRecord], history: list[Any] | None = None) -> Path:
        folder = tmp_path / name
        named = record().model_copy(update={"name": name})
        with RunWriter.create(folder, named) as writer:
            for each in [*(history or [start()]), *steps]:
                writer.append(each)
        return folder

    return write


@pytest.fixture
def listing(tmp_path: Path) -> Listing:
    return Listing(lambda: run_folders(tmp_path))


def states(listing: Listing) -> dict[str, tuple[str, int]]:
    rows = listing.read().rows
    return {run.name: (summary.state.kind, summary.iterations_done) for run, summary in rows}


def ends_after(happenings: Iterator[Callable[[], object]]) -> Callable[[float], None]:
    """Waits that let one thing happen each, and then a Ctrl-C."""

    def wait(_: float) -> None:
        for happening in happenings:
            happening()
            return
        raise KeyboardInterrupt

    return wait


def append(folder: Path, step: StepRecord) -> None:
    with (folder / STEPS_FILE).open("a") as file:
        file.write(step.model_dump_json() + "\n")


def test_a_run_is_read_again_when_a_step_came(listing: Listing, make: Builder, step: Builder) -> None:
    folder = make("a", [step(0)])
    assert states(listing) == {"a": ("died", 1)}
    append(folder, step(1))
    assert states(listing) == {"a": ("died", 2)}


def test_a_run_that_did_not_change_is_not_read_again(listing: Listing, make: Builder, step: Builder) -> None:
    folder = make("a", [step(0)])
    (before,) = listing.read().rows
    # Other content, of the same size and time: only who reads the file again would see it.
    path = folder / STEPS_FILE
    found = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"iteration":0', b'"iteration":7'))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    (after,) = listing.read().rows
    assert after is before


def test_a_run_whose_process_ends_is_seen_though_no_file_changes(
    listing: Listing, make: Builder, step: Builder
) -> None:
    folder = make("a", [step(0)])
    lock = FolderLock(folder)
    assert states(listing)["a"] == ("running", 1)
    lock.release()
    assert states(listing)["a"] == ("died", 1)


def test_a_removed_run_is_forgotten_and_a_new_one_found(
    listing: Listing, make: Builder, step: Builder
) -> None:
    folder = make("a", [step(0)])
    assert list(states(listing)) == ["a"]
    (folder / RUN_FILE).unlink()
    make("b", [step(0)])
    assert list(states(listing)) == ["b"]


def test_steps_are_not_kept(listing: Listing, make: Builder, step: Builder) -> None:
    make("a", [step(0), step(1)])
    ((run, summary),) = listing.read().rows
    assert (run.steps, summary.iterations_done) == ((), 2)


def test_elsewhere_the_table_is_printed_when_it_changed(
    listing: Listing, make: Builder, step: Builder
) -> None:
    folder = make("a", [step(7_628)])
    happenings = [lambda: None, lambda: append(folder, step(7_629)), lambda: None]
    screen = Screen(terminal=False)
    keep_showing(listing, screen, ends_after(iter(happenings)))
    assert screen.text.count("UTC\nrun") == 2
    assert screen.text.index("died 39%") < screen.text.index("died 40%")


def test_a_terminal_keeps_the_last_table_after_ctrl_c(listing: Listing, make: Builder, step: Builder) -> None:
    folder = make("a", [step(7_628)])
    screen = Screen(terminal=True)
    keep_showing(listing, screen, ends_after(iter([lambda: append(folder, step(7_629))])))
    during, left = screen.text.split("\x1b[?1049l")  # the end of the screen of its own
    assert "died 39%" in during
    assert "Ctrl-C" in during
    assert "died 40%" in left
    assert "Ctrl-C" not in left


def test_a_low_window_keeps_those_that_run_and_the_newest(
    listing: Listing, make: Builder, step: Builder
) -> None:
    folders = [make(f"number-{i}", [step(0)]) for i in range(9)]
    lock = FolderLock(folders[1])
    screen = Screen(terminal=True, height=7)  # titles, 4 rows, "and 5 older", the time
    keep_showing(listing, screen, ends_after(iter([])))
    lock.release()
    during = screen.text.split("\x1b[?1049l")[0]
    assert [i for i in range(9) if f"number-{i}" in during] == [1, 6, 7, 8]
    assert "and 5 older" in during


def test_a_damaged_run_is_reported_below_the_table(listing: Listing, make: Builder, step: Builder) -> None:
    (make("bad", []) / RUN_FILE).write_text("{")
    make("good", [step(0)])
    for terminal in (True, False):
        screen = Screen(terminal)
        keep_showing(listing, screen, ends_after(iter([])))
        assert "good" in screen.text
        assert "skipped: " in screen.text


def test_runs_that_are_not_there_yet_are_waited_for(listing: Listing, make: Builder, step: Builder) -> None:
    screen = Screen(terminal=False)
    keep_showing(listing, screen, ends_after(iter([lambda: make("late", [step(0)])])))
    assert screen.text.index("nanodyno demo") < screen.text.index("late")


def test_it_ends_when_nobody_reads_any_more(listing: Listing) -> None:
    screen = Screen(terminal=False)

    def reader_goes(_: float) -> None:
        screen.quiet = True

    keep_showing(listing, screen, reader_goes)
    assert screen.quiet
