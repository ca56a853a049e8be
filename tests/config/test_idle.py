"""What does nothing beside the other settings is named with what it would need."""

from typing import Any

import pytest

from nanodyno.config import build_config
from nanodyno.config.idle import Idle, Unreached, idle_settings
from nanodyno.data.resolve import EMBEDDED
from nanodyno.messages.language import ENGLISH
from nanodyno.recipes import load_settings
from nanodyno.recipes.reading import recipe_names
from nanodyno.report.idle import idle_notes


def idle(**settings: Any) -> tuple[Idle | Unreached, ...]:
    return idle_settings(build_config({"max_iters": 100, "warmup_iters": 10} | settings), {"warmup_iters"})


@pytest.mark.parametrize(
    ("settings", "keys", "needs"),
    [
        ({"decay_lr": False, "schedule": "wsd", "min_lr": 1e-6}, ("min_lr", "schedule"), "decay_lr=True"),
        ({"schedule": "constant", "lr_decay_iters": 50}, ("lr_decay_iters",), "schedule=cosine|linear|wsd"),
        ({"dataset": "edu", "tokenizer": "bytes"}, ("tokenizer",), f"dataset={EMBEDDED}"),
        ({"kernels": "autograd", "cuda_graph": False}, ("cuda_graph",), "kernels=auto|fused"),
        ({"embedding_lr": 0.1}, ("embedding_lr",), "untied_head=True|value_embeddings=1"),
        ({"parallel": "fsdp"}, ("parallel",), "torchrun --nproc_per_node=2"),
        ({"device": "cpu", "gemm_algorithm": "torch"}, ("gemm_algorithm",), "device=cuda"),
        ({"kernels": "fused", "compile": False}, ("compile",), "kernels=autograd|optimizer=muon"),
    ],
)
def test_a_setting_without_effect_is_named_with_what_it_needs(
    settings: dict[str, Any], keys: tuple[str, ...], needs: str
) -> None:
    assert idle(**settings) == (Idle(keys, needs),)


def test_what_is_as_it_would_be_by_itself_is_no_news() -> None:
    """min_lr is a tenth of the rate and the decay as long as the run, whoever wrote them down."""
    assert idle(decay_lr=False, min_lr=6e-5, lr_decay_iters=100) == ()
    assert idle(dataset="edu", tokenizer="gpt2") == ()
    assert idle(kernels="fused", compile=False, optimizer="muon") == ()
    assert idle_settings(build_config({"decay_lr": False, "warmup_iters": 0}), {"warmup_iters"}) == ()


def test_several_processes_have_something_to_divide() -> None:
    assert idle_settings(build_config({"parallel": "fsdp"}), processes=2) == ()


def test_a_size_that_a_run_ends_before_is_reported() -> None:
    """100 iterations of 1,024 tokens are 102,400, or with 2,048 from 51,200 on 50 and 50: 153,600."""
    small = {"block_size": 64, "batch_size": 8, "tokens_per_iter": 1024}
    assert idle(**small, batch_ramp="102400:2048") == (Unreached(102_400, 102_400),)
    assert idle(**small, batch_ramp="51200:2048") == ()
    assert idle(**small, batch_ramp="51200:2048,153600:4096") == (Unreached(153_600, 153_600),)
    assert idle(**small, batch_ramp="noise") == ()


def test_no_recipe_has_any() -> None:
    for name in recipe_names():
        settings = load_settings(name)
        if settings.hours is None:
            assert idle_settings(build_config(settings.values)) == (), name


def test_each_is_one_sentence() -> None:
    found = idle(decay_lr=False, schedule="wsd", min_lr=1e-6, kernels="autograd", cuda_graph=False)
    two = {"keys": "min_lr and schedule", "needs": "decay_lr=True"}
    one = {"keys": "cuda_graph", "needs": "kernels=auto / fused"}
    assert list(idle_notes(found)) == [
        ENGLISH.say_plural("option.note.without-effect", 2, **two),
        ENGLISH.say_plural("option.note.without-effect", 1, **one),
    ]
