"""Nodes whose meaning differs under an older opset, rewritten in its form.

One function for each change that occurs in real models, found by the schemas of opsets 17 to 28: each returns
equivalent nodes, or None if a required value is not constant or the older opset cannot express it.

    opset  operator            now                            before
    18     ReduceMax, ...      input axes                     attribute axes (ReduceSum has had the input since 13)
    18     Split               num_outputs                    input split, from the length of the axis
    18     Pad                 input axes                     pads of all axes
    20     GridSample          linear, cubic                  bilinear, bicubic
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops import operators
from castsmith.lowering.builder import Builder

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
    """Adapt Split of opset 18: parts of equal length, the last one shorter, of an axis of known length."""
    x, count = node.inputs[0], node.attributes.get_int("num_outputs", 0) or len(node.outputs)
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return _again(node, list(node.inputs), num_outputs=None)
    axis = node.attributes.get_int("axis", 0)
    length = None if x is None or x.shape is None else x.shape[axis]
    if not isinstance(length, int) or not count:
        return None
    part = -(-length // count)
    lengths = [part] * (length // part) + ([length % part] if part and length % part else [])
    if len(lengths) != count:
        return None
    return _again(node, [x, build.constant(np.array(lengths, np.int64), "split")], num_outputs=None)


def equal_parts(_build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Split of opset 18 into parts that the standard's own functions make equal, of an axis of any length."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return _again(node, list(node.inputs), num_outputs=None)
    return _again(node, [node.inputs[0]], num_outputs=None)


def pads_of_all_axes(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | None:
    """Adapt Pad of opset 18: constant pads of constant axes of an operand of known rank."""
    if len(node.inputs) < 4 or node.inputs[3] is None:
        return None
    x, pads, axes = node.inputs[0], _ints(node.inputs[1]), _ints(node.inputs[3])
    if x is None or x.shape is None or pads is None or axes is None or node.attributes.get_string("mode") == "wrap":
        return None
    rank = x.shape.rank()
    full = np.zeros((2, rank), np.int64)
    for index, axis in enumerate(axes):
        full[:, axis] = pads[index], pads[index + len(axes)]
    return _again(node, [x, build.constant(full.reshape(-1), "pads"), node.inputs[2]])


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
ADAPTERS: dict[str, tuple[int, Adapter]] = {
    **dict.fromkeys(_REDUCTIONS, (18, axes_as_attribute)),
    "Split": (18, split_by_lengths),
    "Pad": (18, pads_of_all_axes),
    "GridSample": (20, modes_of_images),
}
"""For each operator the opset that changed it, and the function that adapts a node to an older opset."""


def has_adapter(node: onnx_ir.Node, now: int, to: int) -> bool:
    """True if the operator changed between the opsets in a way that an adapter covers."""
    since, _ = ADAPTERS.get(node.op_type, (0, None))
    return _OLDEST <= to < since <= now


def adapted(build: Builder, node: onnx_ir.Node, now: int, to: int) -> onnx_ir.Node | None:
    """Return the node in the form of opset `to`, with constants made by `build`; None if no adapter can."""
    if not has_adapter(node, now, to) or any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    return ADAPTERS[node.op_type][1](build, node)
