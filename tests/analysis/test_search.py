"""The search, fed answers that are known: which candidates it asks for, and whom it picks."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from nanodyno.analysis.asking import Ask, AskResult, LossReason, SearchCandidate, SearchRules, final_estimates
from nanodyno.analysis.repeats import RepetitionTime
from nanodyno.analysis.search import Search

COST = 5.0


def drive(  # noqa: PLR0913 - one for each way in which visits differ
    search_candidates: Sequence[SearchCandidate],
    seconds: Mapping[str, float],
    budget: float = 600.0,
    *,
    needs: Mapping[str, int] | None = None,
    lost: Mapping[str, LossReason] | None = None,
    in_the_final: Callable[[str], float] = lambda _: 1.0,
    cost_lost: float = COST,
) -> tuple[Search, list[Ask]]:
    """Every visit takes COST, and cost_lost where nothing is measured; in the final, times are multiplied."""
    search = Search(search_candidates, SearchRules(budget))
    asks, made, spent = search.asks(), [], 0.0
    answer: AskResult | None = None
    while True:
        try:
            ask = next(asks) if answer is None else asks.send(answer)
        except StopIteration:
            return search, made
        made.append(ask)
        spent += sum(COST if name in seconds else cost_lost for name in ask.names)
        times = {
            name: seconds[name] * (in_the_final(name) if ask.stage == "final" else 1.0)
            for name in ask.names
            if name in seconds
        }
        answer = AskResult(
            spent,
            times,
            dict.fromkeys(times, 0.001),
            needs or {},
            {name: loss for name, loss in (lost or {}).items() if name in ask.names},
        )


def sizes(*numbers: int, **changes: object) -> list[SearchCandidate]:
    return [SearchCandidate(str(number), number, **changes) for number in numbers]  # type: ignore[arg-type]


def screened(asks: Sequence[Ask]) -> list[str]:
    return [name for ask in asks if ask.stage == "screening" for name in ask.names]


def test_all_are_looked_at_once_and_only_those_near_the_best_afresh_by_turns() -> None:
    search, asks = drive(sizes(1, 2, 4, 8), {"1": 1.14, "2": 1.1, "4": 1.02, "8": 1.0})
    assert screened(asks) == ["1", "2", "4", "8"]
    final = [ask.names for ask in asks if ask.stage == "final"]
    assert final == [("8", "4"), ("4", "8")] * 2
    pick = search.pick()
    assert pick is not None
    assert (pick.chosen, pick.fastest, pick.near) == ("8", "8", ("8",))


def test_the_figures_of_the_pick_are_the_finals_alone() -> None:
    """8 was lucky at first, and is slow in the final."""
    search, _ = drive(
        sizes(4, 8), {"4": 1.0, "8": 0.97}, in_the_final=lambda name: 1.1 if name == "8" else 1.0
    )
    pick = search.pick()
    assert pick is not None
    assert pick.reading is not None
    assert pick.chosen == "4"
    assert final_estimates(pick.reading.kept) == {"4": pytest.approx(1.0), "8": pytest.approx(1.067)}


def test_of_those_within_the_margin_the_one_with_least_memory_is_chosen() -> None:
    times = {"4": 1.008, "8": 1.003, "16": 1.0, "32": 1.02}
    search, _ = drive(sizes(4, 8, 16, 32), times, needs={"4": 3, "8": 1, "16": 9, "32": 0})
    pick = search.pick()
    assert pick is not None
    assert (pick.chosen, pick.fastest, pick.near) == ("8", "16", ("16", "8", "4"))


def test_a_little_memory_is_no_reason_to_take_the_slower_of_two() -> None:
    search, _ = drive(sizes(4, 8), {"4": 1.005, "8": 1.0}, needs={"4": 100, "8": 102})
    pick = search.pick()
    assert pick is not None
    assert pick.chosen == "8"


def test_beyond_one_that_runs_out_of_memory_nothing_larger_is_tried() -> None:
    search_candidates = [*sizes(1, 4, 8, 16), SearchCandidate("16 small", 16, "recompute=light")]
    search, asks = drive(search_candidates, {"1": 1.1, "4": 1.0, "16 small": 1.05}, lost={"8": "too-large"})
    assert screened(asks) == ["1", "4", "8", "16 small"]
    assert search.left_out == {"8": "too-large", "16": "larger"}


def test_beyond_one_that_has_fallen_off_nothing_is_tried() -> None:
    search, asks = drive(sizes(8, 4, 2, 1), {"8": 1.0, "4": 1.2, "2": 1.0, "1": 1.0})
    assert screened(asks) == ["8", "4"]
    assert search.left_out == {"2": "beyond", "1": "beyond"}


def test_one_that_is_too_tight_for_a_run_is_measured_and_never_chosen() -> None:
    search, _ = drive(sizes(4, 8), {"4": 1.1, "8": 1.0}, lost={"8": "tight"})
    pick = search.pick()
    assert pick is not None
    assert pick.chosen == "4"
    assert "8" not in search.finalists


def foreseen(number: int, seconds: float, gib: int = 1, **changes: object) -> SearchCandidate:
    return SearchCandidate(str(number), number, predicted_seconds=seconds, predicted_bytes=gib, **changes)  # type: ignore[arg-type]


def test_the_one_that_predictions_would_pick_comes_first_and_larger_ones_before_smaller_ones() -> None:
    """8 is within 1% of the fastest and needs less."""
    known = ((2, 1.1, 1), (4, 1.05, 2), (8, 1.005, 3), (16, 1.0, 9), (32, 1.1, 20))
    search_candidates = [foreseen(number, seconds, gib) for number, seconds, gib in known]
    _, asks = drive(search_candidates, {"2": 1.1, "4": 1.05, "8": 1.02, "16": 1.0, "32": 1.1})
    assert screened(asks) == ["8", "16", "4", "32", "2"]


def test_where_a_doubling_gains_nothing_and_is_not_predicted_to_larger_ones_are_left_out() -> None:
    search_candidates = [foreseen(8, 1.0), foreseen(16, 0.998), foreseen(32, 0.996), foreseen(64, 0.97)]
    search, asks = drive(search_candidates, {"8": 1.0, "16": 0.998, "32": 0.99, "64": 0.96})
    assert screened(asks) == ["64", "32", "16", "8"]  # predicted to gain 2.6%, 64 is where it begins
    search_candidates = search_candidates[:-1]
    search, asks = drive(search_candidates, {"8": 1.0, "16": 0.998, "32": 0.9})
    assert screened(asks) == ["8", "16"]
    assert search.left_out == {"32": "flat"}
    search, asks = drive(search_candidates, {"8": 1.0, "16": 0.98, "32": 0.97})
    assert screened(asks) == ["8", "16", "32"]


def test_the_one_that_was_asked_for_is_measured_though_it_is_flat_there() -> None:
    search_candidates = [
        foreseen(8, 1.0),
        foreseen(16, 0.998),
        foreseen(32, 0.997),
        foreseen(64, 0.996, asked=True),
    ]
    search, asks = drive(search_candidates, {"8": 1.0, "16": 0.998, "64": 0.99})
    assert screened(asks) == ["8", "16", "64"]
    assert search.left_out == {"32": "flat"}


def test_switches_that_cost_more_than_the_size_gains_are_not_paid_for() -> None:
    """At the trust of a card's own calibration: slower by 1.5% than a smaller one without them."""
    dear = SearchCandidate("32 full", 32, "recompute=full", predicted_seconds=1.02, predicted_bytes=9)
    cheap = SearchCandidate("32 light", 32, "recompute=light", predicted_seconds=1.01, predicted_bytes=9)
    search, asks = drive([foreseen(16, 1.0), dear, cheap], {"16": 1.0, "32 full": 0.9, "32 light": 0.99})
    assert screened(asks) == ["16", "32 light"]
    assert search.left_out == {"32 full": "flat"}


