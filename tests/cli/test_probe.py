import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanodyno.messages.language import ENGLISH

TINY = ["--n_layer=1", "--n_head=1", "--n_embd=16", "--block_size=16", "--batch_size=2", "--device=cpu"]
QUICK = ["--limit=0.3s", "--redo=0", "--threads=1"]

PROCESS = ENGLISH.say("probe.progress.process", name="demo", number="2", most="16")
STARTED = ENGLISH.say("probe.progress.stage", name=PROCESS, stage=ENGLISH.say("probe.stage.starting"))


def test_ctrl_c_leaves_a_document_of_what_was_measured_and_exits_with_130(tmp_path: Path) -> None:
    """In the middle of the second round, which begins with the second config: A B, B A."""
    command = [
        sys.executable,
        "-m",
        "nanodyno",
        "probe",
        "demo",
        "demo",
        *TINY,
        *QUICK,
        "--no-breakdown",
        "--json",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if STARTED in line:
                break
        os.kill(process.pid, signal.SIGINT)
        stdout, _ = process.communicate()
    assert process.returncode == 130
    document = json.loads(stdout)
    assert list(document["results"]) == ["demo", "demo (2)"]
    rounds = [
        [repetition["round"] for repetition in result["repetitions"]]
        for result in document["results"].values()
    ]
    assert rounds == [[0], [0, 1]]
    (comparison,) = document["comparisons"]
    assert (comparison["config"], comparison["reference"]) == ("demo (2)", "demo")
    assert comparison["verdict"] == "no difference shown"


def test_a_config_that_does_not_fit_is_a_result_and_no_failure(nanodyno: Callable[..., Any]) -> None:
    done = nanodyno("probe", "demo,vocab_size=2000000000", *TINY, *QUICK)
    assert done.exit_code == 0
    full = ENGLISH.say("probe.out-of-memory.stage", stage=ENGLISH.say("probe.stage.building"))
    assert f"demo,vocab_size=2000000000: {full}" in done.stdout


def test_a_config_comes_before_the_settings(nanodyno: Callable[..., Any]) -> None:
    done = nanodyno("probe", "--batch_size=2", "demo")
    assert done.exit_code == 2
    assert "before --batch_size=2" in done.stderr


def test_a_setting_of_one_config_is_judged_like_any_other(nanodyno: Callable[..., Any]) -> None:
    done = nanodyno("probe", "demo,batch_sise=2")
    assert done.exit_code == 2
    assert "batch_size" in done.stderr


def test_a_probe_without_an_end_is_refused(nanodyno: Callable[..., Any]) -> None:
    done = nanodyno("probe", "demo", "--limit=off")
    assert done.exit_code == 2
    assert "--limit" in done.stderr
