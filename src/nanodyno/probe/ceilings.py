"""What a device can do at the most: products of matrices, copies, launches. Runs in the child."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from nanodyno.config import RunConfig, build_config
from nanodyno.costs.setup import Dtype
from nanodyno.hardware.ceilings import Ceilings, Matmul, Timing
from nanodyno.probe.timing import TimingLimits, sampled, timed, timed_alone
from nanodyno.records.ceilings import device_of
from nanodyno.records.events import Notify
from nanodyno.train.device import (
    DTYPES,
    Clock,
    DeviceChoice,
    describe_machine,
    free_cached_memory,
    is_out_of_memory,
)
from nanodyno.train.kernels import choose_way, make_engine
from nanodyno.train.processes import Processes

T = TypeVar("T")

GPT2_VOCABULARY = 50304
MICRO_STEPS = 5
LAUNCHES = 500
LAYERS = 12


@dataclass(frozen=True)
class Sizes:
    """Large enough for the device, and small enough for the time there is."""

    square: int
    square_float32: int
    rows: int
    """Tokens of a micro-batch."""
    head_rows: int
    """Logits take memory: the trainer makes some thousand rows at a time too."""
    copy_bytes: int


GPU = Sizes(square=8192, square_float32=4096, rows=8192, head_rows=4096, copy_bytes=2**28)
HOST = Sizes(square=1024, square_float32=1024, rows=512, head_rows=64, copy_bytes=2**26)


LARGE_PACE = TimingLimits(warm_seconds=0.5, measure_seconds=0.5)
"""Of what comes first, so that the clocks are where they will be."""
EACH_PACE = TimingLimits()


def measure_ceilings(
    device: torch.device,
    dtype: Dtype,
    widths: tuple[int, ...],
    tell: Notify,
    large_pace: TimingLimits = LARGE_PACE,
    pace: TimingLimits = EACH_PACE,
) -> Ceilings:
    """`dtype` is what training uses here. What memory is too short for is left out."""
    began = time.perf_counter()
    sizes = GPU if device.type == "cuda" else HOST
    large: dict[str, Matmul] = {}
    for each in dict.fromkeys((dtype, "float32")):
        tell(f"large products in {each}")
        product = unless_full(device, lambda each=each: large_product(device, each, large_pace))
        large |= {} if product is None else {each: product}
    gpt: dict[int, dict[str, Matmul]] = {}
    for width in widths:
        tell(f"a GPT's products at width {width}")
        products = unless_full(device, lambda width=width: gpt_products(device, dtype, width, sizes, pace))
        gpt |= {} if products is None else {width: products}
    tell("copies")
    copy = unless_full(device, lambda: _copy(device, sizes.copy_bytes, pace))
    upload = unless_full(device, lambda: _upload(device, sizes.copy_bytes, pace))
    tell("launches")
    return Ceilings(
        device=device_of(describe_machine(device)),
        torch=torch.__version__,
        measured_at=time.time(),
        large=large,
        gpt_dtype=dtype,
        gpt=gpt,
        copy=copy,
        host_to_device=upload,
        launch=_launch(device, pace),
        micro_step=_micro_steps(device, dtype, pace),
        seconds=time.perf_counter() - began,
    )


def unless_full(device: torch.device, measure: Callable[[], T]) -> T | None:
    """None where memory is too short."""
    try:
        return measure()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None
    finally:
        free_cached_memory(device)


def large_product(device: torch.device, dtype: Dtype, pace: TimingLimits) -> Matmul:
    sizes = GPU if device.type == "cuda" else HOST
    size = sizes.square_float32 if dtype == "float32" else sizes.square
    a, b, out = (_matrix(size, size, device, DTYPES[dtype]) for _ in range(3))
    timing = timed_alone(lambda: torch.mm(a, b, out=out), 2.0 * size**3, device, pace)
    return Matmul(size, size, size, timing)


def gpt_products(
    device: torch.device, dtype: Dtype, width: int, sizes: Sizes, pace: TimingLimits
) -> dict[str, Matmul]:
    """Each weight's three products: forward, the gradient of its input and that of itself.

    In the layouts of training, where a weight lies as (out, in).
    """
    weights = {
        "qkv": (sizes.rows, width, 3 * width),
        "proj": (sizes.rows, width, width),
        "fc": (sizes.rows, width, 4 * width),
        "fc-proj": (sizes.rows, 4 * width, width),
        "head": (sizes.head_rows, width, GPT2_VOCABULARY),
    }
    found: dict[str, Matmul] = {}
    for name, (rows, inputs, outputs) in weights.items():
        x, weight, dy = (
            _matrix(*shape, device, DTYPES[dtype])
            for shape in ((rows, inputs), (outputs, inputs), (rows, outputs))
        )
        y, dx, dweight = (torch.empty_like(each) for each in (dy, x, weight))
        kinds: dict[str, tuple[tuple[int, int, int], Tensor, Tensor, Tensor]] = {
            "forward": ((rows, outputs, inputs), x, weight.t(), y),
            "input": ((rows, inputs, outputs), dy, weight, dx),
            "weight": ((outputs, inputs, rows), dy.t(), x, dweight),
        }
        for kind, (shape, a, b, out) in kinds.items():
            run = lambda a=a, b=b, out=out: torch.mm(a, b, out=out)  # noqa: E731
            m, n, k = shape
            found[f"{name} {kind}"] = Matmul(m, n, k, timed(run, 2.0 * m * n * k, device, pace))
    return found


def _matrix(rows: int, columns: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.randn((rows, columns), device=device).to(dtype)


def _copy(device: torch.device, size: int, pace: TimingLimits) -> Timing:
    """By a kernel: in a CUDA graph a plain copy is the copy engine's, which is slower (seen on an H200)."""
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    return timed(lambda: torch.neg(source, out=target), 2.0 * source.nbytes, device, pace)