def test_where_the_time_goes_is_looked_at_in_the_first_and_in_those_that_may_wait_for_launches() -> None:
    _, asks = drive([foreseen(8, 1.0), foreseen(4, 1.05), foreseen(2, 1.3)], {"8": 1.0, "4": 1.05, "2": 1.3})
    looked = {ask.names[0]: ask.breakdown for ask in asks if ask.stage == "screening"}
    assert looked == {"8": True, "4": False, "2": True}
    _, asks = drive(sizes(8, 4), {"8": 1.0, "4": 1.05})
    assert all(ask.breakdown for ask in asks if ask.stage == "screening")
    assert not any(ask.breakdown for ask in asks if ask.stage == "final")


def test_predictions_count_once_three_others_have_shown_what_they_are_worth() -> None:
    """Real times are twice the predicted ones; 0.6 would be 1.2 then, 20% slower than the best."""
    search_candidates = [
        SearchCandidate(str(n), n, predicted_seconds=p) for n, p in ((8, 0.5), (4, 0.51), (2, 0.52), (1, 0.6))
    ]
    search, asks = drive(search_candidates, {"8": 1.0, "4": 1.02, "2": 1.04, "1": 0.1})
    assert screened(asks) == ["8", "4", "2"]
    assert search.left_out == {"1": "predicted-slow"}


