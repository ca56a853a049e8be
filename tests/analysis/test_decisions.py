"""One decision for each question: what it calls, how often it errs, and that every reader has the same."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.analysis.accounts import account, curve, steps

from nanodyno.analysis.account import Account, AccountEval
from nanodyno.analysis.changes import changes_between
from nanodyno.analysis.compare import compare
from nanodyno.analysis.conclusions import LOSS_REASONS, SPEED_REASONS, conclusions
from nanodyno.analysis.decisions import DEFAULT_SPEED_SD, Decision, NotComparable, default_seed_sd, groups_of
from nanodyno.analysis.findings import Code
from nanodyno.analysis.leaderboard import leaderboard, standing_of
from nanodyno.analysis.machine_state import MachineState
from nanodyno.hardware.gpus import gpu_named
from nanodyno.messages.language import ENGLISH
from nanodyno.records.types import DataRecord
from nanodyno.report.compare import comparison_document, comparison_page, named_words
from nanodyno.report.compare_tables import TITLES
from nanodyno.report.page import Table

SPEED, LOSS = "tokens_per_second", "val_loss_at_equal_tokens"
H200 = gpu_named("H200")
DATA = DataRecord(
    dataset="edu", tokenizer="gpt2", vocab_size=50257, train_tokens=10**9, val_tokens=10**6, fingerprint="0"
)


def run(name: str, config: str, seconds: float = 1.0, loss: float = 4.0, **changes: Any) -> Account:
    """One of a config, which is a setting that could move both; its loss at the end is the one given."""
    evals = tuple(AccountEval(at, loss + 5 / at - 0.005) for at in range(100, 1001, 100))
    changed = {"variant": config} | changes.pop("settings", {})
    return account(name, seconds, settings=changed, evals=evals, gpu=H200, data=DATA, **changes)


def repeated(config: str, seconds: list[float], losses: list[float]) -> list[Account]:
    return [
        run(f"{config}{number}", config, *each, settings={"seed": number})
        for number, each in enumerate(zip(seconds, losses, strict=True))
    ]


def decided(accounts: list[Account], metric: str, **changes: Any) -> Decision:
    (found,) = [each for each in compare(accounts, **changes).decisions if each.metric == metric]
    return found


@given(
    seconds=st.lists(st.floats(0.8, 1.2), min_size=6, max_size=6, unique=True),
    losses=st.lists(st.floats(3.9, 4.1), min_size=6, max_size=6, unique=True),
)
@settings(max_examples=60, deadline=None)
def test_of_three_runs_each_it_is_the_t_test_of_a_textbook(seconds: list[float], losses: list[float]) -> None:
    """The process or the seed is the unit: scipy's, of logarithms of speeds and of losses."""
    accounts = [
        *repeated("a", seconds[:3], losses[:3]),
        *repeated("b", seconds[3:], losses[3:]),
    ]
    speeds = [
        math.log(each.speed.tokens_per_second.value) for each in accounts if each.speed.tokens_per_second
    ]
    read = [each.evals[-1].val_loss for each in accounts]
    for metric, values in ((SPEED, speeds), (LOSS, read)):
        found = decided(accounts, metric)
        expected = stats.ttest_ind(values[3:], values[:3]).confidence_interval(0.95)
        assert found.effect is not None
        assert found.noise is not None
        spread = math.sqrt(sum(stats.tvar(each) for each in (values[:3], values[3:])) / 2)
        if metric == SPEED and spread < 0.002:
            continue  # a smallest spread is taken
        low, high = (math.exp(expected.low), math.exp(expected.high)) if metric == SPEED else tuple(expected)
        assert (found.effect.low, found.effect.high) == pytest.approx((low, high), rel=1e-6, abs=1e-9)
        assert (found.noise.sd, found.noise.degrees) == (pytest.approx(spread, rel=1e-6), 4)


def test_without_repeated_runs_the_noise_is_the_default_of_the_device_and_of_the_size() -> None:
    a, b = run("a", "a"), run("b", "b")
    assert decided([a, b], SPEED).noise == decided([a, b], "mfu").noise
    noise = decided([a, b], SPEED).noise
    assert noise is not None
    assert (noise.sd, noise.degrees) == (DEFAULT_SPEED_SD["gpu"], None)
    seed = decided([a, b], LOSS).noise
    assert seed is not None
    assert seed.sd == default_seed_sd(a) == pytest.approx(0.02 * (123.587328) ** -0.35, rel=1e-9)


