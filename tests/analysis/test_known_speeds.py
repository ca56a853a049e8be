"""Speeds of trainings beside those that the class of their GPU predicts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.accounts import SHAPE, account, steps

from nanodyno.analysis.account import Account
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.known_speeds import (
    KnownSpeed,
    Measurements,
    known_speed,
    measurements_of,
    speed_of,
)
from nanodyno.config import build_config
from nanodyno.costs.plan import Costs
from nanodyno.costs.target import Target, named_target
from nanodyno.hardware.ceilings import DeviceIdentity
from nanodyno.hardware.gpus import gpu_named
from nanodyno.records.measured import MeasuredFiles

Builder = Callable[..., Any]
TOKENS = 8 * 64 * 1024
BATCH = {"batch_size": 8, "gradient_accumulation_steps": 64}


def of_log(gpu: str, seconds: float, **changes: Any) -> Account:
    return account(seconds=seconds, gpu=gpu_named(gpu), foreign=True, **changes)


def planned(gpu: str, **settings: Any) -> float:
    """Tokens/s as `plan` predicts them."""
    config = build_config({**BATCH, **settings})
    costs = Costs(config, SHAPE.vocab_size, 50257, named_target(gpu, None))
    time = costs.candidate(costs.setup(config)).time
    assert time is not None
    return time.tokens_per_second


@pytest.mark.parametrize("gpu", ["RTX 5080", "H200"])
def test_a_log_is_held_against_autograd_on_its_gpu_as_plan_predicts_it(gpu: str) -> None:
    """An RTX 5080 has no public factor, and an H200 its own rates: both plans rest on that."""
    expected = planned(gpu, kernels="autograd")
    known = known_speed(of_log(gpu, TOKENS / (0.8 * expected)))
    assert known is not None
    assert known.expected_tokens_per_second == pytest.approx(expected)
    assert known.factor == pytest.approx(0.8, rel=1e-3)


def test_a_public_factor_is_no_part_of_what_a_log_is_held_against() -> None:
    """Or it would be counted once as measured and once as public."""
    public = planned("RTX A6000", kernels="autograd")
    known = known_speed(of_log("RTX A6000", TOKENS / public))
    assert known is not None
    assert known.factor == pytest.approx(0.984, rel=1e-3)  # of RTX A6000 in calibration.json


def test_a_run_of_ours_is_held_against_its_own_kernels() -> None:
    used = {"kernels": "fused", "recompute": "mlp"}
    known = known_speed(account(seconds=1.0, gpu=gpu_named("H200"), in_effect=used))
    assert known is not None
    expected = planned("H200", kernels="fused", recompute="mlp")
    assert known.expected_tokens_per_second == pytest.approx(expected)
    assert expected < planned("H200", kernels="fused", recompute="none")


def test_heads_that_a_log_does_not_report_are_those_of_nanogpts_sizes() -> None:
    given, missing = (
        known_speed(of_log("RTX 5080", 6.0, settings={"n_head": heads}, shape=SHAPE.replaced(n_head=12)))
        for heads in (12, None)
    )
    settings = {key: value for key, value in of_log("RTX 5080", 6.0).settings.items() if key != "n_head"}
    guessed = known_speed(replace(of_log("RTX 5080", 6.0), settings=settings, shape=SHAPE.replaced(n_head=1)))
    assert given == guessed
    assert missing == given


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": None},
        {"gpu": None},
        {"processes": 2},
        {"steps": ()},
        {"dtype": "float32"},
        {"settings": {"compile": None}, "mfu_is_nanogpts": False},
        {"settings": {"batch_size": None}},
        {"settings": {"gradient_accumulation_steps": None}},
        {"settings": {"optimizer": "nobody's"}},
        {"settings": {"dropout": "none"}},
        {"in_effect": {"kernels": "fused", "recompute": "nobody's"}},
        {"in_effect": {"kernels": "nobody's"}},
        {"steps": steps(0.1)},
    ],
    ids=str,
)
def test_what_does_not_report_enough_has_no_known_speed(changes: dict[str, Any]) -> None:
    """The last one is 5.2M tokens/s, which no RTX 5080 reaches."""
    plain = of_log("RTX 5080", 6.0)
    assert known_speed(plain) is not None
    settings = {**plain.settings, **changes.get("settings", {})}
    known = {key: value for key, value in settings.items() if value is not None}
    assert known_speed(replace(plain, **{**changes, "settings": known})) is None


def test_of_several_trainings_the_median_of_the_logarithms_counts() -> None:
    gpu, other = gpu_named("RTX 4070"), gpu_named("RTX 4090")
    known = [KnownSpeed(gpu, speed, 100.0, own=True) for speed in (100.0, 400.0)]

    def factor(*some: KnownSpeed) -> float:
        found = speed_of(some, gpu)
        assert found is not None
        return found.factor

    assert factor(*known) == pytest.approx(2.0)
    assert factor(*known, KnownSpeed(gpu, 300.0, 100.0, own=True)) == pytest.approx(3.0)
    assert speed_of([KnownSpeed(other, 300.0, 100.0)], gpu) is None
    assert speed_of([], gpu) is None
    foreign = KnownSpeed(gpu, 400.0, 100.0)  # of which half of the logarithm is the GPU's
    assert factor(foreign) == pytest.approx(2.0)
    assert factor(foreign, *known) == pytest.approx(2.0)
    errors = [found.ln_error for each in ([foreign], known) if (found := speed_of(each, gpu)) is not None]
    assert errors == sorted(errors, reverse=True)


def test_a_speed_that_the_host_limits_or_no_such_gpu_has_is_not_known() -> None:
    shape = SHAPE.replaced(n_embd=64, n_layer=4, n_head=1)
    small = {"batch_size": 1, "gradient_accumulation_steps": 8, "compile": False, "n_head": 1}
    by_host = of_log("RTX 4090", 1.0, shape=shape)
    by_host = replace(by_host, settings={**by_host.settings, **small, "n_embd": 64, "n_layer": 4})
    assert known_speed(by_host) is None
    plain = planned("RTX 5080", kernels="autograd")
    assert known_speed(of_log("RTX 5080", TOKENS / (0.3 * plain))) is None
    assert known_speed(of_log("RTX 5080", TOKENS / (0.5 * plain))) is not None


def test_heads_that_do_not_divide_the_width_are_no_shape() -> None:
    wide = of_log("RTX 5080", 6.0, shape=SHAPE.replaced(n_embd=10**17))
    assert known_speed(wide) is None


def test_ceilings_go_to_the_gpu_of_their_name_the_newest_of_several(ceilings: Builder) -> None:
    """And no more where the GPU at hand has ceilings of its own."""
    old, new = (ceilings(measured_at=at) for at in (1.0, 2.0))
    found = Measurements(ceilings=(new, old))
    assert found.applied_to(named_target("H200", None)).ceilings == new
    own = replace(named_target("H200", None), ceilings=old)
    assert found.applied_to(own).ceilings == old
    assert found.applied_to(named_target("H200 NVL", None)).ceilings is None
    assert (found.gpus, found.include(own)) == (("H200",), True)
    unknown = replace(new, device=DeviceIdentity("NVIDIA of next year", 12 * 2**30))
    found = Measurements(ceilings=(unknown,))
    assert found.applied_to(Target("NVIDIA of next year", None, 12 * 2**30)).ceilings == unknown
    assert not found.include(named_target("H200", None))


def test_runs_without_a_speed_are_named(run: Builder, tmp_path: Path) -> None:
    silent = replace(run(), folder=tmp_path / "silent.json")
    found = measurements_of(MeasuredFiles((silent,), ()))
    assert (found.speeds, found.unused, found.gpus) == ((), ("silent.json",), ())


def test_a_result_and_the_run_it_was_made_of_have_the_same_factor(
    run: Builder, step: Builder, record: Builder, tmp_path: Path
) -> None:
    from nanodyno.analysis.result import result_of
    from nanodyno.analysis.summary import summarise
    from nanodyno.records.importers.results import run_of_result
    from nanodyno.records.result import result_text

    made = run([step(each, step_seconds=9.0) for each in range(40)], record=record())
    path = tmp_path / "run.json"
    path.write_text(result_text(result_of(made, summarise(made))), encoding="utf-8")
    assert json.loads(path.read_text())["device_name"] == "NVIDIA GeForce RTX 4070"
    before, after = known_speed(account_of(made)), known_speed(account_of(run_of_result(path)))
    assert before is not None
    assert after == before