def test_other_switches_are_tried_at_good_micro_batches_only() -> None:
    search_candidates = [
        *sizes(2, 4, 8),
        *(SearchCandidate(f"{n} graph", n, "graph", variant=True) for n in (2, 4, 8)),
    ]
    times = {"2": 1.12, "4": 1.03, "8": 1.0, "8 graph": 1.01, "4 graph": 1.1}
    search, asks = drive(search_candidates, times)
    assert screened(asks) == ["2", "4", "8", "8 graph", "4 graph"]
    assert search.left_out == {"2 graph": "not-needed"}


def test_a_switch_that_wins_is_tried_at_the_other_micro_batches_too() -> None:
    search_candidates = [
        *sizes(2, 4, 8),
        *(SearchCandidate(f"{n} threads", n, "threads", variant=True) for n in (2, 4, 8)),
    ]
    times = {"2": 1.1, "4": 1.1, "8": 1.0, "8 threads": 0.5, "4 threads": 0.4, "2 threads": 0.45}
    search, asks = drive(search_candidates, times)
    assert screened(asks) == ["2", "4", "8", "8 threads", "4 threads", "2 threads"]
    pick = search.pick()
    assert pick is not None
    assert pick.chosen == "4 threads"


def test_many_near_the_best_are_halved_until_few_are_left() -> None:
    times = {str(n): 1.0 + n / 1000 for n in range(1, 13)}
    search, asks = drive(sizes(*range(1, 13)), times, budget=3000)
    halving = [len(ask.names) for ask in asks if ask.stage == "halving"]
    assert halving == [12, 6]
    assert search.finalists == ("1", "2", "3", "4")


def test_the_best_of_each_micro_batch_come_before_the_second_of_any() -> None:
    search_candidates = [
        *sizes(8, 16),
        *(SearchCandidate(f"{n} graph", n, "graph", variant=True) for n in (8, 16)),
    ]
    search, _ = drive(search_candidates, {"8": 1.011, "16": 1.003, "16 graph": 1.0, "8 graph": 1.004})
    assert search.finalists == ("16 graph", "8 graph", "16", "8")


def test_a_switch_that_gains_nothing_and_saves_nothing_is_no_finalist() -> None:
    search_candidates = [
        *sizes(8),
        *(SearchCandidate(f"8 {name}", 8, name, variant=True) for name in ("even", "small")),
    ]
    times = {"8": 1.0, "8 even": 1.004, "8 small": 1.004}
    search, _ = drive(search_candidates, times, needs={"8": 100, "8 even": 99, "8 small": 50})
    assert search.finalists == ("8", "8 small")
    pick = search.pick()
    assert pick is not None
    assert pick.chosen == "8 small"


def test_the_time_is_kept_and_some_of_it_is_the_finals() -> None:
    times = {str(n): 1.0 + n / 1000 for n in range(1, 41)}
    search, asks = drive(sizes(*range(1, 41)), times, budget=100.0)
    assert sum(len(ask.names) for ask in asks) * COST <= 100.0
    assert len(screened(asks)) == 13  # 65 of 100 seconds
    assert "no-time" in search.left_out.values()
    assert len([ask for ask in asks if ask.stage == "final"]) >= 3


