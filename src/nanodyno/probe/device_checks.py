"""Device checks, each a task: what torch finds of the device, whether it compiles, what its ceilings are."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from nanodyno.config import build_config
from nanodyno.hardware.ceilings import Ceilings
from nanodyno.probe.ceilings import measure_ceilings
from nanodyno.probe.checkup import DeviceRequest
from nanodyno.probe.child import Report
from nanodyno.records.checkup import CompileRecord, DeviceRecord
from nanodyno.train.attention import try_attention
from nanodyno.train.device import DTYPES, Clock, DeviceChoice, choose, describe_machine, on_rocm
from nanodyno.train.engine import last_words
from nanodyno.train.kernels import OLDEST_FP8, why_no_triton

GPU_SHAPE, HOST_SHAPE = (8, 12, 1024, 64), (1, 2, 128, 64)
"""Of attention: B, H, T, K. On a GPU a micro-batch of 8 of GPT-2 124M."""
OLDEST_FLOAT16 = (5, 3)


def device(requests: Iterator[bytes], report: Report) -> Iterator[DeviceRecord]:
    choice, _ = _chosen(requests)
    report("checking", "torch and the device")  # which is there: `choose` would have refused another
    yield describe_device(choice)


def compiler(requests: Iterator[bytes], _: Report) -> Iterator[CompileRecord]:
    yield try_compile(_chosen(requests)[0].device)


def ceilings(requests: Iterator[bytes], report: Report) -> Iterator[Ceilings]:
    choice, widths = _chosen(requests)
    yield measure_ceilings(choice.device, choice.dtype, widths, lambda words: report("measuring", words))


def _chosen(requests: Iterator[bytes]) -> tuple[DeviceChoice, tuple[int, ...]]:
    request = DeviceRequest.model_validate_json(next(requests))
    choice = choose(build_config({"device": request.device, "compile": False}))
    if choice.device.type == "cuda":
        torch.cuda.set_device(choice.device)
    return choice, request.widths


def describe_device(choice: DeviceChoice) -> DeviceRecord:
    device = choice.device
    on_gpu = device.type == "cuda"
    properties = torch.cuda.get_device_properties(device) if on_gpu else None
    capability = torch.cuda.get_device_capability(device) if on_gpu else None
    shape = GPU_SHAPE if on_gpu else HOST_SHAPE
    seconds, faults = try_attention(shape, DTYPES[choice.dtype], device)
    return DeviceRecord(
        machine=describe_machine(device),
        uuid=None if properties is None else str(properties.uuid),
        visible=tuple(torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())),
        free_bytes=torch.cuda.mem_get_info(device)[0] if on_gpu else None,
        reserved_bytes=torch.cuda.memory_reserved(device) if on_gpu else None,
        torch=torch.__version__,
        cuda=torch.version.cuda or torch.version.hip,
        rocm=on_rocm(),
        built_for=tuple(torch.cuda.get_arch_list()),
        cudnn=torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        triton=_triton_version(),
        no_triton=why_no_triton(device),
        dtype=choice.dtype,
        bfloat16=on_gpu and torch.cuda.is_bf16_supported(including_emulation=False),
        float16=capability is not None and capability >= OLDEST_FLOAT16,
        fp8=capability is not None and not on_rocm() and capability >= OLDEST_FP8,
        attention_seconds=seconds,
        attention_faults=faults,
        attention_shape=shape,
    )


def _triton_version() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return triton.__version__


@contextmanager
def _no_caches() -> Iterator[None]:
    """An answer from last week would say nothing about the compiler of today."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": folder}
        yield


def _expected(x: Tensor) -> Tensor:
    return 2 * x * (x * x).cos()


def try_compile(device: torch.device) -> CompileRecord:
    """For real: forward and backward of a little function whose result is known."""
    clock = Clock(device)
    began = clock.seconds()
    x = torch.linspace(-1.0, 1.0, 1024, device=device, requires_grad=True)
    try:
        with _no_caches():
            torch.compile(lambda each: (each * each).sin().sum(), dynamic=False)(x).backward()
    except Exception as error:
        return CompileRecord(works=False, seconds=clock.seconds() - began, words=last_words(error))
    assert x.grad is not None
    right = torch.allclose(x.grad, _expected(x.detach()))
    words = None if right else "what it compiled computes something else"
    return CompileRecord(works=right, seconds=clock.seconds() - began, words=words)
