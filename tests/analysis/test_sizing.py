"""Models chosen for hours on a card: the rules by hand, the choice against the closed form of its law."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from nanodyno.analysis.sizing import SizeChoice, choose_size, fitted_batch
from nanodyno.analysis.sizing_rules import batch_for, course_for, ramp_for, rate_for, training_flops
from nanodyno.config import ConfigError, build_config
from nanodyno.costs import plan as plans
from nanodyno.costs.plan import Plan, PlanRequest, make_plan
from nanodyno.costs.target import GIB, Target, named_target
from nanodyno.errors import NanodynoError
from nanodyno.recipes import Settings, load_settings


def best(hours: float = 8, **given: Any) -> Settings:
    recipe = load_settings("best-8h")
    return replace(recipe, values=recipe.values | given, hours=hours)


def chosen(hours: float = 8, *, gpu: str = "RTX 4070", limit: int | None = None, **given: Any) -> SizeChoice:
    return choose_size(best(hours, **given), named_target(gpu, limit), 50304, 50257)


def test_the_batch_and_the_rate_of_gpt2_on_126_million_tokens() -> None:
    """72 x 12 x 768^2 + 12 x 12 x 768 x 1024 = 622,854,144 FLOPs a token; 10^16.894 of them call for
    0.292 x 10^5.526 = 98,000 tokens, of which the power of two below is taken."""
    config = build_config({"tokens_per_iter": 65_536, "batch_size": 8})
    flops = training_flops(config, 125_829_120)
    assert flops == 622_854_144 * 125_829_120
    assert batch_for(flops) == {"tokens_per_iter": 65_536}


@pytest.mark.parametrize(("flops", "rate"), [(1e18, 1.8e-3), (1e17, 2.3e-3), (1e15, 2.3e-3), (1e20, 9.9e-4)])
def test_a_learning_rate_falls_by_the_eighth_root_of_the_work(flops: float, rate: float) -> None:
    """0.3118 x 10^-2.25 = 0.3118 x 0.0056234 = 0.001753, and so on; below 1e17 it stays."""
    assert float(f"{rate_for(flops):.1e}") == rate


@pytest.mark.parametrize(
    ("flops", "tokens"), [(1e12, 32_768), (1e17, 65_536), (1e18, 131_072), (1e23, 524_288)]
)
def test_a_batch_is_a_power_of_two_within_bounds(flops: float, tokens: int) -> None:
    assert batch_for(flops) == {"tokens_per_iter": tokens}


def test_a_batch_grows_to_where_its_law_has_it() -> None:
    """10 x (72 x 640^2 + 12 x 640 x 1024) = 373,555,200 FLOPs a token. 65,536 tokens are called for by
    (65,536 / 0.292)^(1 / 0.3271) = 10^(5.3511 x 3.0572) = 10^16.359 FLOPs, which are 61M tokens, and twice as
    many by 2^3.0572 = 8.32 times those."""
    config = build_config({"n_layer": 10, "n_embd": 640, "tokens_per_iter": 131_072, "batch_size": 16})
    assert ramp_for(config, 1.35e9) == {"tokens_per_iter": 32_768, "batch_ramp": "61M:65536,510M:131072"}
    assert ramp_for(config, 4e8) == {"tokens_per_iter": 32_768, "batch_ramp": "61M:65536"}


@pytest.mark.parametrize(("batch_size", "first"), [(8, 32_768), (32, 32_768), (64, 65_536), (128, 131_072)])
def test_no_iteration_is_smaller_than_the_fastest_micro_batch(batch_size: int, first: int) -> None:
    config = build_config({"tokens_per_iter": 131_072, "batch_size": batch_size})
    found = ramp_for(config, 1e10)
    assert found["tokens_per_iter"] == first
    assert ("batch_ramp" in found) == (first < 131_072)


def test_the_rate_of_the_first_batch_is_the_laws_by_the_root() -> None:
    """Its last iterations, of four times the tokens, have twice the rate: the law's 1.8e-3."""
    config = chosen(8).chosen.config
    assert config.batch_ramp == "61M:65536,510M:131072"
    assert config.learning_rate == pytest.approx(1.8e-3 / 2, rel=0.02)


