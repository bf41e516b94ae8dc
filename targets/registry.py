"""The kernels that a runtime registers, by domain, operator, opset and the types of its type variables.

A file in `registries/` holds them as the runtime lists them. They say more than the measured rows of a target, which
vary one type: `python -m tests.targets.registry` writes that of ONNX Runtime.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REGISTRIES = Path(__file__).parent / "registries"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: the first and last opset of its operator, 0 for no last one, and the types of each variable."""

    first: int
    last: int
    types: Mapping[str, frozenset[str]]

    def is_for(self, since: int) -> bool:
        """True if it is for the definition of the operator that began with the opset `since`.

        A kernel without a last opset is for the definition of its first alone.
        """
        return self.first == since or (self.first < since <= self.last)

    def takes(self, types: Iterable[tuple[str, str]]) -> bool:
        """True if it takes values of the types, each with the name of its variable."""
        return all(dtype in self.types[variable] for variable, dtype in types if variable in self.types)


Registry = Mapping[str, Mapping[str, tuple[Kernel, ...]]]
"""The kernels of each operator of each domain."""


def known_registry(name: str) -> str:
    """Return the name, which may be empty. Raises ValueError if no file has it."""
    names = [path.stem for path in REGISTRIES.glob("*.json")] if name else [name]
    if name not in names:
        raise ValueError(f"unknown registry {name!r}; expected {', '.join(sorted(names))}")
    return name


@cache
def read_registry(name: str) -> Registry:
    """Return the kernels of the runtime of that name; raises FileNotFoundError."""
    data = json.loads((REGISTRIES / f"{name}.json").read_text(encoding="utf-8"))
    return {
        domain: {
            op_type: tuple(
                Kernel(first, last, {variable: frozenset(text.split()) for variable, text in types.items()})
                for first, last, types in rows
            )
            for op_type, rows in table.items()
        }
        for domain, table in data.items()
    }