def test_the_runs_of_the_user_show_how_far_runs_of_one_config_lie_apart() -> None:
    """Four of a third config, 1%, 0, 0 and -1% off in log speed: a standard deviation of 0.82%."""
    others = repeated("c", [math.exp(-0.01), 1.0, math.exp(1e-9), math.exp(0.01)], [4.0, 4.1, 4.2, 4.3])
    noise = decided([run("a", "a"), run("b", "b")], SPEED, history=others).noise
    assert noise is not None
    assert (noise.sd, noise.degrees) == (pytest.approx(math.sqrt(2e-4 / 3), rel=1e-3), 3)
    seed = decided([run("a", "a"), run("b", "b")], LOSS, history=others).noise
    assert seed is not None
    assert seed.degrees is None, "seeds of another config say nothing about these"


def test_the_same_run_under_two_names_is_no_replicate() -> None:
    copies = [run(f"c{number}", "c") for number in range(5)]
    noise = decided([run("a", "a"), run("b", "b")], SPEED, history=copies).noise
    assert noise is not None
    assert noise.degrees is None


def test_replicates_are_put_together_unless_there_is_nothing_else() -> None:
    a, b = repeated("a", [1.0] * 3, [4.0] * 3), repeated("b", [1.0] * 2, [4.0] * 2)
    assert [[each.name for each in group] for group in groups_of([*a, *b])] == [
        ["a0", "a1", "a2"],
        ["b0", "b1"],
    ]
    assert [len(group) for group in groups_of(a)] == [1, 1, 1]
    other_gpu = run("d", "a", device_type="cuda", device_name="another")
    assert [len(group) for group in groups_of([*a, other_gpu])] == [3, 1]


def test_one_run_of_a_config_is_not_better_than_another_however_far_they_lie_apart() -> None:
    one, other = run("a", "same"), run("b", "same", 0.6, 3.5)
    found = compare([one, other])
    assert {each.reason for each in found.decisions if each.metric in (SPEED, LOSS)} == {
        "unrecorded-difference"
    }
    assert not found.winners.keys() & {SPEED, LOSS, "mfu"}


def test_groups_that_the_user_makes_are_compared_also_where_nothing_recorded_differs() -> None:
    ones, others = repeated("a", [1.0, 1.01, 0.99], [4.0] * 3), repeated("a", [0.8, 0.81, 0.79], [4.0] * 3)
    found = decided([*ones, *others], SPEED, groups=[tuple(ones), tuple(others)])
    assert (found.call, found.effect and found.effect.value) == ("better", pytest.approx(1.25, rel=0.01))


SCHEDULE = {"schedule": "cosine", "warmup_iters": 0, "min_lr": 0.0}


@pytest.mark.parametrize(
    ("ends", "settings", "comparable"),
    [
        ((1000, 10_000), {}, False),
        ((1000, 1090), {}, True),
        ((5000, 10_000), {"schedule": "wsd", "wsd_decay_fraction": 0.2}, True),  # both are held there
        ((1000, 10_000), {"schedule": "constant"}, True),
    ],
)
def test_losses_at_other_stages_of_the_schedule_do_not_compare(
    ends: tuple[int, int], settings: dict[str, Any], comparable: bool
) -> None:
    one, other = (
        run(name, name, settings={**SCHEDULE, **settings, "max_iters": end, "lr_decay_iters": end})
        for name, end in zip("ab", ends, strict=True)
    )
    found = decided([one, other], LOSS)
    assert found.reason == (None if comparable else "other-schedule")


def test_on_other_data_nothing_is_better_anywhere() -> None:
    other = run("b", "b", loss=2.0)
    runs = [run("a", "a"), account("b", settings={"dataset": "owt"}, evals=other.evals, gpu=H200)]
    found = compare(runs)
    of_losses = [each for each in found.decisions if each.metric.startswith("val_loss")]
    assert len(of_losses) == 4
    assert {(each.call, each.reason) for each in of_losses} == {("not-comparable", "other-data")}
    assert not [name for name in found.winners if name.startswith("val_loss")]


