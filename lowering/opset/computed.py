"""Axes that are computed, for opsets that take them as attributes: the shape is changed so that the axis is known."""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder
from castsmith.lowering.opset.forms import (
    END,
    INT64,
    again,
    first_axes,
    ints_of,
    named_as,
    reshaped,
    scattered,
    slice_of,
    zeros_stay,
)

_ZERO, _ONE = (onnx_ir.tensor(np.full(1, number, np.int64), name="number") for number in (0, 1))


def axes_as_attribute(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Reduce operators of opset 18; no axes reduce all, unless `noop_with_empty_axes`."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = [] if given is None else ints_of(given)
    if axes is None and given is not None:
        return _reduced_along(build, node, given)
    if not axes and node.attributes.get_int("noop_with_empty_axes", 0):
        return None
    attribute = onnx_ir.AttrInt64s("axes", axes) if axes else None
    return again(node, [node.inputs[0]], axes=attribute, noop_with_empty_axes=None)


def _reduced_along(build: Builder, node: onnx_ir.Node, axes: onnx_ir.Value) -> onnx_ir.Node | None:
    """Split each axis into one that stays and one that is reduced, of which one has length 1.

    The elements that are reduced, and their order, are the same.
    """
    x, rank = node.inputs[0], None
    if x is not None and x.shape is not None:
        rank = x.shape.rank()
    if x is None or x.dtype is None or not rank:
        return None
    lengths, where = build.typed("Shape", [x], INT64), first_axes(build, x, axes)
    count = build.typed("Shape", [axes], INT64)
    marks = build.typed("ConstantOfShape", [build.typed("Shape", [lengths], INT64)], INT64, value=_ZERO)
    marks = scattered(build, marks, where, build.typed("ConstantOfShape", [count], INT64, value=_ONE))
    if not node.attributes.get_int("noop_with_empty_axes", 0):
        marks = build.op("Where", build.op("Equal", count, 0), 1, marks)
    is_reduced = build.op("Equal", marks, 1)
    column = build.constant(np.array([-1, 1], np.int64), "column")
    pairs = [build.op("Where", is_reduced, 1, lengths), build.op("Where", is_reduced, lengths, 1)]
    columns = [build.typed("Reshape", [each, column], INT64) for each in pairs]
    flat = build.constant(np.array([-1], np.int64), "flat")
    both = build.typed("Reshape", [build.typed("Concat", columns, INT64, axis=1), flat], INT64)
    operand = reshaped(build, x, both, x)
    along = onnx_ir.AttrInt64s("axes", range(1, 2 * rank, 2))
    made = again(node, [operand], axes=along, keepdims=onnx_ir.AttrInt64("keepdims", 0), noop_with_empty_axes=None)
    if node.attributes.get_int("keepdims", 1):
        return made
    build.nodes.append(made)
    made.outputs[0].type, made.outputs[0].shape = onnx_ir.TensorType(x.dtype), None
    kept = build.typed("Compress", [lengths, build.op("Not", is_reduced, dtype=DataType.BOOL)], INT64)
    return named_as(onnx_ir.node("Reshape", [made.outputs[0], kept], zeros_stay(x)), node)


def axis_as_attribute(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt DFT of opset 20: the last axis but one by default, and formerly the second."""
    given = node.inputs[2] if len(node.inputs) > 2 else None
    axis = [-2] if given is None else ints_of(given)
    if axis is None and given is not None:
        return _transformed_along(build, node, given)
    if axis is None or len(axis) != 1:
        return None
    return again(node, list(node.inputs[:2]), axis=onnx_ir.AttrInt64("axis", axis[0]))


def _transformed_along(build: Builder, node: onnx_ir.Node, axis: onnx_ir.Value) -> onnx_ir.Node | None:
    """Make the axes before the one that is transformed one axis, and those after it, but for the last."""
    x = node.inputs[0]
    if x is None or x.dtype is None:
        return None
    lengths, before, behind = around(build, x, axis)
    after = slice_of(build, lengths, behind, -1)
    shape = [product(build, before), own_length(build, lengths, behind), product(build, after)]
    shape = build.typed("Concat", [*shape, slice_of(build, lengths, -1, END)], INT64, axis=0)
    made = again(node, [reshaped(build, x, shape, x), *node.inputs[1:2]], axis=onnx_ir.AttrInt64("axis", 1))
    build.nodes.append(made)
    made.outputs[0].type, made.outputs[0].shape = onnx_ir.TensorType(x.dtype), None
    got = build.typed("Shape", [made.outputs[0]], INT64)
    ends = slice_of(build, got, 1, 2), slice_of(build, got, 3, END)
    whole = build.typed("Concat", [before, ends[0], after, ends[1]], INT64, axis=0)
    return named_as(onnx_ir.node("Reshape", [made.outputs[0], whole], zeros_stay(x)), node)


def around(build: Builder, x: onnx_ir.Value, axis: onnx_ir.Value) -> tuple[onnx_ir.Value, onnx_ir.Value, onnx_ir.Value]:
    """Return the lengths of x, those before the axis, and the index of the axis after it."""
    lengths, flat = build.typed("Shape", [x], INT64), build.constant(np.array([-1], np.int64), "flat")
    at = build.typed("Reshape", [first_axes(build, x, axis), flat], INT64)
    return lengths, slice_of(build, lengths, 0, at), build.op("Add", at, 1)


def own_length(build: Builder, lengths: onnx_ir.Value, behind: onnx_ir.Value) -> onnx_ir.Value:
    """Return the length of the axis before the index `behind`."""
    return slice_of(build, lengths, build.op("Sub", behind, 1), behind)


def product(build: Builder, lengths: onnx_ir.Value) -> onnx_ir.Value:
    """Return the product of lengths; 1 for an empty vector."""
    one = build.constant(np.array([1], np.int64), "one")
    return build.typed("ReduceProd", [build.typed("Concat", [one, lengths], INT64, axis=0)], INT64)
