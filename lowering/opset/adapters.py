"""Nodes whose meaning differs under an older opset rewritten in its form.

One function for each change that real models, or the definitions of operators, need for a target: each returns an
equivalent node of the opset before the change, or None for a node that has no such form.

    opset  operator            now                            before
    18     ReduceMax, ...      input axes, constant           attribute axes (ReduceSum has had the input since 13)
    18     Split               num_outputs                    input split, from the length of the axis
    18     Pad                 input axes                     pads of all axes
    19     Cast, CastLike      saturate, not to float8        no attribute
    21     QuantizeLinear      attribute output_dtype         a zero point of zeros
    23     QuantizeLinear      attribute precision            both operands of that type
    24     Cast, CastLike      infinity saturates (fnuz)      infinity replaced by the largest number
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.changes import changes_between
from castsmith.ir.ops.table import operators
from castsmith.lowering.builder import Builder
from castsmith.lowering.opset.obstacles import TypeOf, is_legal, node_obstacle
from castsmith.numerics.types import ELEMENT_TYPES, HALF_TYPES, Kind, Specials, element_type
from castsmith.passes.core.rewriting import detach

Adapter = Callable[[Builder, onnx_ir.Node], onnx_ir.Node | None]
"""Returns an equivalent node of the opset before a change, after the nodes and constants of the builder, or None."""

_FNUZ = tuple(dtype for dtype, row in ELEMENT_TYPES.items() if row.specials is Specials.FNUZ)
_SATURATING = tuple(d for d, row in ELEMENT_TYPES.items() if row.kind is Kind.FLOATING and row.bits <= 8)


def axes_as_attribute(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Reduce operators of opset 18; no axes reduce all, unless `noop_with_empty_axes`."""
    operand = node.inputs[1] if len(node.inputs) > 1 else None
    axes = [] if operand is None else _ints_of(operand)
    if axes is None or (not axes and node.attributes.get_int("noop_with_empty_axes", 0)):
        return None
    attribute = onnx_ir.AttrInt64s("axes", axes) if axes else None
    return again(node, [node.inputs[0]], axes=attribute, noop_with_empty_axes=None)


