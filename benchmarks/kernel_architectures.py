"""Every Triton kernel compiled for cards that are not here: shared memory, registers, spills.

python benchmarks/kernel_architectures.py [--widths 384 768 1280 1600]

A training step runs on tensors without memory, and Triton tells of each launch before it compiles it. So what
is compiled here is what would be launched: the launchers' own block sizes, types, alignments and warps. The
launchers of what came after GPT-2 are called one by one.
"""

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler import ASTSource, compile
from triton.runtime import driver

from nanodyno.config import ModelShape, build_config
from nanodyno.costs.setup import Recompute
from nanodyno.model.attention import packed
from nanodyno.model.flat_adamw import FlatAdamW
from nanodyno.model.fused import FusedStep, MicroStepPlan
from nanodyno.model.gpt import GPT, NORM_EPS
from nanodyno.model.kernels import gpu
from nanodyno.model.kernels.fp8_slot import Fp8Slot

KIB = 1024
SHARED_BYTES = {80: 163 * KIB, 86: 99 * KIB, 89: 99 * KIB, 90: 227 * KIB, 120: 99 * KIB}
"""The most that a program may have on each compute capability, from CUDA's programming guide."""
WIDTHS = (384, 768, 1280, 1600)
VOCABULARY = 50304
HEAD_SIZE = 64
WIDE_HEAD_SIZE = 128
"""Of the speedrun's trials."""
BLOCK_SIZE = 128
LOGIT_CAP = 15.0
OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "enable_fp_fusion")
"""Those of a launcher's choice; Triton derives the others from the card."""
RECORDED_ON = 90
FIRST_WITH_FP8 = 89


@dataclass(frozen=True)
class Form:
    """A training step, as far as it decides which kernels there are."""

    width: int
    bias: bool = False
    gelu: str = "exact"
    residual: torch.dtype = torch.float32
    recompute: Recompute = "none"
    bf16_moments: bool = False
    fp8: bool = False
    modern: bool = False
    """The parts that came after GPT-2, without the others."""


@dataclass(frozen=True)
class Launch:
    kernel: Any
    """Triton's JITFunction, whose typing changes with its version."""
    reported: dict[str, Any]

    @property
    def oldest(self) -> int:
        """The compute capability from which on cards have the precisions of this one."""
        return FIRST_WITH_FP8 if any("fp8" in each for each in self.reported["signature"].values()) else 0

    def __str__(self) -> str:
        names = {
            name: self.reported["constants"].get((place,)) for place, name in enumerate(self.kernel.arg_names)
        }
        chosen = " ".join(f"{name}={value}" for name, value in names.items() if value is not None)
        stream = self.reported["signature"].get("x_ptr", "")
        return f"{self.kernel.__name__} {stream} {chosen} warps={self.reported['num_warps']}"


@dataclass(frozen=True)
class Compiled:
    shared_bytes: int
    registers: int
    stack_bytes: int
    """Of each thread. No kernel has arrays of its own, so these are registers that did not fit."""


class _AbsentGpu(DriverBase):
    """What Triton asks of a card before it compiles. Its own base class says that all of it returns None."""

    @classmethod
    def is_active(cls) -> Any:
        return True

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", RECORDED_ON, 32)

    def get_current_device(self) -> int:
        """A number of no card, as Triton keeps what it learned by it."""
        return -1

    def get_current_stream(self, device: int) -> int:
        return device

    def get_active_torch_device(self) -> Any:
        return torch.device("meta")

    def map_python_to_cpp_type(self, ty: str) -> NoReturn:
        raise NotImplementedError(ty)

    def get_benchmarker(self) -> NoReturn:
        raise NotImplementedError


@contextmanager
def _telling(tell: Callable[[Launch], None]) -> Iterator[None]:
    """Launches are told of instead of made."""

    def instead(*, fn: Any, compile: Any, **_: Any) -> bool:
        tell(Launch(fn.jit_function, compile))
        return True

    before = driver._active  # reset_active() would look for a card
    with knobs.runtime.scope():
        knobs.runtime.jit_cache_hook = instead
        driver.set_active(_AbsentGpu())
        try:
            yield
        finally:
            driver._active = before


def launches(forms: Sequence[Form]) -> list[Launch]:
    """Those of one training step of each form, each once."""
    found: dict[tuple[str, str], Launch] = {}

    def tell(launch: Launch) -> None:
        found.setdefault((launch.kernel.__name__, launch.reported["key"]), launch)

    with _telling(tell):
        for form in forms:
            (_launch_modern if form.modern else _train)(form)
    return list(found.values())


def _train(form: Form) -> None:
    """Two blocks, since the first norm has nothing to add and the last no gradient to add to."""
    shape = ModelShape(
        n_layer=2,
        n_head=form.width // HEAD_SIZE,
        n_embd=form.width,
        block_size=BLOCK_SIZE,
        vocab_size=VOCABULARY,
        bias=form.bias,
        dropout=0.0,
        gelu=form.gelu,  # pyright: ignore[reportArgumentType] - checked when built
    )
    with torch.device("meta"):
        model = GPT(shape)
        inputs = torch.zeros((2, shape.block_size), dtype=torch.long)
    attention = packed("torch")
    plan = MicroStepPlan(torch.bfloat16, form.residual, attention, 128, form.recompute, _kernels(), form.fp8)
    step = FusedStep(model, plan)
    step.begin(1.0)
    step(inputs, inputs)
    step.finish()
    optimizer = FlatAdamW(step.flat, build_config({}), form.bf16_moments, kernels=gpu)
    optimizer.step()
    optimizer.step(keep_gradients=True)


