"""Attribute on a made-up card by a made-up stopwatch: what is asked, kept, refused and concluded."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanodyno.analysis.attribution_findings import attribution_findings
from nanodyno.analysis.attribution_reading import read_attribution
from nanodyno.analysis.factors import with_length
from nanodyno.errors import NanodynoError
from nanodyno.experiments.short_training import (
    ShortTraining,
    ShortTrainings,
    Trained,
    shortened,
    tokens_of_each,
)
from nanodyno.probe.process import Failure
from nanodyno.records.attribution import attributions_of
from nanodyno.report.attribute_document import attribution_document


def codes(found: Any) -> set[str]:
    return {each.code for each in attribution_findings(found)}


def test_the_case_comes_out_with_both_orders_and_the_parts_add_up(attributions: Any, tmp_path: Path) -> None:
    """+39% then -7%, or -44% then +130%; the part of the width is the mean of its steps' logarithms."""
    found, _ = attributions.measure(attributions.inquiry(), tmp_path)
    width, batch = (each.interval.value for each in found.look.effects.parts)
    assert math.expm1(width) == pytest.approx(math.sqrt(427 / 308 * 396 / 172) - 1, abs=0.01)
    assert found.look.effects.total is not None
    assert width + batch == pytest.approx(found.look.effects.total.interval.value, abs=1e-12)
    (orders,) = [each for each in attribution_findings(found) if each.code == "paths-disagree"]
    expected = {"one_first": 0.39, "other_then": -0.07, "other_first": -0.44, "one_then": 1.30}
    assert {key: orders.numbers[key] for key in expected} == pytest.approx(expected, abs=0.01)
    assert {"combination-idles", "idle-moved"} <= codes(found)
    assert [each.round for each in found.combinations[0].measured.repetitions] == [0, 1, 2, 3]


def test_combinations_are_visited_once_a_round_in_another_order_each_time(
    attributions: Any, tmp_path: Path
) -> None:
    _, bench = attributions.measure(attributions.inquiry(), tmp_path)
    orders = [names for _, _, names in bench.asked]
    assert [number for _, number, _ in bench.asked] == [0, 1, 2, 3]
    assert all(len(set(names)) == 4 for names in orders)
    assert len(set(orders)) > 1


def test_the_same_command_measures_nothing_twice_and_another_metric_reads_the_same(
    attributions: Any, tmp_path: Path
) -> None:
    first, _ = attributions.measure(attributions.inquiry(), tmp_path)
    again, bench = attributions.measure(attributions.inquiry(metric="achieved_flops_per_second"), tmp_path)
    assert bench.asked == []
    assert again.reused == 16
    rate, work = (each.look.effects.parts[1].interval.value for each in (first, again))
    assert work == pytest.approx(rate)  # a micro-batch has no part in the work of a token
    assert again.look.effects.parts[0].interval.value > first.look.effects.parts[0].interval.value


def test_ctrl_c_keeps_what_is_known_and_the_same_command_goes_on(attributions: Any, tmp_path: Path) -> None:
    """At the third corner of the third round: two rounds are whole, and the third is made again."""
    surface, repetitions = attributions.surface(), iter(range(100))

    def answer(config: Any) -> Any:
        if next(repetitions) == 10:
            raise KeyboardInterrupt
        return surface(config)

    stopped, _ = attributions.measure(attributions.inquiry(), tmp_path, answer)
    assert stopped.interrupted
    assert stopped.look.kept == (0, 1)
    assert {len(each.measured.repetitions) for each in stopped.combinations.values()} == {2}
    finished, bench = attributions.measure(attributions.inquiry(), tmp_path)
    assert not finished.interrupted
    assert [number for _, number, _ in bench.asked] == [2, 3]
    assert finished.look.finished


def test_combinations_that_ctrl_c_left_are_counted_and_no_seed_is_claimed(
    attributions: Any, tmp_path: Path
) -> None:
    def answer(_: Any) -> Any:
        raise KeyboardInterrupt

    stopped, _ = attributions.measure(attributions.inquiry(), tmp_path, answer)
    trained = attribution_findings(replace(stopped, metric="val_loss"))
    assert [each.code for each in trained] == ["combinations-not-measured"]
    assert trained[0].numbers["unmeasured"] == 4