def test_a_batch_that_is_given_does_not_grow() -> None:
    given = chosen(8, tokens_per_iter=65_536).chosen.config
    assert (given.tokens_per_iter, given.batch_ramp) == (65_536, None)
    fixed = chosen(8, batch_ramp=None).chosen.config
    assert (fixed.tokens_per_iter, fixed.batch_ramp, fixed.learning_rate) == (131_072, None, 1.8e-3)


def test_the_course_of_a_thousand_iterations() -> None:
    """Of 131,072,000 tokens 0.0015 are 196,608, which are 192 sequences. Twenty times two splits of them are
    0.06 of the tokens, each a third of the work of training: 2%."""
    config = build_config({"tokens_per_iter": 131_072, "batch_size": 8})
    course = course_for(config, 1000, 131_072_000)
    assert (course["max_iters"], course["warmup_iters"], course["eval_interval"]) == (1000, 20, 50)
    assert course["eval_tokens"] == 196_608


@pytest.mark.parametrize(
    ("gpu", "hours"), [("RTX 4070", 8), ("RTX 3060 12GB", 48), ("H200", 1), ("H200", 48)]
)
def test_the_size_is_next_to_that_of_the_closed_form(gpu: str, hours: float) -> None:
    """Of A / N^a + B / D^b with 6 N D fixed, N is least at (a A / b B)^(1 / (a + b)) (C / 6)^(b / (a + b)).

    The GPU is no closed form: it is faster on wide models, and attention is not in 6 N D.
    """
    A, a, B, b = 482.01, 0.3478, 2085.43, 0.3658
    choice = chosen(hours, gpu=gpu)
    size = choice.chosen
    best = (a * A / (b * B)) ** (1 / (a + b)) * (size.parameters * size.tokens) ** (b / (a + b))
    place = choice.sizes.index(size)
    assert choice.sizes[place - 1].parameters < best < choice.sizes[place + 1].parameters
    assert size.law.median == min(each.law.median for each in choice.sizes if each.fits)


def test_the_tokens_fill_the_hours_but_for_what_else_there_is_to_do() -> None:
    size = chosen(8).chosen
    seconds = size.tokens / size.tokens_per_second.value
    iteration = size.config.ramp.sizes[-1] / size.tokens_per_second.value
    assert 0.95 * 8 * 3600 - iteration < seconds <= 0.95 * 8 * 3600
    assert size.config.ramp.tokens_after(size.config.max_iters) == size.tokens
    assert size.config == build_config(size.settings)


def test_more_hours_never_make_a_smaller_model() -> None:
    counts = [chosen(hours).chosen.parameters for hours in (1, 8, 48)]
    assert counts == sorted(counts)
    assert counts[0] < counts[2]


def test_what_does_not_fit_is_not_chosen_and_what_would_have_been_is_reported() -> None:
    choice = chosen(48, gpu="H200", limit=6 * GIB)
    assert choice.chosen.memory_bytes <= 0.95 * 6 * GIB
    assert choice.best.parameters > choice.chosen.parameters
    assert choice.best.memory_bytes > 0.95 * 6 * GIB
    assert choice.chosen in choice.shown
    assert choice.best in choice.shown
    whole = chosen(48, gpu="H200")
    assert whole.best is whole.chosen


def test_what_is_given_is_not_chosen() -> None:
    given = {"n_layer": 6, "batch_size": 4, "tokens_per_iter": 65_536, "learning_rate": 1e-3}
    choice = chosen(8, **given)
    assert {each.config.n_layer for each in choice.sizes} == {6}
    assert len(choice.sizes) > 1
    config = choice.chosen.config
    assert {key: getattr(config, key) for key in given} == given
    assert chosen(8, n_layer=12, n_embd=768).sizes == (chosen(8, n_layer=12, n_embd=768).chosen,)