@given(
    ratio=st.floats(0.85, 1.2),
    gap=st.floats(-0.15, 0.15),
    config=st.sampled_from(["a", "b"]),
    count=st.integers(3, 30),
)
@settings(max_examples=60, deadline=None)
def test_prose_table_document_and_leaderboard_have_one_decision(
    ratio: float, gap: float, config: str, count: int
) -> None:
    one = run("one", "a", steps=steps(1.0, count=20))
    other = run("other", config, loss=4.0 + gap, steps=steps(1 / ratio, count=count))
    comparison = compare([one, other])
    findings = conclusions(comparison)
    codes = {each.code for each in findings}
    ranks = {
        board.metric: {entry.run: entry.rank for entry in board.entries}
        for board in leaderboard([standing_of(each) for each in (one, other)]).boards
    }
    document = comparison_document(comparison, findings)
    tables = [part for each in comparison_page(comparison, findings) for part in each.parts]
    cells = {
        row[0].split(" (")[0]: row[-1] for each in tables if isinstance(each, Table) for row in each.rows
    }
    shown = {ENGLISH.say(TITLES[metric]): metric for metric in (SPEED, LOSS)}
    for title, metric in shown.items():
        decision = comparison.decision(metric, "other")
        assert decision is not None
        (written,) = [each for each in document["decisions"] if each["metric"] == metric]  # pyright: ignore
        assert written["call"] == decision.call
        better = {"better": "other", "worse": "one"}.get(decision.call)
        assert comparison.winners.get(metric) == better
        assert (cells[title] in ("one", "other")) == (better is not None)
        assert better is None or cells[title] == better
        found = ranks[metric]
        assert (found["one"] != found["other"]) == (better is not None or None in found.values()) or (
            decision.call == "not-comparable" and set(found.values()) == {None}
        )
        assert better is None or found[better] == 1
    calls = [comparison.decision(metric, "other") for metric in (SPEED, LOSS)]
    assert ("speed-within-noise" in codes) == (calls[0] and calls[0].call == "no-significant-difference")
    assert ("throughput-changed" in codes) == (calls[0] and calls[0].is_significant)
    assert ("losses-apart" in codes) == (calls[1] and calls[1].is_significant)


def simulated(
    rng: random.Random, config: str, runs: int, speed: float, loss: float, noise: tuple[float, float]
) -> list[Account]:
    seconds = [math.exp(-speed + rng.gauss(0, noise[0])) for _ in range(runs)]
    return repeated(config, seconds, [4.0 + loss + rng.gauss(0, noise[1]) for _ in range(runs)])


def test_pairs_without_a_difference_have_a_better_one_in_at_most_one_of_twenty() -> None:
    """A setting changed that does nothing; runs scatter as the defaults have it."""
    rng = random.Random(1)
    noise = DEFAULT_SPEED_SD["gpu"], default_seed_sd(run("a", "a"))
    found = [
        compare([*simulated(rng, "a", 1, 0, 0, noise), *simulated(rng, "b", 1, 0, 0, noise)]).winners
        for _ in range(300)
    ]
    assert sum(SPEED in each for each in found) <= 0.05 * 300 + 2 * math.sqrt(0.05 * 0.95 * 300)
    assert sum(LOSS in each for each in found) <= 0.05 * 300 + 2 * math.sqrt(0.05 * 0.95 * 300)


def test_three_runs_each_find_a_tenth_of_speed_and_three_hundredths_of_a_nat() -> None:
    rng = random.Random(2)
    found = []
    for _ in range(150):
        ones = simulated(rng, "a", 3, 0, 0, (0.025, 0.008))
        others = simulated(rng, "b", 3, math.log(1.1), -0.03, (0.025, 0.008))
        found.append(compare([*ones, *others]).winners)
    assert sum(each.get(SPEED) == "b0" for each in found) >= 0.8 * 150
    assert sum(each.get(LOSS) == "b0" for each in found) >= 0.8 * 150


def test_a_curve_without_noise_of_its_own_is_judged_by_the_tokens_of_an_evaluation() -> None:
    few = {"eval_tokens": 40_000}
    one = account("a", settings=few | {"variant": "a"}, evals=curve(6.0)[-2:])
    other = account("b", settings=few | {"variant": "b"}, evals=curve(6.0)[-2:])
    found = decided([one, other], LOSS)
    assert found.effect is not None
    assert found.effect.high is not None
    half = 2.085963 * math.sqrt(2 * (default_seed_sd(one) ** 2 + (8.0 / 200) ** 2))
    assert found.effect.high == pytest.approx(half, rel=1e-4)