def split_by_lengths(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Split of opset 18: parts of equal length of an axis of known length, the last one shorter."""
    x, count = node.inputs[0], len(node.outputs)
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return again(node, list(node.inputs), num_outputs=None)
    length = None if x is None or x.shape is None else x.shape[node.attributes.get_int("axis", 0)]
    if not isinstance(length, int):
        return None
    part = -(-length // count)
    lengths = [part] * (count - 1) + [length - part * (count - 1)]
    if length and lengths[-1] <= 0:
        return None
    return again(node, [x, build.constant(np.array(lengths, np.int64), "split")], num_outputs=None)


def pads_of_all_axes(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Pad of opset 18: constant pads of constant axes become pads of all axes."""
    axes = node.inputs[3] if len(node.inputs) > 3 else None
    x, pads = node.inputs[0], node.inputs[1]
    widths, along = _ints_of(pads), _ints_of(axes)
    if x is None or x.shape is None or widths is None or along is None:
        return None
    full = np.zeros((2, x.shape.rank()), np.int64)
    for index, axis in enumerate(along):
        full[:, axis] = widths[index], widths[index + len(along)]
    return again(node, [x, build.constant(full.reshape(-1), "pads"), node.inputs[2]])


def zero_point_for_type(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt QuantizeLinear of opset 21: the type of the result is that of a zero point of zeros."""
    stated = node.attributes.get_int("output_dtype", 0)
    x, scale, zero = (node.inputs[index] if index < len(node.inputs) else None for index in range(3))
    if x is None or scale is None or not stated:
        return None
    if zero is None:
        tensor = onnx_ir.tensor(np.zeros(1, DataType(stated).numpy()), name="zero")
        zero = build.typed(
            "ConstantOfShape", [build.typed("Shape", [scale], DataType.INT64)], DataType(stated), value=tensor
        )
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
    if to not in _FNUZ:
        return None
    if x is None or x.dtype is None or x.dtype not in (DataType.DOUBLE, DataType.FLOAT, *HALF_TYPES):
        return None
    most = float(element_type(x.dtype).max)
    finite = build.op("Where", build.op("Equal", x, float("inf")), most, x)
    finite = build.op("Where", build.op("Equal", finite, float("-inf")), -most, finite)
    return again(node, [finite, *node.inputs[1:]])


def without_effect(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt conversions whose rules of saturation and rounding are for other types than that of their result."""
    to = _result_type(node)
    if to is None or to in _SATURATING:
        return None
    return again(node, list(node.inputs), saturate=None, round_mode=None)


def _result_type(node: onnx_ir.Node) -> DataType | None:
    """Return the type to which Cast, CastLike and QuantizeLinear convert."""
    stated = next((node.attributes.get_int(name, 0) for name in ("to", "output_dtype") if name in node.attributes), 0)
    like = node.inputs[2 if node.op_type == "QuantizeLinear" else 1 :][:1]
    if stated or node.op_type == "Cast":
        return DataType(stated)
    return like[0].dtype if like and like[0] is not None else DataType.UINT8


_OLDEST = 13
"""In older opsets these operators have features beyond the texts below."""


def _since(*changes: tuple[int, Adapter]) -> tuple[tuple[int, Adapter], ...]:
    """Return the opsets that changed an operator, each with the function that undoes the change."""
    return changes


ADAPTERS: dict[str, tuple[tuple[int, Adapter], ...]] = {
    **dict.fromkeys(operators(lambda row: row.reduces), _since((18, axes_as_attribute))),
    "Split": _since((18, split_by_lengths)),
    "Pad": _since((18, pads_of_all_axes)),
    "QuantizeLinear": _since((23, one_type_of_division), (21, zero_point_for_type), (19, without_effect)),
    **dict.fromkeys(("Cast", "CastLike"), _since((24, without_effect), (24, finite_for_fnuz), (19, without_effect))),
}
"""For each operator the opsets that changed it, newest first, and the function that adapts a node to an older one."""


def adapted(build: Builder, node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> onnx_ir.Node | None:
    """Return the node in the form of opset `to`, after the nodes and constants of `build`; None if no adapter can."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    current, at = node, now
    for since, adapter in ADAPTERS.get(node.op_type, ()):
        if not _OLDEST <= to < since <= now or _has_changed(current, node, since, at, types):
            continue
        following = adapter(build, current)
        if following is not None:
            detach([] if current is node else [current])
            current, at = following, since - 1
    forms = (*build.nodes, current)
    stays = current is node or node_obstacle(current, at, to, types) is not None
    if not stays and all(is_legal(form, now, to, types) for form in forms):
        return current
    detach([*build.nodes, *([] if current is node else [current])])
    return None


def _has_changed(form: onnx_ir.Node, node: onnx_ir.Node, low: int, high: int, types: TypeOf) -> bool:
    """True if the operator has another meaning for the node after opset `low` and up to `high`."""
    values = (*form.inputs, *node.outputs)
    return bool(
        changes_between(form, [None if value is None else types.get(value, value.dtype) for value in values], low, high)
    )


def _ints_of(value: onnx_ir.Value | None) -> list[int] | None:
    """Return the elements of a constant; None if the value is not constant."""
    tensor = constant_tensor(value)
    return None if tensor is None else tensor.numpy().reshape(-1).tolist()


def again(
    node: onnx_ir.Node,
    inputs: list[onnx_ir.Value | None],
    op_type: str | None = None,
    **attributes: onnx_ir.Attr | None,
) -> onnx_ir.Node:
    """Return the node with these inputs, and with these attributes changed, or removed if None."""
    unchanged = {name: attribute for name, attribute in node.attributes.items() if name not in attributes}
    changed = {name: attribute for name, attribute in attributes.items() if attribute is not None}
    while inputs and inputs[-1] is None:
        inputs.pop()
    copy = onnx_ir.Node(
        "",
        op_type or node.op_type,
        inputs,
        list({**unchanged, **changed}.values()),
        num_outputs=len(node.outputs),
        name=node.name,
    )
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.name, new.type, new.shape = old.name, old.type, old.shape
    return copy