def test_another_length_leaves_the_choice_and_has_a_warm_up_of_its_own() -> None:
    whole, short = chosen(8).chosen.config, chosen(8, max_iters=50).chosen.config
    length = {"max_iters": 50, "lr_decay_iters": 50, "warmup_iters": 20, "eval_interval": 2}
    assert short == whole.model_copy(update=length)


def test_a_loss_is_reported_of_the_tokens_that_will_be_seen() -> None:
    """1,862 iterations of 32,768 make 61M, 6,851 of 65,536 the way to 510M, the rest are of 131,072."""
    hours, longer = chosen(8), chosen(8, max_iters=30_000)
    assert hours.tokens == hours.chosen.tokens
    assert hours.expected == hours.chosen.law
    assert longer.tokens == 1_862 * 32_768 + 6_851 * 65_536 + 21_287 * 131_072
    assert longer.expected
    assert longer.expected.median < hours.chosen.law.median
    assert chosen(8, max_iters=50).expected is None


def test_a_number_of_heads_leaves_the_widths_that_it_divides() -> None:
    assert {each.config.n_embd for each in chosen(8, n_head=5).sizes} == {640, 1280, 1920}
    with pytest.raises(ConfigError, match="does not divide"):
        chosen(8, n_head=7, n_embd=768)


def test_a_gpu_without_a_speed_is_refused() -> None:
    with pytest.raises(NanodynoError, match="there is none here") as none:
        choose_size(best(), Target(None, None, None), 50304, 50257)
    assert "--gpu NAME" in str(none.value.hint)
    with pytest.raises(NanodynoError, match="Next is unknown") as unknown:
        choose_size(best(), Target("Next", None, 12 * GIB), 50304, 50257)
    assert "nanodyno doctor" in str(unknown.value.hint)


def test_the_loss_is_reported_for_a_folder_of_nanogpts_files() -> None:
    """For which a user gives nanoGPT's 50,304 rows; of another vocabulary no loss is known."""
    for size, known in ((50257, True), (50304, True), (50048, False)):
        assert choose_size(best(), named_target("RTX 4070", None), 50304, size).known_tokenizer is known


def nearest(limit: int, **given: Any) -> dict[str, int]:
    with pytest.raises(NanodynoError, match="no size") as near:
        chosen(8, limit=limit, **given)
    found = re.fullmatch(r"the nearest that fits: (.*)", str(near.value.hint))
    assert found
    return {key: int(value) for key, value in re.findall(r"--(\w+)=(\d+)", found[1])}


def test_a_gpu_too_small_for_every_size_is_reported_what_is_nearest() -> None:
    with pytest.raises(NanodynoError, match="no size of best-8h fits: the smallest, n_layer=4 n_embd=256,"):
        chosen(8, limit=GIB)
    assert nearest(2 * GIB) == {"value_embeddings": 0}
    assert chosen(8, limit=2 * GIB, value_embeddings=0).chosen.fits
    assert nearest(11 * GIB, value_embeddings=9) == {"value_embeddings": 7}
    assert chosen(8, limit=11 * GIB, value_embeddings=7).chosen.config.n_layer == 14
    limit = int(1.5 * GIB)
    lesser = nearest(limit)
    assert lesser.keys() == {"value_embeddings", "block_size"}
    assert chosen(8, gpu="RTX 4070", limit=limit, **lesser).chosen.fits
    longer = lesser | {"block_size": 2 * lesser["block_size"]}
    assert nearest(limit, **longer) == {"block_size": lesser["block_size"]}


def test_accumulation_is_not_given_where_the_batch_is_chosen() -> None:
    with pytest.raises(NanodynoError, match="gradient_accumulation_steps follows"):
        chosen(8, gradient_accumulation_steps=4)