def test_a_combination_that_does_not_fit_is_a_result_and_no_part_is_claimed(
    attributions: Any, tmp_path: Path
) -> None:
    surface = attributions.surface(too_large=((256, 4),))
    found, bench = attributions.measure(attributions.inquiry(), tmp_path, surface)
    assert found.look.effects.parts == ()
    assert found.look.effects.paths() == [(1, 0)]
    steps = found.look.effects.steps
    assert math.exp(steps[0, 1].interval.value) == pytest.approx(172 / 308, rel=0.01)
    assert math.exp(steps[2, 0].interval.value) == pytest.approx(396 / 172, rel=0.01)
    assert {"combination-too-large", "path", "no-parts", "next-make-fit"} <= codes(found)
    (large,) = [each for each in attribution_findings(found) if each.code == "combination-too-large"]
    assert large.numbers["combination"] == {"n_embd": 256, "batch_size": 4}
    assert isinstance(large.numbers["needs_bytes"], int)
    assert all(len(names) == 3 for _, number, names in bench.asked if number)


def test_where_every_mixed_combination_is_missing_only_the_whole_is_reported(
    attributions: Any, tmp_path: Path
) -> None:
    surface = attributions.surface(too_large=((256, 4), (128, 2)))
    found, _ = attributions.measure(attributions.inquiry(), tmp_path, surface)
    assert found.look.effects.total is not None
    assert found.look.effects.steps == {}
    assert "no-path" in codes(found)


def test_where_an_end_is_missing_single_steps_are_reported(attributions: Any, tmp_path: Path) -> None:
    """308 to 427 and to 172, each from before."""
    surface = attributions.surface(too_large=((256, 2),))
    found, _ = attributions.measure(attributions.inquiry(), tmp_path, surface)
    assert found.look.effects.total is None
    steps = [each.numbers for each in attribution_findings(found) if each.code == "step"]
    assert [each["change"] for each in steps] == ["n_embd", "batch_size"]
    assert [each["size"] for each in steps] == pytest.approx([427 / 308 - 1, 172 / 308 - 1], abs=0.005)
    assert "no-end" in codes(found)


def test_where_nothing_fits_one_round_says_so(attributions: Any, tmp_path: Path) -> None:
    surface = attributions.surface(too_large=((128, 4), (256, 4), (128, 2), (256, 2)))
    found, bench = attributions.measure(attributions.inquiry(), tmp_path, surface)
    assert len(bench.asked) == 1
    assert found.look.made == 0
    assert "combination-too-large" in codes(found)


def test_noise_that_precision_does_not_come_of_ends_with_the_budget_and_says_so(
    attributions: Any, tmp_path: Path
) -> None:
    """A visit takes 5 s, so a round 20 s: five of them in 119 s, and not a sixth."""
    inquiry = attributions.inquiry(budget_seconds=119.0)
    found, bench = attributions.measure(inquiry, tmp_path, attributions.surface(noise=0.1))
    assert len(bench.asked) == 5
    assert not found.look.finished
    assert found.look.level == pytest.approx(1 - 0.05 * 0.7)
    assert "not-precise" in codes(found)
    longer, more = attributions.measure(
        replace(inquiry, budget_seconds=160.0), tmp_path, attributions.surface(noise=0.1)
    )
    assert [number for _, number, _ in more.asked] == [5, 6, 7]
    assert longer.look.made == 8


def test_a_machine_that_stays_too_noisy_is_reported_so_and_no_longer_budget_is_advised(
    attributions: Any, tmp_path: Path
) -> None:
    """The last look is after 16 rounds: the same command with more time measures nothing."""
    noisy = attributions.surface(noise=0.1)
    found, _ = attributions.measure(attributions.inquiry(budget_seconds=9_000.0), tmp_path, noisy)
    assert len(found.look.kept) == 16
    assert "not-precise-after-all" in codes(found)
    assert "not-precise" not in codes(found)
    assert attribution_document(found)["precise"] is False
    _, more = attributions.measure(attributions.inquiry(budget_seconds=90_000.0), tmp_path, noisy)
    assert more.asked == []


def test_what_was_seen_once_is_reported_without_a_verdict(attributions: Any, tmp_path: Path) -> None:
    """A round takes 20 s, and there is no time for a second."""
    found, _ = attributions.measure(attributions.inquiry(budget_seconds=30.0), tmp_path)
    assert {"difference-once", "part-once", "one-round"} <= codes(found)
    assert not {"part", "part-not-shown", "difference", "difference-not-shown"} & codes(found)


