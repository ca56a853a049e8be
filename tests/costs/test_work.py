"""The work of an eager micro-step against what torch does in one."""

from typing import Any

import pytest
from tests.costs.live import gpt
from tests.costs.operations import eager_operations

from nanodyno.costs.setup import Setup
from nanodyno.costs.work import micro_step


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("loss_chunk_size", [None, 1024, 8192])
@pytest.mark.parametrize("bias", [False, True])
def test_an_eager_micro_step_launches_and_moves_what_torch_does(
    dtype: Any, loss_chunk_size: int | None, bias: bool
) -> None:
    setup = Setup(
        gpt(3, 6, 512, 50304, bias),
        6,
        4,
        dtype=dtype,
        kernels="autograd",
        loss_chunk_size=loss_chunk_size,
        cuda_graph=False,
    )
    done, work = eager_operations(setup), micro_step(setup)
    assert work.kernels == done.count
    assert work.eager_bytes == pytest.approx(done.moved_bytes, 0.015)
