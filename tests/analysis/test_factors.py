from typing import Any

import pytest

from nanodyno.analysis.factors import Infeasible, design_of, with_length
from nanodyno.config import RunConfig, build_config
from nanodyno.errors import NanodynoError

NARROW: dict[str, Any] = {
    "n_layer": 12, "n_embd": 384, "batch_size": 16, "tokens_per_iter": 524_288, "learning_rate": 1e-3,
}  # fmt: skip


def build(**changes: Any) -> RunConfig:
    return build_config(NARROW | changes)


def test_the_case_has_two_factors_and_a_learning_rate_that_moves_no_speed() -> None:
    design = design_of(build(), build(n_embd=768, batch_size=8, learning_rate=3e-4), "tokens_per_second")
    assert [each.name for each in design.factors] == ["n_embd", "batch_size"]
    assert design.factors[0].after == {"n_head": 12, "n_embd": 768}
    assert [each.key for each in design.inert] == ["learning_rate", "min_lr"]
    combination = design.config(0b10)
    assert isinstance(combination, RunConfig)
    assert (combination.n_embd, combination.n_head, combination.batch_size) == (384, 6, 8)
    assert (combination.gradient_accumulation_steps, combination.tokens_per_iter) == (64, 524_288)
    assert design.settings(0b01) == {"n_embd": 768, "batch_size": 16}
    last = design.config(0b11)
    assert isinstance(last, RunConfig)
    assert (last.n_embd, last.batch_size, last.learning_rate) == (768, 8, 1e-3)


def test_of_the_loss_it_is_the_other_way_round() -> None:
    design = design_of(build(), build(batch_size=8, learning_rate=3e-4), "val_loss")
    assert [each.name for each in design.factors] == ["learning_rate"]
    assert [each.key for each in design.inert] == ["batch_size"]


def test_at_equal_time_what_moves_the_speed_moves_the_loss() -> None:
    after = build(batch_size=8, learning_rate=3e-4, log_interval=5)
    design = design_of(build(), after, "val_loss", equal="time")
    assert [each.name for each in design.factors] == ["batch_size", "learning_rate"]
    assert [each.key for each in design.inert] == ["log_interval"]


def test_what_follows_a_setting_is_ignored_with_it() -> None:
    """12 heads at 384 are no change that anyone made."""
    design = design_of(build(), build(n_embd=768, batch_size=8), "tokens_per_second", ignored=["n_embd"])
    assert [each.keys for each in design.factors] == [("batch_size",)]
    assert {each.key for each in design.ignored} == {"n_embd", "n_head"}


def test_groups_and_what_is_ignored() -> None:
    after = build(n_embd=768, batch_size=8, n_layer=6)
    grouped = design_of(build(), after, "tokens_per_second", groups=[["n_embd", "batch_size"]])
    assert [each.name for each in grouped.factors] == ["n_layer", "n_embd+batch_size"]
    left = design_of(build(), after, "tokens_per_second", ignored=["n_layer"])
    assert [each.name for each in left.factors] == ["n_embd", "batch_size"]
    assert [each.key for each in left.ignored] == ["n_layer"]
    last = left.config(0b11)
    assert isinstance(last, RunConfig)
    assert last.n_layer == 12


def test_a_combination_that_is_no_config_is_a_result() -> None:
    """12,288 tokens are 4 x 3 sequences of 1024 or 4 x 2 of 1536; of the latter no micro-batch has 3."""
    before = build(batch_size=3, tokens_per_iter=12_288)
    after = build(batch_size=2, block_size=1536, tokens_per_iter=12_288)
    design = design_of(before, after, "tokens_per_second")
    combination = design.config(0b01)
    assert isinstance(combination, Infeasible)
    assert "12288 is not a multiple of batch_size * block_size = 4608" in combination.words
    assert isinstance(design.config(0b10), RunConfig)


def test_a_dataset_moves_speed_by_its_vocabulary_alone() -> None:
    other = build(dataset="edu", n_layer=6)
    assert len(design_of(build(), other, "tokens_per_second").factors) == 2
    alike = design_of(build(), other, "tokens_per_second", same_vocabulary=True)
    assert [each.name for each in alike.factors] == ["n_layer"]
    assert [each.key for each in alike.inert] == ["dataset"]


def test_clipping_costs_time_or_none_however_much_it_clips() -> None:
    with pytest.raises(NanodynoError, match="grad_clip, which cannot affect the speed"):
        design_of(build(), build(grad_clip=2.0), "tokens_per_second")
    assert design_of(build(), build(grad_clip=0.0), "tokens_per_second").factors[0].name == "grad_clip"


def test_of_the_modern_block_what_costs_no_time_is_inert_for_the_speed() -> None:
    """A cap costs the same whatever it is; where a rotation or a matrix begins costs nothing."""
    before = build(positions="rope", optimizer="muon", muon_lr=1e-3, logit_softcap=30.0)
    after = build(
        positions="rope", rope_base=5e5, optimizer="muon", muon_lr=2e-3, logit_softcap=15.0, zero_init=True,
        qk_norm=True,
    )  # fmt: skip
    design = design_of(before, after, "tokens_per_second")
    assert [each.name for each in design.factors] == ["qk_norm"]
    assert {each.key for each in design.inert} == {"rope_base", "muon_lr", "logit_softcap", "zero_init"}
    capped = design_of(build(), build(logit_softcap=15.0), "tokens_per_second")
    assert [each.name for each in capped.factors] == ["logit_softcap"]


