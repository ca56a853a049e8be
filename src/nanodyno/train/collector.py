"""Python's garbage collector, which would stop a timed loop at moments of its own."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def quieten() -> None:
    """Collects once, and no more by itself; what is there now is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.disable()


@contextmanager
def quiet() -> Iterator[None]:
    was_on = gc.isenabled()
    quieten()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
