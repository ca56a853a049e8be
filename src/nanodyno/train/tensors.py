"""Tensors to a safetensors file as a stream, with its checksum on the way.

The library's own writer wants every tensor on the host at once and hides its writes; here one tensor at a
time leaves the device, and each byte passes os.write. Reading is the library's.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nanodyno.errors import NanodynoError
from nanodyno.records.files import create, write_all

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
}
_CHUNK_BYTES = 32 * 2**20


def write_tensors(path: Path, tensors: Mapping[str, Tensor], whole: Callable[[Tensor], Tensor]) -> str:
    """Writes and flushes the file; returns its sha256. `whole` gathers a tensor from several devices."""
    digest = hashlib.sha256()
    file = create(path)
    try:
        with ThreadPoolExecutor(1) as hashing:
            # One tensor after the other: all of them at once would fill the host's memory.
            for data in itertools.chain([_header(tensors)], (_bytes_of(whole(t)) for t in tensors.values())):
                for start in range(0, len(data), _CHUNK_BYTES):
                    chunk = data[start : start + _CHUNK_BYTES]
                    hashed = hashing.submit(digest.update, chunk)
                    write_all(file, chunk)
                    hashed.result()
        os.fsync(file)
    finally:
        os.close(file)
    return digest.hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise NanodynoError(f"{path} is damaged: {error}", "restore it from a copy") from error


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _header(tensors: Mapping[str, Tensor]) -> memoryview:
    entries: dict[str, object] = {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    return memoryview(len(text).to_bytes(8, "little") + text)


def _bytes_of(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy().data)