def test_an_evaluation_is_the_mean_over_no_more_tokens_than_there_are() -> None:
    data = DataRecord(
        dataset="d", tokenizer="bytes", vocab_size=256, train_tokens=9_000, val_tokens=1_088, fingerprint="0"
    )
    assert account(settings={"eval_tokens": 20_480}).eval_tokens == 20_480
    assert account(settings={"eval_tokens": 20_480}, data=data).eval_tokens == 1_088
    assert account(settings={"eval_tokens": 512}, data=data).eval_tokens == 512


def test_two_runs_of_one_config_are_called_different_only_at_99_percent() -> None:
    """2% between runs on a GPU is 2.83% of a ratio: 1.96 times that is 5.5%, 2.58 times is 7.3%."""

    def called(seconds: float, other: str) -> tuple[str, float | None]:
        found = decided([run("a", "a"), run("b", other, seconds)], SPEED)
        assert found.effect is not None
        return found.call, found.effect.level

    assert called(1.065, "a") == ("no-significant-difference", 0.99)
    assert called(1.065, "b") == ("worse", 0.95)
    assert called(1.09, "a") == ("not-comparable", 0.99)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (MachineState(is_busy=True, gpu_shared=True), "machine-busy"),
        (MachineState(gpu_shared=True, is_throttled=True), "gpu-shared"),
        (MachineState(is_throttled=True), "gpu-throttled"),
    ],
)
def test_a_disturbance_is_the_reason_though_few_iterations_are_left(state: MachineState, reason: str) -> None:
    disturbed = run("b", "b", steps=steps(1.0, count=5), machine_state=state)
    assert decided([run("a", "a"), disturbed], SPEED).reason == reason


def test_runs_of_one_seed_say_nothing_of_other_seeds() -> None:
    """Three of each: by three seeds the spread is theirs; by one seed, and by none, it is the default."""
    spread = [4.0, 4.01, 4.02]
    seeds: list[list[int | None]] = [[0, 1, 2], [0, 0, 0], [None] * 3]
    degrees = []
    for used in seeds:
        runs = [
            run(f"{config}{at}", config, loss=loss, settings={"seed": seed} if seed is not None else {})
            for config in "ab"
            for at, (loss, seed) in enumerate(zip(spread, used, strict=True))
        ]
        noise = decided(runs, LOSS).noise
        assert noise is not None
        degrees.append(noise.degrees)
    assert degrees == [4, None, None]


def test_of_one_seed_many_losses_are_as_sure_as_one() -> None:
    def width(count: int) -> float:
        runs = [
            run(f"{config}{at}", config, 1 + at / 1e3, settings={"seed": 1})
            for config in "ab"
            for at in range(count)
        ]
        effect = decided(runs, LOSS).effect
        assert effect is not None
        assert effect.high is not None
        return effect.high - effect.value

    assert width(3) == pytest.approx(width(1))


def test_a_run_that_is_named_three_times_is_one_run() -> None:
    a, b = run("a", "a"), run("b", "b", 0.9)
    copies = [replace(a, name=f"a ({number})") for number in (2, 3)]
    assert [len(group) for group in groups_of([a, *copies, b])] == [1, 1]
    assert decided([a, *copies, b], SPEED).effect == decided([a, b], SPEED).effect


def test_a_learning_rate_of_0_has_no_stage() -> None:
    still = {**SCHEDULE, "max_iters": 1000, "lr_decay_iters": 1000, "learning_rate": 0.0}
    assert decided([run("a", "a", settings=still), run("b", "b", settings=still)], LOSS).reason is None


def test_a_replicate_without_an_evaluation_counts_for_the_speed_alone() -> None:
    ones, others = repeated("a", [1.0] * 3, [4.0] * 3), repeated("b", [1.0] * 3, [3.9] * 3)
    others[2] = replace(others[2], evals=())
    speed, loss = (decided([*ones, *others], metric) for metric in (SPEED, LOSS))
    assert (speed.runs, loss.runs) == (("b0", "b1", "b2"), ("b0", "b1"))
    assert loss.call == "better"


STEEP = tuple(AccountEval(at, 10 - math.log(at)) for at in range(100, 1001, 100))