def test_a_budget_for_less_than_a_round_is_refused_with_one_that_is_not(
    attributions: Any, tmp_path: Path
) -> None:
    with pytest.raises(NanodynoError, match="too short here: 2 of 4 corners measured in 12 s") as refused:
        attributions.measure(attributions.inquiry(budget_seconds=12.0), tmp_path)
    assert refused.value.hint is not None
    assert "--budget 1m" in refused.value.hint
    with pytest.raises(NanodynoError, match="0 of 4 corners") as refused:
        attributions.measure(
            attributions.inquiry({"n_embd": 64, "batch_size": 2}, budget_seconds=1.0), tmp_path
        )
    assert "--budget 2m" in str(refused.value.hint)  # 2.5 rounds of 4 visits of 10 s


def test_changes_that_do_nothing_are_not_shown_to_do_anything(attributions: Any, tmp_path: Path) -> None:
    """A config against itself under other names."""
    even = attributions.surface(dict.fromkeys([(128, 4), (256, 4), (128, 2), (256, 2)], 300.0))
    found, _ = attributions.measure(attributions.inquiry(), tmp_path, even)
    assert {each.call for each in found.look.effects.parts} <= {"tied", "no difference shown"}
    assert not {"part", "paths-disagree", "difference"} & codes(found)


def test_a_switch_that_makes_all_fit_is_found_by_prediction_and_reported(
    attributions: Any, tunings: Any, tmp_path: Path
) -> None:
    from nanodyno.experiments.attribute import attribute

    inquiry = attributions.inquiry({"n_embd": 256, "batch_size": 16}, make_fit=True)

    def answer(config: Any) -> Any:
        return tunings.repetition(config, 1.0, 2**30)

    bench = tunings.stopwatch(answer)
    found = attribute(inquiry, bench=bench.bench(tmp_path, tunings.place(usable_gib=2.2)))
    held = dict(found.design.held)
    assert held
    assert all(
        getattr(job.config, key) == value for job in bench.jobs.values() for key, value in held.items()
    )
    assert "held-for-all" in codes(found)


def test_what_is_kept_of_a_pair_can_be_read_without_the_machine(attributions: Any, tmp_path: Path) -> None:
    inquiry = attributions.inquiry()
    found, _ = attributions.measure(inquiry, tmp_path)
    ((question, lines),) = attributions_of(inquiry.before, inquiry.after, tmp_path)
    read = read_attribution(question, lines, inquiry.names, inquiry.metric)
    assert read.look == found.look
    assert read.machine == found.machine
    assert list(attributions_of(inquiry.after, inquiry.before, tmp_path)) == []


def test_a_process_that_died_is_tried_again_by_the_next_command(
    attributions: Any, tunings: Any, tmp_path: Path
) -> None:
    """Its round is made again and the others, which lacked it; what is kept tells the same."""
    surface = attributions.surface()

    def dying(config: Any) -> Any:
        return tunings.failed(config, "died") if config.n_embd == 256 else surface(config)

    spoilt, _ = attributions.measure(attributions.inquiry(), tmp_path, dying)
    assert "combination-failed" in codes(spoilt)
    mended, bench = attributions.measure(attributions.inquiry(), tmp_path)
    assert [number for _, number, _ in bench.asked] == [0, 1, 2, 3]
    assert len(mended.look.effects.parts) == 2
    ((question, lines),) = attributions_of(mended.design.before, mended.design.after, tmp_path)
    kept = read_attribution(question, lines, mended.names, mended.metric)
    assert kept.look == mended.look
    assert kept.combinations == mended.combinations


class Mortal:
    """Lets the process of one corner die in these of its visits."""

    def __init__(self, surface: Any, failed: Any, repetitions: tuple[int, ...]) -> None:
        self.surface, self.failed, self.repetitions = surface, failed, repetitions
        self.seen = 0

    def __call__(self, config: Any) -> Any:
        if (config.n_embd, config.batch_size) != (256, 4):
            return self.surface(config)
        self.seen += 1
        return self.failed(config, "died") if self.seen - 1 in self.repetitions else self.surface(config)