def _upload(device: torch.device, size: int, pace: TimingLimits) -> Timing | None:
    if device.type != "cuda":
        return None
    source = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    target = torch.empty_like(source, device=device)
    clock = Clock(device)

    def once() -> float:
        began = clock.seconds()
        target.copy_(source, non_blocking=True)
        return clock.seconds() - began

    return sampled(once, source.nbytes, pace)


def _launch(device: torch.device, pace: TimingLimits) -> Timing:
    small = torch.zeros(32, device=device)
    clock = Clock(device)

    def once() -> float:
        began = clock.seconds()
        for _ in range(LAUNCHES):
            small.add_(1.0)
        return clock.seconds() - began

    return sampled(once, LAUNCHES, pace)


def _micro_steps(device: torch.device, dtype: Dtype, pace: TimingLimits) -> dict[str, Timing]:
    """Through autograd, kernel by kernel; and as one CUDA graph of fused kernels, where those are had."""
    ways = {"eager": {"kernels": "autograd"}}
    if choose_way(_tiny(device), DeviceChoice(device, dtype)).kernels == "fused":
        ways["graph"] = {"kernels": "fused"}
    return {name: _micro_step(device, dtype, settings, pace) for name, settings in ways.items()}


def _micro_step(device: torch.device, dtype: Dtype, settings: dict[str, str], pace: TimingLimits) -> Timing:
    config = _tiny(device, **settings)
    clock = Clock(device)
    vocab_size = 64
    engine = make_engine(config, config.model_shape(vocab_size), DeviceChoice(device, dtype), Processes())
    tokens = torch.zeros((1, config.block_size), dtype=torch.int64, device=device)
    if engine.needs_preparation:
        engine.prepare((tokens, tokens), clock)
    else:
        engine.get_ready()

    def once() -> float:
        began = clock.seconds()
        engine.gradients(itertools.repeat((tokens, tokens)), MICRO_STEPS)
        seconds = clock.seconds() - began
        engine.drop_gradients()
        return seconds

    return sampled(once, MICRO_STEPS, pace)


def _tiny(device: torch.device, **settings: str) -> RunConfig:
    """So narrow and short that a card does nothing but begin; as deep as GPT-2."""
    return build_config(
        settings,
        n_layer=LAYERS,
        n_head=1,
        n_embd=64,
        block_size=64,
        batch_size=1,
        gradient_accumulation_steps=1,
        device=str(device),
        compile=False,
    )
