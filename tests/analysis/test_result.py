"""A run as a file for others: what is in it, what is not, and that it comes back as the same run."""

import dataclasses
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import compared_runs
from nanodyno.analysis.growth import BatchGrowth
from nanodyno.analysis.leaderboard import leaderboard, standing_of
from nanodyno.analysis.result import result_of, thinned, without_folders
from nanodyno.analysis.summary import summarise
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.result import is_result, result_text
from nanodyno.records.store import Run, read_run

CASE = Path(__file__).parents[2] / "examples"
PRIVATE = ("home", "/mnt", "alice", "secret", "0123abc", "nanodyno train")


@pytest.fixture
def long(run: Any, record: Any, step: Any, evaluation: Any, wide_settings: dict[str, Any]) -> Run:
    """3,000 iterations of 9.34 s that scatter by 1%, resumed once, with an evaluation every 100th."""
    scatter = random.Random(1)
    made = record(
        {**wide_settings, "dataset": "/mnt/alice/fineweb-edu", "out_dir": "/mnt/x"}, resumed_at=(1500,)
    )
    secrets = {
        "command": ("nanodyno", "train", "/home/alice/secret.py"),
        "notes": ("in /home/alice",),
        "machine": made.machine.model_copy(
            update={"platform": "Linux-6.1.0-alice-laptop", "multiprocessors": 46}
        ),
        "versions": made.versions.model_copy(update={"git_commit": "0123abc"}),
        "data": made.data.model_copy(update={"stamp": "0123abc"}),
    }
    steps = [
        step(
            number,
            loss=10 / (1 + number / 500) + scatter.gauss(0, 0.05),
            step_seconds=20.0 if number in (0, 1500) else 9.34 * (1 + scatter.gauss(0, 0.01)),
            peak_allocated_bytes=7_000_000_000 + (5 if number == 1234 else 0),
            peak_reserved_bytes=8_000_000_000,
        )
        for number in range(3000)
    ]
    evals = [
        evaluation(at, val_loss=10 / (1 + at / 500) + scatter.gauss(0, 0.01)) for at in range(0, 3001, 100)
    ]
    return run(steps, evals, made.model_copy(update=secrets))


def exported(run: Run, folder: Path) -> Path:
    path = folder / "result.json"
    path.write_text(result_text(result_of(run, summarise(run))))
    return path


@pytest.fixture
def sent(tmp_path: Path) -> Callable[..., Run]:
    """A run as it comes back from a file."""

    def build(run: Run, **options: Any) -> Run:
        import_run(
            ImportRequest((exported(run, tmp_path),), tmp_path / "runs" / "copy", replace=True, **options)
        )
        return read_run(tmp_path / "runs" / "copy")

    return build


def test_the_copy_has_the_figures_of_the_original(long: Run, sent: Callable[..., Run]) -> None:
    """The medians within the half percent that 400 of 3,000 iterations of 1% scatter leave open."""
    original, copy = account_of(long), dataclasses.replace(account_of(sent(long)), name="copy")
    comparison = compare([original, copy])
    assert {metric.name for metric in comparison.metrics} > {"mfu", "peak_allocated_bytes"}
    rates = {"mfu", "nanogpt_mfu"}
    for metric in comparison.metrics:
        one, other = metric.values[original.name].value, metric.values["copy"].value
        assert other == pytest.approx(
            one, rel=0.005 if "second" in metric.name or metric.name in rates else 0
        )
    assert comparison.changes["copy"].changed == ()
    assert comparison.winners == {}
    assert comparison.accounts[1].peak_allocated_bytes == 7_000_000_005


def test_the_copy_stands_beside_the_original_on_the_leaderboard(long: Run, sent: Callable[..., Run]) -> None:
    found = leaderboard([standing_of(account_of(each)) for each in (long, sent(long))])
    assert [[entry.rank for entry in board.entries] for board in found.boards] == [[1, 1]] * 3
    assert found.unranked == ()
    for board in found.boards:
        one, other = board.entries
        assert (one.parameters, one.device) == (other.parameters, other.device)


def test_the_copy_leads_to_the_same_findings_as_the_original(
    long: Run, sent: Callable[..., Run], run: Any, record: Any, narrow_settings: dict[str, Any]
) -> None:
    other = run(list(long.own_steps), list(long.own_evals), record(narrow_settings))
    codes = [[finding.code for finding in compared_runs([other, each])[1]] for each in (long, sent(long))]
    assert codes[0] == codes[1]
    assert "speed-within-noise" in codes[0]


def test_the_copy_of_a_run_whose_batch_grew_has_its_tokens(
    run: Any, record: Any, step: Any, evaluation: Any, wide_settings: dict[str, Any], sent: Callable[..., Run]
) -> None:
    """8 iterations of 524,288 tokens in 9 s each, 12 of twice the tokens in twice the time: as long as 32."""
    sizes = [2**19] * 8 + [2**20] * 12
    steps = [step(i, tokens=size, step_seconds=9.0 * size / 2**19) for i, size in enumerate(sizes)]
    settings = {**wide_settings, "batch_ramp": f"{8 * 2**19}:1048576"}
    grown = run(steps, [evaluation(at) for at in (10, 20)], record(settings))
    for each in (account_of(grown), account_of(sent(grown))):
        assert each.growth == BatchGrowth(2**19, ((8, 2**20),))
        assert [entry.iteration for entry in each.even_evals] == [12, 32]
        assert each.speed.iteration_seconds is not None
        assert (each.speed.iteration_seconds.value, each.speed.tokens_per_iter) == (18.0, 2**20)


