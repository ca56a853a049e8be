"""SIGKILL at any moment, the same command again: the same bytes, and nothing that was done is done again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nanodyno.records.preparation import PreparationRecord

# Forks a preparation for each moment and kills it there: before its n-th opening, renaming or deletion of a
# file, which is where a half-done state could be seen. A thread's work is nowhere else on the disk.
KILLED = """
import os, signal, sys
from pathlib import Path
from nanodyno.data.prepare.request import Choices, Destination, run_preparation

source, out, *moments = sys.argv[1:]
choices = Choices("bytes", val=0.2, shard_tokens=3000)
for moment in map(int, moments):
    child = os.fork()
    if child == 0:
        left = [moment]

        def count(event, arguments):
            if event in ("open", "os.rename", "os.remove") and out in str(arguments[0]):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        run_preparation(source, choices, Destination(Path(out, str(moment)), 2, lambda _: None))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def killed(source: Path, out: Path, moments: list[int]) -> list[int]:
    """The exit codes of preparations into out/MOMENT, each killed at its moment if it comes to it."""
    command = [sys.executable, "-c", KILLED, str(source), str(out), *map(str, moments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return [int(line) for line in done.stdout.split()]


def done_files(out: Path) -> dict[Path, int]:
    """When each file of a part that has its record was written."""
    parts = [path.stem for path in out.glob("parts/*-*.json")]
    return {path: path.stat().st_mtime_ns for part in parts for path in out.glob(f"*-{part}.bin")}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes_and_does_no_finished_part_again(
    corpus: Path,
    tmp_path: Path,
    prepared: Callable[..., PreparationRecord],
    digests: Callable[[Path], dict[str, str]],
) -> None:
    prepared(corpus, tmp_path / "whole")
    moments = [0, 3, 5, 7, 10, 13, 17, 22, 28, 34, 41, 47, 53, 58]
    assert set(killed(corpus, tmp_path, moments)) == {-signal.SIGKILL}
    finished: list[int] = []
    for moment in moments:
        out = tmp_path / str(moment)
        before = done_files(out)
        finished.append(len(before))
        prepared(corpus, out)
        assert digests(out) == digests(tmp_path / "whole")
        assert before == {path: path.stat().st_mtime_ns for path in before}
    assert finished[0] == 0
    assert finished[-1] > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_twice_in_a_row_it_still_goes_on(
    corpus: Path,
    tmp_path: Path,
    prepared: Callable[..., PreparationRecord],
    digests: Callable[[Path], dict[str, str]],
) -> None:
    prepared(corpus, tmp_path / "whole")
    assert killed(corpus, tmp_path, [20, 20, 20]) == [-signal.SIGKILL] * 3
    prepared(corpus, tmp_path / "20")
    assert digests(tmp_path / "20") == digests(tmp_path / "whole")
