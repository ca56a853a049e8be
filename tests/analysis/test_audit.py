"""Logs of which a sentence about one run would be false, beyond the nearest of its kind in the table."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.sentences.alone import FLOPS, PRINTED, bytes_run, llmc
from tests.analysis.sentences.logs import Log, alone, log, pair
from tests.conftest import build_record, build_run

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.audit import matmul_share, with_found_shape
from nanodyno.analysis.changes import changes_between
from nanodyno.analysis.findings import Finding
from nanodyno.analysis.leaderboard import standing_of
from nanodyno.hardware.gpus import gpu_named
from nanodyno.records.store import Run


def found(source: Log | Run, folder: Path) -> dict[str, Finding]:
    return {each.code: each for each in alone(source).findings(folder)}


@pytest.mark.parametrize(
    ("evals", "code"),
    [
        ({2000: (3.4, 30.2), 4000: (3.3, 25.0), 6000: (3.1, 22.1)}, "perplexity-as-loss"),
        ({100: (7.2, 1300.0), 200: (6.1, 440.0)}, "perplexity-as-loss"),
        ({100: (10.93, 10.92)}, "worse-than-guessing"),
        ({100: (6.0, 6.1), 200: (4.0, 4.1), 300: (11.2, 11.5)}, "worse-than-guessing"),
        ({100: (11.0, 11.1), 200: (11.9, 12.0), 300: (12.1, 12.0)}, "worse-than-guessing"),
        ({100: (300.0, 301.0), 200: (40.0, 41.0), 300: (15.0, 15.1)}, "worse-than-guessing"),
        ({100: (0.2, 10.9), 200: (0.1, 11.3)}, "worse-than-guessing"),
        ({100: (6.0, 6.1), 200: (4.0, 4.1)}, None),
    ],
    ids=["late", "early", "untrained", "diverged", "hardly-trained", "bad-start", "overfitted", "sound"],
)  # fmt: skip
def test_only_falling_values_whose_logarithm_is_near_the_train_loss_are_perplexities(
    evals: dict[int, tuple[float, float]], code: str | None, tmp_path: Path
) -> None:
    codes = found(log(evals=evals), tmp_path).keys() & {"perplexity-as-loss", "worse-than-guessing"}
    assert codes == ({code} if code else set())


@pytest.mark.parametrize(
    ("text", "is_perplexity"),
    [
        ("step,val_loss\n100,400\n200,60\n300,30\n400,24\n", True),
        ("step,val_loss\n100,24\n", False),
        ("step,val_loss\n100,24\n200,30\n300,60\n400,400\n", False),
        ("step,val_loss\n100,13\n200,12.9\n300,12.8\n", False),
    ],
)
def test_without_train_losses_they_have_to_fall_far_above_guessing(
    text: str, is_perplexity: bool, tmp_path: Path
) -> None:
    assert ("perplexity-as-loss" in found(Log(text), tmp_path)) is is_perplexity


def test_cells_that_a_table_pads_with_nan_are_no_losses(tmp_path: Path) -> None:
    """Between evaluations, and after the last one; and those of a run that is NaN from iteration 30 on."""
    padded = "step,train_loss,val_loss\n10,4.0,4.1\n20,3.9,nan\n30,3.8,3.9\n40,3.7,nan\n"
    dead = "step,train_loss,val_loss\n10,4.0,4.1\n20,3.9,nan\n30,nan,nan\n40,nan,nan\n"
    assert "not-a-number" not in found(Log(padded), tmp_path / "padded")
    numbers = found(Log(dead), tmp_path / "dead")["not-a-number"].numbers
    assert (numbers["count"], numbers["iteration"]) == (4, 30)


def test_a_run_of_our_own_never_prints_perplexities() -> None:
    run = bytes_run(30.0)
    falling = replace(account_of(run), evals=account_of(run).evals * 2)
    assert not falling.tells_perplexity


@pytest.mark.parametrize(
    ("rate", "bound"),
    [(1.15, 1.16), (1.17, 1.16)],
)
def test_a_geforce_may_run_above_its_datasheet_as_far_as_its_matmuls_do(
    rate: float, bound: float, tmp_path: Path
) -> None:
    """Above its rated clock an RTX 5090 was measured at 115.6%; nothing at more."""
    seconds = FLOPS / (rate * 58.3e12)
    codes = found(log("RTX 4070", seconds=seconds, head="torchrun --nproc_per_node=1 train.py"), tmp_path)
    assert ("rate-impossible" in codes) == (rate > bound)
    assert matmul_share(gpu_named("RTX 4070"), "bfloat16") == bound
    assert matmul_share(gpu_named("A100-SXM4-80GB"), "bfloat16") == 0.85


def test_no_gpu_is_listed_as_possible_beyond_what_trainings_reach(tmp_path: Path) -> None:
    """44.8 TFLOP/s are 103% of an RTX 3070 Ti's peak: it is neither excluded nor listed."""
    numbers = found(log(), tmp_path)["gpus-by-rate"].numbers
    able = {each["gpu"]: each["share"] for each in numbers["able"]}  # pyright: ignore
    assert able["RTX 4070"] == pytest.approx(FLOPS / 9.34 / 58.3e12, rel=1e-3)
    assert max(able.values()) <= 0.81
    assert "RTX 3070 Ti" not in able
    assert "RTX 3070 Ti" not in numbers["excluded"]  # pyright: ignore[reportOperatorIssue]
    assert "RTX 3060" in numbers["excluded"]  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_a_log_of_no_gpu_is_told_nothing_of_gpus(device: str, tmp_path: Path) -> None:
    said = found(log(device=device), tmp_path).keys()
    assert not said & {"gpus-by-rate", "next-name-the-gpu", "share-of-gpu", "more-than-one-gpu"}


