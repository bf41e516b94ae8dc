"""sympy, which onnx_ir imports for arithmetic on symbolic dimensions, imported when the command first uses it.

It takes half of the processor time of a command on a small model: 0.3 of 0.6 s. Only the command's own process defers
it; `import castsmith` leaves imports as they are.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _Deferred(ModuleType):
    """A module that is imported when something of it is first used."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def defer_sympy() -> None:
    """Import sympy, and the module of onnx_ir that evaluates it at once, on first use."""
    for name in ("sympy", "onnx_ir._symbolic_shapes"):
        sys.modules.setdefault(name, _Deferred(name))
