"""The rows of a page that tell what happened to a run."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.plan_words import says

from nanodyno.analysis.conclusions import compared_runs
from nanodyno.analysis.summary import summarise
from nanodyno.messages.language import ENGLISH
from nanodyno.records.store import Run
from nanodyno.report.compare import comparison_document
from nanodyno.report.document import run_document
from nanodyno.report.facts import fact_rows
from nanodyno.report.run_facts import cautions

Builder = Callable[..., Any]
say = ENGLISH.say


def rows(run: Run) -> dict[str, str]:
    return dict(fact_rows(run, summarise(run)))


def test_a_run_without_happenings_has_no_row_for_them(run: Builder, step: Builder) -> None:
    assert (
        rows(run([step(0)])).keys()
        & {"show.row.resumed", "show.row.out-of-memory", "show.row.skipped", "show.row.saves"}
        == set()
    )


def test_saves_are_reported_with_their_share_of_the_time(
    run: Builder, step: Builder, start: Builder, save: Builder
) -> None:
    # 350 x 4 s of training and 3 x 1.4 s of saving: 4.2 of 1404.2 s.
    history = [start(), *(save(i, save_seconds=1.4) for i in (100, 200, 300))]
    reported = rows(run([step(i) for i in range(350)], history=history))["show.row.saves"]
    saves = ENGLISH.say_plural("show.saves.summary", 3, size="1.50 GiB", seconds="4.2 s", share="0.30%")
    assert reported == ENGLISH.clauses([saves, say("show.saves.newest", iteration="300")])


def test_a_single_save_is_not_each(run: Builder, step: Builder, save: Builder) -> None:
    reported = rows(run([step(i) for i in range(4)], history=[save(4, save_seconds=4.0)]))["show.row.saves"]
    saves = ENGLISH.say_plural("show.saves.summary", 1, size="1.50 GiB", seconds="4.0 s", share="20.0%")
    assert reported == ENGLISH.clauses([saves, say("show.saves.newest", iteration="4")])
    assert "each" not in saves


def test_splits_are_reported_until_when_they_hold(run: Builder, split: Builder) -> None:
    history = [split(1500), split(1600, batch_size=2, batch_size_before=4)]
    assert rows(run(history=history))["show.row.out-of-memory"] == ENGLISH.clauses(
        [
            say("show.out-of-memory.split", iteration="1,500", size="4", before="8"),
            say("show.out-of-memory.split", iteration="1,600", size="2", before="4"),
        ]
    )


COUNTED = ((2, "overflow"), (1, "gradient-spike"), (1, "not-finite"))


def test_skipped_updates_are_reported_by_kind(run: Builder, step: Builder) -> None:
    kinds = ["overflow", "norm-spike", "overflow", "not-finite", None]
    reported = rows(run([step(i, skipped=kind) for i, kind in enumerate(kinds)]))["show.row.skipped"]
    kinds = [f"{n} ({say(f'show.skipped.{kind}')})" for n, kind in COUNTED]
    assert reported == say("show.skipped.updates", kinds=", ".join(kinds))


def test_a_run_resumed_often_names_the_latest(run: Builder, record: Builder) -> None:
    reported = rows(run(record=record(resumed_at=tuple(range(100, 1100, 100)))))["show.row.resumed"]
    latest = "... 300, 400, 500, 600, 700, 800, 900, 1,000"
    assert reported == ENGLISH.say_plural("show.resumed.iterations", 10, iterations=latest)


def test_the_share_of_the_measured_ceiling_stands_beside_that_of_the_datasheet(
    run: Builder, step: Builder, record: Builder, ceilings: Builder
) -> None:
    found = run([step(i, step_seconds=1.0) for i in range(20)], record=record(gpu=("NVIDIA H200", 139.8)))
    reported = dict(fact_rows(found, summarise(found, ceilings())))["common.work"]
    peak = say("show.work.share-of-peak", share="42.3%", gpu="H200", peak="989.0 TFLOP/s")
    ceiling = say("show.work.share-of-ceiling", share="52.9%", ceiling="791.2 TFLOP/s")
    assert reported.startswith(ENGLISH.clauses([peak, ceiling]))
    assert "791.2" not in rows(found)["common.work"]


def test_the_speed_of_two_gpus_is_against_the_peak_of_two(
    run: Builder, step: Builder, record: Builder, start: Builder
) -> None:
    steps = [step(i, step_seconds=4.67, micro_steps=32) for i in range(500, 520)]
    history = [start(), start(500, processes=2)]
    reported = rows(run(steps, record=record(processes=2, resumed_at=(500,)), history=history))
    peak = say("show.work.share-of-peak", share="76.8%", gpu="2 x RTX 4070", peak="116.6 TFLOP/s")
    assert peak in reported["common.work"]
    assert reported["common.machine"].startswith("2 x NVIDIA GeForce RTX 4070, bfloat16")
    assert reported["common.speed"].endswith(say("show.speed.since-iteration", rate="", iteration="500"))
    assert reported["common.batch"] == "524,288 tokens/iteration = 8 x 1024 x 32 micro-steps x 2 processes"


def test_the_noise_scale_is_reported_with_its_interval_and_what_serves(run: Builder, step: Builder) -> None:
    # Squares of 1 + 65,536 / tokens: 9 over 8,192, 2 over 65,536; in every second iteration 2.2.
    norms = {"micro_grad_norm": 3.0, "micro_tokens": 8192, "tokens": 65_536}
    steps = [step(i, grad_norm=(2.0 + 0.2 * (i % 2)) ** 0.5, **norms) for i in range(64)]
    reported = rows(run(steps))["common.noise-scale"]
    assert reported.startswith("57.")
    measured = ENGLISH.say_plural("batch.noise.measured-iterations", 32)
    assert says(reported, "batch.noise.with-interval", measured=measured)
    assert f"{measured}); 29." in reported
    assert says(reported, "batch.advice.range")


def test_a_noise_scale_that_has_not_settled_gives_no_advice(run: Builder, step: Builder) -> None:
    norms = {"micro_grad_norm": 3.0, "micro_tokens": 8192, "grad_norm": 2**0.5, "tokens": 65_536}
    reported = rows(run([step(i, **norms) for i in range(10)]))["common.noise-scale"]
    why = ENGLISH.say("batch.unsettled.too-few", number="32")
    assert says(reported, "batch.advice.none", why=why)


def test_one_micro_step_per_iteration_is_said_to_leave_the_noise_unmeasured(
    run: Builder, step: Builder, record: Builder
) -> None:
    alone = record({"n_embd": 768, "batch_size": 8, "gradient_accumulation_steps": 1})
    reported = rows(run([step(0)], record=alone))["common.noise-scale"]
    assert reported == ENGLISH.say("batch.not-measured.one-micro-step")
    assert "common.noise-scale" not in rows(run([step(0)]))  # an older run, of 64 micro-steps


def test_a_batch_that_grew_is_reported_as_it_is_now(run: Builder, step: Builder, record: Builder) -> None:
    growing = record({"tokens_per_iter": 24_576, "batch_ramp": "noise"})
    assert rows(run([step(0, tokens=24_576)], record=growing))["common.batch"].endswith("up to 393,216")
    assert rows(run([step(0, tokens=49_152)], record=growing))["common.batch"].endswith(
        "up to 393,216; now 49,152"
    )


def test_the_load_of_the_machine_stands_beside_the_speed(
    run: Builder, step: Builder, record: Builder, sample: Builder
) -> None:
    of_gpu = {"sm_mhz": 1980, "power_watts": 345.6, "power_limit_watts": 700.0, "temperature_celsius": 71}
    steps, busy = [step(i, step_seconds=10.0) for i in range(20)], {"busy_core_seconds": 4.0}
    on_cpu = rows(run(steps, record=record(gpu=None), telemetry=[sample(20, load_average=2.5, **busy)]))
    assert {"50.0%", "2.5"} <= set(on_cpu["show.row.cpu-load"].replace(",", " ").split())
    assert "50.0%" in on_cpu["show.row.caution"]
    assert "show.row.gpu-state" not in on_cpu
    on_gpu = rows(run(steps, telemetry=[sample(20, **of_gpu)]))
    assert all(number in on_gpu["show.row.gpu-state"] for number in ("1,980 MHz", "346 W", "700 W", "71 °C"))
    assert "show.row.caution" not in on_gpu
    assert rows(run(steps)).keys() & {"show.row.cpu-load", "show.row.gpu-state", "show.row.caution"} == set()


@pytest.mark.parametrize(
    ("step_seconds", "codes"), [(1.0, []), (0.4, ["rate-impossible"])], ids=["possible", "beyond"]
)
def test_a_speed_that_the_named_gpu_cannot_reach_has_a_caution(
    run: Builder, step: Builder, record: Builder, step_seconds: float, codes: list[str]
) -> None:
    """418 TFLOP/s are 42% of an H200's peak; 1,046 are 106%, and large matmuls reach 85%."""
    found = run(
        [step(i, step_seconds=step_seconds) for i in range(20)], record=record(gpu=("NVIDIA H200", 139.8))
    )
    assert [each.code for each in cautions(found, summarise(found))] == codes
    assert ("show.row.caution" in rows(found)) == bool(codes)


