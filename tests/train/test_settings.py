"""What is declared of each setting is what it does, and a wrong declaration would be found.

The evidence is made once: trainings that differ in one setting, and configs built of it. `faults` holds the
declarations to it, and to expectations written here by hand where a CPU shows nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import pytest

from nanodyno.analysis.candidates import Ground, TuneRequest, candidates_for
from nanodyno.config import SETTINGS, ConfigError, ModelShape, RunConfig, accepts, build_config
from nanodyno.config.attributes import (
    Arithmetic,
    Asker,
    Attributes,
    Group,
    InExperiment,
    OnResume,
    SettingEffect,
)
from nanodyno.hardware.gpus import gpu_named
from settings_evidence import AMOUNTS, PLAIN, SAMPLES, Evidence, operations_of

UNSEEN = {
    "tokenizer": "loss", "bad_update": "loss", "spike_zscore": "loss", "init_from": "loss", "eval_only": "",
    **dict.fromkeys(("device", "threads", "compile", "gemm_algorithm", "recompute"), "speed memory"),
    **dict.fromkeys(("cuda_graph", "offload_moments", "parallel"), "speed memory"),
}  # fmt: skip
"""What settings affect that a short training on a CPU does not show."""
GROUPS: dict[Group, str] = {
    "model": "n_layer n_head n_embd block_size vocab_size bias gelu",
    "modern": "positions rope_base norm activation qk_norm n_kv_head window window_pattern value_embeddings "
    "untied_head logit_softcap",
    "initialization": "zero_init embedding_init seed init_from",
    "batch": "batch_size gradient_accumulation_steps tokens_per_iter batch_ramp",
    "schedule": "learning_rate min_lr warmup_iters lr_decay_iters max_iters decay_lr schedule "
    "wsd_decay_fraction",
    "optimizer": "optimizer beta1 beta2 muon_lr muon_momentum embedding_lr bad_update spike_zscore",
    "regularization": "dropout weight_decay grad_clip cautious_decay",
    "data": "dataset tokenizer",
    "evaluation": "eval_interval eval_tokens eval_iters eval_only",
    "precision": "dtype residual_dtype moments_dtype fp8",
    "system": "device threads compile kernels attention gemm_algorithm loss_chunk_size recompute cuda_graph "
    "offload_moments parallel",
    "record": "log_interval keep_checkpoints out_dir",
}
NANOGPT: dict[str, Any] = {
    "out_dir": "out", "eval_interval": 2000, "log_interval": 1, "eval_iters": 200, "eval_only": False,
    "always_save_checkpoint": True, "init_from": "scratch", "wandb_log": False, "wandb_project": "owt",
    "wandb_run_name": "gpt2", "dataset": "openwebtext", "gradient_accumulation_steps": 40, "batch_size": 12,
    "block_size": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "dropout": 0.0, "bias": False,
    "learning_rate": 6e-4, "max_iters": 600000, "weight_decay": 1e-1, "beta1": 0.9, "beta2": 0.95,
    "grad_clip": 1.0, "decay_lr": True, "warmup_iters": 2000, "lr_decay_iters": 600000, "min_lr": 6e-5,
    "backend": "nccl", "device": "cuda", "dtype": "bfloat16", "compile": True,
}  # fmt: skip
"""The settings of nanoGPT's train.py."""
OF_THE_MACHINE = {"out_dir", "device", "dtype"}
"""Of nanoGPT's, those that a file which leaves them out leaves to us."""
FIXED = {*ModelShape.model_fields, "optimizer", "seed", "dataset", "tokenizer"} - {"dropout"}
"""A checkpoint fits no other model, and a position in the data means nothing in another order."""
OF_THE_COMMAND = {"init_from", "out_dir", "eval_only", "log_interval", "keep_checkpoints"}
NONE_MEANS = {
    "n_kv_head": "n_head", "muon_lr": "learning_rate", "embedding_lr": "learning_rate", "window": "none",
    "logit_softcap": "none", "batch_ramp": "none", "vocab_size": "dataset's", "out_dir": "runs/NAME",
    "eval_iters": "eval_tokens", "threads": "torch's choice", "loss_chunk_size": "by memory",
}  # fmt: skip
TOLD_APART: dict[str, InExperiment] = {
    "device": "place", "out_dir": "place", "init_from": "place", "batch_ramp": "untimed", "seed": "held",
    "eval_tokens": "held", "eval_iters": "held", "parallel": "held",
}  # fmt: skip
ASKED: dict[Asker, str] = {
    "import": "n_layer n_head n_embd block_size vocab_size bias batch_size gradient_accumulation_steps "
    "learning_rate",
    "compare": "n_layer n_head n_embd block_size batch_size gradient_accumulation_steps learning_rate dtype "
    "compile dataset",
}
PARTS = {"batch_ramp": "tokens_per_iter", "tokenizer": "dataset", "vocab_size": "dataset",
         "bad_update": "spike_zscore"}  # fmt: skip
