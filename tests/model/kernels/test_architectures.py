"""Every kernel compiles for the users' cards and fits them, which takes no card.

benchmarks/kernel_architectures.py does the work, and more forms than there is time for here.
"""

import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from nanodyno.model import kernels

ROOT = Path(__file__).parents[3]
WIDTHS = (768, 1600)  # 1280 has the blocks of 1600, and 384 the kernels of 768 on half of its threads
SPILT_BYTES = 16
"""Four registers of a thread at most; what they cost on the cards concerned has not been measured."""


@pytest.fixture(scope="module")
def architectures() -> Iterator[ModuleType]:
    pytest.importorskip("triton")
    path = ROOT / "benchmarks" / "kernel_architectures.py"
    spec = importlib.util.spec_from_file_location("benchmarks_kernel_architectures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(ROOT / ".compile-cache" / "kernels"))
        yield module


@pytest.fixture(scope="module")
def launches(architectures: ModuleType) -> list[Any]:
    """The default of each width, and at one width everything else that a kernel can be asked for."""
    form = architectures.Form
    other = {"bias": True, "gelu": "tanh", "residual": torch.bfloat16, "bf16_moments": True}
    return architectures.launches(
        [form(width, recompute=level) for width in WIDTHS for level in ("none", "full")]
        + [form(768, recompute=level, **other) for level in ("none", "full")]
        + [form(768, fp8=True)]
        + [form(768, recompute="full", fp8=fp8, modern=True) for fp8 in (False, True)]
    )


def test_training_launches_every_kernel_there_is(launches: list[Any]) -> None:
    """So that a new one is not left out below. A kernel is what takes pointers; the rest are its parts."""
    from triton.runtime.jit import JITFunction

    modules = [
        importlib.import_module(f"{kernels.__name__}.{each.name}")
        for each in pkgutil.iter_modules(kernels.__path__)
    ]
    there = {
        value.__name__
        for module in modules
        for value in vars(module).values()
        if isinstance(value, JITFunction) and any(name.endswith("_ptr") for name in value.arg_names)
    }
    assert {launch.kernel.__name__ for launch in launches} == there


@pytest.mark.parametrize("capability", [80, 86, 89, 90, 120])
def test_every_kernel_compiles_for_the_architecture_and_fits_it(
    architectures: ModuleType, launches: list[Any], capability: int
) -> None:
    for launch in launches:
        if capability < launch.oldest:
            continue
        here = architectures.compiled(launch, capability)
        assert here.shared_bytes <= architectures.SHARED_BYTES[capability], str(launch)
        assert here.stack_bytes <= SPILT_BYTES, str(launch)


OF_THREE_AT_ONCE = 80
"""Registers of a thread: a multiprocessor has 65,536, and a program of the loss 256 threads."""


@pytest.mark.parametrize("capability", [86, 90])
def test_three_programs_of_the_capped_loss_run_at_once(
    architectures: ModuleType, launches: list[Any], capability: int
) -> None:
    capped = [launch for launch in launches if "CAPPED=True" in str(launch) and launch.oldest <= capability]
    assert capped
    for launch in capped:
        assert architectures.compiled(launch, capability).registers <= OF_THREE_AT_ONCE, str(launch)


EXCHANGED_BYTES = 32
"""A number of each warp, as for a sum."""


def test_no_value_changes_threads_to_be_stored_in_fp8(architectures: ModuleType, launches: list[Any]) -> None:
    """Through shared memory it would; seen on an H200 to take five times the time."""
    for launch in launches:
        if launch.oldest:  # it has fp8
            assert architectures.compiled(launch, 90).shared_bytes <= EXCHANGED_BYTES, str(launch)