def fitted(gpu: str, limit: int | None = None, **given: Any) -> int:
    recipe = load_settings("speedrun-124m")
    settings = replace(recipe, values=recipe.values | given)
    return fitted_batch(settings, named_target(gpu, limit), 50304, 50257)


def planned(gpu: str, limit: int | None = None, **given: Any) -> Plan:
    config = build_config(load_settings("speedrun-124m").values | given)
    return make_plan(config, 50304, 50257, named_target(gpu, limit), PlanRequest())


def test_a_given_model_has_the_smallest_micro_batch_that_is_nearly_the_fastest() -> None:
    plan = planned("H200", tokens_per_iter=65_536, batch_size=1)
    rates = {each.setup.batch_size: each.time.tokens_per_second for each in plan.candidates if each.time}
    enough = [size for size, rate in rates.items() if rate >= 0.99 * max(rates.values())]
    assert 16 < fitted("H200", tokens_per_iter=65_536) == min(enough) < 64


def test_a_ramp_has_a_micro_batch_that_fits_all_of_it() -> None:
    """64 sequences, 32 of which are the half that noise wants, and of which 96 have 32 in common."""
    for ramp in ("noise", "10M:98304"):
        assert fitted("H200", tokens_per_iter=65_536, batch_ramp=ramp) == 32


def test_a_limit_is_filled_but_for_what_predictions_err_by() -> None:
    """A micro-batch of 8 is taken where what it needs by prediction is within 95% of the limit."""
    held = {"recompute": "none", "loss_chunk_size": 3072}
    needs = planned("H200", 12 * GIB, **held, batch_size=8).asked.memory.total
    for share, taken in ((1.001, 8), (0.999, 4)):
        assert fitted("H200", int(needs / 0.95 * share), **held) == taken


def test_a_given_model_that_does_not_fit_is_reported_the_nearest_that_does() -> None:
    with pytest.raises(
        NanodynoError,
        match=r"micro-batch of 1, and H200 has 4.75 GiB for it \(0.25 GiB of its 5.00 GiB are left free\)",
    ) as caught:
        fitted("H200", 5 * GIB)
    pattern = r"the nearest that fits: --n_layer=(\d+) --n_embd=(\d+) --n_head=(\d+), \S+M parameters"
    found = re.fullmatch(pattern, str(caught.value.hint))
    assert found
    n_layer, n_embd, n_head = map(int, found.groups())
    assert fitted("H200", 5 * GIB, n_layer=n_layer, n_embd=n_embd, n_head=n_head) >= 1
    with pytest.raises(NanodynoError, match="speedrun-124m needs") as bare:
        fitted("RTX 4070", 3 * GIB)
    reported = (
        "the nearest that fits: --n_layer=8 --n_embd=512 --n_head=8 --value_embeddings=0, 76.7M parameters"
    )
    assert bare.value.hint == reported
    assert fitted("RTX 4070", 3 * GIB, n_layer=8, n_embd=512, n_head=8, value_embeddings=0) >= 1
    with pytest.raises(NanodynoError, match="speedrun-124m needs") as none:
        fitted("H200", GIB)
    assert "GPU with more memory" in (none.value.hint or "")


@pytest.mark.parametrize("gpu", ["RTX 4070", "H200", "RTX 3070"])
def test_a_choice_of_fifteen_sizes_works_out_only_what_it_needs(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight micro-batches of each, of which bisection finds how many fit, at the levels of recompute that
    could be the fastest; for both looks at a size together. Whole plans took 1,166 and 333."""
    counts: Counter[str] = Counter()

    def count(name: str) -> None:
        function = getattr(plans, name)

        def counted(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        monkeypatch.setattr(plans, name, counted)

    for name in ("memory_of", "iteration_time", "advise"):
        count(name)
    assert len(chosen(8, gpu=gpu).sizes) == 15
    assert 15 <= counts["memory_of"] <= 15 * 8
    assert 15 <= counts["iteration_time"] <= 15 * 8
    assert counts["advise"] == 0
