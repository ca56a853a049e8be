"""`nanodyno import` as people type it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.plan_words import says

CASE = Path(__file__).parents[2] / "examples"


@pytest.fixture
def case(nanodyno: Callable[..., Any]) -> Callable[..., Any]:
    """Run in a folder that holds the case's two logs."""
    for name in ("train1.log", "train2.log"):
        shutil.copy(CASE / name, name)
    return nanodyno


def test_it_says_what_it_recognised_read_and_does_not_know(case: Callable[..., Any]) -> None:
    reported = " ".join(case("import", "train1.log").output.split())
    assert "recognized nanoGPT: train1.log" in reported
    assert "read 169 iterations, 169 timed, 2 evaluations" in reported
    assert "unknown n_layer, n_head, bias, GPU (add" in reported
    assert "skipped 5 lines" in reported
    assert "next: nanodyno show train1" in reported


def test_a_run_of_the_same_data_is_proposed_for_a_comparison(case: Callable[..., Any]) -> None:
    assert "nanodyno compare" not in case("import", "train1.log").output
    case("import", "train1.log", "--name", "other", "--set", "dataset=mine")
    assert "nanodyno compare train1 train2" in case("import", "train2.log").output


def test_an_imported_run_is_listed_and_shown_like_another(case: Callable[..., Any]) -> None:
    case("import", "train1.log", "--gpu", "4070", "--set", "n_layer=12", "--set", "bias=False")
    case("import", "train2.log", "--name", "narrow")
    listed = case("runs").output
    assert "train1  imported  124.4M" in listed
    assert "narrow  imported   40.6M" in listed
    shown = " ".join(case("show", "train1").output.split())
    assert says(shown, "state.imported.log-file", program="nanoGPT", files="train1.log")
    assert "145.9 ms/micro-batch" in shown
    assert all(each in shown for each in ("RTX 4070", "58.3 TFLOP/s", "15.4%"))


def test_its_document_has_the_record_and_what_is_missing(case: Callable[..., Any]) -> None:
    done = case("import", "train2.log", "--json", "--set", "n_head=6")
    document = json.loads(done.stdout)
    assert document["run"]["settings"]["n_head"] == 6
    assert document["run"]["tokens_per_iter"] == 524_288
    assert document["unknown"] == ["n_layer", "bias", "GPU"]
    shown = json.loads(case("show", "train2", "--json").stdout)
    assert (shown["summary"]["parameters"], shown["summary"]["counted_parameters"]) == (None, 40_560_000)


def test_bits_per_byte_are_shown_as_such_and_compared_with_no_loss(nanodyno: Callable[..., Any]) -> None:
    line = "step {0:05d}/00009 (0.0%) | loss: 9.10000{0} | lrm: 1.00 | dt: 480.25ms | mfu: 4.2\n"
    Path("chat.log").write_text("Step 00000 | Validation bpb: 3.3013\n" + "".join(map(line.format, range(5))))
    document = json.loads(nanodyno("import", "chat.log", "--json").stdout)
    assert document["run"]["origin"]["program"] == "nanochat"
    assert document["run"]["val_bits_per_byte"] == [[0, 3.3013]]
    assert json.loads(nanodyno("show", "chat", "--json").stdout)["evals"] == []
    assert "bits per byte" in nanodyno("show", "chat").output


def test_imported_runs_cannot_be_trained_on(case: Callable[..., Any]) -> None:
    case("import", "train1.log")
    done = case("train", "--resume", "train1")
    assert done.exit_code == 2
    assert "was imported from a log" in done.output


def test_a_training_passes_over_an_import_that_has_a_name_like_its_own(
    case: Callable[..., Any], tiny: list[str]
) -> None:
    case("import", "train1.log", "--name", "demo-1")
    assert case(*tiny).exit_code == 0
    assert Path("runs/demo-2").exists()
    refused = case(*tiny, "--name", "demo-1")
    assert (refused.exit_code, "was imported from a log" in refused.output) == (2, True)


def test_a_log_has_no_weights_to_draw_text_from(case: Callable[..., Any]) -> None:
    case("import", "train1.log")
    done = case("sample", "train1")
    assert (done.exit_code, "imported from a log, which has no weights" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("nothing.log",), "cannot be read"),
        (("train1.log", "--set", "n_layer"), "not a setting"),
        (("train1.log", "--set", "=5"), "not a setting"),
        (("train1.log", "--set", "n_layers=12"), "did you mean n_layer?"),
        (("train1.log", "--name", "../up"), "plain name"),
        (("train1.log", "--name", "a\x1b[31mb"), "plain name"),
        (("train1.log", "--gpu", "RTX 9999"), "unknown GPU"),
        (("train1.log", "--config", "nowhere.toml"), "no such file"),
    ],
)
def test_mistakes_are_reported_with_exit_code_2(case: Callable[..., Any], words: Any, reported: str) -> None:
    done = case("import", *words)
    assert (done.exit_code, reported in done.output) == (2, True)
    assert not Path("runs/train1").exists()


def test_what_a_log_says_never_reaches_the_terminal_raw(nanodyno: Callable[..., Any]) -> None:
    evil = "\x1b]0;title\x07[bold]<b>\x9b31m"
    Path("evil [red].log").write_text(
        f"Overriding: dataset = {evil}\n{evil} warning\niter 0: loss 4.2000, time 9.00ms, mfu 1.00%\n"
    )
    reported = nanodyno("import", "evil [red].log").output + nanodyno("show", "evil-red").output
    assert "evil [red].log" in reported
    assert "[bold]<b>\\x9b31m" in reported
    assert not {"\x1b", "\x07", "\x9b"} & set(reported)


def test_a_trainers_stdout_is_imported_and_shown(nanodyno: Callable[..., Any]) -> None:
    Path("trainer.log").write_text(
        "{'loss': 4.5, 'epoch': 0.5}\n\r 50%|##  | 10/20 [00:01<00:01,  9.1it/s]\n"
        "{'loss': 4.0, 'epoch': 1.0}\n\r100%|####| 20/20 [00:02<00:00,  9.1it/s]\n"
    )
    document = json.loads(nanodyno("import", "trainer.log", "--json").stdout)
    assert document["run"]["settings"] == {"max_iters": 20}
    shown = json.loads(nanodyno("show", "trainer", "--json").stdout)
    assert (shown["summary"]["iterations_done"], shown["summary"]["iterations_planned"]) == (20, 20)


def test_an_edited_train_py_is_a_config(case: Callable[..., Any]) -> None:
    Path("train.py").write_text(
        "import torch\nn_layer = 4 * 3\nbias = False\nconfig_keys = []\nn_head = 99\n"
    )
    document = json.loads(case("import", "train1.log", "--config", "train.py", "--json").stdout)
    assert document["run"]["settings"]["n_layer"] == 12
    assert "n_head" in document["unknown"]


def test_a_config_that_is_no_python_is_refused_with_a_hint(case: Callable[..., Any]) -> None:
    Path("broken.py").write_text("n_layer: 12\n  batch_size: 8\n")
    done = case("import", "train1.log", "--config", "broken.py")
    assert (done.exit_code, "not valid Python" in done.output, ".toml" in done.output) == (2, True, True)
