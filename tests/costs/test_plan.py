"""Plans of whole configs, from the settings to the numbers."""

from dataclasses import replace
from typing import Any

import pytest
from tests.costs.live import gpt

from nanodyno.config import build_config
from nanodyno.costs.plan import NEARLY, Costs, Plan, PlanRequest, make_plan, splits
from nanodyno.costs.setup import Setup, rows_by_memory, settle
from nanodyno.costs.target import GIB, Target, named_target
from nanodyno.errors import NanodynoError
from nanodyno.recipes import load_settings


def planned(
    gpu: str | None = "RTX 3060 12GB",
    request: PlanRequest | None = None,
    limit: int | None = None,
    **settings: Any,
) -> Plan:
    given = {"tokens_per_iter": 524_288, "batch_size": 8, **settings}
    target = Target(None, None, limit) if gpu is None else named_target(gpu, limit)
    return make_plan(build_config(given), 50304, 50257, target, request or PlanRequest())


def test_a_plan_has_the_parameters_and_the_flops_of_the_model() -> None:
    plan = planned()
    assert plan.params.total == 124_373_760
    assert (plan.flops_exact, plan.flops_nanogpt) == (797_870_592, 854_770_176)


def test_candidates_hold_the_tokens_of_an_iteration_and_the_one_asked_for_is_among_them() -> None:
    plan = planned()
    assert [each.setup.batch_size for each in plan.candidates] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert {each.setup.tokens_per_iter for each in plan.candidates} == {524_288}
    assert plan.asked in plan.candidates


@pytest.mark.parametrize(
    ("size", "steps", "sizes"),
    [(6, 5, [1, 2, 3, 5, 6, 10, 15, 30]), (7, 1, [1, 7]), (256, 2, [1, 2, 4, 8, 16, 32, 64, 128, 256])],
)
def test_candidates_divide_the_sequences_of_an_iteration(size: int, steps: int, sizes: list[int]) -> None:
    assert [each for each, _ in splits(Setup(gpt(1, 1, 64, 512), size, steps))] == sizes


@pytest.mark.parametrize(
    ("ramp", "sizes"),
    [("1M:12288", [1, 2, 4]), ("1M:10240", [1, 2]), ("noise", [1, 2, 4]), (None, [1, 2, 4, 8])],
)
def test_candidates_divide_every_size_that_a_batch_grows_to(ramp: str | None, sizes: list[int]) -> None:
    """8 sequences, then 12 or 10; by noise every one twice, between which it is measured."""
    config = build_config({"batch_size": 2, "tokens_per_iter": 8192, "batch_ramp": ramp})
    plan = make_plan(config, 50304, 50257, named_target("H200", None), PlanRequest())
    assert [each.setup.batch_size for each in plan.candidates] == sizes
    for size in sizes:
        assert build_config(config.model_dump() | {"batch_size": size, "gradient_accumulation_steps": None})


@pytest.mark.parametrize(("ramp", "size"), [("1M:32768", "4"), (None, "6")])
def test_what_is_advised_to_fit_divides_every_size_of_a_ramp(ramp: str | None, size: str) -> None:
    """Of 24 sequences and then 32, 4 is the largest below 8 that divides both; of 24 alone, 6."""
    given = {"tokens_per_iter": 24 * 1024, "batch_ramp": ramp, "recompute": "none"}
    plan = planned("H200", limit=int(5.9 * GIB), **given)
    assert (("batch_size", size),) in [each.settings for each in plan.advice]


def test_left_to_itself_recomputation_is_the_least_that_fits() -> None:
    plan = planned()
    by_size = {each.setup.batch_size: each.setup.recompute for each in plan.candidates}
    assert [by_size[size] for size in (8, 16, 32, 64)] == ["none", "none", "light", "full"]
    named = planned(recompute="none")
    assert {each.setup.recompute for each in named.candidates} == {"none"}


def test_what_fits_needs_at_most_the_memory_there_is() -> None:
    plan = planned(recompute="none")
    limit = plan.target.memory_bytes
    assert limit is not None
    assert [each.fits for each in plan.candidates] == [each.memory.total <= limit for each in plan.candidates]
    assert {each.fits for each in plan.candidates} == {True, False}


def test_nothing_is_advised_where_it_fits() -> None:
    assert planned().advice == ()


def test_what_would_make_it_fit_comes_first_and_by_its_cost_in_speed() -> None:
    plan = planned(batch_size=64, recompute="none")
    fitting = [each for each in plan.advice if each.fits]
    assert plan.asked.fits is False
    assert [dict(each.settings) for each in fitting] == [{"batch_size": "16"}, {"recompute": "full"}]
    order = [(not each.fits, each.slower) for each in plan.advice]
    assert order == sorted(order)
    assert all(each.saved_bytes > 0 for each in plan.advice)


