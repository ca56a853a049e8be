"""What the README tells people to type exists and is understood."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

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
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)] == []


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
        "--leave-out",
    }  # torchrun's, systemd's and those of benchmarks
    used = {word for page in pages for word in re.findall(r"(?<![\w-])--[a-z][\w-]+", page)}
    assert used - known - others == set()


def test_every_link_leads_somewhere_and_every_page_is_in_the_index() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, link.partition("#")[0])
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not link.startswith(("https:", "#"))
    ]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []
    listed = {link for page, link in links if page == ROOT / "docs" / "README.md"}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed


def test_there_are_trainings_to_check() -> None:
    assert len(TRAININGS) >= 3
