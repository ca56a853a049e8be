"""How kernels are compiled, and how many threads a program gets."""

import os

# Triton 3.10 no longer contracts a product and a sum into one rounding unless told to: these kernels were
# measured and tested with it, and a run is to round alike under either. Read when a kernel is compiled.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

ELEMENTS_PER_WARP = 256
"""Eight for each thread: 16 bytes at once of a bf16 row."""
MOST_WARPS = 16


def warps_for(block: int) -> int:
    return min(max(block // ELEMENTS_PER_WARP, 1), MOST_WARPS)
