"""Effect of operators that move elements on shapes: all opsets, attributes or inputs alike.

Each rule takes a node and the shapes of its operands and returns the move for each output; None for an invalid node
(axes out of range, shapes that do not fit), or if an input that it depends on is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import onnx_ir

from castsmith.numerics.types import fits_array
from castsmith.passes.fold.moves import Dims, Move, Way

# Axes and shapes in the convention of the operators that move elements.


def axis_of(axis: int, rank: int) -> int | None:
    """Return the axis counted from the front; None if it is out of range."""
    return axis % rank if -rank <= axis < rank else None


def axes_of(axes: Sequence[int], rank: int) -> Dims | None:
    """Return the axes counted from the front; None if one is out of range or repeated."""
    found = [place for axis in axes if (place := axis_of(axis, rank)) is not None]
    return tuple(found) if len(set(found)) == len(axes) else None


_OPEN_ENDS = (2**31 - 1, 2**63 - 1)
"""Ends that mean the last element where a Slice goes forward."""


def walked(dim: int, start: int, end: int, step: int) -> tuple[int, int, int] | None:
    """Return the start, number of elements and step of a Slice along an axis; None if runtimes disagree.

    Ends are clamped, as in Python. Backward from before the first element, the standard starts at the first element,
    Python nowhere. Backward to INT_MAX, the standard goes nowhere, ONNX Runtime to the first element.
    """
    if step < 0 and (start < -dim or end in _OPEN_ENDS):
        return None
    walk = range(*slice(start, end, step).indices(dim))
    return (walk.start if len(walk) else 0), len(walk), step


def joined(shapes: Sequence[Dims | None], axis: int) -> Dims | None:
    """Return the shape of arrays joined along `axis`; None if they do not fit."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) != 1:
        return None
    if len({shape[:axis] + shape[axis + 1 :] for shape in known}) != 1:
        return None
    return (*known[0][:axis], sum(shape[axis] for shape in known), *known[0][axis + 1 :])


def spread(shape: Dims, wanted: Dims) -> Dims | None:
    """Return the shape to which both broadcast; None if they do not."""
    rank = max(len(shape), len(wanted))
    pairs = zip((1,) * (rank - len(shape)) + shape, (1,) * (rank - len(wanted)) + wanted, strict=True)
    dims = [(max(pair) if 0 not in pair else 0) if 1 in pair or pair[0] == pair[1] else -1 for pair in pairs]
    return None if any(dim < 0 for dim in (*wanted, *dims)) else tuple(dims)


@dataclass(frozen=True)
class Operands:
    """The operands of a node: their shapes, and the integers in those that are parameters."""

    node: onnx_ir.Node
    shapes: Sequence[Dims | None]
    integers: Callable[[int], Dims | None]
    opset: int

    def parameter(self, name: str, index: int) -> Dims | None:
        """Return the parameter that early opsets have as an attribute and later ones as an input; None if absent."""
        if name in self.node.attributes:
            return tuple(self.node.attributes[name].as_ints())
        return self.integers(index) if self.has(index) else None

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def integer(self, name: str, default: int) -> int:
        return self.node.attributes.get_int(name, default) or 0


Rule = Callable[[Operands, Dims], Sequence[Move] | None]


def movement_of(operands: Operands) -> Sequence[Move] | None:
    """Return the move for each output of the node; None if an array does not hold one."""
    shape = operands.shapes[0] if operands.shapes else None
    moves = None if shape is None else SHAPE_RULES[operands.node.op_type](operands, shape)
    return moves if moves is not None and all(fits_array(move.shape) for move in moves) else None


def may_be_constant(node: onnx_ir.Node) -> bool:
    """True unless the operator of the node rules out that its results are constants."""
    return node.op_type in SHAPE_RULES or node.op_type == "Constant"


def moves_elements(node: onnx_ir.Node) -> bool:
    """True if the node only moves elements, independent of parameters of the enclosing function."""
    known = node.domain in ("", "ai.onnx") and node.op_type in SHAPE_RULES
    return known and not any(attribute.is_ref() for attribute in node.attributes.values())


def _identity(_operands: Operands, shape: Dims) -> Sequence[Move] | None:
    return (Move(Way.RESHAPE, shape),)


