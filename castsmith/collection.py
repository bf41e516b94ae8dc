"""A pause of Python's garbage collection while a model is built or changed.

A model is one large cycle of objects, which live as long as the model. Collections while objects are added visit all of
them again and again, in vain.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Generator[None]:
    """Within the block, collect no garbage; after it, collections are on again if they were before."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
