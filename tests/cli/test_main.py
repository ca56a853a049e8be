import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from nanodyno import __version__
from nanodyno.cli.main import app
from nanodyno.cli.options import OLD_OPTIONS, renamed_options

FROZEN = Path(__file__).with_name("options.txt")


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    code = (
        "import sys, nanodyno.cli.main\n"
        "try: nanodyno.cli.main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('torch', 'pydantic', 'numpy', 'tiktoken', 'pyarrow', 'babel')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"nanodyno {__version__}\n"


def test_ctrl_c_exits_with_130(monkeypatch: Any, nanodyno: Callable[..., Any]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nanodyno.records.store.run_folders", interrupt)
    assert nanodyno("runs").exit_code == 130


RENAMED = {"--cards": "--gpus", "--size": "--width", "--metric speed": "--metric tokens_per_second"}


@pytest.mark.parametrize(
    ("typed", "now", "notes"),
    [
        (["a", "--cards", "--json"], ["a", "--gpus", "--json"], 1),
        (["--size=3", "--size", "3"], ["--width=3", "--width", "3"], 2),
        (["--metric", "speed", "speed"], ["--metric", "tokens_per_second", "speed"], 1),
        (["--metric=speed", "--metric=loss"], ["--metric=tokens_per_second", "--metric=loss"], 1),
        (["--cards-too", "--", "--cards"], ["--cards-too", "--", "--cards"], 0),
    ],
)
def test_an_old_option_is_taken_for_the_new_one_with_a_note(
    typed: list[str], now: list[str], notes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(renamed_options(typed, RENAMED)) == now
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("note: --")) == ("", notes)


def test_a_command_takes_its_old_options(
    nanodyno: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OLD_OPTIONS, "runs", {"--as-json": "--json"})
    done = nanodyno("runs", "--as-json")
    assert (done.exit_code, done.stdout) == (0, "[]\n")
    assert done.stderr.startswith("note: --as-json is now --json\n")
    assert nanodyno("plan", "--as-json").exit_code == 2


def test_what_replaces_an_old_option_exists() -> None:
    known = set(options())
    for command, renamed in OLD_OPTIONS.items():
        assert known >= {f"{command} {new.split()[0]}" for new in renamed.values()}


def options() -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        for parameter in command.params:
            yield f"{name} {' '.join(sorted(parameter.opts))}"


def test_no_option_appears_or_vanishes_unnoticed() -> None:
    assert FROZEN.read_text().splitlines() == list(options()), f"if it was meant, change {FROZEN.name}"
