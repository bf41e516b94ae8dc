"""Shape operands as equivalent constants.

Reshape  the number of elements is unchanged, so that one dimension may be -1. A dimension that equals the
         input's in the same position is 0.
Expand   a dimension that the input already has, or one above 1, may be 1.
Slice    the end of a dimension is its own size, or anything above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir

from castsmith.analysis.shapes.elements import Dims
from castsmith.analysis.shapes.walk import Shapes
from castsmith.numerics.symbols import Element, Poly, low_of

_END = 2**63 - 1


def constant_target(node: onnx_ir.Node, shapes: Shapes) -> tuple[int, list[int]] | None:
    """Return the input of the node that can be a constant, and its elements; None if no input can."""
    if node.op_type not in _RULES or any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    index, rule = _RULES[node.op_type]
    value = node.inputs[index] if index < len(node.inputs) else None
    producer = None if value is None else value.producer()
    if producer is None or producer.op_type == "Shape":  # nothing is computed there
        return None
    wanted = shapes.content(value)
    if wanted is None or wanted.ndim != 1 or all(isinstance(target, int) for target in wanted.tolist()):
        return None
    target = rule(node, wanted.tolist(), shapes.shape(node.inputs[0]), shapes)
    return None if target is None else (index, target)


def _reshape(node: onnx_ir.Node, wanted: list[Element], shape: Dims | None, _: Shapes) -> list[int] | None:
    if shape is None:
        return None
    allow_zero = bool(node.attributes.get_int("allowzero", 0))
    dims: list[Element] = [*wanted]
    sizes: list[Element] = []
    for index, target in enumerate(wanted):
        own = shape[index] if index < len(shape) else None
        if isinstance(target, Poly) and target == own and not allow_zero:
            dims[index] = 0
        sizes.append(own if dims[index] == 0 and not allow_zero and own is not None else dims[index])
    missing = [index for index, dim in enumerate(dims) if not isinstance(dim, int)]
    if missing:
        rest = [size for index, size in enumerate(sizes) if index != missing[0]]
        # Without elements, a -1 would not determine the dimension.
        if len(missing) > 1 or -1 in dims or not all((low_of(size) or 0) > 0 for size in rest):
            return None
        dims[missing[0]] = -1
    return [dim for dim in dims if isinstance(dim, int)]


def _expand(_: onnx_ir.Node, wanted: list[Element], shape: Dims | None, __: Shapes) -> list[int] | None:
    if shape is None or len(wanted) > len(shape):
        return None
    own = shape[len(shape) - len(wanted) :]
    places: list[int] = []
    for target, dim in zip(wanted, own, strict=True):
        if isinstance(target, int):
            places.append(target)
        elif target == dim or (low_of(dim) or 0) > 1:
            places.append(1)
        else:
            return None
    return places


def _slice(node: onnx_ir.Node, wanted: list[Element], shape: Dims | None, shapes: Shapes) -> list[int] | None:
    axes = shapes.content(node.inputs[3]) if len(node.inputs) > 3 else None
    steps = shapes.content(node.inputs[4]) if len(node.inputs) > 4 else None
    if shape is None or (axes is None and len(node.inputs) > 3 and node.inputs[3] is not None):
        return None
    if steps is None and len(node.inputs) > 4 and node.inputs[4] is not None:
        return None
    places: list[Element] = list(range(len(wanted))) if axes is None else axes.ravel().tolist()
    strides: list[Element] = [1] * len(wanted) if steps is None else steps.ravel().tolist()
    if not len(places) == len(strides) == len(wanted):
        return None
    ends: list[int] = []
    for target, axis, step in zip(wanted, places, strides, strict=True):
        if isinstance(target, int):
            ends.append(target)
        elif _ends(target, axis, shape) and (low_of(step) or 0) > 0:
            ends.append(_END)
        else:
            return None
    return ends


def _ends(end: Element, axis: Element, shape: Dims) -> bool:
    """True if an end is the size of the dimension."""
    return isinstance(axis, int) and -len(shape) <= axis < len(shape) and end == shape[axis]


_Rule = Callable[[onnx_ir.Node, "list[Element]", "Dims | None", Shapes], "list[int] | None"]
_RULES: Mapping[str, tuple[int, _Rule]] = {"Reshape": (1, _reshape), "Expand": (1, _expand), "Slice": (2, _slice)}

WITH_TARGETS = frozenset(_RULES)
"""The operators with a shape operand."""

REASONS: Mapping[str, str] = {
    "Reshape": "the unknown dimension follows from the other dimensions",
    "Expand": "the input already has the unknown dimension",
    "Slice": "the slice ends where the dimension does, whatever its size",
}
