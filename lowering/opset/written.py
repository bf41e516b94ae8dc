"""Operators that an older opset lacks and that the standard defines by no function, written with others."""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.builder import Builder, dtype_of
from castsmith.lowering.opset.computed import around, own_length, product
from castsmith.lowering.opset.forms import END, INT64, length_of, named_as, reshaped, slice_of, zeros_stay

_ONES = "ones"


def scattered_update(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Write TensorScatter as ScatterElements: element i of the update goes to its write index plus i."""
    past, update = node.inputs[0], node.inputs[1]
    first = node.inputs[2] if len(node.inputs) > 2 else None
    if past is None or update is None or past.shape is None:
        return None
    rank, axis = past.shape.rank(), node.attributes.get_int("axis", -2)
    axis = axis + rank if axis < 0 else axis
    start, step = (build.constant(np.array(number, np.int64), "number") for number in (0, 1))
    length = build.typed("Squeeze", [length_of(build, update, axis)], INT64)
    at = build.typed("Range", [start, length, step], INT64)
    at = build.typed("Reshape", [at, build.constant(np.array([-1] + [1] * (rank - axis - 1)), "shape")], INT64)
    if first is not None:
        batch = build.constant(np.array([-1] + [1] * (rank - 1), np.int64), "shape")
        at = build.op("Add", build.typed("Reshape", [first, batch], INT64), at)
    if node.attributes.get_string("mode", "linear") == "circular":
        at = build.op("Mod", at, length_of(build, past, axis))
    at = build.typed("Expand", [at, build.typed("Shape", [update], INT64)], INT64)
    made = onnx_ir.node("ScatterElements", [past, at, update], {"axis": axis})
    return named_as(made, node)


def masked(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Write Trilu as Where: element (i, j) of a matrix stays above, or below, the diagonal j - i = k."""
    x, k = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if x is None or x.dtype is None:
        return None
    one = build.constant(np.array(1, np.int64), "one")
    rows, columns = (_places(build, length_of(build, x, axis), one) for axis in (-2, -1))
    column = build.constant(np.array([-1, 1], np.int64), "column")
    diagonal = build.op("Sub", columns, build.typed("Reshape", [rows, column], INT64))
    compare = "Less" if node.attributes.get_int("upper", 1) else "Greater"
    outside = build.op(compare, diagonal, 0 if k is None else k)
    zero = build.constant(np.array(0, x.dtype.numpy()), "zero")
    return named_as(onnx_ir.node("Where", [outside, zero, x]), node)


def _places(build: Builder, length: onnx_ir.Value, one: onnx_ir.Value) -> onnx_ir.Value:
    zero = build.constant(np.array(0, np.int64), "zero")
    return build.typed("Range", [zero, build.typed("Squeeze", [length], INT64), one], INT64)


def sliced_shape(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Write Shape of some axes as a Slice of the shape."""
    x, start, end = node.inputs[0], node.attributes.get_int("start", 0), node.attributes.get_int("end", END)
    if x is None or (not start and end == END):
        return None
    bounds = (build.constant(np.array([bound], np.int64), "bound") for bound in (start, end))
    return named_as(onnx_ir.node("Slice", [build.typed("Shape", [x], INT64), *bounds]), node)


def scanned_products(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Write CumProd as a Scan over the first of three axes, which multiplies in the order of the elements.

    The first product is that of 1 and the first element, which is this element.
    """
    x, axis = node.inputs[0], node.inputs[1]
    if x is None or x.dtype is None or axis is None:
        return None
    dtype, order = x.dtype, build.typed
    lengths, before, behind = around(build, x, axis)
    length = own_length(build, lengths, behind)
    others = [product(build, before), product(build, slice_of(build, lengths, behind, END))]
    three = order("Concat", [others[0], length, others[1]], INT64, axis=0)
    operand = order("Transpose", [reshaped(build, x, three, x)], dtype, perm=[1, 0, 2])
    ones = onnx_ir.tensor(np.ones(1, dtype.numpy()), name=_ONES)
    first = order("ConstantOfShape", [order("Concat", others, INT64, axis=0)], dtype, value=ones)
    reverse = bool(node.attributes.get_int("reverse", 0))
    operand = _reversed(build, operand) if reverse else operand
    body = _step(dtype, exclusive=bool(node.attributes.get_int("exclusive", 0)))
    scan = onnx_ir.node("Scan", [first, operand], {"body": body, "num_scan_inputs": 1}, num_outputs=2)
    build.nodes.append(scan)
    for value in scan.outputs:
        value.type = onnx_ir.TensorType(dtype)
    result = _reversed(build, scan.outputs[1]) if reverse else scan.outputs[1]
    result = order("Transpose", [result], dtype, perm=[1, 0, 2])
    return named_as(onnx_ir.node("Reshape", [result, lengths], zeros_stay(x)), node)


def _reversed(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """Return x with the elements of its first axis in reverse order."""
    bounds = [build.constant(np.array([bound], np.int64), "bound") for bound in (-1, -END, 0, -1)]
    return build.typed("Slice", [x, *bounds], dtype_of(x))


def _step(dtype: DataType, *, exclusive: bool) -> onnx_ir.Graph:
    """Return the body of the Scan: the product so far times the element; without the element itself if exclusive."""
    so_far, element = onnx_ir.Value(name="so_far"), onnx_ir.Value(name="element")
    times = onnx_ir.node("Mul", [so_far, element])
    result = onnx_ir.node("Identity", [so_far if exclusive else times.outputs[0]])
    outputs = [times.outputs[0], result.outputs[0]]
    for value in (so_far, element, *outputs):
        value.name = value.name or ("product" if value is outputs[0] else "result")
        value.type, value.shape = onnx_ir.TensorType(dtype), onnx_ir.Shape([None, None])
    return onnx_ir.Graph([so_far, element], outputs, nodes=[times, result], name="step")
