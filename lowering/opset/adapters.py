"""Nodes whose meaning differs under an older opset, or that it lacks, rewritten in its form.

One function for each change that occurs in real models, found by the schemas of opsets 17 to 28: each returns an
equivalent node, or None if the older opset cannot express it. Nodes that compute its operands are left to the builder.

    opset  operator            now                            before
    18     ReduceMax, ...      input axes                     attribute axes (ReduceSum has had the input since 13)
    18     Split               num_outputs                    input split, from the length of the axis
    18     Pad                 input axes                     pads of all axes
    18     Resize              attribute axes                 scales, sizes and roi of all axes
    20     GridSample          linear, cubic                  bilinear, bicubic
    20     DFT                 input axis                     attribute axis
    21     QuantizeLinear      attribute output_dtype         a zero point of zeros
    23     QuantizeLinear      attribute precision            both operands of that type
    24     Cast, CastLike      infinity saturates (fnuz)      infinity replaced by the largest number
    24     TensorScatter                                      ScatterElements
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops import operators
from castsmith.ir.rewriting import detach
from castsmith.lowering.builder import Builder, dtype_of
from castsmith.numerics.types import ELEMENT_TYPES, HALF_TYPES, Specials, element_type

_INT64 = DataType.INT64
_FNUZ = tuple(dtype for dtype, row in ELEMENT_TYPES.items() if row.specials is Specials.FNUZ)
_ZERO = onnx_ir.tensor(np.zeros(1, np.int64), name="zero")
_NULL, _ONE = (onnx_ir.tensor(np.full(1, number, np.float32), name="number") for number in (0, 1))

Adapter = Callable[[Builder, onnx_ir.Node], onnx_ir.Node | None]


def _ints(value: onnx_ir.Value | None) -> list[int] | None:
    tensor = constant_tensor(value)
    return None if tensor is None else [int(each) for each in tensor.numpy().reshape(-1)]


def _again(node: onnx_ir.Node, inputs: list[onnx_ir.Value | None], **attributes: onnx_ir.Attr | None) -> onnx_ir.Node:
    """Return the node with these inputs, and with these attributes changed, or removed if None."""
    kept = {name: attribute for name, attribute in node.attributes.items() if name not in attributes}
    changed = {name: attribute for name, attribute in attributes.items() if attribute is not None}
    while inputs and inputs[-1] is None:
        inputs.pop()
    made = onnx_ir.Node("", node.op_type, inputs, list({**kept, **changed}.values()), num_outputs=len(node.outputs))
    return _named_as(made, node)


def _named_as(made: onnx_ir.Node, node: onnx_ir.Node) -> onnx_ir.Node:
    """Return the first node with the names and declarations of the results of the other."""
    for old, new in zip(node.outputs, made.outputs, strict=True):
        new.name, new.type, new.shape = old.name, old.type, old.shape
    return made


def axes_as_attribute(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Reduce operators of opset 18: constant axes; no axes reduce all, unless `noop_with_empty_axes`."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = [] if given is None else _ints(given)
    if axes is None or (not axes and node.attributes.get_int("noop_with_empty_axes", 0)):
        return None
    attribute = onnx_ir.AttrInt64s("axes", axes) if axes else None
    return _again(node, [node.inputs[0]], axes=attribute, noop_with_empty_axes=None)


def split_by_lengths(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Split of opset 18: parts of equal length, the last one shorter; computed if the length is unknown."""
    x, count = node.inputs[0], node.attributes.get_int("num_outputs", 0) or len(node.outputs)
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return _again(node, list(node.inputs), num_outputs=None)
    axis = node.attributes.get_int("axis", 0)
    length = None if x is None or x.shape is None else x.shape[axis]
    if x is None or not count:
        return None
    if not isinstance(length, int):
        return _again(node, [x, _lengths(build, x, axis, count)], num_outputs=None)
    part = -(-length // count)
    lengths = [part] * (length // part) + ([length % part] if part and length % part else [])
    if len(lengths) != count:
        return None
    return _again(node, [x, build.constant(np.array(lengths, np.int64), "split")], num_outputs=None)


def _lengths(build: Builder, x: onnx_ir.Value, axis: int, count: int) -> onnx_ir.Value:
    """Return the lengths of the parts: that of the axis divided by their number, rounded up, and what is left."""
    length = _length_of(build, x, axis)
    part = build.op("Div", build.op("Add", length, count - 1), count)
    last = build.op("Sub", length, build.op("Mul", part, count - 1))
    return build.typed("Concat", [*[part] * (count - 1), last], _INT64, axis=0)


def _length_of(build: Builder, x: onnx_ir.Value, axis: int) -> onnx_ir.Value:
    """Return the length of the axis, a tensor of one element."""
    shape = build.typed("Shape", [x], _INT64)
    return build.typed("Gather", [shape, build.constant(np.array([axis], np.int64), "axis")], _INT64, axis=0)


def equal_parts(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Split of opset 18 into parts that the standard's own functions make equal, of an axis of any length."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return _again(node, list(node.inputs), num_outputs=None)
    return _again(node, [node.inputs[0]], num_outputs=None)


def pads_of_all_axes(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Pad of opset 18: pads of all axes, computed if the pads, the axes or the rank are unknown."""
    axes = node.inputs[3] if len(node.inputs) > 3 else None
    x, pads = node.inputs[0], node.inputs[1]
    if x is None or pads is None or axes is None or node.attributes.get_string("mode") == "wrap":
        return None
    known, along = _ints(pads), _ints(axes)
    if x.shape is None or known is None or along is None:
        first = _first_axes(build, x, axes)
        both = build.typed("Concat", [first, build.op("Add", first, _rank_of(build, x))], _INT64, axis=0)
        zeros = build.typed("ConstantOfShape", [build.op("Mul", _rank_of(build, x), 2)], _INT64, value=_ZERO)
        return _again(node, [x, _scattered(build, zeros, both, pads), node.inputs[2]])
    rank = x.shape.rank()
    full = np.zeros((2, rank), np.int64)
    for index, axis in enumerate(along):
        full[:, axis] = known[index], known[index + len(along)]
    return _again(node, [x, build.constant(full.reshape(-1), "pads"), node.inputs[2]])


def _rank_of(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """Return the rank, a tensor of one element."""
    return build.typed("Shape", [build.typed("Shape", [x], _INT64)], _INT64)


def _first_axes(build: Builder, x: onnx_ir.Value, axes: onnx_ir.Value) -> onnx_ir.Value:
    """Return the axes counted from the first one."""
    wide = build.cast(axes, _INT64)
    return build.op("Where", build.op("Less", wide, 0), build.op("Add", wide, _rank_of(build, x)), wide)


def _scattered(build: Builder, all_of: onnx_ir.Value, at: onnx_ir.Value, some: onnx_ir.Value) -> onnx_ir.Value:
    """Return the vector with some of its elements replaced."""
    return build.typed("ScatterElements", [all_of, at, some], dtype_of(all_of), axis=0)


def resized_on_all_axes(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Resize of opset 18: scales, sizes and roi of some axes become those of all."""
    x, named = node.inputs[0], node.attributes.get("axes")
    plain = node.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch"
    if x is None or not plain or node.attributes.get_int("antialias", 0):
        return None
    roi, scales, sizes = (node.inputs[index] if index < len(node.inputs) else None for index in (1, 2, 3))
    if named is None or named.is_ref():
        return None
    axes = _first_axes(build, x, build.constant(np.array(named.as_ints(), np.int64), "axes"))
    rank = _rank_of(build, x)
    if scales is not None and _is_given(scales):
        ones = build.typed("ConstantOfShape", [rank], DataType.FLOAT, value=_ONE)
        scales = _scattered(build, ones, axes, scales)
    if sizes is not None and _is_given(sizes):
        sizes = _scattered(build, build.typed("Shape", [x], _INT64), axes, sizes)
    if node.attributes.get_string("coordinate_transformation_mode") != "tf_crop_and_resize":
        roi = None
    elif roi is not None and _is_given(roi):
        kind = dtype_of(roi)
        starts = build.cast(build.typed("ConstantOfShape", [rank], DataType.FLOAT, value=_NULL), kind)
        ends = build.cast(build.typed("ConstantOfShape", [rank], DataType.FLOAT, value=_ONE), kind)
        both = build.typed("Concat", [axes, build.op("Add", axes, rank)], _INT64, axis=0)
        roi = _scattered(build, build.typed("Concat", [starts, ends], kind, axis=0), both, roi)
    attributes = dict.fromkeys(("axes", "antialias", "keep_aspect_ratio_policy"))
    return _again(node, [x, roi, scales, sizes], **attributes)


def _is_given(value: onnx_ir.Value) -> bool:
    """False for an empty constant, which stands for an operand that is left out."""
    tensor = constant_tensor(value)
    return tensor is None or tensor.size > 0


def axis_as_attribute(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt DFT of opset 20: a constant axis; the last but one by default, and formerly the second."""
    given = node.inputs[2] if len(node.inputs) > 2 else None
    axis = [-2] if given is None else _ints(given)
    if axis is None or len(axis) != 1:
        return None
    return _again(node, list(node.inputs[:2]), axis=onnx_ir.AttrInt64("axis", axis[0]))


def zero_point_for_type(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt QuantizeLinear of opset 21: the type of the result is that of a zero point of zeros."""
    stated = node.attributes.get_int("output_dtype", 0)
    x, scale, zero = (node.inputs[index] if index < len(node.inputs) else None for index in range(3))
    if x is None or scale is None or not stated:
        return None
    if zero is None:
        tensor = onnx_ir.tensor(np.zeros(1, DataType(stated).numpy()), name="zero")
        zero = build.typed("ConstantOfShape", [build.typed("Shape", [scale], _INT64)], DataType(stated), value=tensor)
    return _again(node, [x, scale, zero], output_dtype=None)


def one_type_of_division(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt QuantizeLinear of opset 23: both operands in the type of the division, that of the scale by default."""
    x, scale = node.inputs[0], node.inputs[1]
    if x is None or scale is None or x.dtype is None or scale.dtype is None:
        return None
    precision = DataType(node.attributes.get_int("precision", 0) or int(scale.dtype))
    operands = [build.cast(x, precision), build.cast(scale, precision), *node.inputs[2:]]
    return _again(node, operands, precision=None)


def finite_for_fnuz(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Cast and CastLike of opset 24 to a saturating fnuz type: infinity becomes the largest number first."""
    x, like = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    to = like.dtype if like is not None else DataType(node.attributes.get_int("to", 0))
    if to not in _FNUZ or not node.attributes.get_int("saturate", 1):
        return None
    if x is None or x.dtype is None or x.dtype not in (DataType.DOUBLE, DataType.FLOAT, *HALF_TYPES):
        return None
    most = float(element_type(x.dtype).max)
    finite = build.op("Where", build.op("Equal", x, float("inf")), most, x)
    finite = build.op("Where", build.op("Equal", finite, float("-inf")), -most, finite)
    return _again(node, [finite, *node.inputs[1:]])


def scattered_update(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Write TensorScatter as ScatterElements: element i of the update goes to its write index plus i."""
    past, update = node.inputs[0], node.inputs[1]
    first = node.inputs[2] if len(node.inputs) > 2 else None
    if past is None or update is None or past.shape is None:
        return None
    rank, axis = past.shape.rank(), node.attributes.get_int("axis", -2)
    axis = axis + rank if axis < 0 else axis
    start, step = (build.constant(np.array(number, np.int64), "number") for number in (0, 1))
    length = build.typed("Squeeze", [_length_of(build, update, axis)], _INT64)
    at = build.typed("Range", [start, length, step], _INT64)
    at = build.typed("Reshape", [at, build.constant(np.array([-1] + [1] * (rank - axis - 1)), "shape")], _INT64)
    if first is not None:
        batch = build.constant(np.array([-1] + [1] * (rank - 1), np.int64), "shape")
        at = build.op("Add", build.typed("Reshape", [first, batch], _INT64), at)
    if node.attributes.get_string("mode", "linear") == "circular":
        at = build.op("Mod", at, _length_of(build, past, axis))
    at = build.typed("Expand", [at, build.typed("Shape", [update], _INT64)], _INT64)
    made = onnx_ir.node("ScatterElements", [past, at, update], {"axis": axis})
    return _named_as(made, node)


def modes_of_images(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt GridSample of opset 20, of images: only the names of the modes differ."""
    x, names = node.inputs[0], {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    if x is None or x.shape is None or x.shape.rank() != 4:
        return None
    mode = names.get(node.attributes.get_string("mode", "linear") or "")
    return None if mode is None else _again(node, list(node.inputs), mode=onnx_ir.AttrString("mode", mode))


_REDUCTIONS = operators(lambda row: row.reduces) - {"ReduceSum"}
"""ReduceSum has had its axes as an input since opset 13."""
_OLDEST = 13
"""In older opsets these operators have features beyond the texts below."""


def _since(*changes: tuple[int, Adapter]) -> tuple[tuple[int, Adapter], ...]:
    """Return the opsets that changed an operator, each with the function that undoes the change."""
    return changes


ADAPTERS: dict[str, tuple[tuple[int, Adapter], ...]] = {
    **dict.fromkeys(_REDUCTIONS, _since((18, axes_as_attribute))),
    "Split": _since((18, split_by_lengths)),
    "Pad": _since((18, pads_of_all_axes)),
    "Resize": _since((18, resized_on_all_axes)),
    "GridSample": _since((20, modes_of_images)),
    "DFT": _since((20, axis_as_attribute)),
    "QuantizeLinear": _since((23, one_type_of_division), (21, zero_point_for_type)),
    "Cast": _since((24, finite_for_fnuz)),
    "CastLike": _since((24, finite_for_fnuz)),
    "TensorScatter": _since((24, scattered_update)),
}
"""For each operator the opsets that changed it, newest first, and the function that adapts a node to an older one."""


def has_adapter(node: onnx_ir.Node, now: int, to: int) -> bool:
    """True if the operator changed between the opsets in a way that an adapter covers."""
    return any(_OLDEST <= to < since <= now for since, _ in ADAPTERS.get(node.op_type, ()))


def adapted(build: Builder, node: onnx_ir.Node, now: int, to: int) -> onnx_ir.Node | None:
    """Return the node in the form of opset `to`, after the nodes and constants of `build`; None if no adapter can."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    made: onnx_ir.Node | None = None
    for since, adapter in ADAPTERS.get(node.op_type, ()):
        if _OLDEST <= to < since <= now and (following := adapter(build, made or node)) is not None:
            if made is not None:
                detach([made])
            made = following
    return made