def test_advice_saves_what_a_plan_with_it_needs_less() -> None:
    plan = planned(batch_size=64, recompute="none")
    for advice in plan.advice:
        values = {key: int(value) if value.isdigit() else value for key, value in advice.settings}
        values |= {key: True for key, value in values.items() if value == "True"}
        other = planned(**{"batch_size": 64, "recompute": "none", **values})
        assert plan.asked.memory.total - other.asked.memory.total == advice.saved_bytes, advice


def test_where_no_switch_is_enough_the_fastest_together_that_fits_is_reported() -> None:
    """GPT-2 medium needs 16 bytes a parameter and its casts, 5.9 GiB, before anything else."""
    plan = planned(limit=5 * GIB, n_layer=24, n_embd=1024, n_head=16)
    fitting = [each for each in plan.advice if each.fits]
    assert [dict(each.settings)["offload_moments"] for each in fitting] == ["True"]
    size = int(dict(fitting[0].settings).get("batch_size", 8))
    smaller = planned(
        limit=5 * GIB, n_layer=24, n_embd=1024, n_head=16, offload_moments=True, batch_size=size
    )
    assert smaller.asked.fits
    assert {each.arithmetic for each in fitting} == {"rounding"}


def test_where_nothing_is_enough_the_smallest_is_reported() -> None:
    plan = planned(limit=3 * GIB, n_layer=24, n_embd=1024, n_head=16)
    assert not any(each.fits for each in plan.advice)
    together = max(plan.advice, key=lambda each: len(each.settings))
    assert dict(together.settings) == {"batch_size": "1", "offload_moments": "True"}
    assert together.saved_bytes == max(each.saved_bytes for each in plan.advice)


def test_hours_energy_and_money_follow_from_the_rate() -> None:
    plan = planned(request=PlanRequest(tokens=3_600_000_000, price_kwh=0.5, price_hour=2.0))
    assert plan.asked.time is not None
    hours = 1_000_000 / plan.asked.time.tokens_per_second
    speed, bill = plan.asked.tokens_per_second, plan.bill
    assert speed is not None
    assert bill.hours is not None
    assert bill.kwh is not None
    assert bill.energy_cost is not None
    assert bill.rent is not None
    assert bill.hours.value == pytest.approx(hours)
    assert (bill.hours.low, bill.hours.high) == pytest.approx((1e6 / speed.high, 1e6 / speed.low))
    assert bill.watts is not None
    assert 0.85 * 170 < bill.watts < 0.9 * 170  # kernels run for most of the time
    assert bill.kwh.value == pytest.approx(hours * bill.watts / 1000)
    assert bill.kwh.high / bill.kwh.value > bill.hours.high / bill.hours.value  # the power is predicted too
    assert bill.energy_cost.value == pytest.approx(bill.kwh.value * 0.5)
    assert bill.rent.high == pytest.approx(bill.hours.high * 2)
    assert plan.tokens_per_parameter == pytest.approx(3_600_000_000 / 124_373_760)


def test_a_batch_that_grows_makes_its_updates_rarer() -> None:
    """Of 100 iterations 50 have 8 micro-steps, and the others, after 50 x 65,536 tokens, 16 each."""
    plan = planned(tokens_per_iter=65_536, batch_ramp="3276800:131072", max_iters=100)
    time = plan.asked.time
    assert time is not None
    assert plan.bill.tokens == 50 * 65_536 + 50 * 131_072
    seconds = (50 * 8 + 50 * 16) * time.micro_step_seconds + 100 * time.once_seconds
    assert plan.bill.hours is not None
    assert plan.bill.tokens_per_second is not None
    assert plan.bill.hours.value == pytest.approx(seconds / 3600)
    assert plan.bill.tokens_per_second.value == pytest.approx(plan.bill.tokens / seconds)
    assert time.tokens_per_second < plan.bill.tokens / seconds
    request = PlanRequest(hours=seconds / 3600 + 1e-6)
    again = planned(tokens_per_iter=65_536, batch_ramp="3276800:131072", request=request)
    assert (again.bill.max_iters, again.bill.tokens) == (100, plan.bill.tokens)


def test_what_can_become_of_a_batch_that_grows_with_the_noise_is_in_the_bill() -> None:
    """65,536 tokens are 8 micro-steps; doubled twice they are 32, with one update an iteration as before."""
    grows = {"tokens_per_iter": 65_536, "batch_ramp": "noise:300k", "max_iters": 100}
    plan = planned(**grows)
    time, grown = plan.asked.time, plan.bill.grown
    assert time is not None
    assert grown is not None
    assert plan.bill.tokens == 100 * 65_536
    assert (grown.tokens_per_iter, grown.tokens) == (262_144, 100 * 262_144)
    seconds = 100 * (32 * time.micro_step_seconds + time.once_seconds)
    assert grown.hours is not None
    assert grown.hours.value == pytest.approx(seconds / 3600)
    without_gpu = planned(None, **grows).bill.grown
    assert without_gpu is not None
    assert (without_gpu.tokens, without_gpu.hours) == (100 * 262_144, None)
    assert planned(tokens_per_iter=65_536, batch_ramp="1M:131072").bill.grown is None