def _reshape(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    wanted = operands.parameter("shape", 1)
    if wanted is None:
        return None
    dims = list(wanted)
    if not operands.integer("allowzero", 0):
        if any(dim == 0 and index >= len(shape) for index, dim in enumerate(dims)):
            return None
        dims = [shape[index] if dim == 0 else dim for index, dim in enumerate(dims)]
    if dims.count(-1) == 1:
        rest = prod(dim for dim in dims if dim != -1)
        if rest == 0 or prod(shape) % rest:
            return None
        dims[dims.index(-1)] = prod(shape) // rest
    if any(dim < 0 for dim in dims) or prod(dims) != prod(shape):
        return None
    return (Move(Way.RESHAPE, tuple(dims)),)


def _transpose(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    perm = operands.parameter("perm", 1) or tuple(reversed(range(len(shape))))
    if sorted(perm) != list(range(len(shape))):
        return None
    return (Move(Way.TRANSPOSE, tuple(shape[axis] for axis in perm), (perm,)),)


def _squeeze(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    axes = operands.parameter("axes", 1)
    if axes is None:
        if operands.has(1):
            return None
        return (Move(Way.RESHAPE, tuple(dim for dim in shape if dim != 1)),)
    # It is undefined whether no axes at all means none or every one.
    gone = axes_of(axes, len(shape)) if axes or 1 not in shape else None
    if gone is None or any(shape[axis] != 1 for axis in gone):
        return None
    return (Move(Way.RESHAPE, tuple(dim for axis, dim in enumerate(shape) if axis not in gone)),)


def _unsqueeze(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    axes = operands.parameter("axes", 1)
    added = None if axes is None else axes_of(axes, len(shape) + len(axes))
    if axes is None or added is None:
        return None
    dims = iter(shape)
    return (Move(Way.RESHAPE, tuple(1 if axis in added else next(dims) for axis in range(len(shape) + len(axes)))),)


def _flatten(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    axis = operands.integer("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return (Move(Way.RESHAPE, (prod(shape[:axis]), prod(shape[axis:]))),) if 0 <= axis <= len(shape) else None


def _slice(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    starts, ends = operands.parameter("starts", 1), operands.parameter("ends", 2)
    axes, steps = operands.parameter("axes", 3), operands.parameter("steps", 4)
    if starts is None or ends is None or (axes is None and operands.has(3)) or (steps is None and operands.has(4)):
        return None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    cut = axes_of(axes, len(shape))
    if cut is None or not len(starts) == len(ends) == len(cut) == len(steps) or 0 in steps:
        return None
    parts: list[tuple[int, int, int]] = [(0, dim, 1) for dim in shape]
    for axis, *ends_and_step in zip(cut, starts, ends, steps, strict=True):
        part = walked(shape[axis], *ends_and_step)
        if part is None:
            return None
        parts[axis] = part
    return (_sliced(parts),)


def _sliced(parts: list[tuple[int, int, int]]) -> Move:
    return Move(Way.SLICE, tuple(count for _, count, _ in parts), tuple(parts))


def _concat(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    if operands.opset >= 4 and "axis" not in operands.node.attributes:
        return None
    axis = axis_of(operands.integer("axis", 1), len(shape))
    result = None if axis is None else joined(operands.shapes, axis)
    return None if axis is None or result is None else (Move(Way.CONCAT, result, ((axis,),)),)


def _gather(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    axis, indices = axis_of(operands.integer("axis", 0), len(shape)), operands.shapes[1]
    if axis is None or indices is None:
        return None
    return (Move(Way.GATHER, shape[:axis] + indices + shape[axis + 1 :], ((axis,),)),)


def _scatter(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    indices, values = operands.shapes[1], operands.shapes[2]
    reduction = operands.node.attributes.get_string("reduction", "none")
    if reduction != "none" or not indices or values is None or not 1 <= indices[-1] <= len(shape):
        return None
    return (Move(Way.SCATTER, shape),) if values == (*indices[:-1], *shape[indices[-1] :]) else None


def _expand(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    wanted = operands.parameter("shape", 1)
    result = None if wanted is None else spread(shape, wanted)
    return None if result is None else (Move(Way.EXPAND, result),)


def _split(operands: Operands, shape: Dims) -> Sequence[Move] | None:
    axis, lengths = axis_of(operands.integer("axis", 0), len(shape)), operands.parameter("split", 1)
    count = len(operands.node.outputs)
    if axis is None or (lengths is None and operands.has(1)):
        return None
    if lengths is None:
        uneven = "num_outputs" in operands.node.attributes
        longest = -(-shape[axis] // count)
        if shape[axis] % count and not uneven:
            return None
        lengths = tuple(max(0, min(longest, shape[axis] - longest * index)) for index in range(count))
    if len(lengths) != count or sum(lengths) != shape[axis] or min(lengths) < 0:
        return None
    starts = accumulate(lengths, initial=0)
    whole = [(0, dim, 1) for dim in shape]
    return [
        _sliced([*whole[:axis], (start, length, 1), *whole[axis + 1 :]])
        for start, length in zip(starts, lengths, strict=False)
    ]


def _constant_of_shape(operands: Operands, _shape: Dims) -> Sequence[Move] | None:
    wanted = operands.integers(0)
    return None if wanted is None or any(dim < 0 for dim in wanted) else (Move(Way.EXPAND, wanted),)


SHAPE_RULES: dict[str, Rule] = {
    "Identity": _identity,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Flatten": _flatten,
    "Slice": _slice,
    "Concat": _concat,
    "Gather": _gather,
    "ScatterND": _scatter,
    "Expand": _expand,
    "Split": _split,
    "ConstantOfShape": _constant_of_shape,
}
