"""Element types of expressions, by the schemas: of results, and of what one type variable binds together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import onnx.defs
from onnx_ir import DataType

from castsmith.ir.ops.table import CASTS
from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.verification.prove.values import Attributes

Op = tuple[str, str, int]
Inputs = tuple[int | None, ...]
Types = Mapping[int, DataType]


def has_schema(op: Op) -> bool:
    """True for an operator whose schema is known, and which conforms to it since the model was read."""
    return onnx.defs.has(op[1], op[2], op[0])


def cast_to(kind: str, settings: Mapping[str, Any], inputs: Inputs, types: Types) -> DataType | None:
    """Return the type to which a Cast or CastLike casts; None if it is unknown."""
    if kind == "CastLike":
        return types.get(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
    return _type_from_to(settings)


def _type_from_to(settings: Mapping[str, Any]) -> DataType | None:
    """Return the type that the attribute `to` names: by its number, or in opset 1 by its name."""
    text = settings.get("to", ("", ""))[1].strip("b'\"")
    if text.isdigit():
        return DataType(int(text)) if int(text) in ELEMENT_TYPES else None
    return DataType.__members__.get(text)


def result_type(op: Op, attributes: Attributes, inputs: Inputs, index: int, types: Types) -> DataType | None:
    """Return the element type of an output by the schema: fixed, or that of an input of the same type variable."""
    if not has_schema(op):
        return None
    if op[1] in CASTS:
        return cast_to(op[1], dict(attributes), inputs, types)
    if op[1] == "BitCast":
        return _type_from_to(dict(attributes))
    graphs = [value[2] for _, value in attributes if value[:1] == ("graph",)]
    if graphs:
        return _type_of_flow(op, attributes, inputs, [list(outputs) for outputs in graphs], index, types)
    schema = onnx.defs.get_schema(op[1], op[2], op[0])
    if not schema.outputs or len(schema.outputs) <= index:
        return None
    variable = schema.outputs[index].type_str
    if variable.startswith("tensor("):
        return DataType.__members__.get(variable[7:-1].upper())
    last = len(schema.inputs) - 1
    bound = [n for at, n in enumerate(inputs) if schema.inputs[min(at, last)].type_str == variable]
    dtypes = {types.get(number) for number in bound if number is not None}
    allowed_texts = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == variable), ())
    if not bound and len(allowed_texts) == 1:
        return DataType.__members__.get(next(iter(allowed_texts))[7:-1].upper())
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    return dtype if dtype is not None and f"tensor({dtype.name.lower()})" in allowed_texts and op[1] != "Pow" else None


def _type_of_flow(
    op: Op, attributes: Attributes, inputs: Inputs, graphs: list[list[int]], index: int, types: Types
) -> DataType | None:
    """Return the type of an output of If, Loop or Scan: of all branches, or of a state that keeps its type."""
    scanned = int(dict(attributes).get("num_scan_inputs", ("INT", "0"))[1])
    entering = {"If": (), "Loop": inputs[2:], "Scan": inputs[: len(inputs) - scanned]}.get(op[1])
    place = index + (op[1] == "Loop")
    if entering is None or any(place >= len(outputs) for outputs in graphs) or (op[1] == "Scan" and op[2] < 9):
        return None
    dtypes = {types.get(outputs[place]) for outputs in graphs}
    dtypes |= {types.get(number) if number is not None else None for number in entering[index : index + 1]}
    return dtypes.pop() if len(dtypes) == 1 else None


@cache
def bound_together(op: Op, count: int) -> list[list[int]]:
    """Return the inputs that each type variable binds, if one binds several."""
    if not has_schema(op):
        return []
    schema, indices = onnx.defs.get_schema(op[1], op[2], op[0]), dict[str, list[int]]()
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    for at in range(count if schema.inputs else 0):
        formal = schema.inputs[min(at, len(schema.inputs) - 1)]
        if formal.is_homogeneous and formal.type_str in variables:
            indices.setdefault(formal.type_str, []).append(at)
    return [places for places in indices.values() if len(places) > 1]