def test_what_a_reader_wants_first_comes_first(run: Builder, step: Builder, record: Builder) -> None:
    noted = record().model_copy(update={"notes": ("a note",)})
    titles = list(rows(run([step(i) for i in range(20)], record=noted)))
    wanted = ["common.state", "common.train-loss", "common.speed", "common.memory", "common.batch"]
    assert [each for each in titles if each in wanted] == wanted
    assert titles[-1] == "show.row.note"


def test_json_has_the_state_of_the_machine(run: Builder, step: Builder, sample: Builder) -> None:
    steps = [step(i) for i in range(20)]
    of_others = {"busy_core_seconds": 3.0, "other_gpu_processes": 1, "other_gpu_share": 0.5}
    found = run(steps, telemetry=[sample(20, **of_others)])
    summary: Any = run_document(found, summarise(found))["summary"]
    state = summary["machine_state"]
    assert (state["gpu_shared"], state["is_busy"], state["others_cpu_share"]) == (True, False, 0.25)
    comparison, findings = compared_runs([found, run(steps)])
    document: dict[str, Any] = comparison_document(comparison, findings)
    first, second = document["machine_state"].values()
    assert (first["other_gpu_share"], second) == (0.5, None)
    assert "gpu-shared" in [each["code"] for each in document["findings"]]
