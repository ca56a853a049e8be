import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Nanodyno = Callable[..., Any]


@pytest.fixture
def trained(nanodyno: Nanodyno, tiny: list[str]) -> Nanodyno:
    assert nanodyno(*tiny, "--name=small").exit_code == 0
    return nanodyno


def test_no_runs_yet_is_said_with_what_to_do(nanodyno: Nanodyno) -> None:
    result = nanodyno("runs")
    assert result.exit_code == 0
    assert "nanodyno demo" in result.output


def test_runs_lists_a_run_with_its_state(trained: Nanodyno) -> None:
    output = trained("runs").output
    assert "small" in output
    assert "done" in output


def test_runs_goes_on_past_a_damaged_run(trained: Nanodyno) -> None:
    Path("runs/broken").mkdir()
    Path("runs/broken/run.json").write_text("{")
    result = trained("runs")
    assert result.exit_code == 0
    assert "small" in result.stdout
    assert "broken" in result.stderr


def test_runs_as_json_is_a_list(trained: Nanodyno) -> None:
    (document,) = json.loads(trained("runs", "--json").stdout)
    assert document["summary"]["name"] == "small"


def test_runs_keeps_showing_until_ctrl_c(trained: Nanodyno) -> None:
    del trained
    command = [sys.executable, "-m", "nanodyno", "runs", "--watch"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    shown = [child.stdout.readline() for _ in range(3)]
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 0
    assert shown[1].startswith("run ")
    assert shown[2].startswith("small ")
    assert child.communicate() == ("", "")


def test_a_table_that_changes_is_no_document(nanodyno: Nanodyno) -> None:
    result = nanodyno("runs", "--watch", "--json")
    assert result.exit_code == 2
    assert "leave one of them out" in result.stderr


def test_show_says_how_a_run_stands(trained: Nanodyno) -> None:
    output = trained("show", "small").output
    assert "state" in output
    assert "done, 20" in output


def test_show_draws_the_curve_and_names_the_formula(trained: Nanodyno) -> None:
    output = " ".join(trained("show", "small").output.split())
    assert "exact causal FLOPs" in output
    assert "nanoGPT's MFU (A100)" in output
    assert "train loss" in output


def test_show_takes_a_path(trained: Nanodyno) -> None:
    assert trained("show", "runs/small").exit_code == 0


def test_show_of_an_unknown_run_names_those_there_are(trained: Nanodyno) -> None:
    result = trained("show", "smal")
    assert result.exit_code == 2
    assert "there are: small" in result.stderr


def test_sample_repeats_itself_for_a_seed_and_starts_with_the_prompt(trained: Nanodyno) -> None:
    texts = [trained("sample", "small", "--prompt", "def ", "--tokens", "20").output for _ in range(2)]
    assert texts[0] == texts[1]
    assert texts[0].startswith("def ")
    assert trained("sample", "small", "--tokens", "20", "--seed", "2", "--prompt", "def ").output != texts[0]


def test_sample_of_a_run_without_a_checkpoint_says_when_there_will_be_one(
    nanodyno: Nanodyno, tiny: list[str]
) -> None:
    assert nanodyno(*tiny, "--name=none", "--eval_only=True").exit_code == 0
    result = nanodyno("sample", "none")
    assert result.exit_code == 2
    assert "no checkpoint" in result.stderr


@pytest.mark.parametrize("dial", [["--device", "foo"], ["--seed", "9" * 30], ["--temperature", "-1"]])
def test_sample_refuses_impossible_dials(trained: Nanodyno, dial: list[str]) -> None:
    assert trained("sample", "small", "--tokens", "2", *dial).exit_code == 2


def test_sample_of_nanogpt_tokens_wants_the_name_of_their_tokenizer(
    nanodyno: Nanodyno, tiny: list[str]
) -> None:
    Path("data/letters").mkdir(parents=True)
    for split in ("train", "val"):
        (np.arange(3000, dtype=np.uint16) % 60).tofile(f"data/letters/{split}.bin")
    for name, size in (("wide", 257), ("small", 60)):
        assert nanodyno(*tiny, f"--name={name}", "--dataset=letters", f"--vocab_size={size}").exit_code == 0
    unnamed = nanodyno("sample", "wide", "--tokens", "3")
    assert (unnamed.exit_code, "--tokenizer=gpt2" in unnamed.stderr) == (2, True)
    assert nanodyno("sample", "wide", "--tokens", "3", "--tokenizer", "bytes").exit_code == 0
    other = nanodyno("sample", "small", "--tokens", "3", "--tokenizer", "bytes")
    assert (other.exit_code, "another tokenizer" in other.stderr) == (2, True)


def test_an_impossible_name_is_no_run(trained: Nanodyno) -> None:
    assert trained("show", "x" * 300).exit_code == 2


def test_runs_goes_on_past_a_run_json_of_another_program(trained: Nanodyno) -> None:
    Path("runs/other").mkdir()
    Path("runs/other/run.json").write_text('{"hello": 1}')
    Path("runs/odd/run.json").mkdir(parents=True)
    result = trained("runs")
    assert result.exit_code == 0
    assert "small" in result.stdout
    assert "no run of nanodyno" in result.stderr
