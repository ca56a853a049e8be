import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from nanodyno import __version__
from nanodyno.cli.main import app

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


def options() -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        for parameter in command.params:
            yield f"{name} {' '.join(sorted(parameter.opts))}"


def test_no_option_appears_or_vanishes_unnoticed() -> None:
    assert FROZEN.read_text().splitlines() == list(options()), f"if it was meant, change {FROZEN.name}"
