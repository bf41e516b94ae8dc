"""The doors of a package: every name that an `__init__` offers can be had, and no other."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def check_doors(package: str) -> None:
    """Import each door of the package, and every name that it offers."""
    found = sorted((ROOT / package).rglob("__init__.py"))
    assert found
    for path in found:
        name = ".".join(("castsmith", *path.parent.relative_to(ROOT).parts))
        door = importlib.import_module(name)
        for offered in getattr(door, "__all__", ()):
            assert getattr(door, offered) is not None, f"{name}.{offered}"
        with pytest.raises(AttributeError, match="not_offered"):
            _ = door.not_offered
