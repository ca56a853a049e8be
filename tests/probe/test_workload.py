import math
import sys

import numpy as np
import pytest
import torch

from nanodyno.config import build_config
from nanodyno.errors import NanodynoError
from nanodyno.probe.limits import limit_memory
from nanodyno.probe.workload import synthetic_tokens


def test_synthetic_tokens_are_of_the_vocabulary_and_seeded() -> None:
    config = build_config({"block_size": 16})
    (first,), (again,) = synthetic_tokens(257, config), synthetic_tokens(257, config)
    assert (first.min(), first.max()) == (0, 256)
    assert np.array_equal(first, again)


def test_synthetic_tokens_are_as_uneven_as_words() -> None:
    """By Zipf's law over 257 ranks the first has log(2) / log(258) of all, about one in eight."""
    (tokens,) = synthetic_tokens(257, build_config({"block_size": 16}))
    assert np.mean(tokens == 0) == pytest.approx(math.log(2) / math.log(258), rel=0.02)


def test_a_large_vocabulary_needs_wider_tokens() -> None:
    (tokens,) = synthetic_tokens(100_000, build_config({"block_size": 16}))
    assert tokens.dtype == np.uint32
    assert tokens.max() > 2**16


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of the system, which Linux has")
def test_a_limit_that_torch_alone_exceeds_is_refused_and_not_taken() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(NanodynoError, match="torch alone takes"):
        limit_memory(torch.device("cpu"), 2**20)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
