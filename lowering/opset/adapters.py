"""Nodes whose meaning differs under an older opset, or that it lacks, rewritten in its form.

One function for each change that occurs in real models, found by the schemas of opsets 14 to 28: each returns an
equivalent node of the opset before the change, or None if that opset cannot express it. Nodes that compute its operands
are left to the builder. `computed`, `resizing` and `recurrences` have those of one subject.

    opset  operator            now                            before
    14     Reshape             allowzero, no zero in shape    no attribute
    14     Trilu                                              Where
    15     Shape               start, end                     Slice
    18     ReduceMax, ...      input axes                     attribute axes (ReduceSum has had the input since 13)
    18     Split               num_outputs                    input split, from the length of the axis
    18     Pad                 input axes                     pads of all axes
    18     Resize              attribute axes                 scales, sizes and roi of all axes
    18     Resize              keep_aspect_ratio_policy       sizes or scales of the same ratio
    18     Resize              antialias, nothing is smaller  no attribute
    19     Resize              half_pixel_symmetric           half_pixel, for lengths that are not rounded
    19     Cast, CastLike      saturate, not to float8        no attribute
    20     GridSample          linear, cubic                  bilinear, bicubic
    20     DFT                 input axis                     attribute axis
    20     IsInf, IsNaN        of narrow floats               of float
    20     ReduceMax, ...      of bool                        of uint8
    21     QuantizeLinear      attribute output_dtype         a zero point of zeros
    23     QuantizeLinear      attribute precision            both operands of that type
    24     Cast, CastLike      infinity saturates (fnuz)      infinity replaced by the largest number
    24     TensorScatter                                      ScatterElements
    26     CumProd                                            Scan
    28     Compress, OneHot,   of bfloat16                    of float
           ReverseSequence
"""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops import changes_between, operators
from castsmith.ir.rewriting import detach
from castsmith.lowering.builder import Builder
from castsmith.lowering.opset.computed import axes_as_attribute, axis_as_attribute
from castsmith.lowering.opset.forms import (
    INT64,
    Adapter,
    again,
    first_axes,
    ints_of,
    length_of,
    named_as,
    rank_of,
    scattered,
)
from castsmith.lowering.opset.obstacles import TypeOf
from castsmith.lowering.opset.resizing import resized_on_all_axes, symmetric_as_half_pixel
from castsmith.lowering.opset.written import masked, scanned_products, scattered_update, sliced_shape
from castsmith.numerics.types import ELEMENT_TYPES, HALF_TYPES, Kind, Specials, element_type

_FNUZ = tuple(dtype for dtype, row in ELEMENT_TYPES.items() if row.specials is Specials.FNUZ)
_SATURATING = tuple(d for d, row in ELEMENT_TYPES.items() if row.kind is Kind.FLOATING and row.bits <= 8)
_ZERO = onnx_ir.tensor(np.zeros(1, np.int64), name="zero")


