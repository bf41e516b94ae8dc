"""Schemas of ONNX Runtime's own operators, of the domain com.microsoft, which onnx does not register.

`contrib.json` holds them as ONNX Runtime states them; `python -m tests.ir.ops.contrib_schemas` writes it again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from castsmith.ir.ops.formals import Formal
from castsmith.numerics.types import parse_type

CONTRIB_DOMAIN = "com.microsoft"
_FILE = Path(__file__).parent / "contrib.json"


@dataclass(frozen=True, slots=True)
class ContribSchema:
    """The inputs and outputs of an operator, and the kinds of the attributes that it requires and of the others."""

    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, str]
    optional: dict[str, str]


def contrib_schema(op_type: str) -> ContribSchema | None:
    """Return the schema of the operator; None if it is unknown."""
    row = _rows().get(op_type)
    return None if row is None else _schema(row)


def contrib_operators() -> list[str]:
    """Return the names of all known operators."""
    return sorted(_rows())


def _schema(row: dict[str, Any]) -> ContribSchema:
    def parameter(index: int, text: str) -> Formal:
        name = text.rstrip("?*~")
        types = row["types"].get(name, (name,))
        allowed = frozenset(map(parse_type, types))
        variable = name if len(types) > 1 else f"{name} of {index}"
        return Formal(variable, allowed, "~" not in text, "*" in text, "?" in text)

    inputs = (parameter(index, text) for index, text in enumerate(row["inputs"]))
    outputs = (parameter(index, text) for index, text in enumerate(row["outputs"]))
    return ContribSchema(tuple(inputs), tuple(outputs), row.get("attributes", {}), row.get("optional", {}))


@cache
def _rows() -> dict[str, Any]:
    return json.loads(_FILE.read_text(encoding="utf-8"))
