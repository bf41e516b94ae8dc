"""Doors of packages: what is behind one is imported when it is first used.

A door costs nothing until something behind it is needed, so importing one name does not import its neighbours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


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