def split_by_lengths(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Split of opset 18: parts of equal length, the last one shorter; computed if the length is unknown."""
    x, count = node.inputs[0], node.attributes.get_int("num_outputs", 0) or len(node.outputs)
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return again(node, list(node.inputs), num_outputs=None)
    axis = node.attributes.get_int("axis", 0)
    length = None if x is None or x.shape is None else x.shape[axis]
    if x is None or not count:
        return None
    if not isinstance(length, int):
        return again(node, [x, _lengths(build, x, axis, count)], num_outputs=None)
    part = -(-length // count)
    lengths = [part] * (count - 1) + [length - part * (count - 1)]
    if length and lengths[-1] <= 0:
        return None
    return again(node, [x, build.constant(np.array(lengths, np.int64), "split")], num_outputs=None)


def _lengths(build: Builder, x: onnx_ir.Value, axis: int, count: int) -> onnx_ir.Value:
    """Return the lengths of the parts: that of the axis divided by their number, rounded up, and what is left."""
    length = length_of(build, x, axis)
    part = build.op("Div", build.op("Add", length, count - 1), count)
    last = build.op("Sub", length, build.op("Mul", part, count - 1))
    return build.typed("Concat", [*[part] * (count - 1), last], INT64, axis=0)


def equal_parts(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Split of opset 18 into parts that the standard's own functions make equal, of an axis of any length."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return again(node, list(node.inputs), num_outputs=None)
    return again(node, [node.inputs[0]], num_outputs=None)


def pads_of_all_axes(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Pad of opset 18: pads of all axes, computed if the pads, the axes or the rank are unknown."""
    axes = node.inputs[3] if len(node.inputs) > 3 else None
    x, pads = node.inputs[0], node.inputs[1]
    if x is None or pads is None or axes is None or node.attributes.get_string("mode") == "wrap":
        return None
    known, along = ints_of(pads), ints_of(axes)
    if x.shape is None or known is None or along is None:
        first = first_axes(build, x, axes)
        both = build.typed("Concat", [first, build.op("Add", first, rank_of(build, x))], INT64, axis=0)
        zeros = build.typed("ConstantOfShape", [build.op("Mul", rank_of(build, x), 2)], INT64, value=_ZERO)
        return again(node, [x, scattered(build, zeros, both, pads), node.inputs[2]])
    rank = x.shape.rank()
    full = np.zeros((2, rank), np.int64)
    for index, axis in enumerate(along):
        full[:, axis] = known[index], known[index + len(along)]
    return again(node, [x, build.constant(full.reshape(-1), "pads"), node.inputs[2]])


def zero_point_for_type(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt QuantizeLinear of opset 21: the type of the result is that of a zero point of zeros."""
    stated = node.attributes.get_int("output_dtype", 0)
    x, scale, zero = (node.inputs[index] if index < len(node.inputs) else None for index in range(3))
    if x is None or scale is None or not stated:
        return None
    if zero is None:
        tensor = onnx_ir.tensor(np.zeros(1, DataType(stated).numpy()), name="zero")
        zero = build.typed("ConstantOfShape", [build.typed("Shape", [scale], INT64)], DataType(stated), value=tensor)
    return again(node, [x, scale, zero], output_dtype=None)


def one_type_of_division(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt QuantizeLinear of opset 23: both operands in the type of the division, that of the scale by default."""
    x, scale = node.inputs[0], node.inputs[1]
    if x is None or scale is None or x.dtype is None or scale.dtype is None:
        return None
    precision = DataType(node.attributes.get_int("precision", 0) or int(scale.dtype))
    operands = [build.cast(x, precision), build.cast(scale, precision), *node.inputs[2:]]
    return again(node, operands, precision=None)


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
    return again(node, [finite, *node.inputs[1:]])


def modes_of_images(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt GridSample of opset 20, of images: only the names of the modes differ."""
    x, names = node.inputs[0], {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    if x is None or x.shape is None or x.shape.rank() != 4:
        return None
    mode = names.get(node.attributes.get_string("mode", "linear") or "")
    return None if mode is None else again(node, list(node.inputs), mode=onnx_ir.AttrString("mode", mode))


def without_effect(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt conversions whose rules of saturation and rounding are for other types than that of their result."""
    to = _result_type(node)
    if to is None or to in _SATURATING or not {"saturate", "round_mode"} & set(node.attributes):
        return None
    return again(node, list(node.inputs), saturate=None, round_mode=None)


def _result_type(node: onnx_ir.Node) -> DataType | None:
    """Return the type to which Cast, CastLike and QuantizeLinear convert."""
    stated = next((node.attributes.get_int(name, 0) for name in ("to", "output_dtype") if name in node.attributes), 0)
    like = node.inputs[2 if node.op_type == "QuantizeLinear" else 1 :][:1]
    if stated or node.op_type == "Cast":
        return DataType(stated)
    return like[0].dtype if like and like[0] is not None else DataType.UINT8


def in_float(index: int, *, back: bool) -> Adapter:
    """Return an adapter for operators that took only wider floats as that operand: they move or look at elements.

    back: the result has the type of the operand.
    """

    def adapt(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
        x = node.inputs[index] if index < len(node.inputs) else None
        if x is None or x.dtype is None or x.dtype not in (*HALF_TYPES, *_SATURATING):
            return None
        operands = list(node.inputs)
        operands[index] = build.cast(x, DataType.FLOAT)
        return _and_back(build, again(node, operands), node, DataType.FLOAT, x.dtype) if back else again(node, operands)

    return adapt


def bool_as_uint8(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt ReduceMax and ReduceMin of opset 20: false is 0 and true is 1."""
    x = node.inputs[0]
    if x is None or x.dtype is not DataType.BOOL:
        return None
    inner = again(node, [build.cast(x, DataType.UINT8), *node.inputs[1:]])
    return _and_back(build, inner, node, DataType.UINT8, DataType.BOOL)


def _and_back(
    build: Builder, inner: onnx_ir.Node, node: onnx_ir.Node, computed: DataType, wanted: DataType
) -> onnx_ir.Node:
    build.nodes.append(inner)
    inner.outputs[0].type = onnx_ir.TensorType(computed)
    return named_as(onnx_ir.node("Cast", [inner.outputs[0]], {"to": int(wanted)}), node)


def zeros_are_lengths(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Reshape of opset 14: `allowzero` has no effect on a shape without zeros."""
    shape = ints_of(node.inputs[1])
    if shape is None or 0 in shape or not node.attributes.get_int("allowzero", 0):
        return None
    return again(node, list(node.inputs), allowzero=None)


_REDUCTIONS = operators(lambda row: row.reduces) - {"ReduceSum"}
"""ReduceSum has had its axes as an input since opset 13."""
_OLDEST = 13
"""In older opsets these operators have features beyond the texts below."""


def _since(*changes: tuple[int, Adapter]) -> tuple[tuple[int, Adapter], ...]:
    """Return the opsets that changed an operator, each with the function that undoes the change."""
    return changes


_MOVES = _since((28, in_float(0, back=True)))
_EXTREMES = _since((20, bool_as_uint8), (18, axes_as_attribute))
ADAPTERS: dict[str, tuple[tuple[int, Adapter], ...]] = {
    **dict.fromkeys(_REDUCTIONS, _since((18, axes_as_attribute))),
    "ReduceMax": _EXTREMES,
    "ReduceMin": _EXTREMES,
    "Split": _since((18, split_by_lengths)),
    "Pad": _since((18, pads_of_all_axes)),
    "Resize": _since((19, symmetric_as_half_pixel), (18, resized_on_all_axes)),
    "GridSample": _since((20, modes_of_images)),
    "DFT": _since((20, axis_as_attribute)),
    "QuantizeLinear": _since((23, one_type_of_division), (21, zero_point_for_type), (19, without_effect)),
    "Cast": _since((24, without_effect), (24, finite_for_fnuz), (19, without_effect)),
    "CastLike": _since((24, without_effect), (24, finite_for_fnuz), (19, without_effect)),
    "TensorScatter": _since((24, scattered_update)),
    "CumProd": _since((26, scanned_products)),
    "Compress": _MOVES,
    "ReverseSequence": _MOVES,
    "OneHot": _since((28, in_float(2, back=True))),
    "IsInf": _since((20, in_float(0, back=False))),
    "IsNaN": _since((20, in_float(0, back=False))),
    "Shape": _since((15, sliced_shape)),
    "Trilu": _since((14, masked)),
    "Reshape": _since((14, zeros_are_lengths)),
}
"""For each operator the opsets that changed it, newest first, and the function that adapts a node to an older one."""


def has_adapter(node: onnx_ir.Node, now: int, to: int) -> bool:
    """True if the operator changed between the opsets in a way that an adapter covers."""
    return any(_OLDEST <= to < since <= now for since, _ in ADAPTERS.get(node.op_type, ()))


def adapted(build: Builder, node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> onnx_ir.Node | None:
    """Return the node in the form of opset `to`, after the nodes and constants of `build`; None if no adapter can."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    made, at = node, now
    for since, adapter in ADAPTERS.get(node.op_type, ()):
        if not _OLDEST <= to < since <= now or made.op_type != node.op_type:
            continue
        begin = len(build.nodes)
        following = None if _has_changed(made, node, since, at, types) else adapter(build, made)
        if following is None:
            continue
        _adapt_new_nodes(build, begin, since - 1, to, types)
        if made is not node:
            detach([made])
        made, at = following, since - 1
    if made is node or (made.op_type == node.op_type and _has_changed(made, node, to, at, types)):
        detach([] if made is node else [made])
        return None
    for old, new in zip(node.outputs, made.outputs, strict=True):
        dtype = types.get(old)
        new.type = new.type if dtype is None else onnx_ir.TensorType(dtype)
    return made


def _has_changed(made: onnx_ir.Node, node: onnx_ir.Node, low: int, high: int, types: TypeOf) -> bool:
    """True if the operator has another meaning for the node after opset `low` and up to `high`."""
    values = (*made.inputs, *node.outputs)
    return bool(
        changes_between(made, [None if value is None else types.get(value, value.dtype) for value in values], low, high)
    )


def _adapt_new_nodes(build: Builder, begin: int, now: int, to: int, types: TypeOf) -> None:
    """Adapt the nodes of the builder from there on, which are of opset `now`."""
    added = build.nodes[begin:]
    del build.nodes[begin:]
    for each in added:
        made = adapted(build, each, now, to, types) if has_adapter(each, now, to) else None
        if made is None:
            build.nodes.append(each)
            continue
        build.nodes.append(made)
        for old, new in zip(each.outputs, made.outputs, strict=True):
            old.replace_all_uses_with(new)
        detach([each])
