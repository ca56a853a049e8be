"""What is worth trying, on cards whose costs are predicted and on a CPU whose are not."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from nanodyno.analysis.candidates import Candidate, Ground, TuneRequest, candidates_for, micro_batches
from nanodyno.config import RunConfig, build_config, changed
from nanodyno.hardware.gpus import gpu_named

GIB = 2**30
VOCABULARY = 50304


def gpt2(**changes: Any) -> RunConfig:
    return build_config({"n_layer": 12, "n_embd": 768, "batch_size": 8, "tokens_per_iter": 2**19} | changes)


def gpu(usable_gib: float, **changes: Any) -> Ground:
    whole = Ground(
        "cuda", "bfloat16", gpu_named("H200"), int(usable_gib * GIB), GIB // 2, GIB // 2, True, True
    )
    return replace(whole, **changes)


def on_gpu(usable_gib: float, config: RunConfig | None = None, **wanted: Any) -> dict[str, Candidate]:
    found = candidates_for(TuneRequest(config or gpt2(), VOCABULARY, **wanted), gpu(usable_gib))
    assert len({each.name for each in found}) == len(found)
    return {each.name: each for each in found}


def plain(found: dict[str, Candidate]) -> list[str]:
    return [name for name, each in found.items() if not each.variant and not each.hopeless]


def test_micro_batches_are_the_divisors_of_the_effective_batch() -> None:
    assert micro_batches(512, 8) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert micro_batches(12, 4) == [1, 2, 3, 4, 6, 12]
    assert micro_batches(509, 1) == [1, 509]
    assert micro_batches(12, 4, fewest_steps=2) == [1, 2, 3, 4, 6]


def test_of_many_divisors_round_ones_apart_and_the_one_asked_for_are_tried() -> None:
    found = micro_batches(480, 10)
    assert 10 in found
    assert {1, 2, 4, 16, 32, 480} <= {*found}
    assert 8 not in found  # too near to the 10 that was asked for
    assert all(later >= 1.3 * earlier for earlier, later in pairwise(found))
    assert all(480 % size == 0 for size in found)


def test_every_candidate_keeps_the_tokens_of_an_iteration_and_of_an_evaluation() -> None:
    config = gpt2(eval_iters=10)
    for each in on_gpu(12, config).values():
        assert each.config.tokens_per_iter == 2**19
        assert each.config.eval_tokens == config.eval_tokens == 10 * 8 * 1024


def test_on_a_large_gpu_nothing_is_made_again_and_the_fastest_by_prediction_comes_first() -> None:
    found = on_gpu(139)
    assert plain(found)[:2] == ["256 x 2", "128 x 4"]
    seconds = [each.predicted_seconds for each in found.values()]
    assert seconds == sorted(seconds)  # type: ignore[type-var]
    assert found["64 x 8"].config.recompute == "none"


def test_on_a_small_gpu_each_micro_batch_has_the_least_recompute_that_fits() -> None:
    """docs/log: 32 fits 11.2 GiB with light, in 10.3 GiB reserved."""
    found = on_gpu(12)
    assert "32 x 16 recompute=light" in plain(found)
    assert "16 x 32" in plain(found)
    names = list(found)
    assert names.index("32 x 16 recompute=light") < names.index("64 x 8 recompute=full")
    assert [name for name, each in found.items() if each.hopeless] == [
        "512 x 1 recompute=full cuda_graph=False offload_moments=True",
        "256 x 2 recompute=full cuda_graph=False offload_moments=True",
    ]


def test_what_fits_for_sure_leaves_the_margin_free() -> None:
    for each in on_gpu(12).values():
        if each.config.batch_size in (8, 16, 32) and not each.variant:
            assert each.memory is not None
            assert each.memory.total + GIB // 2 <= 12 * GIB


def test_two_ways_to_write_the_same_are_one_candidate() -> None:
    found = on_gpu(139)
    setups = [each.setup for each in found.values()]
    assert len(set(setups)) == len(setups)


def test_the_arithmetic_stays_unless_reported_otherwise() -> None:
    def different(found: dict[str, Candidate]) -> list[str]:
        keys = ("residual_dtype", "moments_dtype", "fp8")
        return [name for name in found if any(key in name for key in keys)]

    assert different(on_gpu(139)) == []
    allowed = on_gpu(139, allow_different=True)
    assert "64 x 8 residual_dtype=bfloat16" in different(allowed)
    assert "64 x 8 fp8=True" in different(allowed)
    old = candidates_for(TuneRequest(gpt2(), VOCABULARY, allow_different=True), gpu(139, has_fp8=False))
    assert not any("fp8" in each.name for each in old)


def test_a_switch_that_the_user_gave_stays() -> None:
    found = on_gpu(
        12, gpt2(recompute="mlp", loss_chunk_size=2048), held=frozenset({"recompute", "loss_chunk_size"})
    )
    assert {each.config.recompute for each in found.values() if each.config.kernels == "auto"} == {"mlp"}
    assert {each.config.loss_chunk_size for each in found.values() if each.config.kernels == "auto"} == {2048}


def test_a_switch_of_the_recipe_is_where_the_search_starts_and_not_where_it_ends() -> None:
    found = on_gpu(139, gpt2(recompute="full"))
    assert found["64 x 8"].config.recompute == "none"


def test_without_triton_the_trainers_own_way_is_tried_and_compiling_where_it_was_not_asked_for() -> None:
    found = candidates_for(TuneRequest(gpt2(compile=False), VOCABULARY), gpu(139, has_triton=False))
    assert {each.setup.kernels for each in found if each.setup} == {"autograd"}
    assert {each.config.compile for each in found} == {True, False}


def test_on_a_cpu_micro_batches_go_outwards_from_the_one_asked_for_and_compiling_comes_last() -> None:
    config = build_config({"n_embd": 64, "block_size": 64, "batch_size": 4, "tokens_per_iter": 16 * 64})
    found = candidates_for(TuneRequest(config, 256), Ground("cpu", "float32", threads=(1, 8)))
    assert [each.batch_size for each in found if not each.variant] == [4, 8, 2, 16, 1]
    flips = list(dict.fromkeys(each.switches for each in found if each.variant))
    assert flips == [
        (("threads", "1"),),
        (("threads", "8"),),
        (("kernels", "fused"),),
        (("compile", "False"),),
    ]
    held = candidates_for(
        TuneRequest(config, 256, held=frozenset({"compile", "kernels"})), Ground("cpu", "float32")
    )
    assert all(each.switches == () for each in held)


def test_other_settings_of_a_run_stay_as_they_are() -> None:
    config = gpt2(max_iters=77, learning_rate=1e-3)
    other = changed(config, batch_size=32)
    assert (other.batch_size, other.gradient_accumulation_steps) == (32, 16)
    apart = {key for key, value in other.model_dump().items() if value != getattr(config, key)}
    assert apart == {"batch_size", "gradient_accumulation_steps"}


@pytest.mark.parametrize("usable", [0.5, 1.0])
def test_where_nothing_can_fit_the_smallest_of_each_micro_batch_is_reported(usable: float) -> None:
    found = on_gpu(usable)
    assert all(each.hopeless for each in found.values())
    assert [each.batch_size for each in found.values()].count(1) == 1


def test_a_config_that_only_the_fused_way_has_is_not_tried_without_it() -> None:
    found = on_gpu(139, gpt2(residual_dtype="bfloat16"))
    assert {each.setup.kernels for each in found.values() if each.setup} == {"fused"}
    assert {each.config.residual_dtype for each in found.values()} == {"bfloat16"}


@pytest.mark.parametrize("usable", [2.5, 4, 6, 9, 24])
def test_names_tell_candidates_apart_on_every_gpu(usable: float) -> None:
    found = candidates_for(TuneRequest(gpt2(), VOCABULARY, allow_different=True), gpu(usable))
    assert len({each.name for each in found}) == len(found) == len({each.setup for each in found})
