"""The page of a plan, as it is read."""

import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from tests.plan_words import says

from nanodyno.analysis.sizing import choose_size
from nanodyno.config import build_config
from nanodyno.costs.calibration import Predicted
from nanodyno.costs.plan import Plan, PlanRequest, make_plan
from nanodyno.costs.target import GIB, Target, named_target
from nanodyno.messages.language import ENGLISH, LANGUAGES
from nanodyno.recipes import Settings, load_settings
from nanodyno.report.pages.plan import plan_report
from nanodyno.report.plan import MOST_LINES, candidates_table, plan_page, short_page
from nanodyno.report.plan_bill import bill_words
from nanodyno.report.plan_facts import PlanSource
from nanodyno.report.sizing import data_notes, expected_words, sizes_table
from nanodyno.report.stacked import PARTS, memory_bars


def planned(
    gpu: str = "RTX 3060 12GB", limit: int | None = None, request: PlanRequest | None = None, **settings: Any
) -> Plan:
    config = build_config({"batch_size": 8, "tokens_per_iter": 524_288, **settings})
    return make_plan(config, 50304, 50257, named_target(gpu, limit), request or PlanRequest())


def page(plan: Plan, source: PlanSource | None = None, width: int = 120) -> str:
    """In one line, so that it does not matter where lines are broken."""
    return " ".join(" ".join(lines(plan_page(plan, source or PlanSource("gpt2"), width), width)).split())


def lines(piece: Any, width: int) -> list[str]:
    console = Console(width=width, record=True, file=None, force_terminal=False, no_color=True)
    with console.capture() as captured:
        console.print(piece)
    return captured.get().splitlines()


