"""One model on several processes: replicated (DDP), or in shares where it does not fit one card (FSDP2).

What shares need is imported where a model is divided: it takes most of a second, and most runs are alone.
"""

import sys
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nanodyno.model.gpt import GPT

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor


def replicate(module: nn.Module, device: torch.device) -> DistributedDataParallel:
    """Gradients are averaged over the processes while the backward pass still runs."""
    return DistributedDataParallel(
        module,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )


def shard(model: GPT, device: torch.device, count: int) -> None:
    """Parameters, gradients and moments in `count` shares; each block is gathered when it is its turn."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (count,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def give_back(module: nn.Module) -> None:
    """After a forward pass without a backward, the outermost shares would stay gathered."""
    if _is_divided(module):
        module.reshard()


def exchange_gradients(module: nn.Module, wanted: bool) -> None:
    """Whether the next backward pass exchanges; once an iteration is enough, in its last micro-step."""
    if isinstance(module, DistributedDataParallel):
        module.require_backward_grad_sync = wanted
    elif _is_divided(module):
        module.set_requires_gradient_sync(wanted)


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, gathered from its shares; all processes call it together."""
    return tensor.full_tensor() if _is_a_share(tensor) else tensor


def local(tensor: Tensor) -> Tensor:
    """This process's share."""
    return tensor.to_local() if _is_a_share(tensor) else tensor


def laid_out_like(tensor: Tensor, model: Tensor) -> Tensor:
    """A whole tensor on the device and in the shares of `model`; all have the whole, so none is sent."""
    tensor = tensor.to(model.device)
    if _is_a_share(model) and tensor.ndim:
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor, model.device_mesh, model.placements, src_data_rank=None)
    return tensor


def _is_divided(module: nn.Module) -> "TypeGuard[FSDPModule]":
    """None can be before the package that makes them is imported."""
    maker = sys.modules.get("torch.distributed.fsdp")
    return maker is not None and isinstance(module, maker.FSDPModule)


def _is_a_share(tensor: Tensor) -> "TypeGuard[DTensor]":
    maker = sys.modules.get("torch.distributed.tensor")
    return maker is not None and isinstance(tensor, maker.DTensor)
