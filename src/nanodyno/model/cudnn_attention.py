"""cuDNN's attention by NVIDIA's own front end (the package nvidia-cudnn-frontend, an extra).

The kernels are those of torch's cuDNN backend. Torch makes the gradients of q, k and v apart, so that they
must be copied together for the projection; here cuDNN writes them side by side itself.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class PackedAttended:
    """An attention that has run: its output, N x C, and the way back."""

    out: Tensor
    _qkv: Tensor
    _log_sums: Tensor
    _graphs: "_Graphs"

    def backward(self, dout_NC: Tensor) -> Tensor:
        """The gradient of q, k and v side by side, N x 3C."""
        dqkv = torch.empty_like(self._qkv)
        graphs = self._graphs
        heads = [*graphs.parts(self._qkv), graphs.heads(self.out), graphs.heads(dout_NC), self._log_sums]
        graphs.run(graphs.backward, [*heads, *graphs.parts(dqkv)])
        return dqkv


def attend_packed(qkv: Tensor, sequences: int, heads: int) -> PackedAttended:
    """Of the projection's output, N x 3C."""
    N, width = qkv.shape
    graphs = _graphs(sequences, heads, N // sequences, width // 3 // heads, qkv.dtype, qkv.device)
    out = torch.empty(N, width // 3, dtype=qkv.dtype, device=qkv.device)
    log_sums = torch.empty(sequences, heads, N // sequences, 1, device=qkv.device)
    graphs.run(graphs.forward, [*graphs.parts(qkv), graphs.heads(out), log_sums])
    return PackedAttended(out, qkv, log_sums, graphs)


@dataclass(frozen=True)
class _Built:
    """A graph of cuDNN's with its tensors in the order in which they are given."""

    graph: Any
    tensors: list[Any]


class _Graphs:
    """Forward and backward of one shape."""

    def __init__(
        self, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device, handle: Any
    ) -> None:
        import cudnn  # pyright: ignore[reportMissingImports]

        self._cudnn, self._handle, self._shape = cudnn, handle, shape
        B, H, T, K = shape
        qkv = torch.empty(B * T, 3 * H * K, dtype=dtype, device=device)
        parts, out = self.parts(qkv), self.heads(torch.empty(B * T, H * K, dtype=dtype, device=device))
        log_sums = torch.empty(B, H, T, 1, device=device)
        self.forward = self._built_forward(parts, out, log_sums)
        self.backward = self._built_backward(parts, out, log_sums)

    def parts(self, qkv: Tensor) -> list[Tensor]:
        """q, k and v as B x H x T x K, where they lie."""
        B, H, T, K = self._shape
        return [part.transpose(1, 2) for part in qkv.view(B, T, 3, H, K).unbind(2)]

    def heads(self, out_NC: Tensor) -> Tensor:
        B, H, T, K = self._shape
        return out_NC.view(B, T, H, K).transpose(1, 2)

    def run(self, built: _Built, tensors: list[Tensor]) -> None:
        stream = torch.cuda.current_stream(tensors[0].device).cuda_stream
        self._cudnn.set_stream(handle=self._handle, stream=stream)
        size = max(built.graph.get_workspace_size(), 1)
        workspace = torch.empty(size, dtype=torch.uint8, device=tensors[0].device)
        built.graph.execute(dict(zip(built.tensors, tensors, strict=True)), workspace, handle=self._handle)

    def _new_graph(self, dtype: torch.dtype) -> Any:
        types = self._cudnn.data_type
        half = types.BFLOAT16 if dtype == torch.bfloat16 else types.HALF
        return self._cudnn.pygraph(
            handle=self._handle,
            io_data_type=half,
            intermediate_data_type=types.FLOAT,
            compute_data_type=types.FLOAT,
        )

    def _built_forward(self, parts: list[Tensor], out: Tensor, log_sums: Tensor) -> _Built:
        graph = self._new_graph(out.dtype)
        q, k, v = (graph.tensor_like(part) for part in parts)
        o, stats = graph.sdpa(
            name="forward", q=q, k=k, v=v, generate_stats=True, attn_scale=self._shape[3] ** -0.5,
            use_causal_mask=True,
        )  # fmt: skip
        _as_output(o, out)
        _as_output(stats, log_sums).set_data_type(self._cudnn.data_type.FLOAT)
        graph.build([self._cudnn.heur_mode.A])
        return _Built(graph, [q, k, v, o, stats])

    def _built_backward(self, parts: list[Tensor], out: Tensor, log_sums: Tensor) -> _Built:
        graph = self._new_graph(out.dtype)
        given = [graph.tensor_like(tensor) for tensor in (*parts, out, out, log_sums)]
        q, k, v, o, do, stats = given
        gradients = graph.sdpa_backward(
            name="backward", q=q, k=k, v=v, o=o, dO=do, stats=stats, attn_scale=self._shape[3] ** -0.5,
            use_causal_mask=True,
        )  # fmt: skip
        for gradient, part in zip(gradients, parts, strict=True):
            _as_output(gradient, part)
        graph.build([self._cudnn.heur_mode.A])
        return _Built(graph, [*given, *gradients])


def _as_output(tensor: Any, like: Tensor) -> Any:
    return tensor.set_output(True).set_dim(list(like.shape)).set_stride(list(like.stride()))


@cache
def _graphs(
    sequences: int, heads: int, positions: int, head_size: int, dtype: torch.dtype, device: torch.device
) -> _Graphs:
    import cudnn  # pyright: ignore[reportMissingImports]

    if dtype not in (torch.bfloat16, torch.float16):
        raise RuntimeError(f"cuDNN's attention is for half precision, not for {dtype}")
    try:
        return _Graphs((sequences, heads, positions, head_size), dtype, device, _handle(device))
    except cudnn.cudnnGraphNotSupportedError as error:  # no RuntimeError, unlike what torch's backends raise
        raise RuntimeError(f"cuDNN does not support this shape: {error}") from error


@cache
def _handle(device: torch.device) -> Any:
    import cudnn  # pyright: ignore[reportMissingImports]

    with torch.cuda.device(device):
        return cudnn.create_handle()
