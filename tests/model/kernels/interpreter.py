"""Kernels in Triton's interpreter: calls come in on stdin, what they did goes out on stdout.

A process of its own, since Triton decides when it is imported whether it compiles or interprets, for its own
library too, and other tests of a session import it to compile.
"""

import importlib
import pickle
import sys
import traceback
from io import BytesIO
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter

from nanodyno.config import ModelShape
from nanodyno.costs.setup import Recompute
from nanodyno.model.attention import packed
from nanodyno.model.fused import MicroStepPlan
from nanodyno.model.fused_modern import make_step
from nanodyno.model.kernels import gpu
from nanodyno.model.modern import make_model

FENCE = 64
PROGRAMS = 3
"""Of the norm's backward pass: a number that does not divide the rows of a test."""


def micro_step(
    shape: ModelShape, weights: dict[str, Tensor], recompute: Recompute, inputs_BT: Tensor, targets_BT: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean loss and gradients as a GPU makes them, in fp32 throughout."""
    model = make_model(shape)
    model.load_state_dict(weights)
    step = make_step(
        model, MicroStepPlan(torch.float32, torch.float32, packed("torch"), 7, recompute, _kernels())
    )
    step.begin(1.0)
    step(inputs_BT, targets_BT)
    step.finish()
    gradients = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    return step.total, gradients


def _kernels() -> ModuleType:
    """Those of a GPU with so many programs, as there is none to ask."""
    kernels = ModuleType("kernels")
    vars(kernels).update(vars(gpu), partial_rows=lambda *_: PROGRAMS)
    return kernels


def _fenced(argument: Any) -> Any:
    """The same numbers between others that no kernel may read (NaN shows in its result) or write."""
    if isinstance(argument, tuple):
        return tuple(map(_fenced, argument))
    if not isinstance(argument, Tensor):
        return argument
    fence = torch.full((FENCE,), torch.nan).to(argument.dtype)
    whole = torch.cat([_bytes(fence), _bytes(argument.flatten()), _bytes(fence)]).view(argument.dtype)
    return whole[FENCE:-FENCE].view(argument.shape)


def _bytes(tensor: Tensor) -> Tensor:
    """What every type can be put together and compared as."""
    return tensor.view(torch.uint8)


def _assert_fence_stands(fenced: Tensor) -> None:
    whole = fenced.as_strided((fenced.numel() + 2 * FENCE,), (1,), 0)
    untouched = torch.full((FENCE,), torch.nan).to(fenced.dtype)
    for side in (whole[:FENCE], whole[-FENCE:]):
        assert _bytes(side).equal(_bytes(untouched))


def _answer(name: str, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """What the launcher `file.function` returned, and its arguments as it left them."""
    if name == micro_step.__name__:
        return micro_step(*arguments), arguments
    file, function = name.split(".")
    fenced = tuple(_fenced(argument) for argument in arguments)
    result = getattr(importlib.import_module(f"nanodyno.model.kernels.{file}"), function)(*fenced)
    for argument in fenced:
        if isinstance(argument, Tensor):
            _assert_fence_stands(argument)
    return result, fenced


def _know_numpy_2_4() -> None:
    """Triton 3.6 takes a number out of an array in a way that numpy 2.4 refuses: triton-lang/triton#9172."""
    as_released = interpreter._patch_lang_tensor

    def corrected(tensor: Any, scope: Any) -> None:
        as_released(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = corrected


def _round_as_a_gpu_does() -> None:
    """The interpreter cuts fp32 off to bf16, and loses the carry when a mantissa of fp8 overflows."""
    nearest = {
        tl.bfloat16: (torch.bfloat16, torch.uint16),
        tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8),
        tl.float8e5: (torch.float8_e5m2, torch.uint8),
    }
    builder = interpreter.InterpreterBuilder
    cast_as_released, convert_as_released = builder.cast_impl, builder.create_fp_to_fp

    def corrected(src: Any, dst_type: Any) -> Any:
        if src.dtype.scalar == tl.float32 and dst_type.scalar in nearest:
            rounded, bits = nearest[dst_type.scalar]
            data = torch.from_numpy(src.data.copy()).to(rounded).view(bits)
            return interpreter.TensorHandle(data.numpy(), dst_type.scalar)
        return None

    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        right = corrected(src, dst_type)
        return cast_as_released(self, src, dst_type) if right is None else right

    def convert(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        right = corrected(src, dst_type)
        return convert_as_released(self, src, dst_type, rounding_mode) if right is None else right

    builder.cast_impl, builder.create_fp_to_fp = cast, convert


def _know_tanh() -> None:
    """The interpreter knows no instruction of a card. This one is 2^-11 off there, and not here."""

    def assemble(_: Any, assembly: str, *given: Any) -> Any:
        assert assembly == "tanh.approx.f32 $0, $1;"
        (x,), (kind,) = given[1:3]
        result: Any = interpreter.TensorHandle(np.tanh(x.data), kind.scalar)
        result.get_result = lambda _: result  # the compiler's is an operation, and this its result
        return result

    builder: Any = interpreter.InterpreterBuilder
    builder.create_inline_asm = assemble


def serve(calls: BinaryIO, answers: BinaryIO) -> None:
    """Until stdin ends; a failed call answers with its traceback."""
    _know_numpy_2_4()
    _round_as_a_gpu_does()
    _know_tanh()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan().all()  # so what no program writes shows
    while True:
        try:
            name, arguments = torch.load(BytesIO(pickle.load(calls)), weights_only=False)
        except EOFError:
            return
        try:
            answer = _answer(name, arguments)
        except Exception:  # whatever it is, it belongs to the test that asked, and not to the next
            answer = traceback.format_exc()
        packet = BytesIO()
        torch.save(answer, packet)  # pickle alone knows no fp8
        pickle.dump(packet.getvalue(), answers)
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
