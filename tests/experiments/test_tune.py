"""Tune on a made-up card by a made-up stopwatch: what is asked, kept, refused and chosen."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.candidates import TuneRequest
from nanodyno.analysis.tuning import Heard, Tuning, rows_of
from nanodyno.errors import NanodynoError
from nanodyno.experiments.tune import applied, recall, tune
from nanodyno.hardware.telemetry import Holder
from nanodyno.records.probe import Measured, MemoryRecord, OutOfMemory, ProbeResult, Throttled

GIB = 2**30


@pytest.fixture
def asked(tunings: Any) -> TuneRequest:
    return tunings.request(tunings.config(), budget_seconds=400.0)


def chosen(tuning: Tuning) -> str:
    assert tuning.pick is not None
    return tuning.pick.chosen


def test_the_fastest_that_fits_is_chosen_and_measured_afresh(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    stopwatch = tunings.stopwatch()
    tuning = tune(asked, bench=stopwatch.bench(tmp_path))
    assert chosen(tuning).startswith("8 x 2")
    row = next(row for row in rows_of(tuning) if row.name == chosen(tuning))
    assert row.is_final
    assert row.tokens_per_second is not None
    assert row.tokens_per_second.value == pytest.approx(16_384)
    assert "too-large" in {row.reason for row in rows_of(tuning) if row.candidate.batch_size == 16}
    assert tuning.spent_seconds <= asked.budget_seconds


def test_the_same_command_measures_nothing_twice_and_says_the_same_also_of_a_longer_run(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    first, second = tunings.stopwatch(), tunings.stopwatch()
    before = tune(asked, bench=first.bench(tmp_path))
    longer = replace(asked, config=tunings.config(max_iters=9, learning_rate=1e-3))
    after = tune(longer, bench=second.bench(tmp_path))
    assert second.asked == []
    assert chosen(after) == chosen(before)
    assert after.reused == sum(len(names) for _, _, names in first.asked)
    assert after.spent_seconds == pytest.approx(before.spent_seconds)


def test_again_measures_anew(asked: TuneRequest, tunings: Any, tmp_path: Path) -> None:
    first, second = tunings.stopwatch(), tunings.stopwatch()
    tune(asked, bench=first.bench(tmp_path))
    tune(replace(asked, again=True), bench=second.bench(tmp_path))
    assert second.asked == first.asked


@pytest.mark.parametrize("after", [3, 6])
def test_ctrl_c_keeps_what_is_known_and_the_same_command_goes_on(
    after: int, asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    whole = tunings.stopwatch()
    expected = tune(asked, bench=whole.bench(tmp_path / "whole"))
    stopped = tunings.stopwatch(interrupt_at=after)
    tuning = tune(asked, bench=stopped.bench(tmp_path / "cache"))
    assert tuning.interrupted
    assert len([row for row in rows_of(tuning) if row.summary is not None]) >= 2
    rest = tunings.stopwatch()
    finished = tune(asked, bench=rest.bench(tmp_path / "cache"))
    assert chosen(finished) == chosen(expected)
    assert not finished.interrupted
    assert rest.asked == whole.asked[-len(rest.asked) :]
    assert len(rest.asked) < len(whole.asked)


def test_what_was_reported_when_ctrl_c_came_is_known_to_the_search_too(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    def stop(event: object) -> None:
        if isinstance(event, Heard) and isinstance(event.result, Measured):
            raise KeyboardInterrupt

    tuning = tune(asked, stop, tunings.stopwatch().bench(tmp_path))
    (measured,) = (row.name for row in rows_of(tuning) if row.summary is not None)
    assert tuning.interrupted
    assert chosen(tuning) == measured


def test_a_budget_too_short_for_two_is_refused_with_one_that_is_not(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    """A visit takes 15 s; two candidates take eight of them, each one and then each in three rounds."""
    even = partial(tunings.repetition, seconds=1.0, reserved=GIB)
    with pytest.raises(
        NanodynoError, match="too short for two candidates here: 1 measured in 15 s"
    ) as refused:
        tune(replace(asked, budget_seconds=20.0), bench=tunings.stopwatch(even, 15.0).bench(tmp_path))
    assert refused.value.hint is not None
    assert "--budget 2m" in refused.value.hint
    tuning = tune(replace(asked, budget_seconds=120.0), bench=tunings.stopwatch(even, 15.0).bench(tmp_path))
    assert tuning.reused == 1
    assert tuning.pick is not None
    assert tuning.pick.reading is not None


def test_without_time_for_a_final_the_result_is_of_the_search(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    """Three visits: 16 does not fit, 8 and 4 do."""
    tuning = tune(replace(asked, budget_seconds=16.0), bench=tunings.stopwatch().bench(tmp_path))
    assert tuning.pick is not None
    assert tuning.pick.reading is None
    assert tuning.final == {}


def test_one_that_hangs_or_dies_is_a_result_and_the_others_go_on(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    def answer(config: Any) -> ProbeResult:
        if config.batch_size in (2, 8):
            return tunings.failed(config, "hung" if config.batch_size == 2 else "died")
        return tunings.rising(config)

    tuning = tune(asked, bench=tunings.stopwatch(answer).bench(tmp_path))
    assert chosen(tuning).startswith("4 x 4")
    assert {tuning.left_out[name] for name in tuning.left_out if name.startswith(("2 x 8", "8 x 2"))} <= {
        "failed",
        "not-needed",
    }


def test_where_all_run_out_of_memory_nothing_is_chosen(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    def answer(config: Any) -> ProbeResult:
        return tunings.rising(config.model_copy(update={"batch_size": 16}))

    tuning = tune(asked, bench=tunings.stopwatch(answer).bench(tmp_path))
    assert tuning.pick is None
    assert "too-large" in tuning.left_out.values()


def test_what_leaves_too_little_for_a_whole_run_is_not_chosen(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    """8 reserves 8 GiB; context and margin are half a GiB each, so that 9 are not enough beside a graph's
    evaluation and 4, of 4 GiB, is taken."""
    bench = tunings.stopwatch().bench(tmp_path, tunings.place(usable_gib=9.0))
    tuning = tune(asked, bench=bench)
    assert chosen(tuning).startswith("4 x 4")
    assert "tight" in {
        tuning.left_out.get(row.name) for row in rows_of(tuning) if row.name.startswith("8 x 2")
    }


def test_a_smaller_gpu_is_emulated_by_the_allocators_limit_less_the_context(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    stopwatch = tunings.stopwatch()
    tune(replace(asked, memory_limit_bytes=12 * GIB), bench=stopwatch.bench(tmp_path))
    assert {job.memory_limit_bytes for job in stopwatch.jobs.values()} == {12 * GIB - GIB // 2}


def test_a_limit_below_the_context_is_refused(asked: TuneRequest, tunings: Any, tmp_path: Path) -> None:
    with pytest.raises(NanodynoError, match="context alone"):
        tune(replace(asked, memory_limit_bytes=GIB // 4), bench=tunings.stopwatch().bench(tmp_path))


def test_where_nothing_can_fit_the_smallest_need_and_what_would_help_are_reported(
    tunings: Any, tmp_path: Path
) -> None:
    asked = tunings.request(tunings.config(n_layer=48, n_embd=1600, n_head=25), budget_seconds=60.0)
    bench = tunings.stopwatch().bench(tmp_path, tunings.place(usable_gib=2.0))
    with pytest.raises(NanodynoError, match=r"nothing fits: the smallest, 1 x 16 .* needs about") as refused:
        tune(asked, bench=bench)
    assert refused.value.hint is not None
    assert "--n_layer" in refused.value.hint


def test_a_gpu_that_others_have_filled_names_them(asked: TuneRequest, tunings: Any, tmp_path: Path) -> None:
    full = replace(tunings.place(usable_gib=0.3), held_bytes=11 * GIB, holders=("python (123)",))
    with pytest.raises(NanodynoError, match=r"other programs hold 11.0 GiB: python \(123\)"):
        tune(asked, bench=tunings.stopwatch().bench(tmp_path, full))


def test_an_effective_batch_without_divisors_is_tuned_as_far_as_that_goes(
    tunings: Any, tmp_path: Path
) -> None:
    config = tunings.config(batch_size=1, tokens_per_iter=13 * 1024)

    def answer(config: Any) -> ProbeResult:
        return tunings.repetition(config, 1.0, GIB)

    tuning = tune(tunings.request(config, 400.0), bench=tunings.stopwatch(answer).bench(tmp_path))
    assert {each.batch_size for each in tuning.candidates} == {1, 13}
    assert tuning.pick is not None


def test_a_finished_search_is_recalled_for_a_run_of_another_length(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    bench = tunings.stopwatch().bench(tmp_path)
    longer = replace(asked, config=tunings.config(max_iters=12_345), budget_seconds=60.0)
    assert recall(longer, bench) is None
    tuning = tune(asked, bench=bench)
    config = recall(longer, bench)
    assert config is not None
    assert (config.batch_size, config.max_iters) == (8, 12_345)
    assert tuning.chosen is not None
    assert config == applied(longer.config, tuning.chosen.config)


def test_a_result_that_was_not_measured_afresh_is_none_to_train_with(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    """16 s are enough for first looks and for no final."""
    bench = tunings.stopwatch().bench(tmp_path)
    short = replace(asked, budget_seconds=16.0)
    assert tune(short, bench=bench).pick is not None
    assert recall(short, bench) is None
    tune(asked, bench=bench)
    assert recall(short, bench) is not None


def test_who_watches_hears_of_every_repetition(asked: TuneRequest, tunings: Any, tmp_path: Path) -> None:
    heard: list[Heard] = []
    stopwatch = tunings.stopwatch()
    tune(
        asked,
        lambda event: heard.append(event) if isinstance(event, Heard) else None,
        stopwatch.bench(tmp_path),
    )
    assert [each.candidate.name for each in heard] == [
        name for _, _, names in stopwatch.asked for name in names
    ]


@pytest.mark.parametrize("kind", ["throttled", "died", "hung"])
def test_what_may_have_passed_is_measured_again_by_the_same_command(
    kind: str, asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    def disturbed(config: Any) -> ProbeResult:
        if config.batch_size != 8:
            return tunings.rising(config)
        if kind != "throttled":
            return tunings.failed(config, kind)
        seen = tunings.rising(config)
        return Throttled(config=config, setup=seen.setup, redone=seen.repetitions, memory=seen.memory)

    before = tune(asked, bench=tunings.stopwatch(disturbed).bench(tmp_path))
    assert chosen(before).startswith("4 x 4")
    after = tune(asked, bench=tunings.stopwatch().bench(tmp_path))
    assert chosen(after).startswith("8 x 2")
    assert after.reused > 0
    rest = tunings.stopwatch()
    assert chosen(tune(asked, bench=rest.bench(tmp_path))).startswith("8 x 2")
    assert rest.asked == []


def test_one_that_ran_out_of_memory_beside_others_is_tried_again_when_they_are_gone(
    asked: TuneRequest, tunings: Any, tmp_path: Path
) -> None:
    def beside(config: Any) -> ProbeResult:
        result = tunings.rising(config)
        if config.batch_size != 8:
            return result
        holder = Holder(process=1, name="python", bytes=6 * GIB)
        words = "CUDA out of memory"
        return OutOfMemory(
            config=config, stage="building", memory=MemoryRecord(), words=words, holders=(holder,)
        )

    full = replace(tunings.place(), held_bytes=6 * GIB)
    assert chosen(tune(asked, bench=tunings.stopwatch(beside).bench(tmp_path, full))).startswith("4 x 4")
    same = tunings.stopwatch()
    tune(asked, bench=same.bench(tmp_path, full))
    assert same.asked == []
    assert chosen(tune(asked, bench=tunings.stopwatch().bench(tmp_path))).startswith("8 x 2")


def test_a_limit_too_small_is_not_blamed_on_other_programs(tunings: Any, tmp_path: Path) -> None:
    asked = tunings.request(
        tunings.config(n_layer=48, n_embd=1600, n_head=25), 60.0, memory_limit_bytes=2 * GIB
    )
    shared = replace(tunings.place(usable_gib=2.0), held_bytes=100 * GIB, holders=("python (123)",))
    with pytest.raises(NanodynoError, match="nothing fits") as refused:
        tune(asked, bench=tunings.stopwatch().bench(tmp_path, shared))
    assert "other programs" not in refused.value.message
