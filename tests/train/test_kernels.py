"""Which engine a run gets, and which settings contradict each other."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from nanodyno.config import RunConfig
from nanodyno.costs.setup import Dtype
from nanodyno.errors import NanodynoError
from nanodyno.train.autograd import AutogradEngine
from nanodyno.train.device import DeviceChoice
from nanodyno.train.fused import FusedEngine
from nanodyno.train.kernels import Way, choose_way
from nanodyno.train.trainer import Trainer

Configs = Callable[..., RunConfig]
Trainers = Callable[..., Trainer]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """What torch says of the GPU there would be."""

    def gpu(major: int, minor: int) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (major, minor))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Some Card")

    return gpu


@pytest.fixture
def _triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """To be imported, which is all that the choice asks."""
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))


@pytest.fixture
def _ampere(gpu: Callable[[int, int], None], _triton: None) -> None:
    gpu(8, 0)


def on(device: str, dtype: Dtype = "bfloat16") -> DeviceChoice:
    return DeviceChoice(torch.device(device), dtype)


@pytest.mark.parametrize(
    ("changes", "choice", "processes", "kernels", "reason"),
    [
        ({}, on("cuda"), 1, "fused", None),
        ({}, on("cuda"), 8, "fused", None),
        ({"parallel": "fsdp"}, on("cuda"), 1, "fused", None),
        ({"parallel": "fsdp"}, on("cuda"), 8, "autograd", "parallel=fsdp"),
        ({"dropout": 0.1}, on("cuda"), 1, "autograd", "dropout=0.1"),
        ({}, on("cuda", "float16"), 1, "autograd", "dtype=float16"),
        ({}, on("cuda", "float32"), 1, "autograd", "dtype=float32"),
        ({"kernels": "autograd"}, on("cuda"), 1, "autograd", None),
        ({"kernels": "autograd", "recompute": "none"}, on("cuda"), 1, "autograd", None),
        ({"kernels": "fused"}, on("cuda", "float32"), 1, "fused", None),
        ({"recompute": "full"}, on("cuda", "float32"), 1, "fused", None),
    ],
)
@pytest.mark.usefixtures("_ampere")
def test_a_gpu_gets_the_fused_kernels_where_they_can_be_had(
    config: Configs,
    changes: dict[str, Any],
    choice: DeviceChoice,
    processes: int,
    kernels: str,
    reason: str | None,
) -> None:
    way = choose_way(config(**changes), choice, processes)
    assert (way.kernels, way.triton) == (kernels, kernels == "fused")
    assert (way.note and way.note.partition(":")[0]) == reason


@pytest.mark.parametrize("changes", [{}, {"dropout": 0.1}, {"kernels": "autograd"}, {"loss_chunk_size": 3}])
@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_without_a_gpu_autograd_is_the_usual_way_and_needs_no_words(
    config: Configs, changes: dict[str, Any], device: str
) -> None:
    assert choose_way(config(**changes), on(device, "float32")) == Way("autograd", False)


@pytest.mark.parametrize(
    "changes",
    [
        {"kernels": "fused"},
        {"recompute": "light"},
        {"residual_dtype": "bfloat16"},
        {"moments_dtype": "bfloat16"},
        {"offload_moments": True},
    ],
)
def test_what_only_the_fused_way_has_brings_it_about_anywhere(
    config: Configs, changes: dict[str, Any]
) -> None:
    way = choose_way(config(**changes), on("cpu", "float32"))
    (setting,) = changes.items()
    asked = f"{setting[0]}={setting[1]}"
    start = f"{asked} uses the fused engine, but Triton has no kernels for cpu: "
    assert (way.kernels, way.triton, (way.note or "").startswith(start)) == ("fused", False, True)


@pytest.mark.usefixtures("_ampere")
def test_on_rocm_the_fused_kernels_run_only_where_they_are_asked_for(
    config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", "7.0")
    usual = choose_way(config(), on("cuda"))
    assert (usual.kernels, usual.triton) == ("autograd", False)
    assert usual.note is not None
    assert "ROCm" in usual.note
    assert choose_way(config(kernels="autograd"), on("cuda")) == Way("autograd", False)
    assert choose_way(config(kernels="fused"), on("cuda")) == Way("fused", True)


def test_on_an_apple_gpu_nothing_is_compiled(config: Configs) -> None:
    assert choose_way(config(compile=False), on("mps", "float32")) == Way("autograd", False)
    note = choose_way(config(compile=True), on("mps", "float32")).note
    assert note is not None
    assert "torch.compile" in note


@pytest.mark.parametrize("asked", ["auto", "fused"])
def test_a_missing_triton_is_reported(
    config: Configs, gpu: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    gpu(9, 0)
    way = choose_way(config(kernels=asked), on("cuda"))
    assert (way.kernels, way.triton) == ("autograd" if asked == "auto" else "fused", False)
    assert way.note is not None
    assert "Triton cannot be imported (" in way.note
    assert "pip install triton" in way.note


@pytest.mark.usefixtures("_triton")
def test_a_gpu_that_is_too_old_for_triton_is_reported(
    config: Configs, gpu: Callable[[int, int], None]
) -> None:
    gpu(7, 5)
    way = choose_way(config(kernels="fused"), on("cuda"))
    assert (way.kernels, way.triton) == ("fused", False)
    assert way.note is not None
    assert "Some Card is older than Triton's kernels need: " in way.note


@pytest.mark.parametrize(
    ("changes", "dtype", "words"),
    [
        ({"kernels": "autograd", "recompute": "light"}, "float32", "autograd cannot do recompute=light"),
        ({"kernels": "autograd", "fp8": True}, "float32", "autograd cannot do fp8=True"),
        ({"fp8": True, "n_embd": 40, "n_head": 2}, "bfloat16", "n_embd=40, which is not a multiple of 16"),
        ({"fp8": True, "vocab_size": 50257}, "bfloat16", "vocab_size=50257, which is not a multiple of 16"),
        (
            {"kernels": "autograd", "moments_dtype": "bfloat16"},
            "float32",
            "autograd cannot do moments_dtype=bfloat16",
        ),
        ({"kernels": "autograd", "offload_moments": True}, "float32", "cannot do offload_moments=True"),
        (
            {"dropout": 0.1, "residual_dtype": "bfloat16"},
            "float32",
            r"residual_dtype=bfloat16 .* dropout=0\.1",
        ),
        ({"kernels": "fused", "dropout": 0.1}, "float32", r"kernels=fused .* dropout=0\.1"),
        ({"kernels": "fused"}, "float16", "kernels=fused .* dtype=float16"),
        ({"recompute": "mlp"}, "float16", "recompute=mlp .* dtype=float16"),
        (
            {"kernels": "fused", "parallel": "fsdp"},
            "float32",
            "kernels=fused .* parallel=fsdp",
        ),
        (
            {"attention": "math", "dropout": 0.1},
            "float32",
            r"attention=math .* dropout=0\.1",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_the_users_mistake(
    config: Configs, changes: dict[str, Any], dtype: Dtype, words: str
) -> None:
    with pytest.raises(NanodynoError, match=words) as caught:
        choose_way(config(**changes), on("cpu", dtype), processes=2)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    assert "leave" in caught.value.hint


def test_the_engine_is_the_one_that_was_chosen(trainer: Trainers) -> None:
    assert isinstance(trainer().engine, AutogradEngine)
    assert isinstance(trainer(recompute="full").engine, FusedEngine)


@pytest.mark.parametrize("kernels", ["fused", "autograd"])
@pytest.mark.parametrize(
    ("attention", "words"), [("flash", "from the 'CPU' backend"), ("fa3", "flash_attn_interface")]
)
def test_an_attention_that_does_not_run_here_is_the_users_mistake(
    trainer: Trainers, kernels: str, attention: str, words: str
) -> None:
    with pytest.raises(NanodynoError, match=f"attention={attention} does not run here: .*{words}") as caught:
        trainer(kernels=kernels, attention=attention)
    assert "--attention" in (caught.value.hint or "")
    assert len(caught.value.message) < 150


def test_an_evaluation_alone_does_not_need_the_attention_of_the_run(trainer: Trainers) -> None:
    (event,) = trainer(eval_only=True, attention="flash").events()
    (usual,) = trainer(eval_only=True).events()
    assert event.model_dump(include={"val_loss"}) == usual.model_dump(include={"val_loss"})  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.usefixtures("_ampere")
def test_fp8_is_refused_on_a_gpu_without_it(config: Configs) -> None:
    with pytest.raises(NanodynoError, match=r"fp8=True .* Some Card, which has no fp8"):
        choose_way(config(fp8=True), on("cuda"))
