"""Doors of packages, and of onnx_ir: what is behind one is imported when it is first used.

A door costs nothing until something behind it is needed, so importing one name does not import its neighbours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

TYPE_CHECKING = False  # as of typing, which is not imported: see __main__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader


def door(package: str, homes: Mapping[str, tuple[str, ...]]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the `__init__` of a package.

    Args:
        package: The dotted name of the package.
        homes: The names to offer, by the module that defines them: dotted, or relative to the package.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home_of[name]
        found = getattr(import_module(module if "." in module else f"{package}.{module}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return get, lambda: sorted(home_of)


_HOST = "onnx_ir"
_SELDOM_USED = ("sympy", "onnx_ir._symbolic_shapes")
"""Modules that onnx_ir imports for arithmetic on symbolic dimensions, which takes longer than most models."""


def defer_sympy() -> None:
    """Make the first import of onnx_ir load sympy on first use; no other import of sympy is changed."""
    if _HOST not in sys.modules and "sympy" not in sys.modules:
        sys.meta_path.insert(0, _OfHost())


class _OfHost:
    """Finds onnx_ir, once, with the loader below."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _HOST:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None and "sympy" not in sys.modules:
            spec.loader = _HostLoader(spec.loader)  # pyright: ignore[reportAttributeAccessIssue]
        return spec


class _HostLoader:
    """The loader of onnx_ir; in place of modules that onnx_ir seldom uses it imports stand-ins."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader
        stand_ins = {name: _StandIn(name) for name in _SELDOM_USED}
        sys.modules.update(stand_ins)
        try:
            self._loader.exec_module(module)
        finally:
            for stand_in in stand_ins.values():
                stand_in.step_back()


class _StandIn(ModuleType):
    """A module that is imported when something of it is first used."""

    def step_back(self) -> None:
        """Leave the name to the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def __getattr__(self, name: str) -> object:
        self.step_back()
        return getattr(import_module(self.__name__), name)