def test_a_named_gpu_that_is_not_in_the_table_is_not_asked_for_its_name(tmp_path: Path) -> None:
    table = "| device                | NVIDIA GeForce RTX 4070 Laptop GPU                 |\n"
    lines = llmc(dict.fromkeys(range(20), 0.0006), {}).text
    assert "next-name-the-gpu" in found(Log(lines), tmp_path / "nameless")
    assert "next-name-the-gpu" not in found(Log(table + lines), tmp_path / "named")


def test_of_more_than_one_gpu_the_share_of_one_is_not_ranked(tmp_path: Path) -> None:
    for seconds, flawed in ((9.34, False), (1.0, True)):
        source = alone(log("RTX 4070", seconds=seconds))
        run = source.imported(tmp_path / str(seconds))[0]
        assert ("more-than-one-gpu" in standing_of(with_found_shape(account_of(run))).flaws) is flawed


def test_an_mfu_of_one_of_eight_processes_is_of_no_other_peak_alone(tmp_path: Path) -> None:
    """A log of eight GPUs that reports no number of processes prints an eighth."""
    numbers = found(log(mfu=PRINTED / 8), tmp_path / "one")["mfu-of-another-peak"].numbers
    assert numbers["processes"] == 8
    eight = log(mfu=PRINTED / 8, head="torchrun --nproc_per_node=8 train.py")
    assert "mfu-of-another-peak" not in found(eight, tmp_path / "eight")


def test_an_mfu_against_another_peak_is_not_said_to_be_against_an_a100(tmp_path: Path) -> None:
    said = found(log(mfu=PRINTED * 312 / 989), tmp_path).keys()
    assert "mfu-of-another-peak" in said
    assert "mfu-against-a100" not in said


def test_evaluations_in_a_running_average_make_no_other_model(tmp_path: Path) -> None:
    """Every tenth logged iteration has an evaluation in its time: the median printed is 7% too low."""
    slow = dict.fromkeys(range(10, 200, 10), 233.0)
    parts: dict[str, Any] = {"mfu": PRINTED, "slow": slow, "losses": dict.fromkeys(range(200), 6.0)}
    evals = dict.fromkeys(slow, (5.0, 5.1))
    source = alone(log(**parts, evals=evals, n_layer=None))
    account = with_found_shape(account_of(source.imported(tmp_path)[0]))
    assert account.printed_mfu == pytest.approx(0.93 * PRINTED, rel=0.02)
    assert account.shape is not None
    assert account.shape.n_layer == 12


def test_the_tokens_of_all_processes_are_those_of_an_iteration(tmp_path: Path) -> None:
    """The accumulation of one process and the tokens of eight: the rate is that of eight."""
    source = alone(log(head=f"tokens per iteration will be: {8 * 524_288:,}"))
    account = account_of(source.imported(tmp_path)[0])
    assert account.tokens_per_iter == 8 * 524_288