def bars(plan: Plan, width: int) -> list[str]:
    return lines(memory_bars(plan.candidates, 8, plan.target.memory_bytes, width), width)[
        1 : 1 + len(plan.candidates)
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bars_fill_the_width_and_the_gpus_line_stands_in_one_column(width: int) -> None:
    drawn = bars(planned(recompute="none"), width)
    assert {len(line) for line in drawn} == {width}
    assert len({line.index("│") for line in drawn}) == 1


def test_a_bar_ends_before_the_gpus_line_exactly_where_it_fits() -> None:
    plan = planned(recompute="none")
    for line, each in zip(bars(plan, 80), plan.candidates, strict=True):
        beyond = line[line.index("│") + 1 : -11].strip()
        assert (beyond == "") == each.fits, line


def test_a_bar_is_as_long_as_its_memory_to_half_a_cell() -> None:
    """Without a limit the longest fills the 64 cells that labels and amounts leave of 80."""
    plan = planned(recompute="none")
    drawn = lines(memory_bars(plan.candidates, 8, None, 80), 80)[1 : 1 + len(plan.candidates)]
    largest = max(each.memory.total for each in plan.candidates)
    for line, each in zip(drawn, plan.candidates, strict=True):
        cells = len(line[5:-11].strip())
        assert abs(cells - 64 * each.memory.total / largest) <= 0.5


def test_a_bar_has_each_component_in_proportion() -> None:
    plan = planned(recompute="none")
    line, memory = bars(plan, 120)[4], plan.candidates[4].memory
    bar = line[5 : line.index("│")].strip()
    for key, letter, _, _ in PARTS:
        assert bar.count(letter) == pytest.approx(len(bar) * memory.components[key] / memory.total, abs=1.01)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_has_no_cell_of_its_own_is_marked_at_the_end_of_its_bar(width: int) -> None:
    plan = planned(recompute="none", batch_size=1)
    limit = plan.target.memory_bytes
    assert limit is not None
    for line, each in zip(bars(plan, width), plan.candidates, strict=True):
        if not each.fits:
            continue
        bar = line[5 : line.index("│")].strip()
        missing = {key for key, letter, _, _ in PARTS if letter not in bar}
        assert (bar[-1] == "+") == bool(missing)
        cell = limit / (line.index("│") - 5)
        unseen = sum(each.memory.components[key] for key in missing)
        assert bar.count("+") * cell == pytest.approx(unseen, abs=1.5 * cell)


def test_a_model_of_less_than_a_cell_is_marked_and_the_mark_explained() -> None:
    plan = planned("H200", n_layer=2, n_embd=64, n_head=1, batch_size=8, tokens_per_iter=8192)
    drawn = lines(memory_bars(plan.candidates, 8, plan.target.memory_bytes, 80), 80)
    assert [line[5:7] for line in drawn[1 : 1 + len(plan.candidates)]] == ["+ "] * len(plan.candidates)
    assert drawn[-1].split("+ ")[-1].strip() == ENGLISH.say("plan.bars.small-parts")


def test_a_bar_that_goes_on_beyond_the_picture_says_so() -> None:
    drawn = bars(planned(recompute="none"), 80)
    assert ["»" in line for line in drawn] == [False] * 5 + [True] * 3


@pytest.mark.parametrize("width", [60, 80])
def test_no_cell_of_the_page_is_cut_off_in_a_narrow_window(width: int) -> None:
    large = planned(n_layer=48, n_embd=1600, n_head=25)
    for plan in (planned(), planned(batch_size=64, recompute="none"), large):
        assert "\u2026" not in page(plan, width=width)


def test_a_faster_micro_batch_that_fits_is_named_where_the_difference_is_worth_it() -> None:
    plan = planned(batch_size=1)
    rates = {
        each.setup.batch_size: each.time.tokens_per_second
        for each in plan.candidates
        if each.fits and each.time is not None
    }
    best = max(rates, key=lambda size: rates[size])
    assert rates[best] > 1.01 * rates[1]
    assert says(page(plan), "plan.fastest.micro-batch", size=str(best), n=str(512 // best))
    near = next(size for size in rates if size != best and rates[size] > 0.995 * rates[best])
    assert not says(page(planned(batch_size=near)), "plan.fastest.micro-batch")


def test_where_nothing_is_enough_the_page_says_to_make_the_model_smaller() -> None:
    reported = page(planned(n_layer=96, n_embd=4096), width=80)
    assert says(reported, "plan.advice.nothing-enough")
    assert says(reported, "plan.if-it-fitted")


def test_a_predicted_speed_has_three_digits_in_the_sentence_and_in_the_table() -> None:
    plan = planned()
    assert plan.asked.time is not None
    rate = plan.asked.time.tokens_per_second
    assert 10_000 < rate < 100_000
    rounded = f"{round(rate / 100) * 100:,}"
    reported = page(plan)
    assert f"speed about {rounded} tok/s" in reported
    assert f"yes {rounded} " in reported


def test_the_title_says_what_is_not_as_in_the_recipe() -> None:
    changed = PlanSource("gpt2-768", {"n_layer": 24, "compile": False})
    assert page(planned(n_layer=24), changed).startswith(
        "gpt2-768 with n_layer=24, compile=False on RTX 3060 12GB: "
    )
    assert page(planned(), PlanSource("gpt2-768")).startswith("gpt2-768 on RTX 3060 12GB: ")


def test_the_memory_that_a_plan_is_held_against_is_explained() -> None:
    assert says(page(planned()), "plan.limit.by-datasheet", limit="11.64 GiB", gigabytes="12", share="97%")
    limited = page(planned("H200", 12 * GIB))
    assert says(limited, "plan.limit.by-option", limit="12.00 GiB")
    assert "(97%)" in page(planned(limit=12 * GIB))


def test_the_iterations_that_reach_the_tokens_are_reported_as_they_are_typed() -> None:
    """A billion tokens are 1,907.3 iterations of 524,288."""
    plan = planned(request=PlanRequest(tokens=10**9))
    assert "iterations --max_iters=1908;" in page(plan)
    too_long = "plan.iterations.warmup-too-long"
    assert not says(page(plan, PlanSource("it", {}, 1907)), too_long)
    assert says(page(plan, PlanSource("it", {}, 2000)), too_long, number="2,000")


def test_what_goes_to_the_host_is_reported() -> None:
    """The moments of GPT-2 124M are 8 bytes of each of 124.4M parameters: 0.93 GiB."""
    large = page(planned(batch_size=64, recompute="none"))
    assert says(large, "plan.advice.offload-host-memory", size="0.93 GiB")
    assert says(page(planned(offload_moments=True)), "kernel.offloaded-moments-size", size="0.93 GiB")


def test_why_a_prediction_is_not_verified_is_reported() -> None:
    assert says(page(planned()), "plan.basis.public")
    assert says(page(planned()), "plan.note.fused-untried", reference="H200")
    assert says(page(planned("RTX 3070")), "plan.basis.class")
    assert says(page(planned("GTX 1080 Ti")), "plan.basis.datasheet")
    assert not says(page(planned(kernels="autograd")), "plan.note.fused-untried")
    in_float32 = page(planned("H200", dtype="float32"))
    assert says(in_float32, "plan.speed.other-dtype", gpu="H200", dtype="float32")
    assert says(page(planned("H200")), "plan.title.training", gpu="H200")
    for message in ("plan.basis.public", "plan.speed.other-dtype", "plan.note.fused-untried"):
        assert not says(page(planned("H200")), message)


def test_what_was_measured_beyond_gpt2_is_reported_and_what_was_not() -> None:
    measured, unmeasured = "plan.note.not-plain-measured", "plan.note.not-plain-unmeasured"
    fused = page(planned("H200", optimizer="muon", positions="rope"))
    assert says(fused, measured, reference="H200")
    assert says(page(planned(positions="rope")), measured)
    by_autograd = page(planned("H200", positions="rope", n_kv_head=4))
    assert says(by_autograd, unmeasured)
    assert not says(by_autograd, measured)
    assert not says(page(planned("H200")), measured)
    assert not says(page(planned("H200")), unmeasured)


def test_the_time_of_a_switch_is_of_another_gpu_where_none_is_meant() -> None:
    config = build_config({"batch_size": 64, "tokens_per_iter": 524_288, "recompute": "none"})
    nothing = make_plan(config, 50304, 50257, Target(None, None, 12 * GIB, True), PlanRequest())
    assert says(page(nothing), "plan.note.switch-time-reference", reference="H200")


def test_the_vocabulary_of_each_count_of_flops_is_reported() -> None:
    figures = {"exact": "797.9", "vocabulary": "50,257", "nanogpt": "854.8", "padded": "50,304"}
    assert says(page(planned()), "plan.model.flops", **figures)


def test_tables_of_values_are_reported_from_the_other_parameters() -> None:
    """3 x 50,304 x 768 = 115,900,416."""
    text = page(planned(value_embeddings=3))
    assert says(text, "plan.model.value-embeddings", size="115.9M")
    without, plain = "plan.balance.without-value-embeddings", "plan.balance.tokens-per-parameter"
    assert says(text, without, size="124.4M", balance="20")
    assert not says(page(planned()), "plan.model.value-embeddings")
    assert not says(page(planned()), without)
    assert says(page(planned()), plain, balance="20")


def test_a_choice_tells_its_learning_rate_and_what_is_beyond_gpt2() -> None:
    target = named_target("RTX 4070", None)
    choice = choose_size(load_settings("best-8h"), target, 50304, 50257)
    config = choice.chosen.config
    plan = make_plan(config, 50304, 50257, target, PlanRequest())
    text = page(plan, PlanSource("best", ramp=config.ramp, choice=choice, config=config))
    rate = f"{config.learning_rate:.2e}"
    assert says(text, "plan.learning-rate.growing", rate=rate)
    assert f"{ENGLISH.say('common.beyond-gpt2')} RoPE, RMSNorm" in text
    to_be_found = page(plan, PlanSource("best", ramp=config.ramp, choice=choice))
    assert not says(to_be_found, "plan.learning-rate.growing")
    assert rate not in to_be_found


@pytest.mark.parametrize(("limit_gib", "how"), [(10.0, "yes"), (6.4, "tightly"), (5.0, "no")])
def test_what_fits_with_little_to_spare_is_reported_from_what_fits_well(limit_gib: float, how: str) -> None:
    config = build_config({"batch_size": 8, "tokens_per_iter": 524_288, "recompute": "none"})
    plan = make_plan(config, 50304, 50257, Target(None, None, int(limit_gib * GIB)), PlanRequest())
    text = page(plan, PlanSource("it"), 100)
    limit = f"{limit_gib:.2f} GiB"
    assert [each for each in ("yes", "tightly", "no") if says(text, f"plan.fits.{each}", limit=limit)] == [
        how
    ]


def test_the_table_calls_tight_what_leaves_a_display_no_room() -> None:
    """The card shows 11.64 GiB and a tenth of that is not filled by choice: 10.48 GiB are."""
    config = build_config({"batch_size": 8, "tokens_per_iter": 524_288})
    plan = make_plan(config, 50304, 50257, named_target("RTX 4070", None), PlanRequest())
    rows = lines(candidates_table(plan), 120)[1:]
    sizes = [each.memory.total / GIB for each in plan.candidates]
    for row, size in zip(rows, sizes, strict=True):
        assert row.split()[5] == ("yes" if size <= 10.476 else "tight" if size <= 11.64 else "no")
    assert any(10.476 < size <= 11.64 for size in sizes)


def test_a_micro_batch_that_fits_tightly_is_not_called_the_one_to_take() -> None:
    held = {"recompute": "none", "loss_chunk_size": 3072}
    values = load_settings("speedrun-124m").values | held
    eight = make_plan(
        build_config(values | {"batch_size": 8}), 50304, 50257, named_target("H200", None), PlanRequest()
    )
    config = build_config(values | {"batch_size": 4})
    for share, reported in ((0.999, False), (1.001, True)):
        target = named_target("H200", int(eight.asked.memory.total / 0.95 * share))
        text = page(make_plan(config, 50304, 50257, target, PlanRequest()))
        assert says(text, "plan.fastest.micro-batch", size="8") is reported


def test_a_choice_tells_its_neighbours_and_what_memory_kept_away() -> None:
    target = named_target("H200", 6 * GIB)
    choice = choose_size(replace(load_settings("best-8h"), hours=48), target, 50304, 50257)
    plan = make_plan(choice.chosen.config, 50304, 50257, target, PlanRequest())
    source = PlanSource("best", choice=choice)
    text, size, best = page(plan, source), choice.chosen, choice.best
    chosen, larger = (
        ENGLISH.say_plural("model.layer-count", each.config.n_layer, width=str(each.config.n_embd))
        for each in (size, best)
    )
    assert says(text, "size.chosen.words", layers=chosen, duration="2 d")
    assert says(text, "size.chosen.with-more-memory", layers=larger)
    assert not says(text, "plan.fastest.micro-batch")  # the choice has left room for a display
    assert says(text, "size.loss.expected", loss=f"{size.law.median:.2f}")
    table = lines(sizes_table(choice), 80)
    assert [line.split()[0] for line in table[1:]] == [str(each.config.n_layer) for each in choice.shown]
    assert [line.split()[-1] for line in table[1:]] == ["yes" if each.fits else "no" for each in choice.shown]
    narrow = "\n".join(lines(sizes_table(choice), 56))
    for each in choice.shown:
        figures = f"{each.config.batch_size}", f"{each.memory_bytes / GIB:.2f} GiB", f"{each.law.median:.2f}"
        assert re.search(r" +".join(map(re.escape, figures)), narrow)
    titles = [section.title for section in plan_report(plan, source, ENGLISH).sections]
    assert ENGLISH.say("size.table.title", duration="2 d") in titles
    foreign = replace(choice, known_tokenizer=False)
    assert says(page(plan, PlanSource("best", choice=foreign)), "size.loss.other-tokenizer")


def test_other_data_are_called_so_in_every_language() -> None:
    values = load_settings("best-8h").values | {"dataset": "mine"}
    choice = choose_size(Settings("best", values, hours=8), named_target("RTX 4070", None), 50304, 50257)
    assert says(expected_words(choice), "size.loss.expected", data="other")
    assert "other" not in expected_words(choice, LANGUAGES["ja"])


@pytest.mark.parametrize(("shape", "reported"), [({}, False), ({"n_layer": 4}, True)])
def test_a_shape_that_the_law_does_not_know_is_reported(shape: dict[str, object], reported: bool) -> None:
    values = load_settings("best-8h").values | shape
    choice = choose_size(Settings("best", values, hours=8), named_target("RTX 4070", None), 50304, 50257)
    for language in (ENGLISH, LANGUAGES["ja"]):
        words = expected_words(choice, language)
        assert says(words, "size.loss.shape-not-counted", language) is reported


def test_data_seen_four_times_are_nothing_to_tell() -> None:
    assert list(data_notes("edu", None, 10**9, 4 * 10**9)) == []
    assert list(data_notes("edu", None, None, 10**12)) == []
    (note,) = data_notes("edu", None, 10**9, 5 * 10**9)
    assert says(note, "size.data.repeated", dataset="edu", tokens="1.00B", epochs="5.00")


def test_how_data_that_are_not_here_are_made() -> None:
    """4.42B and a hundredth more are 4.46B: in steps of 0.1B 4.5B, of two bytes each."""
    reported = list(data_notes("edu", 50257, None, 4_420_000_000))
    command = "nanodyno prepare fineweb-edu/10BT --tokens 4.5B --out data/edu"
    assert reported[1:] == [ENGLISH.say("size.data.how-to-prepare", command=command, size="9.0")]
    assert "fineweb-edu/100BT --tokens 20.2B" in list(data_notes("edu", 50257, None, 20 * 10**9))[1]
    assert len(list(data_notes("mine", 50257, None, 4_420_000_000))) == 1


def test_estimated_tokens_are_reported_as_such() -> None:
    """5.4B over 5.36M is 1,007.5."""
    reported = next(data_notes("python", None, 5_360_000, 5_400_000_000, estimated=True))
    assert reported == ENGLISH.say("size.data.embedded-repeated", tokens="5.36M", epochs="1,010")


@pytest.mark.parametrize(
    ("hours", "reported"),
    [(40 / 60, "about 40 min (80%: 32 min to 50 min)"), (10.0, "about 10.0 hours (80%: 8.00 to 12.5)")],
)
def test_hours_are_reported_where_there_is_one(hours: float, reported: str) -> None:
    plan = planned()
    bill = replace(plan.bill, hours=Predicted(hours, 0.8 * hours, 1.25 * hours))
    assert reported in bill_words(bill, plan, ENGLISH)
    given = planned(request=PlanRequest(hours=10.0))
    assert says(bill_words(given.bill, given, ENGLISH), "plan.bill.tokens-within")


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("batch_size", [1, 8, 64])
def test_the_first_page_of_a_plan_has_at_most_thirty_lines(code: str, batch_size: int) -> None:
    language = LANGUAGES[code]
    notes = tuple(f"note {each}." for each in range(8))
    plan = planned(batch_size=batch_size, recompute="none")
    drawn = lines(short_page(plan, PlanSource("gpt2", notes=notes), 100, language), 100)
    assert len(drawn) <= MOST_LINES
    assert sum(each.split()[:2] == [str(batch_size), "x"] for each in drawn) == 1
    reported = sum(each in line for line in drawn for each in notes)
    assert 1 <= reported <= 4  # beside what the prediction rests on


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_first_page_of_a_recipe_for_hours_has_at_most_thirty_lines(code: str) -> None:
    target = named_target("RTX 4070", None)
    choice = choose_size(load_settings("best-8h"), target, 50304, 50257)
    config = choice.chosen.config
    plan = make_plan(config, 50304, 50257, target, PlanRequest())
    source = PlanSource("best", ramp=config.ramp, choice=choice, config=config)
    assert len(lines(short_page(plan, source, 100, LANGUAGES[code]), 100)) <= MOST_LINES


def test_the_first_page_answers_first_and_keeps_the_rest_for_all() -> None:
    plan = planned()
    _, *below = lines(short_page(plan, PlanSource("gpt2"), 120), 120)
    short = f" {' '.join(' '.join(below).split())}"
    titles = "common.fits", "common.speed", "common.model"
    order = [short.index(f" {ENGLISH.say(each)} ") for each in titles]
    assert order == sorted(order)
    for message in ("plan.model.flops", "plan.limit.by-datasheet", "plan.balance.tokens-per-parameter"):
        assert not says(short, message)
        assert says(page(plan), message)


def test_a_table_that_is_cut_keeps_what_was_asked_for_and_what_fits() -> None:
    plan = planned(batch_size=64, recompute="none")
    rows = lines(candidates_table(plan, ENGLISH, 3), 120)[1:]
    fitting = [each.setup.batch_size for each in plan.candidates if each.fits]
    assert [int(row.split()[0]) for row in rows] == [*fitting[-2:], 64]
