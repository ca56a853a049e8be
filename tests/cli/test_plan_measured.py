"""`plan --measured`: forecasts of a GPU by what others measured on it."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.accounts import SHAPE
from tests.plan_words import says

from nanodyno.config import build_config
from nanodyno.costs.calibration import expected_of
from nanodyno.costs.setup import settle
from nanodyno.costs.time import iteration_time
from nanodyno.hardware.ceilings import DeviceIdentity
from nanodyno.hardware.gpus import gpu_named
from nanodyno.records.ceilings import ceilings_text

Run = Callable[..., Any]
GPUS = Path(__file__).parents[2] / "docs" / "gpus"
PLAN = ("plan", "gpt2-768", "--gpu", "RTX 4070", "--kernels=autograd")


def document(done: Any) -> Any:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A folder with the results of docs/gpus."""
    folder = tmp_path / "ours"
    folder.mkdir()
    for path in GPUS.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def sent(tmp_path: Path, ceilings: Any, name: str, gib: float, multiprocessors: int) -> Path:
    device = DeviceIdentity(name, int(gib * 2**30), multiprocessors)
    path = tmp_path / "ceilings.json"
    path.write_text(ceilings_text(replace(ceilings(), device=device)), encoding="utf-8")
    return path


def test_a_result_of_another_program_moves_the_prediction_half_of_the_way(nanodyno: Run, ours: Path) -> None:
    """Its own config is then predicted between its class and its own speed."""
    file = str(ours / "rtx-4070-gpt2-768-nanogpt.json")
    asked = (*PLAN, "--batch_size=8", "--gradient_accumulation_steps=64", "--json")
    found = document(nanodyno(*asked, "--measured", file))
    assert found["basis"] == "measured"
    gpu, speed = gpu_named("RTX 4070"), found["tokens_per_second"]
    setup = settle(build_config({"kernels": "autograd"}), SHAPE, "bfloat16", None)
    of_class = iteration_time(replace(setup, batch_size=8, micro_steps=64), expected_of(gpu, "bfloat16"))
    assert speed["value"] == pytest.approx(math.sqrt(56_131 * of_class.tokens_per_second), rel=0.002)
    assert speed["low"] < 56_131 < speed["high"]
    assert document(nanodyno(*asked))["basis"] == "public"
    spread = math.log(found["tokens_per_second"]["high"] / found["tokens_per_second"]["value"])
    assert spread == pytest.approx(0.11 * 1.2816, rel=1e-3)


def test_a_folder_is_read_and_what_is_damaged_is_noted(nanodyno: Run, ours: Path) -> None:
    (ours / "broken.json").write_text('{"format": "nanodyno-result", "version": 2')
    (ours / "other.json").write_text("[]")
    done = nanodyno(*PLAN, "--measured", str(ours), "--json")
    assert document(done)["basis"] == "measured"
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert [("broken.json" in note, "other.json" in note) for note in notes] == [(True, False)]
    assert says(nanodyno(*PLAN, "--measured", str(ours)).stdout, "plan.basis.measured")


def test_a_result_without_a_speed_is_noted_and_alone_it_is_an_error(nanodyno: Run, ours: Path) -> None:
    silent = json.loads((ours / "rtx-4070-gpt2-768-nanogpt.json").read_text())
    del silent["settings"]["block_size"]
    (ours / "silent.json").write_text(json.dumps(silent))
    done = nanodyno(*PLAN, "--measured", str(ours), "--json")
    assert document(done)["basis"] == "measured"
    assert "silent.json" in done.stderr
    alone = nanodyno(*PLAN, "--measured", str(ours / "silent.json"))
    assert (alone.exit_code, "silent.json" in alone.stderr) == (2, True)


def test_ceilings_of_the_gpu_are_used_and_trainings_before_them(
    nanodyno: Run, ours: Path, tmp_path: Path, ceilings: Any
) -> None:
    path = sent(tmp_path, ceilings, "NVIDIA GeForce RTX 4070", 11.6, 46)
    assert document(nanodyno(*PLAN, "--measured", str(path), "--json"))["basis"] == "ceilings"
    path.rename(ours / path.name)
    assert document(nanodyno(*PLAN, "--measured", str(ours), "--json"))["basis"] == "measured"


def test_a_recipe_for_hours_is_sized_by_what_was_measured(nanodyno: Run, ours: Path) -> None:
    file = ours / "rtx-4070-gpt2-768-nanogpt.json"
    slow = json.loads(file.read_text())
    for step in slow["steps"]:
        step["step_seconds"] *= 2
    file.write_text(json.dumps(slow))
    asked = ("plan", "best-8h", "--gpu", "RTX 4070", "--json")
    before, after = document(nanodyno(*asked)), document(nanodyno(*asked, "--measured", str(file)))
    assert after["basis"] == "measured"
    assert after["parameters"] * after["tokens"] < 0.9 * before["parameters"] * before["tokens"]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--gpu", "RTX 3090", "--measured", "ours"), "RTX 4070"),
        (("--device=cpu", "--measured", "ours"), "--gpu"),
        (("--device=cpu", "--memory-limit", "8GB", "--measured", "ours"), "--gpu"),
        (("--gpu", "RTX 4070", "--measured", "nowhere"), "nowhere"),
        (("--gpu", "RTX 4070", "--measured", "empty"), "empty"),
        (("--gpu", "RTX 4070", "--measured", "broken.json"), "broken.json"),
        (("--gpu", "RTX 4070", "--measured", "other.json"), "other.json"),
    ],
)
def test_without_a_measurement_of_the_gpu_the_plan_is_refused(
    nanodyno: Run, ours: Path, tmp_path: Path, arguments: tuple[str, ...], reported: str
) -> None:
    del ours
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text('{"format": "nanodyno-ceilings", "version": 1}')
    (tmp_path / "other.json").write_text("{}")
    done = nanodyno("plan", "gpt2-768", *arguments)
    assert (done.exit_code, reported in done.stderr, done.stdout) == (2, True, "")


def test_ceilings_of_a_gpu_in_no_table_are_for_no_other(nanodyno: Run, tmp_path: Path, ceilings: Any) -> None:
    path = sent(tmp_path, ceilings, "NVIDIA of next year", 12, 28)
    done = nanodyno("plan", "gpt2-768", "--gpu", "RTX 4070", "--measured", str(path))
    assert (done.exit_code, "NVIDIA of next year" in done.stderr) == (2, True)