def _launch_modern(form: Form) -> None:
    """On two sequences; the norm as it is in the middle of a block."""
    N, C, half = 2 * BLOCK_SIZE, form.width, torch.bfloat16
    with torch.device("meta"):
        inputs = torch.empty((2, BLOCK_SIZE), dtype=torch.long)
        x, table, weight = torch.empty(N, C, dtype=form.residual), torch.empty(VOCABULARY, C), torch.empty(C)
        y, qkv, up = (torch.empty(N, parts * C, dtype=half) for parts in (1, 3, 4))
    gpu.embed(table, None, inputs, form.residual)
    gpu.embed_backward(x, inputs, table, None)
    _, n, _, rstd = gpu.add_norm(x, y, weight, None, half, NORM_EPS, centred=False)
    again = form.recompute != "none"
    gpu.norm_backward(n, x, None, rstd, weight, None, x, torch.empty_like(table), None, again)
    _launch_attentions(qkv, inputs.flatten(), table)
    slot = Fp8Slot(torch.float8_e5m2, rstd[0], rstd) if form.fp8 else None
    gpu.relu2(up, slot)
    gpu.relu2_backward_(up, up, again, slot)
    logits = torch.empty(N, VOCABULARY, dtype=half, device="meta")
    fp8 = torch.empty_like(logits, dtype=torch.float8_e5m2) if form.fp8 else None
    gpu.cross_entropy_(logits, inputs.flatten(), rstd[0], rstd, fp8, LOGIT_CAP)


def _launch_attentions(qkv: Tensor, inputs: Tensor, table: Tensor) -> None:
    shares, halves = table.new_empty(2), table.to(qkv.dtype)
    before = gpu.mix_values_(qkv, halves, inputs, shares)
    gpu.mix_values_backward_(qkv, before, halves, inputs, shares, table, shares)
    width = table.shape[1]
    for size in (each for each in (HEAD_SIZE, WIDE_HEAD_SIZE) if width % each == 0):
        heads, angles = width // size, table.new_empty(BLOCK_SIZE, size // 2)
        rstd = gpu.apply_rope_(qkv, heads, BLOCK_SIZE, (angles, angles), True, NORM_EPS)
        gpu.apply_rope_backward_(qkv, qkv, rstd, heads, BLOCK_SIZE, (angles, angles), True)


def _kernels() -> ModuleType:
    """A GPU's; how many programs it runs at once is no part of a kernel, and there is none to ask."""
    kernels = ModuleType("kernels")
    vars(kernels).update(vars(gpu), partial_rows=lambda *_: 1)
    return kernels


def compiled(launch: Launch, capability: int) -> Compiled:
    reported = launch.reported
    source = ASTSource(launch.kernel, reported["signature"], reported["constants"], reported["configs"][0])
    chosen = json.loads(reported["specialization_data"])["options"]
    kernel = compile(
        source,
        target=GPUTarget("cuda", capability, 32),
        options={name: chosen[name] for name in OPTIONS if chosen[name] is not None},
    )
    registers, stack = _usage(kernel.asm["cubin"])
    return Compiled(kernel.metadata.shared, registers, stack)


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers and stack of each thread, as the tool that comes with Triton reads them."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        reported = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", reported)
    assert found is not None, reported
    return int(found[1]), int(found[2])


def every_form(widths: Sequence[int]) -> list[Form]:
    residuals = (torch.float32, torch.bfloat16)
    forms = [
        Form(width, bias, gelu, residual, recompute, residual == torch.bfloat16)
        for width, bias, gelu, residual, recompute in itertools.product(
            widths, (False, True), ("exact", "tanh"), residuals, ("none", "full")
        )
    ]
    forms += [Form(width, gelu=gelu, fp8=True) for width in widths for gelu in ("exact", "tanh")]
    forms += [
        Form(width, residual=residual, recompute=recompute, fp8=fp8, modern=True)
        for width, residual, recompute, fp8 in itertools.product(
            widths, residuals, ("none", "full"), (False, True)
        )
    ]
    return forms


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    too_much = 0
    for launch in launches(every_form(parser.parse_args().widths)):
        print(launch)
        for capability, most in SHARED_BYTES.items():
            if capability < launch.oldest:
                continue
            here = compiled(launch, capability)
            too_much += here.shared_bytes > most
            print(
                f"  sm_{capability}: {here.shared_bytes / KIB:5.1f} of {most // KIB} KiB shared, "
                f"{here.registers:3} registers, {here.stack_bytes} bytes spilt",
                flush=True,
            )
    print(f"{too_much} want more shared memory than there is")
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