def test_a_copy_of_a_copy_is_the_copy(long: Run, sent: Callable[..., Run]) -> None:
    copy = sent(long)
    again = sent(copy)
    assert (again.steps, again.evals, again.settings) == (copy.steps, copy.evals, copy.settings)
    kept = {"started_at", "origin", "notes"}
    assert again.record.model_dump(exclude=kept) == copy.record.model_dump(exclude=kept)


def test_nothing_in_it_tells_where_or_by_whom_it_was_trained(long: Run) -> None:
    text = result_text(result_of(long, summarise(long)))
    assert [word for word in PRIVATE if word in text] == []
    document = json.loads(text)
    assert document["settings"]["dataset"] == "fineweb-edu"
    assert document["machine"]["platform"] == "Linux"


def test_it_is_small_and_has_its_format_and_version_first(long: Run, tmp_path: Path) -> None:
    path = exported(long, tmp_path)
    assert is_result(path)
    assert path.stat().st_size < 100_000
    document = json.loads(path.read_text())
    assert (document["format"], document["version"]) == ("nanodyno-result", 2)
    assert (document["logged_iterations"], document["logged_evaluations"]) == (3000, 31)
    assert document["summary"]["tokens_seen"] == 3000 * 524_288
    assert 400 <= len(document["steps"]) <= 520


def test_the_noise_scale_is_in_the_summary_where_it_was_measured(
    run: Any, step: Any, evaluation: Any, sent: Callable[..., Run]
) -> None:
    """Squares of 9 over 8,192 tokens and 2 over 65,536: a signal of 1, and noise as large at 65,536."""
    norms = {"micro_grad_norm": 3.0, "micro_tokens": 8192, "grad_norm": 2**0.5, "tokens": 65_536}
    noisy = run([step(number, **norms) for number in range(40)], [evaluation(40)])
    reported = json.loads(result_text(result_of(noisy, summarise(noisy))))["summary"]["noise_scale"]
    assert (reported["n"], reported["settled"]) == (32, True)  # the latest
    assert reported["value"] == pytest.approx(65_536)
    assert sent(noisy).steps
    few = run([step(0, **norms)], [evaluation(1)])
    assert result_of(few, summarise(few)).summary["noise_scale"] == {
        "value": pytest.approx(65_536), "low": None, "high": None, "n": 1, "settled": False,
    }  # fmt: skip
    silent = run([step(0)], [evaluation(1)])
    assert "noise_scale" not in result_of(silent, summarise(silent)).summary


def test_a_log_of_another_program_can_be_sent_on(tmp_path: Path, sent: Callable[..., Run]) -> None:
    """With its iterations that hold an evaluation, and without what nobody told."""
    import_run(ImportRequest((CASE / "train1.log",), tmp_path / "runs" / "train1", gpu="4070"))
    original = read_run(tmp_path / "runs" / "train1")
    copy = sent(original)
    assert (copy.steps, copy.evals) == (original.steps, original.evals)
    assert original.settings == {**copy.settings, "out_dir": "out-train1"}
    codes = [[each.code for each in compared_runs([run, run])[1]] for run in (original, copy)]
    assert codes[0] == codes[1]
    assert "mfus-against-a100" in codes[0]


def test_text_under_unknown_names_is_not_sent(tmp_path: Path, sent: Callable[..., Run]) -> None:
    log = tmp_path / "x.log"
    log.write_text(
        "Overriding: server = alice.example\nOverriding: depth = 7\nOverriding: dataset = ~/alice/edu\n"
        "iter 0: loss 4.2000, time 9.00ms, mfu 1.00%\n"
    )
    import_run(ImportRequest((log,), tmp_path / "runs" / "x"))
    assert sent(read_run(tmp_path / "runs" / "x")).settings == {"depth": 7, "dataset": "edu"}


def test_what_its_receiver_knows_better_counts(long: Run, sent: Callable[..., Run]) -> None:
    copy = sent(long, settings={"n_head": 6, "tokens_per_iter": 1000}, gpu="RTX 3060 12GB")
    assert (copy.settings["n_head"], copy.tokens_per_iter) == (6, 1000)
    gpu = account_of(copy).gpu
    assert gpu is not None
    assert gpu.label == "RTX 3060 12GB"


def test_losses_that_are_no_numbers_survive(
    run: Any, step: Any, evaluation: Any, sent: Callable[..., Run]
) -> None:
    broken = run([step(0, loss=math.nan), step(1, loss=math.inf)], [evaluation(2, val_loss=math.nan)])
    copy = sent(broken)
    assert [str(each.loss) for each in copy.steps] == ["nan", "inf"]
    assert math.isnan(copy.evals[0].val_loss)
    text = result_text(result_of(broken, summarise(broken)))
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/home/alice/edu", "edu"),
        ("~/edu", "edu"),
        ("../up/edu/", "edu"),
        ("C:\\Users\\alice\\edu", "edu"),
        ("s3://bucket/edu", "edu"),
        ("/", "-"),
        ("data/edu", "data/edu"),
        ("fineweb-edu/10BT", "fineweb-edu/10BT"),
        ("gpt2", "gpt2"),
    ],
)
def test_a_path_is_reported_by_its_last_part_where_it_names_a_place(path: str, kept: str) -> None:
    assert without_folders(path) == kept


def test_thinning_keeps_all_that_fit_and_one_of_each_stretch_else() -> None:
    assert thinned(range(10), 10) == list(range(10))
    kept = thinned(range(100), 10)
    assert [each // 10 for each in kept] == list(range(10))
    assert kept == thinned(range(100), 10)
    assert len({each % 10 for each in kept}) > 3
