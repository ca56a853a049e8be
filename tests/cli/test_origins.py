"""A run given where a recipe would do, and names that are none of both."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanodyno.cli.origins import origin_of
from nanodyno.cli.tuned_file import Typed, how_to_train
from nanodyno.config import build_config
from nanodyno.recipes import load_settings, override, recipe_names
from nanodyno.records.store import read_run_record

Run = Callable[..., Any]
CASE = Path(__file__).parents[1] / "case" / "train2.log"


def test_a_run_is_planned_as_it_was_trained(nanodyno: Run, tiny: list[str], tmp_path: Path) -> None:
    assert nanodyno(*tiny, "--name=mine", "--learning_rate=0.01").exit_code == 0
    trained = read_run_record(tmp_path / "runs" / "mine").config
    origin = origin_of("mine")
    again = build_config(origin.settings.values)
    assert again.model_copy(update={"device": "cpu"}) == trained
    faster = build_config(override(origin.settings, {"learning_rate": 0.1, "max_iters": 9}).values)
    assert (faster.min_lr, faster.lr_decay_iters, faster.n_head) == (0.01, 9, 1)
    document = json.loads(nanodyno("plan", "mine", "--gpu", "H200", "--json").stdout)
    assert (document["tokens_per_iter"], document["max_iters"]) == (64, 4)
    refused = nanodyno("train", "mine")
    assert refused.exit_code == 2
    assert "nanodyno train --resume mine goes on with it" in " ".join(refused.stderr.split())


def test_a_tuned_run_is_trained_by_a_file_that_the_same_search_writes() -> None:
    before, after = load_settings("demo"), override(load_settings("demo"), {"batch_size": 2})
    options = {"--budget": "40s", "--memory-limit": "12GB", "--allow": None}
    typed = Typed("my run", ["--device=cpu"], options, {"device": "cpu"}, before, True, None)
    assert how_to_train(typed, after) == (
        "nanodyno tune 'my run' --device=cpu --budget 40s --memory-limit 12GB --write tuned.toml && "
        "nanodyno train tuned.toml"
    )
    recipe = replace(typed, source="demo", is_run=False)
    assert how_to_train(recipe, after) == "nanodyno train demo --batch_size=2"


@pytest.mark.parametrize("name", recipe_names())
def test_the_fewest_settings_of_a_run_make_its_config(name: str, record: Run, tmp_path: Path) -> None:
    made = record(load_settings(name).values)
    (tmp_path / "run.json").write_text(made.model_dump_json(), encoding="utf-8")
    values = origin_of(str(tmp_path)).settings.values
    assert build_config(values) == made.config
    assert ("n_head" in values) == (made.config.n_embd != 64 * made.config.n_head)


def test_what_a_log_does_not_tell_is_told_or_asked_for(nanodyno: Run, tmp_path: Path) -> None:
    assert nanodyno("import", str(CASE)).exit_code == 0
    planned = nanodyno("plan", "train2", "--gpu", "RTX 3060 12GB")
    assert "what the log of train2 does not tell is as nanodyno has it by default" in planned.stdout
    assert "41.0M parameters" in planned.stdout
    little = tmp_path / "little.log"
    little.write_text("iter 0: loss 4.0, time 10.0ms\niter 1: loss 3.9, time 10.0ms\n", encoding="utf-8")
    assert nanodyno("import", str(little)).exit_code == 0
    for command in ("plan", "probe", "tune"):
        refused = nanodyno(command, "little")
        assert refused.exit_code == 2
        assert "the log of little does not tell n_layer, n_embd" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("command", ["plan", "probe", "tune"])
def test_a_misspelt_name_is_told_what_there_is(nanodyno: Run, command: str) -> None:
    assert nanodyno("import", str(CASE)).exit_code == 0
    refused = nanodyno(command, "train3")
    told = " ".join(refused.stderr.split())
    assert refused.exit_code == 2
    assert "train3: no recipe, no file and no run; did you mean train2?" in told
    assert "gpt2-768, speedrun-124m; runs: train2;" in told