def test_at_equal_time_a_faster_run_is_ahead_though_only_the_speed_was_changed() -> None:
    """`compile` cannot move a loss per token; twice the speed is twice the training in the same time."""
    slow, fast = (
        account(name, seconds, settings={"compile": compiled}, evals=STEEP, gpu=H200, data=DATA)
        for name, seconds, compiled in (("a", 1.0, False), ("b", 0.5, True))
    )
    found = compare([slow, fast])
    calls = {each.metric: (each.call, each.reason) for each in found.decisions}
    assert calls["val_loss_at_equal_seconds"] == ("better", None)
    assert calls[LOSS] == ("no-significant-difference", None)


def test_a_speed_that_is_better_by_chance_is_not_better_at_equal_time() -> None:
    """3% of speed are within two runs' 2% each, and so is what they train more in the same time."""
    slow, fast = (
        account(name, seconds, settings={"variant": name}, evals=STEEP, gpu=H200, data=DATA)
        for name, seconds in (("a", 1.0), ("b", 0.97))
    )
    at_time = decided([slow, fast], "val_loss_at_equal_seconds")
    assert (at_time.call, at_time.effect and at_time.effect.value) == (
        "no-significant-difference",
        pytest.approx(math.log(0.97), rel=0.02),
    )


def test_more_than_a_gpu_can_do_is_no_better_use_of_it() -> None:
    sound, false = run("a", "a", 6.0), run("b", "b", 0.2)
    assert decided([sound, false], "mfu").reason == "rate-impossible"
    assert decided([sound, run("b", "b", 5.0)], "mfu").reason is None


@pytest.mark.parametrize(
    ("dataset", "same"), [("/data/edu", True), ("C:\\data\\edu\\", True), ("edu2", False)]
)
def test_where_a_dataset_lies_says_nothing_of_what_it_is(dataset: str, same: bool) -> None:
    one, other = (
        account(name, settings={"dataset": at, "variant": name}, gpu=H200)
        for name, at in (("a", "edu"), ("b", dataset))
    )
    assert (decided([one, other], LOSS).reason is None) == same


def test_a_sentence_about_two_of_several_runs_names_both_though_one_is_called_a() -> None:
    (finding,) = [
        each
        for each in conclusions(compare([run("a", "a"), run("b", "b", settings={"learning_rate": 1e-3})]))
        if each.code in ("one-known-change", "confounded")
    ]
    alone, among = (named_words(finding, several, ENGLISH) for several in (False, True))
    assert among == f"a and b: {alone}"


def some_run(draw: st.DrawFn, name: str, config: str, seed: int) -> Account:
    """One that may be busy, short, unevaluated, perplexed, impossible, contradicting or of another text."""
    flaw = draw(
        st.sampled_from([*[None] * 6, "busy", "short", "no-evals", "rate", "tokens", "text", "stage"])
    )
    seconds, loss = draw(st.floats(0.8, 1.25)), draw(st.floats(3.8, 4.2))
    ends = 10_000 if flaw == "stage" else 1000
    found = run(
        name,
        config,
        0.2 if flaw == "rate" else seconds,
        loss,
        settings={"seed": seed, **SCHEDULE, "max_iters": ends, "lr_decay_iters": ends},
    )
    if flaw == "short":
        return replace(found, steps=steps(seconds, count=4))
    changes: dict[str | None, dict[str, Any]] = {
        "busy": {"machine_state": MachineState(is_busy=True)},
        "no-evals": {"evals": ()},
        "tokens": {"reported_tokens_per_iter": 491_520},
        "text": {"data": DATA.model_copy(update={"fingerprint": "1"})},
    }
    return replace(found, **changes.get(flaw, {}))


@st.composite
def some_groups(draw: st.DrawFn) -> list[tuple[Account, ...]]:
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    configs = [draw(st.sampled_from("pq")) if number else "p" for number in range(len(sizes))]
    if sum(sizes) > len(sizes):
        configs = [f"{config}{number}" for number, config in enumerate(configs)]
    return [
        tuple(some_run(draw, f"run-{number}-{at}", config, 10 * number + at) for at in range(size))
        for number, (size, config) in enumerate(zip(sizes, configs, strict=True))
    ]


def reasons_of(code: Code, codes: Mapping[NotComparable, Code]) -> set[str]:
    return {reason for reason, each in codes.items() if each == code}


