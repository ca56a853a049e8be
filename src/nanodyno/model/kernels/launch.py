"""How many threads a program gets."""

ELEMENTS_PER_WARP = 256
"""Eight for each thread: 16 bytes at once of a bf16 row."""
MOST_WARPS = 16


def warps_for(block: int) -> int:
    return min(max(block // ELEMENTS_PER_WARP, 1), MOST_WARPS)
