import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanodyno.messages.language import ENGLISH

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
    assert child.wait(timeout=600) == 0
    assert shown[1].startswith("run ")
    assert shown[2].startswith("small ")
    assert child.communicate() == ("", "")


def test_a_table_that_changes_is_no_document(nanodyno: Nanodyno) -> None:
    result = nanodyno("runs", "--watch", "--json")
    assert result.exit_code == 2
    assert "--watch" in result.stderr
    assert "--json" in result.stderr


def test_show_says_how_a_run_stands(trained: Nanodyno) -> None:
    output = trained("show", "small").output
    assert ENGLISH.say("common.state") in output
    assert ENGLISH.say("state.done.at", when="20").removesuffix(".") in output


def test_show_fits_a_page_and_prints_everything_with_all(trained: Nanodyno) -> None:
    run = json.loads(Path("runs/small/run.json").read_text())
    run["notes"] = [f"note {each}" for each in range(40)]
    Path("runs/small/run.json").write_text(json.dumps(run))
    assert len(trained("show", "small").stdout.splitlines()) <= 30
    assert "note 39" in trained("show", "small", "--all").stdout


def test_show_draws_the_curve_and_names_the_formula(trained: Nanodyno) -> None:
    output = " ".join(trained("show", "small").output.split())
    assert "MFLOP/token" in output
    assert "nanoGPT" in output
    assert ENGLISH.say("common.train-loss") in output


def test_show_takes_a_path(trained: Nanodyno) -> None:
    assert trained("show", "runs/small").exit_code == 0


def test_show_of_an_unknown_run_names_those_there_are(trained: Nanodyno) -> None:
    result = trained("show", "smal")
    assert result.exit_code == 2
    assert "runs: small" in result.stderr


def test_sample_repeats_itself_for_a_seed_and_starts_with_the_prompt(trained: Nanodyno) -> None:
    texts = [trained("sample", "small", "--prompt", "def ", "--tokens", "20").output for _ in range(2)]
    assert texts[0] == texts[1]
    assert texts[0].startswith("def ")
    assert trained("sample", "small", "--tokens", "20", "--seed", "2", "--prompt", "def ").output != texts[0]


def test_sample_takes_nanogpts_names_and_draws_each_text_by_the_next_seed(trained: Nanodyno) -> None:
    words = ("sample", "small", "--start=def ", "--max_new_tokens=12", "--top_k=50", "--num_samples=2")
    plain = ("sample", "small", "--prompt", "def ", "--tokens", "12", "--top-k", "50", "--seed")
    first, second = (trained(*plain, seed).output for seed in ("1337", "1338"))
    assert trained(*words).output == f"{first}---------------\n{second}"
    document = json.loads(trained(*words, "--json").stdout)
    assert document["texts"] == [text.removeprefix("def ").removesuffix("\n") for text in (first, second)]
    assert document["text"] == document["texts"][0]


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
    assert "not a run of nanodyno" in result.stderr


CASE = Path(__file__).parents[2] / "examples"


@pytest.fixture
def case(nanodyno: Nanodyno) -> Nanodyno:
    for name in ("train1", "train2"):
        assert nanodyno("import", str(CASE / f"{name}.log"), "--gpu", "RTX 4070").exit_code == 0
    return nanodyno


def test_the_leaderboard_ranks_what_follows_and_says_why_the_rest_does_not(case: Nanodyno) -> None:
    """By speed the narrow model is first, by the share of the peak the wide one; each has two evaluations."""
    reported = " ".join(case("runs", "--leaderboard").output.split())
    assert "val loss on fineweb-edu (gpt2) after 262.1M tokens" in reported
    assert "1 train1 123.6M 5.5194" in reported
    assert "1 train2 40.6M 134,1" in reported
    assert "2 train1 123.6M 56,131" in reported
    assert "1 train1 123.6M 76.8%" in reported


def test_the_leaderboard_as_a_document(case: Nanodyno) -> None:
    document = json.loads(case("runs", "--leaderboard", "--json").stdout)
    boards = {board["metric"]: board["entries"] for board in document["boards"]}
    speed = [(entry["run"], entry["rank"]) for entry in boards["tokens_per_second"]]
    assert speed == [("train2", 1), ("train1", 2)]
    assert set(boards["mfu"][0]["value"]) == {"value", "low", "high", "n"}
    assert document["unranked"] == []
    alone = json.loads(case("runs", "train1", "--leaderboard", "--json").stdout)
    assert alone["boards"] == []


def test_a_leaderboard_of_nothing_says_what_to_do(nanodyno: Nanodyno) -> None:
    assert "nanodyno demo" in nanodyno("runs", "--leaderboard").output


def test_a_result_goes_out_and_comes_back_as_the_same_row(trained: Nanodyno, tiny: list[str]) -> None:
    assert trained(*tiny, "--name=other", "--learning_rate=0.01").exit_code == 0
    reported = trained("runs", "--export", "small.json", "small").output
    assert "4 iterations and 3 evaluations of small" in reported
    assert str(Path.cwd()) not in Path("small.json").read_text()
    reported = trained("import", "small.json", "--name", "copy").output
    assert "recognized  nanodyno" in reported
    assert "next: nanodyno show copy, nanodyno compare other copy" in " ".join(reported.split())
    document = json.loads(trained("compare", "small", "copy", "--json").stdout)
    assert document["changes"] == []
    for values in document["metrics"].values():
        assert values["small"] == values["copy"]
    document = json.loads(trained("show", "copy", "--json").stdout)
    assert (document["summary"]["state"]["kind"], document["run"]["origin"]["files"][0]["kind"]) == (
        "imported",
        "result",
    )


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("--export", "x.json"), "one run"),
        (("--export", "x.json", "train1", "train2"), "one run"),
        (("--export", "x.json", "train1", "--leaderboard"), "exclude each other"),
        (("--watch", "--leaderboard"), "exclude each other"),
        (("--export", "there.txt", "train1"), "not a result"),
        (("--export", "no/where.json", "train1"), "cannot write"),
        (("--export", "x.json", "nobody"), "no run 'nobody'"),
    ],
)
def test_an_export_that_cannot_be_is_refused(case: Nanodyno, words: tuple[str, ...], reported: str) -> None:
    Path("there.txt").write_text("mine")
    result = case("runs", *words)
    assert (result.exit_code, reported in result.stderr) == (2, True)
    assert Path("there.txt").read_text() == "mine"


def test_only_the_named_runs_are_listed(case: Nanodyno) -> None:
    listed = case("runs", "train1").output
    assert "train1" in listed
    assert "train2" not in listed