CALLS_OF_CODES = {
    "speed-within-noise": (SPEED, {"no-significant-difference"}),
    "throughput-changed": (SPEED, {"better", "worse"}),
    "throughput-fell-rate-rose": (SPEED, {"worse"}),
    "throughput-rose-rate-fell": (SPEED, {"better"}),
    "losses-within-noise": (LOSS, {"no-significant-difference"}),
    "losses-apart": (LOSS, {"better", "worse"}),
    **{code: (SPEED, reasons_of(code, SPEED_REASONS)) for code in SPEED_REASONS.values()},
    **{code: (LOSS, reasons_of(code, LOSS_REASONS)) for code in LOSS_REASONS.values()},
}


@given(some_groups())
@settings(max_examples=150, deadline=None)
def test_whatever_the_runs_no_reader_has_another_decision(groups: list[tuple[Account, ...]]) -> None:
    accounts = [account for group in groups for account in group]
    comparison = compare(accounts, groups=groups)
    findings = conclusions(comparison)
    for finding in findings:
        if finding.code not in CALLS_OF_CODES:
            continue
        metric, calls = CALLS_OF_CODES[finding.code]
        decision = comparison.decision(metric, finding.runs[1])
        assert decision is not None
        assert (decision.reason or decision.call) in calls
    for each in comparison.decisions:
        assert (each.call == "not-comparable") == (each.reason is not None)
        assert not (
            each.reason and each.effect and each.effect.low is not None and each.call != "not-comparable"
        )
    document = comparison_document(comparison, findings)
    assert document["winners"] == comparison.winners
    page = comparison_page(comparison, findings)
    tables = [part for section in page for part in section.parts if isinstance(part, Table)]
    rows = {row[0].split(" (")[0]: row[-1] for table in tables for row in table.rows}
    for metric in (SPEED, LOSS):
        cell, winner = rows.get(ENGLISH.say(TITLES[metric]), ""), comparison.winners.get(metric)
        best = [each for each in comparison.settling.get(metric, ()) if each is not None]
        assert (winner is not None) == (bool(best) and all(each.call == "better" for each in best))
        assert (cell.startswith("run-") and ":" not in cell) == (winner is not None), (cell, winner)
        said = [each for each in comparison.decisions if each.metric == metric]
        if cell in (
            ENGLISH.say("compare.table.no-difference"),
            ENGLISH.say("compare.not-comparable.machine-busy"),
        ):
            assert {(each.call, each.reason) for each in (*best, *said)} == {(best[0].call, best[0].reason)}
        assert all(each.reason is None for each in best) or winner is None


@given(some_groups())
@settings(max_examples=100, deadline=None)
def test_a_rank_is_only_of_runs_that_compare(groups: list[tuple[Account, ...]]) -> None:
    """The first of a rank is better than each that has a later one, and nobody is first alone."""
    accounts = [account for group in groups for account in group]
    found = leaderboard([standing_of(each) for each in accounts])
    for board in found.boards:
        ranked = [each for each in board.entries if each.rank is not None]
        assert len(ranked) != 1
        assert [each.rank for each in ranked] == sorted(each.rank or 0 for each in ranked)
        bare = {each.run for each in board.entries} - {each.run for each in ranked}
        assert bare == {
            each.run for each in found.unranked if each.metric == board.metric and each.run in bare
        }
        if board.metric != SPEED or len(accounts) != 2 or len(ranked) != 2:
            continue
        decision = compare(accounts).decision(SPEED, accounts[1].name)
        assert decision is not None
        better = {"better": accounts[1].name, "worse": accounts[0].name}.get(decision.call)
        assert {each.run for each in ranked if each.rank == 1} == (
            {better} if better else {each.name for each in accounts}
        )


