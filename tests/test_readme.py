"""What the README and the docs tell people to type exists, is understood and shows what they show."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from nanodyno.cli.main import app
from nanodyno.config import RunConfig, build_config
from nanodyno.recipes import at_any_rate, load_settings, override, parse_overrides

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL_LINES = [
    line.split("#")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.S)
    for line in block.splitlines()
]
TRAININGS = [
    line.replace(" --detach", "").replace(" --tune", "")
    for line in SHELL_LINES
    if line.startswith("nanodyno train") and "--resume" not in line
]
GROUP: Any = typer.main.get_command(app)


def test_the_table_of_commands_is_the_command_line() -> None:
    listed = re.findall(r"^\| `nanodyno (\w+)", README, re.M)
    assert sorted(listed) == sorted(GROUP.commands)


def test_every_make_target_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in SHELL_LINES if line.startswith("make ")}
    assert targets == {"demo", "test"}
    mentioned = set(re.findall(r"`make ([\w-]+)`", README))
    assert [each for each in targets | mentioned if not re.search(rf"^{each}:", makefile, re.M)] == []


@pytest.mark.parametrize("line", TRAININGS)
def test_every_training_in_the_readme_is_a_valid_config(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, _, source, *words = shlex.split(line)
    if source.endswith(".py"):
        Path(source).parent.mkdir(parents=True)
        Path(source).write_text("batch_size = 12\ngradient_accumulation_steps = 5 * 8\nmax_iters = 600000\n")
    if source == "tuned.toml":  # which the line before it writes
        Path(source).write_text("batch_size = 16\n")
    build_config(at_any_rate(override(load_settings(source), parse_overrides(words))).values)


def test_there_are_trainings_to_check() -> None:
    assert len(TRAININGS) >= 3


def test_the_example_in_the_readme_shows_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are run as they are; each figure of the table is one of the comparison's."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    *imports, comparison = [line for line in SHELL_LINES if re.match(r"nanodyno (import|compare) ", line)]
    assert len(imports) == 2
    done = [CliRunner().invoke(app, shlex.split(line)[1:]) for line in (*imports, f"{comparison} --json")]
    assert [each.exit_code for each in done] == [0, 0, 0]
    metrics = json.loads(done[-1].stdout)["metrics"]
    rows = dict(re.findall(r"^\| (tokens per second|achieved TFLOP/s) \| (.* \| .*) \|$", README, re.M))
    for label, key, scale in (
        ("tokens per second", "tokens_per_second", 1),
        ("achieved TFLOP/s", "achieved_flops_per_second", 1e12),
    ):
        shown = [float(each.replace(",", "")) for each in rows[label].split(" | ")]
        found = [metrics[key][run]["value"] / scale for run in ("train2", "train1")]
        assert shown == pytest.approx(found, rel=2e-3)


def test_every_option_in_the_readme_and_the_docs_exists() -> None:
    pages = [README, *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))]
    known = {
        option
        for command in GROUP.commands.values()
        for each in command.params
        for option in (*each.opts, *each.secondary_opts)
    }
    known |= {f"--{key}" for key in RunConfig.model_fields}
    others = {
        "--help",
        "--key",
        "--nproc_per_node",
        "--max-restarts",
        "--user",
        "--now",
        "--lr",
    }  # torchrun's and systemd's, and one that is meant to be wrong
    used = {
        word
        for page in pages
        for line in page.splitlines()
        if "benchmarks/" not in line  # whose options are their own
        for word in re.findall(r"(?<![\w-])--[a-z][\w-]+", line)
    }
    assert used - known - others == set()
