"""tools/plain_words.py: what it takes for a sentence, a word and a fault."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "plain_words.py"
LONG = " ".join(["word"] * 26)


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("plain_words", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It took 3.5x as long. It is version 2.11.0 of torch.", 2),
        ("Recipes, e.g. demo, i.e. small ones, etc. and others vs. none.", 1),
        ("After L. Lingle the best is 9.8e-4. We took it.", 2),
        ("It took 142 s. Then it ended.", 2),
        ("Is it fast? Yes! (It is measured.) nanoGPT reads it.", 4),
        ("Val loss at 0.5: none", 1),
        ("", 0),
    ],
)
def test_sentences_are_split_at_full_stops_only(tool: Any, text: str, count: int) -> None:
    assert len(tool.sentences(text)) == count


def test_signs_alone_are_no_words(tool: Any) -> None:
    assert tool.words("a - b = c | +0.4% ...") == ["a", "b", "c", "+0.4%"]


def test_code_and_addresses_are_one_word_each(tool: Any) -> None:
    line = (
        "Run `nanodyno train demo --max_iters=3` of [the page](https://x.org/a. b) at https://y.org/a.b.c now"
    )
    assert tool.words(tool.prose(line)) == ["Run", "code", "of", "the", "page", "at", "address", "now"]


def test_a_sentence_has_at_most_25_words(tool: Any) -> None:
    assert list(tool.faults_of(" ".join(["word"] * 25) + ".")) == []
    (fault,) = tool.faults_of(f"{LONG}.")
    assert fault.startswith("26 words")


@pytest.mark.parametrize(
    "word", ["Foretold", "a corner", "it is told", "the entrants", "beyond_hand", "its doing"]
)
def test_words_that_we_do_not_use_are_found(tool: Any, word: str) -> None:
    assert len(list(tool.faults_of(f"So {word}, then."))) == 1


@pytest.mark.parametrize("word", ["cornered", "its doings", "histories told", "lessonplan"])
def test_words_that_merely_hold_one_are_not(tool: Any, word: str) -> None:
    assert list(tool.faults_of(word)) == []


def test_of_a_page_prose_is_read_and_code_is_not(tool: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A corner\n\n"
        f"```sh\ncorner {LONG}\n```\n\n"
        f"    corner {LONG}\n\n"
        "A paragraph over\ntwo lines with a corner.\n\n"
        "- One item\n- Another with a lesson\n\n"
        f"| a | sentry |\n|---|---|\n| {' '.join(['word'] * 20)} | {' '.join(['word'] * 20)} |\n\n"
        f"{LONG}\n"
    )
    assert [fault.line for fault in tool.faults(page)] == [1, 9, 13, 15, 19]


def test_of_code_help_and_errors_are_read(tool: Any, tmp_path: Path) -> None:
    page = tmp_path / "cli" / "page.py"
    page.parent.mkdir()
    page.write_text(
        'A = "a corner"\n'
        'B = typer.Option(help="a corner " f"of {a} lessons")\n'
        'C = setting("what serves", "corner")\n'
        'raise NanodynoError(f"{x} is no number", "a hint" if y else "errand")\n'
        'D = say("foretold")\n'
        "def run():\n"
        f'    """Help.\n\n    {LONG}\n\n    nanodyno run {LONG}\n    """\n'
        "def _own():\n"
        f'    """{LONG}"""\n'
    )
    assert sorted(fault.line for fault in tool.faults(page)) == [2, 2, 3, 4, 4, 6]


def test_of_messages_every_form_is_read(tool: Any, tmp_path: Path) -> None:
    page = tmp_path / "en.po"
    page.write_text(
        'msgid ""\nmsgstr "Language: en\\n"\n\n'
        f'msgid "a-code"\nmsgstr "{LONG}"\n\n'
        'msgid "corner"\nmsgstr "one {place} of {n}"\n\n'
        'msgid "runs"\nmsgid_plural "runs"\nmsgstr[0] "a lesson"\nmsgstr[1] "{n} lessons"\n'
    )
    assert [fault.line for fault in tool.faults(page)] == [4, 10, 10]


def test_the_command_fails_with_file_and_line(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "log"):
        folder.mkdir(exist_ok=True)
        (folder / "page.md").write_text("Fine.\n\nA corner.\n")
    done = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert [line.split(" ")[0] for line in done.stdout.splitlines()] == [f"{tmp_path / 'page.md'}:3:"]
    (tmp_path / "page.md").write_text("Fine.\n")
    assert subprocess.run([sys.executable, str(TOOL), str(tmp_path)], check=False).returncode == 0