@pytest.mark.parametrize(
    "parts",
    [
        {"evals": {500: (5.5, 5.5194)}, "dataset": "fineweb-edu"},
        {"evals": {500: (5.5, 5.5194)}, "block_size": 512, "batch_size": 16},
        {"evals": {500: (3.1, 24.0), 1000: (3.05, 22.0)}},
        {"evals": {500: (math.nan, math.nan)}},
    ],
    ids=["data", "context", "perplexity", "nan"],
)
def test_a_loss_of_another_kind_is_not_set_beside_the_public_run(
    parts: dict[str, Any], tmp_path: Path
) -> None:
    assert "beside-public-curve" not in found(log(**parts), tmp_path)


@pytest.mark.parametrize(
    ("rates", "resumed", "leaps"),
    [
        (
            {at: 1e-5 * (at + 1) for at in range(0, 30, 10)},
            {at: 1e-5 * (at + 1) for at in range(10, 60, 10)},
            0,
        ),
        ({at: 6e-4 - 1e-5 * at for at in range(58)}, {at: 6e-4 - 1e-5 * at for at in range(50, 60)}, 0),
        (dict.fromkeys(range(30), 0.0006), {at: 1e-5 * (at - 19) for at in range(20, 40)}, 1),
        ({at: 1e-5 * (at + 1) for at in range(20)}, dict.fromkeys(range(10, 30), 0.0006), 1),
    ],
    ids=["warm-up", "decay", "warm-up-again", "peak-at-once"],
)
def test_a_schedule_that_goes_on_where_it_was_is_no_other(
    rates: dict[int, float], resumed: dict[int, float], leaps: int, tmp_path: Path
) -> None:
    assert ("another-schedule" in found(llmc(rates, resumed), tmp_path)) is bool(leaps)


def test_a_shape_that_one_number_alone_fits_is_not_taken_for_the_model(tmp_path: Path) -> None:
    """By the MFU alone, with neither layers nor width reported, and by the count beside it."""
    nothing: dict[str, Any] = {"n_layer": None, "n_embd": None, "n_head": None, "mfu": PRINTED}
    for number, head, is_found in ((0, "", False), (1, "number of parameters: 123.59M", True)):
        source = alone(log(**nothing, head=head))
        account = with_found_shape(account_of(source.imported(tmp_path / str(number))[0]))
        assert (account.shape is not None) is is_found


def changed(one: dict[str, Any], other: dict[str, Any], gpu: Any = None) -> list[str]:
    accounts = [account_of(build_run(record=build_record(each, gpu=gpu))) for each in (one, other)]
    return [each.key for each in changes_between(*accounts).changed]


def test_a_setting_that_comes_to_the_same_on_the_device_is_no_change() -> None:
    assert changed({}, {"device": "cpu"}) == []
    assert changed({}, {"dtype": "bfloat16"}) == []
    assert changed({}, {"kernels": "autograd"}) == []
    assert changed({}, {"threads": 8}) == []  # as many as torch chose
    assert changed({}, {"gemm_algorithm": "torch"}) == []
    assert changed({}, {"cuda_graph": False}) == []
    assert changed({}, {"weight_decay": 0.2, "device": "cpu"}) == ["weight_decay"]


def test_a_setting_that_does_nothing_is_no_change_and_one_that_does_is() -> None:
    assert changed({"decay_lr": False}, {"decay_lr": False, "min_lr": 1e-5}) == []
    assert changed({}, {"min_lr": 1e-5}) == ["min_lr"]
    assert changed({}, {"parallel": "fsdp"}) == []


def test_equal_sizes_of_different_models_are_not_called_different_sizes(tmp_path: Path) -> None:
    """Heads change the function and not the size."""
    evals = {at: (5.0, 6.0 - at / 1000) for at in range(100, 1001, 100)}
    other = log(evals=evals, n_head=6, learning_rate=1e-3)
    codes = [each.code for each in pair(log(evals=evals), other).findings(tmp_path)]
    assert "losses-of-different-models" in codes


def test_an_untrained_run_of_our_own_is_not_called_impossible(tmp_path: Path) -> None:
    """Val 5.58 on bytes is above ln 257 = 5.55."""
    wrong = [each.code for each in alone(bytes_run(5.58)).findings(tmp_path) if each.severity == "wrong"]
    assert wrong == []
