"""Formal parameters of operators, as schemas state them."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_ir import DataType


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal parameter: its type variable, or a name of its own if its type is fixed, and its element types.

    The element types are those of its tensors, sequences of tensors or optional tensors.
    """

    variable: str
    allowed: frozenset[DataType]
    homogeneous: bool
    variadic: bool
    optional: bool
    sequence: bool = False
    tensor: bool = True
    """True if only tensors are allowed."""
