"""For each kind of run, whoever reports a figure reports the same one."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.test_probes import CONFIG, build_measured, build_setup

from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.attribution import Known
from nanodyno.analysis.budget import Budget
from nanodyno.analysis.conclusions import compared_runs
from nanodyno.analysis.forecast import ForecastQuestion
from nanodyno.analysis.forecast_findings import forecasts_of
from nanodyno.analysis.leaderboard import leaderboard, standing_of
from nanodyno.analysis.metrics import METRICS
from nanodyno.analysis.probes import reading_of
from nanodyno.analysis.result import result_of
from nanodyno.analysis.summary import summarise
from nanodyno.records.events import Started
from nanodyno.records.importers.joining import ImportRequest, import_run
from nanodyno.records.result import result_text
from nanodyno.records.store import Run, read_run
from nanodyno.report.attribute_document import _combination_document
from nanodyno.report.compare import comparison_document
from nanodyno.report.document import run_document, to_json
from nanodyno.report.forecast import forecast_document
from nanodyno.report.leaderboard import leaderboard_document
from nanodyno.report.meter import Meter
from nanodyno.report.probes import probes_document

SECONDS = st.lists(st.floats(20.0, 40.0), min_size=18, max_size=18)
"""What an RTX 4070 can do of 2^20 tokens: the leaderboard has no MFU that is impossible."""
PLAIN = {
    "n_embd": 768,
    "batch_size": 8,
    "gradient_accumulation_steps": 64,
    "max_iters": 100,
    "warmup_iters": 9,
}
REPORTED = {
    "compare": tuple(name for name in METRICS if name != "ceiling_fraction"),
    "leaderboard": ("tokens_per_second", "mfu"),
}
"""Of consumers that do not report every figure."""
FIRST = 15
"""Iterations before whatever changes in a run; those after it fit into the window of the progress line."""


def plain(build: Any, seconds: list[float]) -> Run:
    steps = [build.step(i, step_seconds=each, micro_steps=64) for i, each in enumerate(seconds)]
    return build.run(steps, evals(build), build.record(PLAIN), [build.start()])


def ramped(build: Any, seconds: list[float]) -> Run:
    small = [build.step(i, step_seconds=1.0, micro_steps=64) for i in range(FIRST)]
    large = [
        build.step(FIRST + i, step_seconds=each, tokens=2**20, micro_steps=128)
        for i, each in enumerate(seconds)
    ]
    record = build.record(PLAIN | {"batch_ramp": f"{FIRST * 2**19}:{2**20}"})
    return build.run([*small, *large], evals(build), record, [build.start()])


def other_micro_batch(build: Any, seconds: list[float]) -> Run:
    before = [build.step(i, step_seconds=1.0, micro_steps=64) for i in range(FIRST)]
    after = [build.step(FIRST + i, step_seconds=each, micro_steps=16) for i, each in enumerate(seconds)]
    record = build.record(PLAIN | {"batch_size": 32, "gradient_accumulation_steps": 16}, resumed_at=(FIRST,))
    return build.run([*before, *after], evals(build), record, [build.start(), build.start(FIRST)])


def other_kernels(build: Any, seconds: list[float]) -> Run:
    before = [build.step(i, step_seconds=1.0, micro_steps=64) for i in range(FIRST)]
    after = [build.step(FIRST + i, step_seconds=each, micro_steps=64) for i, each in enumerate(seconds)]
    history = [build.start(), build.prepared(kernels="autograd")]
    history += [build.start(FIRST), build.prepared(FIRST, kernels="fused")]
    return build.run([*before, *after], evals(build), build.record(PLAIN, resumed_at=(FIRST,)), history)


def evals(build: Any) -> list[Any]:
    return [build.evaluation(at, val_loss=6.0 - at / 20) for at in (0, 5, 10, 15)]


def split(build: Any, seconds: list[float]) -> Run:
    """Memory ran out on the way: the config still has the larger micro-batch."""
    before = [build.step(i, step_seconds=1.0, micro_steps=64) for i in range(FIRST)]
    after = [build.step(FIRST + i, step_seconds=each, micro_steps=128) for i, each in enumerate(seconds)]
    return build.run([*before, *after], evals(build), build.record(PLAIN), [build.start()])


OWN = (plain, ramped, other_micro_batch, other_kernels, split)


@pytest.fixture(scope="module")
def build() -> SimpleNamespace:
    from tests.conftest import (
        build_eval,
        build_prepared,
        build_record,
        build_run,
        build_split,
        build_start,
        build_step,
    )

    return SimpleNamespace(
        step=build_step,
        evaluation=build_eval,
        record=build_record,
        start=build_start,
        run=build_run,
        prepared=build_prepared,
        split=build_split,
    )


def shown(run: Run) -> dict[str, Any]:
    return json.loads(to_json(run_document(run, summarise(run))))["summary"]


def everywhere(run: Run) -> dict[str, dict[str, Any]]:
    """By consumer, its figures of one run."""
    comparison, findings = compared_runs([run, run])
    compared = json.loads(to_json(comparison_document(comparison, findings)))["metrics"]
    ahead = json.loads(to_json(forecast_document(forecasts_of([run], ForecastQuestion(iterations=200)))))
    exported = json.loads(result_text(result_of(run, summarise(run))))["summary"]
    boards = json.loads(to_json(leaderboard_document(leaderboard([standing_of(account_of(run))] * 2))))
    ranked = {board["metric"]: board["entries"][0]["value"] for board in boards["boards"]}
    return {
        "show": shown(run)["speed"],
        "compare": {name: values[run.name] for name, values in compared.items() if name in METRICS},
        "forecast": ahead["speed"],
        "result": exported["speed"],
        "leaderboard": {name: value for name, value in ranked.items() if name in METRICS},
    }


def near(figure: dict[str, Any] | None) -> Any:
    if figure is None:
        return None
    return {name: None if each is None else pytest.approx(each, rel=1e-9) for name, each in figure.items()}


def assert_same(figures: dict[str, dict[str, Any]]) -> None:
    reference = figures.pop("show")
    assert {name for name in METRICS if reference[name] is None} == {"ceiling_fraction"}, (
        "never measured here"
    )
    for consumer, values in figures.items():
        for name in REPORTED.get(consumer, METRICS):
            assert values[name] == near(reference[name]), (consumer, name)
        assert set(values["tokens_per_second"]) == {"value", "low", "high", "n"}, consumer


@pytest.mark.parametrize("kind", OWN)
@settings(max_examples=15, deadline=None)
@given(seconds=SECONDS)
def test_every_consumer_reports_one_speed(kind: Callable[..., Run], build: Any, seconds: list[float]) -> None:
    run = kind(build, seconds)
    figures = everywhere(run)
    assert figures["show"]["iteration_seconds"]["n"] in (14, 15), "of the latest stretch alone"
    assert_same(figures)


@pytest.mark.parametrize("kind", OWN)
@settings(max_examples=15, deadline=None)
@given(seconds=SECONDS)
def test_the_progress_line_has_the_speed_and_the_time_left_that_show_has(
    kind: Callable[..., Run], build: Any, seconds: list[float]
) -> None:
    run = kind(build, seconds)
    resumed = run.record.resumed_at_iterations
    first = resumed[-1] if resumed else 0
    meter = Meter(Started(run.own, Path("run"), first))
    for entry in run.own_evals:
        meter.add_eval(entry)
    live = None
    for step in run.own_steps:
        if kind is split and step.iteration == FIRST:
            meter.add_split(build.split(FIRST))
        if step.iteration >= first:
            live = meter.add_step(step)
    assert live is not None
    found = shown(run)
    for name in METRICS:
        now: Any = live.speed.document()[name]
        whole = found["speed"][name]
        assert (now is None) == (whole is None), name
        if whole is not None:  # the line has no interval
            assert (now["value"], now["n"]) == (pytest.approx(whole["value"], rel=1e-9), whole["n"]), name
    assert live.eta_seconds == pytest.approx(found["eta_seconds"], rel=1e-9)


@pytest.mark.parametrize("kind", OWN)
def test_the_time_left_is_the_same_by_show_and_by_forecast(kind: Callable[..., Run], build: Any) -> None:
    run = kind(build, [2.0] * 18)
    (made,) = forecasts_of([run], ForecastQuestion()).forecasts
    assert made.seconds == pytest.approx(shown(run)["eta_seconds"], rel=1e-9)


def test_a_ramped_run_has_the_speed_of_its_last_size(build: Any) -> None:
    """18 iterations of 2^20 tokens in 4 s each, after small ones of 2^19 in 1 s, which count for nothing."""
    speed = shown(ramped(build, [4.0] * 18))["speed"]
    assert speed["tokens_per_second"]["value"] == 2**18
    assert (speed["tokens_per_iter"], speed["micro_step_seconds"]["value"]) == (2**20, 4.0 / 128)
    run = ramped(build, [4.0] * 18)
    metrics = {each.name: each.values[run.name].value for each in compared_runs([run, run])[0].metrics}
    assert metrics["tokens_per_iter"] / metrics["iteration_seconds"] == metrics["tokens_per_second"]


def test_an_imported_log_is_reported_alike(tmp_path: Path) -> None:
    log = Path(__file__).parents[2] / "examples" / "train1.log"
    given_settings = {
        "n_layer": 12,
        "bias": False,
        "max_iters": 5000,
        "lr_decay_iters": 5000,
        "learning_rate": 6e-4,
    }
    import_run(ImportRequest((log,), tmp_path / "run", gpu="RTX 4070", settings=given_settings))
    figures = everywhere(read_run(tmp_path / "run"))
    assert figures["show"]["tokens_per_second"]["value"] == pytest.approx(524_288 / 9.34, rel=1e-3)
    assert figures["show"]["mfu"]["value"] == pytest.approx(0.768, abs=0.002)
    assert_same(figures)


@pytest.mark.parametrize("kind", OWN)
def test_an_exported_result_that_is_imported_again_keeps_its_speed(
    kind: Callable[..., Run], build: Any, tmp_path: Path
) -> None:
    run = kind(build, [2.0, 2.5, 3.0] * 6)
    (tmp_path / "result.json").write_text(result_text(result_of(run, summarise(run))))
    import_run(ImportRequest((tmp_path / "result.json",), tmp_path / "copy"))
    copy, original = shown(read_run(tmp_path / "copy"))["speed"], shown(run)["speed"]
    for name in METRICS:
        assert copy[name] == near(original[name]), name


def test_a_probe_is_reported_alike() -> None:
    measured = build_measured(1.0, 1.1, 0.9, setup=build_setup())
    reading = reading_of({"a": measured}, Budget(), "a", 0.01)
    probed = json.loads(to_json(probes_document({"a": measured}, reading)))["results"]["a"]["summary"]
    design = SimpleNamespace(settings=lambda _: {})
    found = SimpleNamespace(design=design, value=lambda _: None)
    known = Known(CONFIG, measured=measured)
    attributed = json.loads(to_json(_combination_document(found, 0, known)))["summary"]  # type: ignore[arg-type]
    assert probed["speed"] == attributed["speed"]
    rate = 524_288 / (1.0 * 1.1 * 0.9) ** (1 / 3)  # of the geometric mean over processes
    assert probed["speed"]["tokens_per_second"]["value"] == pytest.approx(rate)
    assert probed["speed"]["achieved_flops_per_second"]["value"] == pytest.approx(rate * 797_870_592)
    assert set(probed["speed"]["tokens_per_second"]) == {"value", "low", "high", "n"}
    assert probed["speed"]["micro_step_seconds"]["value"] == pytest.approx(
        probed["speed"]["iteration_seconds"]["value"] / 64
    )