def test_a_process_that_dies_after_its_combination_was_measured_costs_its_round_and_no_more(
    attributions: Any, tunings: Any, tmp_path: Path
) -> None:
    """Four whole rounds are enough here; the second is lost, and a fifth is made in its place."""
    mortal = Mortal(attributions.surface(), tunings.failed, (1,))
    found, bench = attributions.measure(attributions.inquiry(), tmp_path, mortal)
    assert [number for _, number, _ in bench.asked] == [0, 1, 2, 3, 4]
    assert all(len(names) == 4 for _, _, names in bench.asked)
    assert found.look.kept == (0, 2, 3, 4)
    assert len(found.look.effects.parts) == 2
    (combination,) = [each for each in found.combinations.values() if each.deaths]
    assert combination.measured is not None
    assert (combination.deaths, len(combination.measured.repetitions)) == (((1, "it is gone"),), 4)
    (reported,) = [each for each in attribution_findings(found) if each.code == "round-lost"]
    assert (reported.numbers["round"], reported.numbers["words"]) == (2, "it is gone")
    ((question, lines),) = attributions_of(found.design.before, found.design.after, tmp_path)
    assert read_attribution(question, lines, found.names, found.metric).look == found.look


def test_a_combination_whose_processes_keep_dying_is_given_up(
    attributions: Any, tunings: Any, tmp_path: Path
) -> None:
    mortal = Mortal(attributions.surface(), tunings.failed, tuple(range(1, 50)))
    found, _ = attributions.measure(attributions.inquiry(), tmp_path, mortal)
    assert mortal.seen == 1 + 3
    assert "combination-failed" in codes(found)


def test_a_schedule_is_cut_short_as_a_whole(tunings: Any) -> None:
    config = tunings.config(max_iters=1000, warmup_iters=100, lr_decay_iters=800, eval_iters=3)
    short = shortened(config, 50 * config.tokens_per_iter)
    assert (short.max_iters, short.warmup_iters, short.lr_decay_iters) == (50, 5, 40)
    assert short.eval_interval == 50
    assert with_length(tunings.config(max_iters=1000, warmup_iters=0), 10).warmup_iters == 0


def test_a_batch_that_grows_is_cut_short_to_the_same_tokens(tunings: Any) -> None:
    """500 iterations of 16,384 and 500 of twice that: a tenth of the tokens is a tenth of the iterations."""
    ramp = {"max_iters": 1000, "batch_ramp": f"{500 * 16_384}:32768"}
    short = shortened(tunings.config(**ramp), 1500 * 16_384 / 10)
    assert (short.max_iters, short.ramp.tokens_after(100)) == (100, 150 * 16_384)


def test_equal_tokens_are_fewer_steps_of_a_larger_batch_and_equal_time_is_by_pace(tunings: Any) -> None:
    small, large = tunings.config(), tunings.config(tokens_per_iter=2 * 16_384)
    assert tokens_of_each({0: small, 1: large}, 10, None) == {0: 10 * 32_768, 1: 10 * 32_768}
    paces = {0: tunings.repetition(small, 1.0, 1), 1: tunings.repetition(large, 1.0, 1)}
    assert tokens_of_each({0: small, 1: large}, 10, paces) == {
        0: pytest.approx(10 * 16_384),
        1: pytest.approx(10 * 32_768),
    }
    with pytest.raises(NanodynoError, match="--budget is too short"):
        tokens_of_each({0: small}, 10, {})
    with pytest.raises(NanodynoError, match="one could not be measured"):
        tokens_of_each({0: small}, 10, {0: tunings.failed(small, "died")})


def test_combinations_share_the_seed_of_a_round_and_a_failure_is_a_result(tunings: Any) -> None:
    seen: list[ShortTraining] = []

    def train(request: ShortTraining, _: object) -> Trained | Failure:
        seen.append(request)
        if request.config.n_embd == 256:
            return Failure(reason="refused", words="diverged")
        return Trained(val_loss=3.0, training_seconds=1.0)

    configs = {0: tunings.config(seed=5), 1: tunings.config(seed=5, n_embd=256)}
    trainings = ShortTrainings(configs, {0: "a", 1: "b"}, None, lambda _: None, lambda: 0.0, train)
    lines = [*trainings.round(0, [0, 1]), *trainings.round(1, [0])]
    assert [request.config.seed for request in seen] == [5, 5, 6]
    assert [line.val_loss for line in lines] == [3.0, None, 3.0]
    assert lines[1].words == "diverged"