def test_settings_that_say_nothing_without_another_are_one_change_with_it() -> None:
    """Of muon_lr without optimizer=muon, or a pattern without a window, no corner would be a config."""
    after = build(
        optimizer="muon", muon_lr=2e-3, window=256, window_pattern="SL", activation="relu2", schedule="wsd",
        wsd_decay_fraction=0.4,
    )  # fmt: skip
    design = design_of(build(gelu="tanh"), after, "val_loss")
    assert [each.name for each in design.factors] == ["activation", "window", "optimizer", "schedule"]
    assert all(isinstance(design.config(combination), RunConfig) for combination in range(16))


def test_what_has_no_answer_is_refused_with_what_would_have_one() -> None:
    with pytest.raises(NanodynoError, match="the same in every setting"):
        design_of(build(), build(), "tokens_per_second")
    with pytest.raises(NanodynoError, match="learning_rate, min_lr, which") as inert:
        design_of(build(), build(learning_rate=1e-4), "tokens_per_second")
    assert "--metric val_loss" in (inert.value.hint or "")
    with pytest.raises(NanodynoError, match="not comparable"):
        design_of(build(), build(dataset="edu"), "val_loss")
    with pytest.raises(NanodynoError, match="n_emb: unknown setting"):
        design_of(build(), build(n_layer=6), "tokens_per_second", ignored=["n_emb"])


def test_more_than_eight_changes_say_what_to_group() -> None:
    many = build(
        n_layer=6, n_embd=768, block_size=512, bias=True, dropout=0.1, batch_size=8, dtype="float32",
        compile=False, kernels="autograd",
    )  # fmt: skip
    with pytest.raises(NanodynoError, match=r"9 \(at most 8\)") as refused:
        design_of(build(), many, "tokens_per_second")
    assert refused.value.hint is not None
    assert "--group compile,kernels" in refused.value.hint


def test_a_ramp_moves_the_speed_of_a_run_and_none_that_is_timed() -> None:
    after = build(n_layer=6, tokens_per_iter=262_144, batch_ramp="100M:524288", learning_rate=1e-4)
    design = design_of(build(), after, "tokens_per_second")
    assert [each.key for each in design.untimed] == ["batch_ramp"]
    assert [each.key for each in design.inert] == ["learning_rate", "min_lr"]
    with pytest.raises(NanodynoError, match="differ in batch_ramp"):
        design_of(build(), build(batch_ramp="100M:1048576"), "tokens_per_second")


def test_what_every_combination_has_alike_is_reported_and_not_called_inert() -> None:
    """Seeds move a loss, and here all corners have the same ones; one process shares nothing."""
    after = build(learning_rate=1e-4, seed=7, eval_tokens=4096, log_interval=5, parallel="fsdp")
    design = design_of(build(), after, "val_loss")
    assert [each.key for each in design.alike] == ["seed", "eval_tokens"]
    assert [each.key for each in design.inert] == ["log_interval", "parallel"]
    timed = design_of(build(), build(n_layer=6, seed=7, parallel="fsdp"), "tokens_per_second")
    assert ([each.key for each in timed.alike], [each.key for each in timed.inert]) == (
        ["parallel"],
        ["seed"],
    )
    with pytest.raises(NanodynoError, match=r"the same in every measurement \(seed\)"):
        design_of(build(), build(seed=7, log_interval=5), "val_loss")


def test_skipping_leaps_is_one_change_with_what_counts_as_one() -> None:
    """With the leaps of the one and the stop of the other, a corner would end before its time."""
    (factor,) = design_of(build(), build(spike_zscore=6.0, bad_update="skip"), "val_loss").factors
    assert (factor.name, set(factor.keys)) == ("spike_zscore", {"bad_update", "spike_zscore"})


def test_a_ramp_is_one_change_with_the_batch() -> None:
    after = build(tokens_per_iter=262_144, batch_ramp="100M:524288")
    (factor,) = design_of(build(), after, "val_loss").factors
    assert (factor.name, factor.keys) == ("tokens_per_iter", ("tokens_per_iter", "batch_ramp"))


def test_a_ramp_by_noise_has_no_loss_at_equal_tokens() -> None:
    with pytest.raises(NanodynoError, match="batch_ramp=noise"):
        design_of(build(), build(batch_ramp="noise"), "val_loss")


def test_a_shorter_run_grows_at_the_same_shares() -> None:
    """19,073 iterations with a ramp from 1B tokens on, made 1,907: from about 100M on."""
    whole = build(batch_ramp="1B:1048576", max_iters=19_073)
    assert with_length(whole, 19_073).batch_ramp == "1B:1048576"
    short = with_length(whole, 1907)
    assert short.batch_ramp is not None
    assert short.ramp.steps == ((round(1e9 * 1907 / 19_073), 1_048_576),)
