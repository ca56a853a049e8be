"""One model on several processes: replicated (DDP), or in shares where it does not fit one card (FSDP2)."""

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from nanodyno.model.gpt import GPT


def replicate(module: nn.Module, device: torch.device) -> DistributedDataParallel:
    """Gradients are averaged over the processes while the backward pass still runs."""
    return DistributedDataParallel(
        module,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )


def shard(model: GPT, device: torch.device, count: int) -> None:
    """Parameters, gradients and moments in `count` shares; each block is gathered when it is its turn."""
    mesh = init_device_mesh(device.type, (count,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def give_back(module: nn.Module) -> None:
    """After a forward pass without a backward, the outermost shares would stay gathered."""
    if isinstance(module, FSDPModule):
        module.reshard()


def exchange_gradients(module: nn.Module, wanted: bool) -> None:
    """Whether the next backward pass exchanges; once an iteration is enough, in its last micro-step."""
    if isinstance(module, DistributedDataParallel):
        module.require_backward_grad_sync = wanted
    elif isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(wanted)


def whole(tensor: Tensor) -> Tensor:
    """The tensor itself, gathered from its shares; all processes call it together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local(tensor: Tensor) -> Tensor:
    """This process's share."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def laid_out_like(tensor: Tensor, model: Tensor) -> Tensor:
    """A whole tensor on the device and in the shares of `model`; all have the whole, so none is sent."""
    tensor = tensor.to(model.device)
    if isinstance(model, DTensor) and tensor.ndim:
        return distribute_tensor(tensor, model.device_mesh, model.placements, src_data_rank=None)
    return tensor
