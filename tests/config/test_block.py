"""Settings of the modern block that contradict each other are told, all at once."""

import pytest

from nanodyno.config import ConfigError, build_config


def faults_of(**settings: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        build_config(settings)
    return list(caught.value.faults)


def test_nothing_given_is_gpt2() -> None:
    config = build_config({})
    assert config.fused_unsupported is None
    assert config.model_shape(50304).is_gpt2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("positions", "rope"),
        ("norm", "rms"),
        ("activation", "relu2"),
        ("qk_norm", True),
        ("n_kv_head", 3),
        ("window", 8),
        ("value_embeddings", 1),
        ("untied_head", True),
        ("logit_softcap", 9.0),
    ],
)
def test_every_part_alone_makes_another_model(key: str, value: object) -> None:
    config = build_config({key: value})
    assert not config.model_shape(64).is_gpt2
    assert config.fused_unsupported == (f"{key}={value}" if key in ("n_kv_head", "window") else None)


@pytest.mark.parametrize(
    ("key", "value"), [("optimizer", "muon"), ("embedding_lr", 0.1), ("cautious_decay", True)]
)
def test_another_update_leaves_the_model(key: str, value: object) -> None:
    config = build_config({key: value})
    assert config.fused_unsupported is None
    assert config.model_shape(64).is_gpt2


def test_where_it_begins_leaves_the_model_gpt2() -> None:
    config = build_config({"zero_init": True, "embedding_init": 0.5})
    assert config.fused_unsupported is None
    assert config.model_shape(64).is_gpt2


def test_all_faults_of_a_block_are_reported_at_once() -> None:
    faults = faults_of(
        n_kv_head=5, window=4000, logit_softcap=0, kernels="fused", muon_lr=1, activation="relu2", gelu="tanh"
    )
    assert [fault.partition(":")[0] for fault in faults] == [
        "logit_softcap", "gelu", "muon_lr", "n_kv_head", "window", "kernels",
    ]  # fmt: skip


def test_a_decay_that_never_comes_is_refused_with_how_to_leave_it_out() -> None:
    for settings, needed, instead in (
        ({"wsd_decay_fraction": 0.4}, "schedule=wsd", "wsd_decay_fraction=0.2"),
        ({"cautious_decay": True, "weight_decay": 0.0}, "weight_decay", "cautious_decay=False"),
    ):
        (fault,) = faults_of(**settings)
        assert fault.startswith(f"{next(iter(settings))}: ")
        assert f"without {needed}" in fault
        assert instead in fault
    assert build_config({"schedule": "wsd", "wsd_decay_fraction": 0.4, "cautious_decay": True})


@pytest.mark.parametrize("cap", [0, -15.0])
def test_a_cap_that_leaves_no_logits_is_refused(cap: float) -> None:
    assert faults_of(logit_softcap=cap) == [f"logit_softcap: must be a number above 0, not {cap}"]


def test_heads_that_cannot_share_are_refused_with_those_that_can() -> None:
    assert faults_of(n_kv_head=5) == ["n_kv_head: 5 does not divide n_head=12; use 1, 2, 3, 4, 6 or 12"]
    assert build_config({"n_kv_head": 4}).model_shape(64).kv_width == 4 * 64


def test_a_window_may_be_the_whole_block_and_no_more() -> None:
    assert build_config({"window": 1024}).window == 1024
    (fault,) = faults_of(window=1025)
    assert fault.startswith("window: 1025 is larger than block_size=1024")


@pytest.mark.parametrize(
    "settings",
    [
        {"rope_base": 500.0},
        {"muon_lr": 0.02},
        {"muon_momentum": 0.9},
        {"window_pattern": "SL"},
        {"activation": "relu2", "gelu": "tanh"},
    ],
)
def test_a_setting_that_says_nothing_is_refused(settings: dict[str, object]) -> None:
    (fault,) = faults_of(**settings)
    assert "no effect" in fault


@pytest.mark.parametrize(("key", "without"), [("muon_lr", "None"), ("muon_momentum", "0.95")])
def test_what_a_recipe_sets_in_vain_is_reported_how_to_leave_out(key: str, without: str) -> None:
    (fault,) = faults_of(**{key: 0.02})
    assert f"({key}={without} where a recipe sets it)" in fault


def test_a_pattern_is_of_two_letters() -> None:
    (fault,) = faults_of(window=8, window_pattern="SX")
    assert fault.endswith("not 'SX'")


def test_more_value_embeddings_than_half_the_blocks_are_refused() -> None:
    (fault,) = faults_of(value_embeddings=7)
    assert fault == "value_embeddings: 7 tables need 14 blocks, but n_layer=12; 6 is the most"


def test_heads_of_an_odd_size_cannot_be_turned_in_pairs() -> None:
    (fault,) = faults_of(positions="rope", n_embd=15, n_head=3)
    assert fault.startswith("positions: ")


def test_what_is_done_to_adamws_moments_is_not_done_to_muons() -> None:
    faults = faults_of(optimizer="muon", moments_dtype="bfloat16", offload_moments=True)
    assert [fault.partition(":")[0] for fault in faults] == ["moments_dtype", "offload_moments"]


def test_a_backend_without_a_window_or_without_shared_heads_is_refused() -> None:
    assert faults_of(window=8, attention="cudnn")[0].startswith("attention: cudnn ")
    assert faults_of(n_kv_head=6, attention="efficient")[0].startswith("attention: efficient ")
    assert build_config({"window": 8, "n_kv_head": 6, "attention": "flex"}).attention == "flex"


def test_the_fused_kernels_refuse_by_name_what_they_do_not_know() -> None:
    assert faults_of(kernels="fused", window=8) == [
        "kernels: fused does not support window=8; leave one of them out"
    ]


def test_windows_follow_the_pattern_over_the_blocks() -> None:
    shape = build_config({"window": 8, "n_layer": 6, "window_pattern": "SSL"}).model_shape(64)
    assert shape.windows == (8, 8, None, 8, 8, None)
    assert shape.blocks_by_window == {8: 4, None: 2}
    odd = build_config({"window": 8, "n_layer": 5, "window_pattern": "SL"}).model_shape(64)
    assert {each: odd.windows.count(each) for each in (8, None)} == odd.blocks_by_window == {8: 3, None: 2}
    assert build_config({"n_layer": 2}).model_shape(64).windows == (None, None)


def test_the_first_and_the_last_blocks_share_value_embeddings() -> None:
    shape = build_config({"value_embeddings": 2, "n_layer": 5}).model_shape(64)
    assert shape.value_tables == (0, 1, None, 0, 1)
    assert build_config({"n_layer": 2}).model_shape(64).value_tables == (None, None)
