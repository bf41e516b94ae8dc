"""Imports of onnx and onnx_ir without the modules that few programs use, which take a fifth of their time.

While one of the two is imported for the first time, these modules are found, but their code runs when something of them
is first used. They are in `sys.modules` as otherwise, and any program may import them; sympy alone, which few programs
that use onnx_ir know of, is left out of it. What was imported before castsmith is not changed.
"""

from __future__ import annotations

import sys
from _thread import RLock
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

TYPE_CHECKING = False  # as of typing, which is not imported: see __main__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.abc import Loader

SELDOM_USED: Mapping[str, tuple[str, ...]] = {
    "onnx": (
        *("google.protobuf.internal.python_message", "google.protobuf.json_format", "google.protobuf.text_format"),
        *("onnx.compose", "onnx.gen_proto", "onnx.parser", "onnx.printer", "onnx.utils", "onnx.version_converter"),
    ),
    "onnx_ir": ("onnx_ir.schemas", "onnx_ir.tape", "packaging.version"),
}
"""The modules that are deferred while another is imported. Each is imported as a module, none for names in it."""

_SYMBOLIC = ("sympy", "onnx_ir._symbolic_shapes")
"""Modules that onnx_ir imports for arithmetic on symbolic dimensions, which takes longer than most models."""


def defer(modules: Mapping[str, Iterable[str]]) -> None:
    """Make the first import of each key run the code of its modules when they are first used."""
    waiting = {host: {*names} for host, names in modules.items() if host not in sys.modules}
    if not waiting:
        return
    finder = next((each for each in sys.meta_path if isinstance(each, _Finder)), None)
    if finder is None:
        sys.meta_path.insert(0, finder := _Finder())
    finder.wait_for(waiting)


class _Finder:
    """Finds the modules that others import, and within the first import of these the modules to defer."""

    def __init__(self) -> None:
        self._waiting = dict[str, set[str]]()
        self._deferred = set[str]()

    def wait_for(self, waiting: dict[str, set[str]]) -> None:
        for host, names in waiting.items():
            self._waiting.setdefault(host, set()).update(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._waiting and fullname not in self._deferred:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        names = self._waiting.pop(fullname, None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):  # in an archive, say, it is another
            spec.loader = _Later(spec.loader) if names is None else _Host(spec.loader, self, names)  # pyright: ignore[reportAttributeAccessIssue]
        return spec

    def begin(self, names: set[str]) -> None:
        self._deferred |= names

    def end(self, names: set[str]) -> None:
        self._deferred -= names
        if not self._waiting and not self._deferred and self in sys.meta_path:
            sys.meta_path.remove(self)


class _Host:
    """The loader of a module that imports others that are deferred."""

    def __init__(self, loader: Loader, finder: _Finder, names: set[str]) -> None:
        self._loader, self._finder, self._names = loader, finder, names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        _restore(module, self._loader)
        absent = [name for name in _SYMBOLIC if module.__name__ == "onnx_ir" and name not in sys.modules]
        stand_ins = {name: _StandIn(name) for name in absent}
        sys.modules.update(stand_ins)
        self._finder.begin(self._names)
        try:
            self._loader.exec_module(module)
        finally:
            self._finder.end(self._names)
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


class _Later:
    """The loader of a deferred module."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        _restore(module, self._loader)
        _state_of(module).loader_state = RLock(), False


def _restore(module: ModuleType, loader: Loader) -> None:
    _state_of(module).loader = module.__loader__ = loader


def _state_of(module: ModuleType) -> ModuleSpec:
    spec = module.__spec__
    if spec is None:
        raise ImportError(f"module {module.__name__!r} has no spec")
    return spec


class _Deferred(ModuleType):
    """A module whose code runs when something of it is first used; then it is an ordinary module."""

    def __getattribute__(self, name: str) -> object:
        if name == "__module__":  # of classes; onnx_ir looks for it at all its names
            raise AttributeError(name)
        if name not in _OF_IMPORT:
            _run(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _OF_IMPORT:
            _run(self)
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _run(self)
        ModuleType.__delattr__(self, name)


_OF_IMPORT = frozenset(
    ("__class__", "__name__", "__spec__", "__loader__", "__package__", "__path__", "__file__", "__cached__")
)
"""Attributes that the import system reads and writes before the code of a module runs."""


def _run(module: ModuleType) -> None:
    """Run the code of a deferred module, unless that is done, or being done by this thread."""
    spec = _state_of(module)
    if spec.loader_state is None:  # of another spec: the module is being reloaded
        module.__class__ = ModuleType
        return
    with spec.loader_state[0]:
        if spec.loader_state[1] or spec.loader is None:
            return
        spec.loader_state = spec.loader_state[0], True
        try:
            spec.loader.exec_module(module)
        except BaseException:
            spec.loader_state = spec.loader_state[0], False
            raise
        module.__class__ = ModuleType
