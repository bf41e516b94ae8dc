"""Constants that operators make of constants: moves by the reference implementation, DequantizeLinear and Shape."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx_ir
from onnx.reference import ReferenceEvaluator
from onnx_ir import DataType

from castsmith.ir.prove.values import Attributes, version_of
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.quantize.linear import dequantize_linear

Op = tuple[str, str, int]
Tensors = list[onnx_ir.TensorProtocol | None]

LARGEST_FOLDED = 1 << 20
OTHERS_FOLDED = ("Shape", "DequantizeLinear")
"""Operators that are folded besides moves; casts and operators on elements are programs."""


def constant_of(op: Op, attributes: Attributes, tensors: Tensors) -> onnx_ir.TensorProtocol | None:
    """Return the result of the operator on constants; None if it is unknown or large."""
    present = [tensor for tensor in tensors if tensor is not None]
    if sum(tensor.size for tensor in present) > LARGEST_FOLDED or any(
        v[0] not in ("INT", "INTS") for _, v in attributes
    ):
        return None
    settings: dict[str, Any] = {name: _parsed(value) for name, value in attributes}
    if op[1] == "Shape":
        shape = present[0].shape.numpy()[settings.get("start", 0) : settings.get("end")]
        return onnx_ir.tensor(np.array(shape, np.int64))
    if op[1] == "DequantizeLinear":
        return _dequantized(op, settings, tensors)
    return _moved(op, settings, tensors)


def _dequantized(op: Op, settings: dict[str, Any], tensors: Tensors) -> onnx_ir.TensorProtocol | None:
    arrays = [tensor.numpy() for tensor in tensors if tensor is not None]
    if settings.keys() - {"axis", "block_size"} or len(arrays) != len(tensors):
        return None
    try:
        return onnx_ir.tensor(dequantize_linear(*arrays, opset=op[2], **settings))
    except CastsmithError:
        return None


def _moved(op: Op, settings: dict[str, Any], tensors: Tensors) -> onnx_ir.TensorProtocol | None:
    given = {f"i{at}": tensor for at, tensor in enumerate(tensors) if tensor is not None}
    if any(t.dtype is DataType.STRING or t.numpy().dtype.isbuiltin != 1 for t in given.values()):
        return None
    names = [f"i{at}" if tensor is not None else "" for at, tensor in enumerate(tensors)]
    if op[1] == "Slice" and _runs_back(tensors):
        return None
    node = onnx.helper.make_node(op[1], names, ["o"], **settings)
    infos = [onnx.helper.make_tensor_value_info(name, int(t.dtype), None) for name, t in given.items()]
    graph = onnx.helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="o")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", _newest_of(op))])
    feeds = {name: tensor.numpy() for name, tensor in given.items()}
    try:
        results: Any = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # of ONNX's reference implementation, which raises anything for operands that do not fit
        return None
    moved = given["i1"] if op[1] == "Where" else next(iter(given.values()))
    return onnx_ir.tensor(np.asarray(results[0]), dtype=moved.dtype)


def _runs_back(tensors: Tensors) -> bool:
    """True if a Slice has a negative step: the reference implementation clamps its ends as Python does."""
    steps = tensors[4] if len(tensors) > 4 else None
    return steps is not None and bool((steps.numpy() < 0).any())


@cache
def _newest_of(op: Op) -> int:
    """Return the newest opset in which the operator is this one."""
    return next(
        opset for opset in range(onnx.defs.onnx_opset_version(), 0, -1) if version_of(op[0], op[1], opset) == op
    )


def _parsed(value: Any) -> Any:
    kind, text = value
    return int(text) if kind == "INT" else [int(each) for each in text.strip("[]").split(",") if each.strip()]
