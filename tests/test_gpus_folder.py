"""docs/gpus: each file is one measurement of a GPU of the table that `plan --measured` takes, and no more."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import with_found_shape
from nanodyno.analysis.known_speeds import known_speed, measurements_of
from nanodyno.cli.main import app
from nanodyno.records.exported import RESULT_FORMAT, format_of
from nanodyno.records.importers.results import run_of_result
from nanodyno.records.measured import read_measured

FOLDER = Path(__file__).parents[1] / "docs" / "gpus"
FILES = sorted(each for each in FOLDER.iterdir() if each.name != "README.md")
RESULTS = [each for each in FILES if format_of(each) == RESULT_FORMAT]
LARGEST_BYTES = 100_000
PRIVATE = re.compile(r"(^|[^\w])(/|~|\\\\|[A-Za-z]:\\)\w|\bout[-_]|@|\w\.(local|lan|home|internal)\b|home")
KEYS = {"host", "hostname", "uuid", "serial", "command", "notes", "out_dir", "wall_time", "elapsed_seconds",
        "git_commit", "git_dirty", "stamp"}  # fmt: skip
"""That no export has."""


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(each)


def keys(value: Any) -> Iterator[str]:
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(each)
    if isinstance(value, dict):
        yield from value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_is_a_whole_measurement_of_a_gpu_of_the_table(path: Path) -> None:
    """A reader refuses keys beyond the format."""
    assert re.fullmatch(r"[a-z0-9.-]+\.json", path.name)
    found = measurements_of(read_measured(path))
    assert (len(found.speeds) + len(found.ceilings), found.unused) == (1, ())
    assert path.stat().st_size <= LARGEST_BYTES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_has_what_is_private(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [each for each in texts(document) if PRIVATE.search(each)] == []
    assert KEYS.isdisjoint(keys(document))


@pytest.mark.parametrize(
    "private", ["/home/me/data", "~/data", "C:\\data", "data in /mnt/x", "box.local", "out-train1", "a@b"]
)
def test_what_is_private_is_found(private: str) -> None:
    assert PRIVATE.search(private)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_a_plan_by_the_folder_covers_the_measured_speed_of_each_config(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = with_found_shape(account_of(run_of_result(path)))
    known = known_speed(account)
    assert known is not None
    assert account.shape is not None
    monkeypatch.chdir(tmp_path)
    command = CliRunner()
    assert command.invoke(app, ["import", str(path), "--name", "theirs"]).exit_code == 0
    kernels = account.in_effect.get("kernels", "autograd")
    asked = ["plan", "theirs", "--gpu", known.gpu.label, "--measured", str(FOLDER), f"--kernels={kernels}"]
    plan = json.loads(command.invoke(app, [*asked, "--json"]).stdout)
    assert plan["basis"] == "measured"
    speed = plan["tokens_per_second"]
    assert speed["low"] <= known.tokens_per_second <= speed["high"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_table_of_the_page_has_each_file_with_its_figures(path: Path) -> None:
    rows = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    (row,) = (row for row in rows if f"({path.name})" in row)
    if path not in RESULTS:
        return
    account = with_found_shape(account_of(run_of_result(path)))
    speed, share = account.speed.tokens_per_second, account.speed.mfu
    assert speed is not None
    assert share is not None
    assert account.gpu is not None
    assert [account.gpu.label in row, f"{speed.value:,.0f}" in row, f"{share.value:.1%}" in row] == [True] * 3
