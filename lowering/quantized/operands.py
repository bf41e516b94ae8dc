"""Operands of the operators of vendors: required ones, types, constants read as other types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.records import Refusal
from castsmith.lowering.node_builder import NodeBuilder
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import Replacement

FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)


Lower = Callable[[onnx_ir.Node, NodeBuilder], Replacement | Refusal]


def refusing(lower: Callable[[onnx_ir.Node, NodeBuilder], Replacement]) -> Lower:
    """Return the lowering, with a ModelError as its refusal."""

    def lowering(node: onnx_ir.Node, build: NodeBuilder) -> Replacement | Refusal:
        try:
            if any(attribute.is_ref() for attribute in node.attributes.values()):
                raise ModelError("an attribute is a parameter of the enclosing function")
            return lower(node, build)
        except ModelError as error:
            return build.refuse(str(error).rstrip("."))

    return lowering


def operand(node: onnx_ir.Node, index: int) -> onnx_ir.Value | None:
    """Return an input; None if it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def required(node: onnx_ir.Node, index: int) -> onnx_ir.Value:
    """Return an input that must be there, of a known type."""
    value = operand(node, index)
    if value is None:
        raise ModelError(f"input {index} of {node.op_type} is missing")
    if value.dtype is None:
        raise ModelError(f"the element type of {value.name} is unknown")
    return value


def required_float(node: onnx_ir.Node, index: int) -> onnx_ir.Value:
    """Return an input that must be float, float16 or bfloat16."""
    value = required(node, index)
    if value.dtype not in FLOATS:
        raise ModelError(f"input {index} of {node.op_type} is {_named(value)}, expected float, float16 or bfloat16")
    return value


def read_as(build: NodeBuilder, value: onnx_ir.Value, dtype: DataType) -> onnx_ir.Value:
    """Return the value, or a constant of bytes as one of `dtype`: exporters declare the codes of some types uint8."""
    if value.dtype == dtype:
        return value
    tensor = constant_tensor(value)
    if value.dtype != DataType.UINT8 or tensor is None:
        raise ModelError(f"{value.name} is {_named(value)}, expected {type_name(dtype)} or constant bytes of it")
    return build.constant(tensor.numpy().view(dtype.numpy()), "codes")


def integers(values: list[int]) -> NDArray[np.int64]:
    """Return the array of a shape or of axes."""
    return np.array(values, np.int64)


def shaped(build: NodeBuilder, value: onnx_ir.Value, shape: list[int]) -> onnx_ir.Value:
    """Return the value in the shape."""
    y = build.op("Reshape", value, build.constant(integers(shape), "shape"))
    y.shape = onnx_ir.Shape([None if dim < 0 else dim for dim in shape])
    return y


def scalar(build: NodeBuilder, value: onnx_ir.Value) -> onnx_ir.Value:
    """Return a value of one element without dimensions."""
    if value.shape is not None and value.shape.rank() == 0:
        return value
    return shaped(build, value, [])


def _named(value: onnx_ir.Value) -> str:
    return "of unknown type" if value.dtype is None else type_name(value.dtype)