def test_without_time_for_a_final_the_pick_says_so() -> None:
    search, _ = drive(sizes(1, 2), {"1": 1.0, "2": 1.1}, budget=11.0)
    pick = search.pick()
    assert pick is not None
    assert (pick.chosen, pick.reading) == ("1", None)


def test_nothing_that_fits_is_no_pick() -> None:
    search, _ = drive(sizes(1, 2), {}, lost={"1": "too-large", "2": "failed"})
    assert search.pick() is None


def test_several_devices_look_side_by_side() -> None:
    asks = Search(sizes(1, 2, 4), SearchRules(600.0, at_once=2)).asks()
    assert next(asks).names == ("1", "2")
    assert asks.send(AskResult(5.0, {"1": 1.1, "2": 1.0})).names == ("4",)


def test_a_lone_candidate_is_measured_in_four_processes() -> None:
    _, asks = drive(sizes(1), {"1": 1.0})
    assert [ask.stage for ask in asks] == ["screening", *["final"] * 4]


def test_estimates_rest_on_rounds_that_all_have_in_common() -> None:
    repetitions = [
        RepetitionTime("a", 0, 0, 1.0),
        RepetitionTime("b", 0, 0, 2.0),
        RepetitionTime("a", 1, 1, 9.0),
    ]
    assert final_estimates(repetitions) == {"a": pytest.approx(1.0), "b": pytest.approx(2.0)}
    assert final_estimates([RepetitionTime("a", 0, 0, 1.0), RepetitionTime("b", 1, 1, 2.0)]) == {}


def test_a_final_that_was_cut_short_in_its_first_round_decides_nothing() -> None:
    """4 was faster at first and is slow in the final, in which there was no time for 8."""
    search = Search(sizes(4, 8), SearchRules(100.0))
    asks = search.asks()
    assert next(asks).names == ("4",)
    assert asks.send(AskResult(5.0, {"4": 0.9})).names == ("8",)
    assert asks.send(AskResult(10.0, {"8": 1.0})).names == ("4", "8")
    with pytest.raises(StopIteration):
        asks.send(AskResult(100.0, {"4": 1.3}))
    pick = search.pick()
    assert pick is not None
    assert (pick.chosen, pick.reading) == ("4", None)


def test_rounds_of_the_final_are_not_shared_by_devices_when_their_time_is_reckoned() -> None:
    """Four devices look at four candidates in 10 s. In the 60 s that are left, four rounds of one device have
    room for no more than two finalists (80 s even so)."""
    search = Search(sizes(1, 2, 4, 8), SearchRules(70.0, at_once=4))
    asks = search.asks()
    ask = next(asks)
    assert len(ask.names) == 4
    ask = asks.send(AskResult(10.0, dict.fromkeys(ask.names, 1.0), dict.fromkeys(ask.names, 0.001)))
    assert (ask.stage, len(ask.names)) == ("final", 2)


def test_what_ends_early_out_of_memory_says_nothing_about_the_time_that_a_repetition_takes() -> None:
    """Of five, three take a tenth of a second each, which is no measure of the 5 s of the other two."""
    large: dict[str, LossReason] = {"128": "too-large", "64": "too-large", "32": "too-large"}
    search, asks = drive(sizes(128, 64, 32, 16, 8), {"16": 1.0, "8": 1.01}, 25.0, lost=large, cost_lost=0.1)
    assert search.repetition_cost == pytest.approx(COST)
    assert [ask.stage for ask in asks].count("final") == 1


def test_a_search_in_which_nothing_fits_ends_with_its_time() -> None:
    numbers = [2**power for power in range(12, 0, -1)]
    nothing: dict[str, LossReason] = {str(number): "failed" for number in numbers}
    _, asks = drive(sizes(*numbers), {}, 30.0, lost=nothing, cost_lost=10.0)
    assert len(asks) == 3
