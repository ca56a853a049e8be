"""`--lang` and the locale, on the command line."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.messages import quantities as q
from nanodyno.messages.language import ENGLISH, LANGUAGES

ROOT = Path(__file__).parents[2]
Nanodyno = Callable[..., Any]
SPEEDS = 134_100, 56_131
"""Tokens per second of the case."""


@pytest.fixture
def case(nanodyno: Nanodyno) -> Nanodyno:
    for name in ("train1", "train2"):
        assert nanodyno("import", str(ROOT / "examples" / f"{name}.log")).exit_code == 0
    return nanodyno


def test_the_case_is_answered_in_the_language_that_is_asked_for(case: Nanodyno) -> None:
    for code, language in LANGUAGES.items():
        found = case("compare", "train2", "train1", "--lang", code).output
        known = {"run": "train2", "other": "train1", "throughput_times": language.number(2.39, ".1f")}
        speeds = {f"tokens_per_second_{end}": q.count(value, language) for end, value in enumerate(SPEEDS)}
        said = language.say("finding.throughput-fell-rate-rose.divided", **known, **speeds)
        assert said in " ".join(found.split()) or said in found.replace("\n", "")


def test_the_locale_counts_where_no_language_is_asked_for(
    case: Nanodyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "fr_FR.UTF-8")
    assert LANGUAGES["fr"].say("compare.summary.memory") in case("compare", "train2", "train1").output
    assert ENGLISH.say("compare.summary.speed") in case("compare", "train2", "train1", "--lang", "en").output
    document = json.loads(case("compare", "train2", "train1", "--json").stdout)
    assert document["runs"] == ["train2", "train1"]


def test_a_language_that_is_lacking_is_reported_once_and_english_shown(case: Nanodyno) -> None:
    result = case("show", "train1", "--lang", "de")
    assert result.exit_code == 0
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("de ")
    assert "in en; languages: en, ar, fr, hi, ja, zh-Hant" in result.stderr
    assert "parameters" in result.stdout


def test_a_document_is_the_same_whatever_the_language(case: Nanodyno) -> None:
    plan = ("plan", "gpt2-768", "--gpu", "H200", "--json")
    assert case(*plan, "--lang", "fr").stdout == case(*plan).stdout


def test_markdown_from_the_right_keeps_latin_in_its_own_direction(case: Nanodyno) -> None:
    markdown = case("compare", "train2", "train1", "--markdown", "--lang", "ar").output
    assert "\u206844.8 TFLOP/s\u2069" in markdown
    assert "\u2068" not in case("compare", "train2", "train1", "--lang", "ar").output


def test_a_terminal_without_the_letters_gets_english(case: Nanodyno) -> None:
    command = [sys.executable, "-m", "nanodyno", "compare", "train2", "train1", "--lang", "ja"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "has no letters for ja" in done.stderr
    assert ENGLISH.say("compare.summary.speed") in done.stdout
    assert case("compare", "train2", "train1").exit_code == 0


def test_a_wheel_carries_the_texts(tmp_path: Path) -> None:
    """Built from a copy, without the network, and read by an interpreter that sees nothing but the wheel."""
    source = tmp_path / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    build = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir"]
    subprocess.run([sys.executable, *build, str(tmp_path), str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    code = (
        "from nanodyno.messages import language\n"
        "words = (each.say('tune.section.reasons') for each in language.LANGUAGES.values())\n"
        "print(language.__file__, *words)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path / 'installed'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    file, *words = done.stdout.split()
    assert Path(file).is_relative_to(tmp_path)
    assert words == [word for each in LANGUAGES.values() for word in each.say("tune.section.reasons").split()]
