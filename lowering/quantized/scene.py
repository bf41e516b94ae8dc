"""Facts about nodes and the target for the rules that write operators of a vendor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.lowering.operators.scene import Scene
from castsmith.numerics.types import type_name


def require_kernel(node: onnx_ir.Node, name: str, dtype: DataType | None, scene: Scene) -> DataType:
    """Return the type. Raises ModelError if the target is known not to run the operator, with its domain, on it."""
    if dtype is None:
        raise ModelError(f"the element type of an input of {node.op_type} is unknown")
    if not scene.target.has_kernel(name, dtype, scene.opset):
        raise ModelError(f"{scene.target} has no {name} of {type_name(dtype)}")
    return dtype


def whole_number(node: onnx_ir.Node, name: str, default: int) -> int:
    """Return an attribute. Raises ModelError if it is a parameter of the enclosing function."""
    attribute = node.attributes.get(name)
    if attribute is not None and attribute.is_ref():
        raise ModelError(f"{name} of {node.op_type} is a parameter of the enclosing function")
    return node.attributes.get_int(name, default)


def producer_of(value: onnx_ir.Value | None, op_type: str) -> onnx_ir.Node | None:
    """Return the node of the standard's operator that makes the value; None if another one makes it."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == op_type and node.domain in DEFAULT_DOMAINS else None


def swaps(node: onnx_ir.Node | None) -> bool:
    """True for a Transpose that swaps the axes of a matrix."""
    if node is None or node.op_type != "Transpose" or node.domain not in DEFAULT_DOMAINS:
        return False
    order = node.attributes.get("perm")
    return order is not None and not order.is_ref() and list(order.as_ints()) == [1, 0]


def constant_array(value: onnx_ir.Value | None) -> NDArray[Any] | None:
    """Return the elements of a constant, also of one that Transpose, Reshape or Identity passes on; None for others."""
    tensor = constant_tensor(value)
    if tensor is not None:
        return tensor.numpy()
    node = None if value is None else value.producer()
    if node is None or node.domain not in DEFAULT_DOMAINS:
        return None
    if node.op_type == "Identity":
        return constant_array(node.inputs[0])
    if swaps(node):
        array = constant_array(node.inputs[0])
        return None if array is None else np.ascontiguousarray(array.T)
    shape = constant_tensor(node.inputs[1]) if node.op_type == "Reshape" and len(node.inputs) == 2 else None
    array = constant_array(node.inputs[0]) if shape is not None else None
    dims = [] if shape is None else [int(dim) for dim in shape.numpy().reshape(-1)]
    if array is None or any(dim < 1 for dim in dims) or math.prod(dims) != array.size:
        return None
    return array.reshape(dims)