def test_nothing_is_sent_to_a_host_that_has_no_room_for_it() -> None:
    """The moments of GPT-2 124M are 8 bytes of each parameter: 949 MiB."""

    def advised(host_bytes: int | None) -> set[str]:
        target = replace(named_target("RTX 3060 12GB", 3 * GIB), host_bytes=host_bytes)
        config = build_config({"tokens_per_iter": 524_288, "batch_size": 8})
        advice = make_plan(config, 50304, 50257, target, PlanRequest()).advice
        moved = {each.host_bytes for each in advice if "offload_moments" in dict(each.settings)}
        assert all(bytes_ == pytest.approx(8 * 124_373_760, rel=0.001) for bytes_ in moved)
        return {key for each in advice for key, _ in each.settings}

    assert "offload_moments" in advised(None)
    assert "offload_moments" in advised(GIB)
    assert "offload_moments" not in advised(GIB // 2)


def test_in_given_hours_the_tokens_are_uncertain_and_the_time_is_not() -> None:
    plan = planned(request=PlanRequest(hours=48.0, price_hour=2.0))
    hours, within, speed = plan.bill.hours, plan.bill.tokens_within, plan.asked.tokens_per_second
    assert hours is not None
    assert within is not None
    assert speed is not None
    assert hours.low == hours.value == hours.high
    assert within.value == plan.bill.tokens
    assert within.low / within.value == pytest.approx(speed.low / speed.value)
    assert plan.bill.tokens_per_second is not None
    assert plan.bill.tokens_per_second.high == pytest.approx(speed.high, rel=0.01)


def test_a_power_limit_slows_a_gpu_and_saves_energy_for_a_token() -> None:
    def limited(watts: float | None) -> Plan:
        target = replace(named_target("RTX 4070", None), power_limit_watts=watts)
        config = build_config({"tokens_per_iter": 524_288, "batch_size": 8})
        return make_plan(config, 50304, 50257, target, PlanRequest(tokens=10**9))

    full, half = limited(None), limited(100.0)
    assert full.asked.time is not None
    assert half.asked.time is not None
    assert 0.5 < half.asked.time.tokens_per_second / full.asked.time.tokens_per_second < 0.9
    assert full.bill.kwh is not None
    assert half.bill.kwh is not None
    assert half.bill.kwh.value < full.bill.kwh.value
    assert limited(200.0).asked.time == full.asked.time


def test_a_gpu_that_waits_for_its_host_draws_less() -> None:
    small = planned(
        "RTX 4090", n_embd=64, n_layer=4, batch_size=1, tokens_per_iter=16_384, kernels="autograd"
    )
    assert small.asked.time is not None
    assert small.asked.time.launch_bound
    assert small.bill.watts is not None
    assert 0.2 * 450 < small.bill.watts < 0.45 * 450


def test_an_h200_draws_what_its_telemetry_had() -> None:
    """speedrun-124m at its first batch drew 614 of 700 W (docs/log/2026-11-compare.md)."""
    values = {**load_settings("speedrun-124m").values, "batch_size": 16}
    config = build_config({key: value for key, value in values.items() if key != "dataset"})
    bill = make_plan(config, 50304, 50257, named_target("H200", None), PlanRequest()).bill
    assert bill.watts == pytest.approx(614, rel=0.05)


def test_the_power_that_telemetry_saw_counts_for_the_energy() -> None:
    target = replace(named_target("RTX 4070", None), drawn_watts=150.0)
    config = build_config({"tokens_per_iter": 524_288, "batch_size": 8})
    assert make_plan(config, 50304, 50257, target, PlanRequest()).bill.watts == 150.0
    limited = replace(target, power_limit_watts=120.0)
    assert make_plan(config, 50304, 50257, limited, PlanRequest()).bill.watts == 120.0


def test_a_gpu_of_another_maker_trains_by_autograd_unless_fused_is_asked_for() -> None:
    assert planned(gpu="RX 7900 XTX").asked.setup.kernels == "autograd"
    assert planned(gpu="RX 7900 XTX").asked.setup.compiled
    assert planned(gpu="RX 7900 XTX", kernels="fused").asked.setup.kernels == "fused"
    apple = planned(gpu="M2 Max", limit=None)
    assert (apple.asked.setup.kernels, apple.asked.setup.compiled) == ("autograd", False)
    assert apple.target.memory_bytes == 0.75 * 96 * GIB


def test_without_tokens_the_configs_own_length_counts() -> None:
    assert planned(max_iters=100).bill.tokens == 100 * 524_288


def test_without_a_gpu_memory_is_predicted_and_nothing_else() -> None:
    plan = planned(gpu=None)
    assert (plan.asked.fits, plan.asked.time, plan.bill.hours, plan.verified) == (None, None, None, False)
    assert planned(gpu=None, limit=12 * GIB).asked.fits is True


def test_a_gpu_before_bfloat16_trains_by_autograd_in_float16() -> None:
    setup = planned(gpu="RTX 2070").asked.setup
    assert (setup.kernels, setup.dtype, setup.compiled) == ("autograd", "float16", True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"kernels": "autograd", "recompute": "light"},
            "recompute=light .* kernels=autograd",
        ),
        ({"dropout": 0.1, "fp8": True}, "fp8=True .* dropout=0.1"),
        ({"dtype": "float16", "kernels": "fused"}, "kernels=fused .* dtype=float16"),
    ],
)
def test_what_training_refuses_a_plan_refuses_too(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(NanodynoError, match=words):
        planned(**settings)


def test_the_rows_of_logits_follow_from_the_memory_as_in_training() -> None:
    """A 32nd of 11.2 GiB holds 3,735 rows of 50,304 bf16 numbers: three times 1,024 and some."""
    shape = gpt(1, 1, 64, 50304)
    assert rows_by_memory(int(11.2 * GIB), shape, "bfloat16") == 3072
    config = build_config({"batch_size": 8, "gradient_accumulation_steps": 1})
    assert settle(config, shape, "bfloat16", int(11.2 * GIB)).loss_chunk_size == 3072
    assert settle(config, shape, "bfloat16", 141 * GIB).loss_chunk_size == 16384
    assert settle(config, shape, "float16", 141 * GIB).loss_chunk_size is None


@pytest.mark.parametrize("away", [False, True])
def test_no_switch_is_advised_twice_or_when_it_is_on_already(away: bool) -> None:
    plan = planned(gpu="RTX 4070", n_layer=20, n_embd=2048, n_head=16, batch_size=1, offload_moments=away)
    advised = [each.settings for each in plan.advice]
    assert all(advised)
    assert len(set(advised)) == len(advised)


def test_a_batch_that_grows_has_the_memory_of_its_last_iterations() -> None:
    """One micro-step leaves no gradients beside the activations, and two do."""
    way: dict[str, Any] = {"kernels": "autograd", "tokens_per_iter": 8_192}
    one, grown = planned(**way).asked, planned(**way, batch_ramp="1M:16384").asked
    two = planned(**{**way, "tokens_per_iter": 16_384}).asked
    assert one.setup.micro_steps == grown.setup.micro_steps == 1
    assert one.memory.grads == 0
    assert grown.memory == two.memory


def test_tokens_are_counted_by_parameter_without_tables_of_values() -> None:
    plain, tables = planned(positions="rope"), planned(positions="rope", value_embeddings=3)
    assert tables.params.total == plain.params.total + 3 * 50304 * 768 + 12
    assert tables.counted_params == plain.params.total + 12
    assert tables.tokens_per_parameter == pytest.approx(plain.tokens_per_parameter, rel=1e-6)


@pytest.mark.parametrize("limit_gib", [1, 2, 3, 4.5, 6, 8, 12, 20, 40, 80])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kernels": "autograd"},
        {"kernels": "autograd", "compile": False, "n_layer": 2, "n_embd": 128},
        {"recompute": "mlp"},
        {"n_layer": 24, "n_embd": 1536, "optimizer": "muon", "value_embeddings": 2},
        {"tokens_per_iter": 30 * 1024, "n_layer": 4, "n_embd": 256},
        {"batch_ramp": "10M:1048576"},
        {"batch_ramp": "10M:1048576", "kernels": "autograd"},
    ],
)
def test_the_fastest_that_fits_is_that_of_all_micro_batches(given: dict[str, Any], limit_gib: float) -> None:
    """Found by bisection, without looking at most of them: memory grows with the micro-batch, and more
    recompute is slower."""
    target = named_target("H200", int(limit_gib * GIB))
    config = build_config({"tokens_per_iter": 524_288, "batch_size": 1, **given})
    every = make_plan(config, 50304, 50257, target, PlanRequest()).candidates
    rates = {each.setup.batch_size: each.time.tokens_per_second for each in every if each.fits and each.time}
    enough = NEARLY * max(rates.values(), default=0.0)
    expected = next((each for each in every if rates.get(each.setup.batch_size, -1.0) >= enough), every[0])
    costs = Costs(config, 50304, 50257, target)
    assert costs.fastest(costs.setup(config)) == expected