def test_of_three_runs_the_column_names_those_that_are_not_told_apart() -> None:
    """Of three speeds the slowest is far off: that it is slower is no secret of the table."""
    runs = [run("a", "a", 1.5), run("b", "b", 1.0), run("c", "c", 1.01)]
    comparison = compare(runs)
    tables = [part for each in comparison_page(comparison, []) for part in each.parts]
    rows = {row[0]: row[-1] for each in tables if isinstance(each, Table) for row in each.rows}
    cell = ENGLISH.say(
        "compare.finding.of-runs", names="b and c", sentence=ENGLISH.say("compare.table.no-difference")
    )
    assert rows[ENGLISH.say(TITLES[SPEED])] == cell
    assert not comparison.winners.keys() & {SPEED}
    assert {each.call for each in comparison.decisions if each.metric == SPEED} == {"better"}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"environment": {"torch": "2.9", "driver": "1"}}, "torch"),
        ({"gpu": gpu_named("B200")}, "device_name"),
        ({"processes": 2}, "processes"),
    ],
)
def test_what_a_run_was_made_with_is_a_change_as_a_setting_is(changes: dict[str, Any], key: str) -> None:
    one = replace(run("a", "same"), environment={"torch": "2.1", "driver": "1"})
    other = replace(run("b", "same", 0.5), **({"environment": one.environment} | changes))
    assert [each.key for each in changes_between(one, other).changed] == [key]
    codes = {each.code for each in conclusions(compare([one, other]))}
    assert "one-change" in codes
    faster = replace(other, settings={**other.settings, "compile": False})
    (confounded,) = [each for each in conclusions(compare([one, faster])) if each.code == "confounded"]
    assert confounded.numbers["speed"] == ["compile", key]


def test_a_difference_is_said_to_be_from_a_change_only_where_the_runs_compare() -> None:
    busy = MachineState(is_busy=True)
    cases = [
        ({"compile": False}, {}, (True, False)),
        ({"compile": False}, {"machine_state": busy}, (False, False)),
        ({"learning_rate": 1e-3}, {"machine_state": busy}, (False, True)),
        ({"n_layer": 6}, {}, (True, True)),
        ({"n_layer": 6}, {"machine_state": busy}, (False, True)),
    ]
    for changed, others, explained in cases:
        runs = [run("a", "same"), replace(run("b", "same", settings=changed), **others)]
        (found,) = [each for each in conclusions(compare(runs)) if each.code == "one-change"]
        assert (found.numbers["explains_speed"], found.numbers["explains_loss"]) == explained


def test_a_gpu_is_not_as_even_as_the_cpu_whose_runs_are_known() -> None:
    """Four runs on a CPU that lie 0.1% apart; of the GPU nothing but the default is known."""
    on_cpu = [
        replace(each, gpu=None, device_type="cpu", device_name="CPU")
        for each in repeated("c", [1.0, 1.001, 0.999, 1.0005], [4.0, 4.1, 4.2, 4.3])
    ]
    noise = decided([on_cpu[0], run("b", "b")], SPEED, history=on_cpu[1:]).noise
    assert noise is not None
    assert (noise.sd, noise.degrees) == (DEFAULT_SPEED_SD["gpu"], None)
    own = decided(on_cpu[:2], SPEED, history=on_cpu[2:])
    assert own.noise is not None


def test_seeds_of_a_large_model_are_not_those_of_a_small_one() -> None:
    """The small model has no other seed: it is taken to scatter by as much more as its default does."""
    large = repeated("a", [1.0] * 4, [4.0, 4.01, 4.02, 4.03])
    small = run("s", "a", settings={"n_layer": 2, "n_embd": 128})
    noise = decided([large[0], small], LOSS, history=large[1:]).noise
    assert noise is not None
    alone = decided([large[0], run("b", "b")], LOSS, history=large[1:]).noise
    assert alone is not None
    assert noise.sd == pytest.approx(alone.sd * default_seed_sd(small) / default_seed_sd(large[0]))


def test_a_replicate_without_an_evaluation_in_a_group_that_contradicts_itself_is_left_out() -> None:
    ones, others = repeated("a", [1.0] * 2, [4.0] * 2), repeated("b", [1.0] * 2, [3.9] * 2)
    others = [replace(each, reported_tokens_per_iter=491_520) for each in others]
    others[1] = replace(others[1], evals=())
    comparison = compare([*ones, *others], groups=[tuple(ones), tuple(others)])
    (found,) = [each for each in conclusions(comparison) if each.code == "losses-of-contradicting-tokens"]
    assert found.numbers["losses"] == [pytest.approx(4.0), pytest.approx(3.9)]


def test_a_run_whose_iterations_are_not_kept_is_compared_by_what_was_derived() -> None:
    kept = [run("a", "a"), run("b", "b", 0.8)]
    found = [compare(runs).winners for runs in (kept, [each.without_steps() for each in kept])]
    assert found[0] == found[1]
    assert found[0][SPEED] == "b"
