"""The question the project was born from: what is known of its two runs, and what follows from that."""

from dataclasses import replace

import pytest
from tests.analysis.accounts import AFTER, BEFORE

from nanodyno.analysis.account import Account, AccountEval
from nanodyno.analysis.audit import audit, fitting_shapes, with_found_shape
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import conclusions
from nanodyno.analysis.findings import Finding
from nanodyno.hardware.gpus import gpu_named


@pytest.fixture(scope="module")
def runs() -> tuple[Account, Account]:
    return with_found_shape(BEFORE), with_found_shape(AFTER)


@pytest.fixture(scope="module")
def found(runs: tuple[Account, Account]) -> dict[str, Finding]:
    return {each.code: each for each in conclusions(compare(runs))}


def test_the_models_are_found_from_mfu_time_and_tokens(runs: tuple[Account, Account]) -> None:
    """299.9 MFLOP per token are 12 layers of 384, 854.8 are 12 of 768: nanoGPT counts 40.56M and 123.59M."""
    assert [(fit.n_layer, fit.n_embd) for fit in fitting_shapes(BEFORE)] == [(12, 384)]
    assert [(fit.n_layer, fit.n_embd) for fit in fitting_shapes(AFTER)] == [(12, 768)]
    assert [run.parameters for run in runs] == [40_560_000, 123_587_328]


def test_throughput_fell_by_58_percent_and_the_rate_of_work_rose_by_23(found: dict[str, Finding]) -> None:
    numbers = found["throughput-fell-rate-rose"].numbers
    assert numbers["throughput_ratio"] == pytest.approx(3.91 / 9.34)
    assert numbers["rate_ratio"] == pytest.approx(1.23, abs=0.005)
    assert numbers["achieved_flops_per_second"] == pytest.approx([36.4e12, 44.8e12], rel=0.003)
    assert numbers["work_ratio"] == pytest.approx(2.938, abs=0.001)
    assert numbers["parameters_ratio"] == pytest.approx(3.05, abs=0.005)


def test_by_nanogpts_formula_it_rose_from_40_to_48(runs: tuple[Account, Account]) -> None:
    metrics = {metric.name: metric for metric in compare(runs).metrics}
    rates = [value.value for value in metrics["nanogpt_flops_per_second"].values.values()]
    assert rates == pytest.approx([40.2e12, 48.0e12], rel=0.003)
    shares = [value.value for value in metrics["nanogpt_mfu"].values.values()]
    assert shares == pytest.approx([0.129, 0.154], abs=0.0005)
    assert [value.value for value in metrics["micro_step_seconds"].values.values()] == pytest.approx(
        [3.91 / 32, 9.34 / 64]
    )


def test_the_effective_batch_and_the_steps_per_token_are_the_same(found: dict[str, Finding]) -> None:
    assert found["same-effective-batch"].numbers == {"tokens_per_iter": 524288, "split_changed": True}
    assert found["steps-unchanged"].numbers["steps_per_billion"] == pytest.approx(1907.35, abs=0.01)


def test_four_changes_are_confounded_and_what_is_not_reported_may_have_changed_too(
    found: dict[str, Finding],
) -> None:
    numbers = found["confounded"].numbers
    assert numbers["changed"] == ["n_embd", "batch_size", "gradient_accumulation_steps", "learning_rate"]
    assert numbers["speed"] == ["n_embd", "batch_size"]
    assert numbers["loss_keys"] == ["n_embd", "learning_rate"]
    assert "n_head" in found["settings-unknown"].numbers["keys"]  # pyright: ignore[reportOperatorIssue]
    assert found["next-measure-apart"].numbers == {"apart": ["n_embd=768", "batch_size=8"]}


def test_the_losses_are_no_evidence_for_the_learning_rate(found: dict[str, Finding]) -> None:
    numbers = found["no-evidence-for-learning-rate"].numbers
    assert (numbers["before"], numbers["after"], numbers["at"]) == (1e-3, 3e-4, 500 * 524288)
    assert numbers["difference"] == pytest.approx(-0.0134)


def test_who_is_ahead_is_reported_of_speed_and_not_of_losses_without_noise(
    runs: tuple[Account, Account],
) -> None:
    assert compare(runs).winners == {
        "iteration_seconds": "train2",
        "tokens_per_second": "train2",
        "achieved_flops_per_second": "train1",
    }


def test_beside_the_public_run_of_the_same_size_it_is_0_145_behind_and_no_verdict(
    found: dict[str, Finding],
) -> None:
    (public,) = [found["beside-public-curve"]]
    assert public.runs == ("train1",)
    assert public.severity == "caution"
    assert public.numbers["public"] == 5.3743
    assert public.numbers["difference"] == pytest.approx(0.1451)


def test_ten_billion_tokens_take_49_and_a_half_hours(runs: tuple[Account, Account]) -> None:
    hours = {
        each.runs[0]: each.numbers for each in conclusions(compare(runs)) if each.code == "hours-to-tokens"
    }
    assert hours["train1"]["hours"] == pytest.approx(49.5, abs=0.05)
    assert hours["train1"]["iterations"] == 19074


@pytest.mark.parametrize(
    ("gpu", "code", "share"),
    [
        ("RTX 3060 12GB", "rate-impossible", 1.756),
        ("RTX 4070", "share-of-gpu", 0.768),
        ("RTX 3080 Ti", "share-of-gpu", 0.657),
        ("RTX 4070 SUPER", "share-of-gpu", 0.631),
    ],
)
def test_on_a_named_gpu_it_is_a_share_of_its_peak_or_impossible(
    runs: tuple[Account, Account], gpu: str, code: str, share: float
) -> None:
    codes = {each.code: each for each in audit(replace(runs[1], gpu=gpu_named(gpu)))}
    assert codes[code].numbers["share"] == pytest.approx(share, abs=0.001)


def test_without_a_name_the_gpus_that_cannot_have_done_it_are_named(found: dict[str, Finding]) -> None:
    numbers = found["gpus-by-rate"].numbers
    assert "RTX 3060" in numbers["excluded"]  # pyright: ignore[reportOperatorIssue]
    able = {each["gpu"]: each["share"] for each in numbers["able"]}  # pyright: ignore
    assert able["RTX 4070"] == pytest.approx(0.768, abs=0.001)


def test_a_val_loss_of_22_is_a_perplexity(runs: tuple[Account, Account]) -> None:
    claimed = replace(runs[1], evals=(AccountEval(500, 24.1, 3.2), AccountEval(1000, 22.3, 3.1)))
    (finding,) = [each for each in audit(claimed) if each.code == "perplexity-as-loss"]
    assert finding.numbers["reported_loss"] == 22.3
    assert finding.numbers["loss"] == pytest.approx(3.105, abs=0.001)
    assert finding.numbers["guessing"] == pytest.approx(10.825, abs=0.001)
