"""Helpers of adapters: a node once more with other operands or attributes, and shapes and axes as nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.lowering.builder import Builder, dtype_of

INT64 = DataType.INT64
END = 2**63 - 1
"""The place behind the last element of any axis."""

Bound = onnx_ir.Value | int

Adapter = Callable[[Builder, onnx_ir.Node], onnx_ir.Node | None]
"""Returns an equivalent node of the opset before a change, after the nodes and constants of the builder, or None."""


def ints_of(value: onnx_ir.Value | None) -> list[int] | None:
    """Return the elements of a constant; None if the value is not constant."""
    tensor = constant_tensor(value)
    return None if tensor is None else [int(each) for each in tensor.numpy().reshape(-1)]


def again(node: onnx_ir.Node, inputs: list[onnx_ir.Value | None], **attributes: onnx_ir.Attr | None) -> onnx_ir.Node:
    """Return the node with these inputs, and with these attributes changed, or removed if None."""
    kept = {name: attribute for name, attribute in node.attributes.items() if name not in attributes}
    changed = {name: attribute for name, attribute in attributes.items() if attribute is not None}
    while inputs and inputs[-1] is None:
        inputs.pop()
    made = onnx_ir.Node("", node.op_type, inputs, list({**kept, **changed}.values()), num_outputs=len(node.outputs))
    return named_as(made, node)


def named_as(made: onnx_ir.Node, node: onnx_ir.Node) -> onnx_ir.Node:
    """Return the first node with the names and declarations of the results of the other."""
    for old, new in zip(node.outputs, made.outputs, strict=True):
        new.name, new.type, new.shape = old.name, old.type, old.shape
    return made


def length_of(build: Builder, x: onnx_ir.Value, axis: int) -> onnx_ir.Value:
    """Return the length of the axis, a tensor of one element."""
    shape = build.typed("Shape", [x], INT64)
    return build.typed("Gather", [shape, build.constant(np.array([axis], np.int64), "axis")], INT64, axis=0)


def rank_of(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """Return the rank, a tensor of one element."""
    return build.typed("Shape", [build.typed("Shape", [x], INT64)], INT64)


def first_axes(build: Builder, x: onnx_ir.Value, axes: onnx_ir.Value) -> onnx_ir.Value:
    """Return the axes counted from the first one."""
    wide = build.cast(axes, INT64)
    return build.op("Where", build.op("Less", wide, 0), build.op("Add", wide, rank_of(build, x)), wide)


def scattered(build: Builder, all_of: onnx_ir.Value, at: onnx_ir.Value, some: onnx_ir.Value) -> onnx_ir.Value:
    """Return the vector with some of its elements replaced."""
    return build.typed("ScatterElements", [all_of, at, some], dtype_of(all_of), axis=0)


def slice_of(build: Builder, vector: onnx_ir.Value, start: Bound, end: Bound) -> onnx_ir.Value:
    """Return the elements of the vector from one place up to another, of which it may have fewer."""
    bounds = [
        bound if isinstance(bound, onnx_ir.Value) else build.constant(np.array([bound], np.int64), "bound")
        for bound in (start, end)
    ]
    return build.typed("Slice", [vector, *bounds], dtype_of(vector))


def reshaped(build: Builder, x: onnx_ir.Value, shape: onnx_ir.Value, like: onnx_ir.Value) -> onnx_ir.Value:
    """Return x, which has as many elements as `like`, in another shape."""
    return build.typed("Reshape", [x, shape], dtype_of(x), **zeros_stay(like))


def zeros_stay(x: onnx_ir.Value) -> dict[str, int]:
    """Return the attribute of a Reshape of x to lengths that are computed; below opset 14, no length may be 0."""
    lengths = [None] if x.shape is None else list(x.shape)
    return {} if all(isinstance(length, int) and length > 0 for length in lengths) else {"allowzero": 1}
