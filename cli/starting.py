"""What the command does to its own interpreter before it works, so that it starts and ends soon.

None of it is done when Castsmith is used as a library.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_SELDOM_USED = ("sympy", "onnx_ir._symbolic_shapes")
"""Modules that onnx_ir imports for arithmetic on symbolic dimensions, which takes longer than most models do."""


class _Lazily(MetaPathFinder):
    """Lets the modules that are seldom used be loaded when something in them is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _SELDOM_USED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def start_quickly() -> None:
    """Load what is seldom used when it is used, and look for no cycles of garbage, not even at the end.

    A model is one large cycle that lives until the end: looking for garbage in it took a quarter of the time. Nothing
    here multiplies matrices, so the threads for it are not started either.
    """
    gc.disable()
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not any(isinstance(finder, _Lazily) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Lazily())