"""Settings that are one change with another which neither gives their value nor is required by them."""
UNMET: dict[str, tuple[str, dict[str, Any]]] = {
    "gelu": ("activation=gelu", {"activation": "relu2", "learning_rate": 0.1}),
    "cautious_decay": ("weight_decay", {"weight_decay": 0.0}),
    "moments_dtype": ("optimizer=adamw", {}),
    "offload_moments": ("optimizer=adamw", {}),
}
"""Requirements that PLAIN meets, and what leaves one unmet where a training then shows it."""
CONDITIONS: dict[str, dict[str, Any]] = {
    "decay_lr=True": {"decay_lr": False},
    "schedule=cosine|linear|wsd": {"schedule": "constant"},
}
"""Conditions of the schedule, and what leaves them unmet."""
OTHER_CONDITIONS = {
    "embedding_lr": {"untied_head=True|value_embeddings=1"},
    "tokenizer": {"dataset=python"},
    "gemm_algorithm": {"kernels=auto|fused", "device=cuda"},
    "cuda_graph": {"kernels=auto|fused", "device=cuda"},
    "compile": {"kernels=autograd|optimizer=muon"},
    "parallel": {"torchrun --nproc_per_node=2"},
}


@dataclass(frozen=True)
class Found:
    """What the evidence says."""

    affects: Mapping[str, set[str]]
    amount_affects: Mapping[str, set[str]]
    sources: Mapping[str, set[str]]
    pairs: Mapping[str, str]
    requires: Mapping[str, str]
    idle: Mapping[str, set[str]]
    tuned: set[str]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nanodyno.train.collector.gc.collect", lambda: 0)  # most of a tiny training's time
        yield Evidence(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def found(evidence: Evidence) -> Found:
    return Found(
        {**{key: set(words.split()) for key, words in UNSEEN.items()}, **_affects(evidence)},
        {key: _of_amounts(evidence, key) for key in AMOUNTS},
        {key: set(_sources(key)) for key, info in RunConfig.model_fields.items() if info.is_required()},
        dict(_pairs()),
        dict(_requirements(evidence)),
        {key: set(_conditions(evidence, key)) for key in GROUPS["schedule"].split()} | OTHER_CONDITIONS,
        _tuned(),
    )


def _affects(evidence: Evidence) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, (base, value) in SAMPLES.items():
        before, after = _pair_of_configs(key, base, value)
        found[key] = evidence.effects(evidence.outcome(before), evidence.outcome(after))
        if key in ModelShape.model_fields:
            shapes = [config.model_shape(config.vocab_size or 320) for config in (before, after)]
            if operations_of(shapes[0]) != operations_of(shapes[1]):
                found[key].add("work")
    return found


def _pair_of_configs(key: str, base: dict[str, Any], value: Any) -> tuple[RunConfig, RunConfig]:
    changes = value if isinstance(value, dict) else {key: value}
    return build_config(PLAIN | base), build_config(PLAIN | base | changes)


def _of_amounts(evidence: Evidence, key: str) -> set[str]:
    layers = {"n_layer": 4} if key == "value_embeddings" else {}
    one, other = (evidence.of(**layers, **{key: amount}) for amount in AMOUNTS[key])
    return evidence.effects(one, other)


NUMBERS = [key for key in RunConfig.model_fields if accepts(key, 4) and not accepts(key, "4")]


def _sources(derived: str) -> Iterator[str]:
    """The settings whose value changes that of `derived`, which is left out."""
    for given in ({}, {"tokens_per_iter": 2**19}, {"eval_iters": 4}):
        base: dict[str, Any] = {"batch_size": 4} | given
        base.pop(derived, None)
        before = dict(build_config(base))
        for key in set(NUMBERS) - {derived}:
            doubled = (before[key] or 2) * 2
            try:
                after = build_config(base | {key: doubled})
            except ConfigError:
                continue
            if getattr(after, derived) != before[derived]:
                yield key


def _pairs() -> Iterator[tuple[str, str]]:
    """Settings of which 3 makes another one 3 micro-batches of tokens."""
    for key in NUMBERS:
        try:
            config = build_config({"batch_size": 8, "block_size": 256} | {key: 3})
        except ConfigError:
            continue
        yield from ((key, other) for other in NUMBERS if getattr(config, other) == 3 * 8 * 256)


def _requirements(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What a setting needs to have an effect; the rules of `build_config` are passed by."""
    for key, (base, _) in SAMPLES.items():
        needed, value = next(iter(base.items()), ("", None))
        if needed in ("positions", "window", "schedule", "optimizer") and _does_nothing(evidence, key, {}):
            yield key, needed if needed == "window" else f"{needed}={value}"
    for key, (needed, unmet) in UNMET.items():
        assert not unmet or _does_nothing(evidence, key, unmet), key
        yield key, needed


def _conditions(evidence: Evidence, key: str) -> Iterator[str]:
    """max_iters never acts here, and wsd's share goes with its schedule."""
    for condition, unmet in CONDITIONS.items():
        acts = key not in ("max_iters", "wsd_decay_fraction", *unmet)
        if acts and _does_nothing(evidence, key, unmet):
            yield condition


def _does_nothing(evidence: Evidence, key: str, changes: dict[str, Any]) -> bool:
    """To a loss: another implementation may do the same."""
    before = build_config(PLAIN | changes)
    after = before.model_copy(update={key: SAMPLES[key][1]})
    return "loss" not in evidence.effects(evidence.outcome(before), evidence.outcome(after))


def _tuned() -> set[str]:
    """What `tune` changes in any of its candidates: on a GPU with either engine, and on a CPU."""
    gpu = gpu_named("H200")
    grounds = [
        Ground("cuda", "bfloat16", gpu, 139 << 30, has_triton=True, has_fp8=True),
        Ground("cuda", "bfloat16", gpu, 8 << 30, has_triton=True, has_fp8=True),
        Ground("cuda", "bfloat16", gpu, 139 << 30),
        Ground("cpu", "float32", threads=(1, 2)),
    ]
    config = build_config({"tokens_per_iter": 2**17, "batch_size": 8})
    found = [
        each.config
        for ground in grounds
        for kernels in ("auto", "autograd")
        for each in candidates_for(
            TuneRequest(config.model_copy(update={"kernels": kernels}), 50304, allow_different=True), ground
        )
    ]
    varied = {key for key in RunConfig.model_fields if len({getattr(each, key) for each in found}) > 1}
    return varied - {"gradient_accumulation_steps"}


def faults(declared: Mapping[str, Attributes], found: Found) -> list[str]:
    """Where declarations are not as the evidence and the expectations have them, as setting.attribute."""
    return [
        f"{key}.{name}"
        for key, each in declared.items()
        for name, expected in _expected(key, found).items()
        if getattr(each, name) != expected
    ]


def _expected(key: str, found: Found) -> dict[str, Any]:
    """Every attribute of a setting, but former names."""
    info = RunConfig.model_fields[key]
    amounts, sources = found.amount_affects.get(key), found.sources.get(key, set())
    first = next((pair for pair in (*found.pairs, *found.pairs.values()) if pair in sources), None)
    others = [each for each in ("batch_size", "block_size") if each in sources]
    derived = (first, *others) if first else tuple(sources)
    requires = found.requires.get(key)
    leader = requires if requires and requires not in ("optimizer=adamw", "weight_decay") else None
    sole = derived[0] if len(derived) == 1 else None
    same = key not in NANOGPT or key in OF_THE_MACHINE or info.default == NANOGPT[key]
    return {
        "group": next(group for group, keys in GROUPS.items() if key in keys.split()),
        "affects": found.affects[key],
        "arithmetic": "different"
        if "loss" in found.affects[key]
        else "exact"
        if not found.affects[key] or key == "offload_moments"  # the same numbers in another place
        else "rounding",
        "amount_affects": amounts if amounts != found.affects[key] - {"work"} else None,
        "on_resume": "fixed" if key in FIXED else "command" if key in OF_THE_COMMAND else "free",
        "nanogpt": key in NANOGPT,
        "nanogpt_default": None if same or key == "gradient_accumulation_steps" else NANOGPT[key],
        "derived_from": derived,
        "pair": found.pairs.get(key),
        "part_of": PARTS.get(key) or sole or (leader.partition("=")[0] if leader else None),
        "requires": requires,
        "idle_unless": tuple(sorted(found.idle.get(key, ()), key=list(CONDITIONS).index))
        if key not in OTHER_CONDITIONS
        else _as_declared(key, found),
        "none_means": NONE_MEANS.get(key),
        "in_experiment": TOLD_APART.get(key, "varied"),
        "tuned": key in found.tuned,
        "autograd_only": key in ("n_kv_head", "window"),
        "asked_by": {who for who, keys in ASKED.items() if key in keys.split()},
    }


def _as_declared(key: str, found: Found) -> tuple[str, ...]:
    order = ("kernels=auto|fused", "device=cuda")
    return tuple(sorted(found.idle[key], key=lambda each: order.index(each) if each in order else 0))


def test_every_setting_is_what_it_is_declared_to_be(found: Found) -> None:
    assert faults(SETTINGS, found) == []


def test_every_attribute_is_looked_at(found: Found) -> None:
    assert {*_expected("n_layer", found), "aliases"} == {each.name for each in fields(Attributes)}
    assert found.affects.keys() == RunConfig.model_fields.keys()


def _others(name: str, value: Any) -> list[Any]:
    """Other values of an attribute, each of which is wrong."""
    choices = {"group": Group, "arithmetic": Arithmetic, "on_resume": OnResume, "in_experiment": InExperiment}
    match name:
        case "group" | "arithmetic" | "on_resume" | "in_experiment":
            return [each for each in get_args(choices[name]) if each != value]
        case "affects":
            return [value ^ {each} for each in get_args(SettingEffect)]
        case "asked_by":
            return [value ^ {each} for each in get_args(Asker)]
        case "nanogpt" | "tuned" | "autograd_only":
            return [not value]
        case "derived_from" | "idle_unless":
            return [value[1:] if value else ("decay_lr=True",), (*value, "max_iters")]
        case _:
            return [None if value else "window", "n_layer"]


def test_any_wrong_attribute_of_any_setting_is_found(found: Found) -> None:
    count = 0
    for key, each in SETTINGS.items():
        for name in _expected(key, found):
            for other in _others(name, getattr(each, name)):
                count += 1
                wrong = {**SETTINGS, key: replace(each, **{name: other})}
                assert faults(wrong, found) == [f"{key}.{name}"], other
    assert count > 2000


def test_none_is_the_setting_that_it_stands_for(evidence: Evidence) -> None:
    bases = {"n_kv_head": {}, "muon_lr": {"optimizer": "muon"}, "embedding_lr": {"untied_head": True}}
    assert bases.keys() == {
        key for key, meaning in NONE_MEANS.items() if meaning in PLAIN and key != "eval_iters"
    }
    for key, base in bases.items():
        meant = PLAIN[NONE_MEANS[key]]
        one, other = evidence.of(**base), evidence.of(**base, **{key: meant})
        assert one.losses == pytest.approx(other.losses, abs=1e-6), key
