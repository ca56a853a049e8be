"""Reports to keep: written where it was said, and refused before the work that leads to them."""

import json
import os
import re
import subprocess
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.report.html.static import Checked

from nanodyno.messages.language import ENGLISH

Nanodyno = Callable[..., Any]
CASE = Path(__file__).parents[2] / "examples"


@pytest.fixture
def case(nanodyno: Nanodyno) -> Nanodyno:
    for name in ("train2", "train1"):
        assert nanodyno("import", str(CASE / f"{name}.log"), "--name", name).exit_code == 0
    return nanodyno


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(addresses.append(address)) or True)
    return addresses


def test_compare_writes_a_page_beside_what_it_prints(case: Nanodyno, tmp_path: Path) -> None:
    result = case("compare", "train2", "train1", "--html", "case.html")
    assert result.exit_code == 0
    assert ENGLISH.say("compare.summary.speed") in result.stdout
    assert "report: case.html" in result.stderr
    page = Checked((tmp_path / "case.html").read_text(encoding="utf-8"))
    assert page.faults == []
    assert "56.1k vs 134.1k" in page.text


def test_a_document_and_a_page_come_together(case: Nanodyno, tmp_path: Path) -> None:
    result = case("compare", "train2", "train1", "--json", "--html", "case.html")
    assert json.loads(result.stdout)["runs"] == ["train2", "train1"]
    assert (tmp_path / "case.html").exists()


def test_a_page_is_opened_from_a_passing_place_where_none_is_named(
    case: Nanodyno, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = case("show", "train1", "--open")
    assert result.exit_code == 0
    (address,) = opened
    assert address.startswith(tmp_path.as_uri())
    assert Path(re.sub("^file://", "", address)).exists()


def test_without_a_browser_the_file_is_reported(case: Nanodyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    result = case("show", "train1", "--html", "run.html", "--open")
    assert result.exit_code == 0
    assert "no browser was found" in result.stderr


def test_jekyll_on_stdout_and_with_pictures_in_a_file(case: Nanodyno, tmp_path: Path) -> None:
    printed = case("compare", "train2", "train1", "--format", "jekyll")
    assert printed.stdout.startswith("---\nlayout: page\ntitle: ")
    assert ENGLISH.say("compare.summary.speed") in printed.stdout
    assert "![" not in printed.stdout
    written = case("compare", "train2", "train1", "--format", "jekyll", "--out", "notes.md")
    assert written.exit_code == 0
    text = (tmp_path / "notes.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((notes-\d\.svg)\)", text)
    assert len(pictures) == 5
    assert all((tmp_path / name).read_text(encoding="utf-8").startswith("<svg") for name in pictures)


def test_plan_writes_its_page(nanodyno: Nanodyno, tmp_path: Path) -> None:
    result = nanodyno("plan", "gpt2-768", "--gpu", "H200", "--html", "plan.html", "--format", "markdown")
    assert result.exit_code == 0
    assert result.stdout.startswith("## gpt2-768 on ")
    assert Checked((tmp_path / "plan.html").read_text(encoding="utf-8")).faults == []


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "a", "b"),
        ("forecast", "a"),
        ("plan", "gpt2-768"),
        ("show", "a"),
        ("tune", "demo"),
        ("demo",),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    nanodyno: Nanodyno, tmp_path: Path, command: tuple[str, ...]
) -> None:
    for place in ("nowhere/report.html", str(tmp_path)):
        result = nanodyno(*command, "--html", place)
        assert result.exit_code == 2
        assert "no such folder" in result.output or "this is a folder" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="whoever runs this may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(nanodyno: Nanodyno, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    result = nanodyno("plan", "gpt2-768", "--html", "locked/plan.html")
    assert result.exit_code == 2
    assert "no permission" in result.output


def test_a_disk_that_fills_up_is_reported_as_such(case: Nanodyno, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = case("compare", "train2", "train1", "--html", "case.html")
    assert result.exit_code == 2
    assert "case.html cannot be written: No space left on device" in result.output


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("--out", "x.md"), "--out needs a --format"),
        (("--json", "--format", "markdown"), "--json and --format"),
    ],
)
def test_what_contradicts_itself_is_refused(case: Nanodyno, words: tuple[str, ...], reported: str) -> None:
    result = case("compare", "train2", "train1", *words)
    assert result.exit_code == 2
    assert reported in result.output


def test_the_page_is_in_the_readers_language_though_the_terminal_has_no_letters_for_it(
    case: Nanodyno, tmp_path: Path
) -> None:
    del case
    words = ["show", "train1", "--html", "run.html", "--lang", "ar"]
    done = subprocess.run(
        [sys.executable, "-m", "nanodyno", *words],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert b"train1" in done.stdout
    assert done.stdout.isascii()
    assert '<html lang="ar" dir="rtl">' in (tmp_path / "run.html").read_text(encoding="utf-8")
