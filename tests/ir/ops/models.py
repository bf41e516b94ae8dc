"""Models of one operator each, and what the reference evaluator of onnx makes of small numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.parser
from onnx.reference import ReferenceEvaluator
from onnx_ir import DataType

from castsmith.conformance.probe_models import TEXTS, model_text
from castsmith.ir.ops.schemas import op_formals
from castsmith.numerics.types import type_name


@cache
def schemas_by_operator() -> dict[tuple[str, str], list[onnx.defs.OpSchema]]:
    """Return all versions of each operator, by its domain and name: to ask onnx for each takes long."""
    found: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def model_of(op_type: str, dtype: DataType) -> onnx.ModelProto | None:
    """The model that asks a target about the operator, at the newest opset that has it."""
    for opset in (21, 26, 8, 9):
        if op_type in ("Upsample", "Scatter") and opset > 10:
            continue
        formals = op_formals("", op_type, opset)
        if formals is None or not any(dtype in each.allowed for each in (*formals[0], *formals[1])):
            continue
        if op_type not in TEXTS:
            names = [f"x{index}" for index in range(min(len(formals[0]), 2))]
            inputs, kind = ", ".join(f"{type_name(dtype)}[2] {name}" for name in names), type_name(dtype)
            text = f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => ({kind}[2] y) '
            return onnx.parser.parse_model(text + f"{{ y = {op_type} ({', '.join(names)}) }}")
        try:
            return onnx.parser.parse_model(model_text(op_type, dtype, opset, 10))
        except onnx.parser.ParseError:
            return None
    return None


def fed_to(model: onnx.ModelProto, dtype: DataType, seed: int, scale: float = 1) -> dict[str, np.ndarray[Any, Any]]:
    """Small whole numbers; indices 0 or 1."""
    rng, fed = np.random.default_rng(seed), dict[str, np.ndarray[Any, Any]]()
    for value in model.graph.input:
        shape = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        kind = DataType(value.type.tensor_type.elem_type)
        if kind == DataType.INT64 and dtype != DataType.INT64:
            fed[value.name] = np.array(2) if not shape else np.arange(np.prod(shape)).reshape(shape) % 2
        elif kind == DataType.BOOL:
            fed[value.name] = rng.integers(0, 2, shape).astype(bool)
        else:
            fed[value.name] = rng.choice(np.arange(-7, 8) * scale, shape).astype(kind.numpy())
        fed[value.name] = fed[value.name].astype(kind.numpy())
    return fed


def run(model: onnx.ModelProto, fed: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return the tensors that the reference evaluator gives, which in older releases takes no empty region."""
    empty = {tensor.name for tensor in model.graph.initializer if 0 in tensor.dims}
    for node in (node for node in model.graph.node if node.op_type == "Resize"):
        node.input[:] = ["" if name in empty else name for name in node.input]
    found = ReferenceEvaluator(model).run(None, fed)
    return [np.asarray(each) for each in found if not isinstance(each, list)]
