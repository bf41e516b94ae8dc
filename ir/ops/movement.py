"""Effect on shapes of the operators that move elements: all opsets, attributes or inputs alike.

Each operator has one rule, from the shapes of its operands and the elements of its parameters to its movement. A
dimension or element is a number, a symbolic number (`castsmith.numerics.symbols`) or UNKNOWN: folding takes movements
of which everything is a number, shape arithmetic the symbols, and bounds of values what is known of each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import onnx_ir

from castsmith.ir.ops.attributes import MisfitError, int_of, ints_of
from castsmith.ir.ops.moves import Move, Way
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators, traits_of
from castsmith.numerics.symbols import UNKNOWN, Element, Unknown, low_of, product, quotient
from castsmith.numerics.types import MOST_DIMENSIONS, fits_array

Dims = tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Movement:
    """What a node does to the shape of one output.

    Attributes:
        way: The kind of movement.
        shape: The shape of the output; None for an unknown rank.
        detail: The details of the way, as in `Move`, with UNKNOWN among them where they are not all known.
        disputed: Runtimes disagree about the shape, so that a declared one says nothing.
    """

    way: Way
    shape: Dims | None
    detail: tuple[Dims, ...] = ()
    disputed: bool = False

    def move(self) -> Move | None:
        """Return the movement of arrays; None unless everything is a number, and an array holds the result."""
        numbers = [_integers(dims) for dims in (self.shape, *self.detail)]
        shape, *detail = numbers
        if shape is None or None in detail or not fits_array(shape):
            return None
        return Move(self.way, shape, tuple(dims for dims in detail if dims is not None))


@dataclass(frozen=True)
class Operands:
    """The operands of a node: their shapes, and the elements of those that are parameters.

    Attributes:
        elements: Returns the elements of an input that is a list or a scalar of integers; None if unknown.
    """

    node: onnx_ir.Node
    shapes: Sequence[Dims | None]
    elements: Callable[[int], Sequence[Element] | None]
    opset: int

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def shape(self, index: int) -> Dims | None:
        """Return the shape of an input; None if it is absent or its rank is unknown."""
        return self.shapes[index] if self.has(index) else None

    def integer(self, name: str, default: int) -> int:
        return int_of(self.node, name, default)

    def integers(self, name: str, index: int) -> tuple[int, ...] | None:
        """Return a parameter of which each element is known; None if absent or unknown."""
        return _integers(self.parameter(name, index))

    def parameter(self, name: str, index: int) -> Dims | None:
        """Return the parameter that early opsets have as an attribute and later ones as an input.

        None if it is absent or its length is unknown.

        Raises:
            MisfitError: It lists more than an array has dimensions.
        """
        ints = ints_of(self.node, name)
        if ints is not None:
            return tuple(ints)
        elements = self.elements(index) if self.has(index) else None
        if elements is not None:
            return tuple(elements)
        shape = self.shape(index)
        count = shape[0] if shape is not None and len(shape) == 1 else None
        if not isinstance(count, int):
            return None
        if count > MOST_DIMENSIONS:
            raise MisfitError
        return (UNKNOWN,) * count


def _integers(dims: Dims | None) -> tuple[int, ...] | None:
    """Return the dimensions if each is a number."""
    if dims is None:
        return None
    numbers = tuple(dim for dim in dims if isinstance(dim, int))
    return numbers if len(numbers) == len(dims) else None


Rule = Callable[[Operands], Sequence[Movement] | None]


def movement_of(operands: Operands) -> Sequence[Movement] | None:
    """Return the movement for each output of the node; None if nothing is known.

    Raises:
        MisfitError: The node contradicts the definition of its operator.
    """
    moved = RULES[operands.node.op_type](operands)
    if moved is not None and any(len(part.shape or ()) > MOST_DIMENSIONS for part in moved):
        raise MisfitError
    return moved


def moves_of(operands: Operands) -> list[Move] | None:
    """Return the move of arrays for each output of the node; None unless the operands determine it."""
    if not traits_of("", operands.node.op_type).holds(operands.node):
        return None
    try:
        movements = movement_of(operands)
    except MisfitError:
        return None
    moves = [move for movement in movements or () if (move := movement.move()) is not None]
    return moves if movements is not None and len(moves) == len(movements) else None


_CARRYING = operators(lambda row: row.carries)


def may_be_constant(node: onnx_ir.Node) -> bool:
    """True unless the operator of the node rules out that its results are constants."""
    return node.op_type in _CARRYING or node.op_type == "Constant"


def moves_elements(node: onnx_ir.Node) -> bool:
    """True if a constant is followed through the node, independent of parameters of the enclosing function."""
    is_standard = node.domain in DEFAULT_DOMAINS and node.op_type in _CARRYING
    return is_standard and not any(attribute.is_ref() for attribute in node.attributes.values())


# Axes and shapes in the convention of the operators that move elements.


def axis_of(axis: int, rank: int) -> int:
    """Return the axis counted from the front. Raises MisfitError if it is out of range."""
    if not -rank <= axis < rank:
        raise MisfitError
    return axis % rank


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Return the axes counted from the front. Raises MisfitError if one is out of range or repeated."""
    places = [axis_of(axis, rank) for axis in axes]
    if len(set(places)) < len(places):
        raise MisfitError
    return places


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Return the shape to which all broadcast."""
    rank = max(map(len, shapes), default=0)
    result: Dims = (1,) * rank
    for shape in shapes:
        padded: Dims = (*(1,) * (rank - len(shape)), *shape)
        result = tuple(_joined_dim(a, b) for a, b in zip(result, padded, strict=True))
    return result


def _joined_dim(a: Element, b: Element) -> Element:
    """Return the dimension to which both broadcast."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    for dim in (a, b):
        if isinstance(dim, int):
            return dim
    low, least = low_of(a), low_of(b)
    # Two dimensions above 1 must be equal.
    return a if low is not None and least is not None and min(low, least) > 1 else UNKNOWN


def differ(*dims: Element) -> bool:
    """True if dimensions that must be equal are different numbers."""
    return len({dim for dim in dims if isinstance(dim, int)}) > 1


def _size(element: Element) -> Element:
    """Return an element of a list of sizes; a negative one, as some exporters write it, is unknown."""
    low = low_of(element)
    return element if low is not None and low >= 0 else UNKNOWN


# The rules.


def _identity(node: Operands) -> Sequence[Movement] | None:
    return (Movement(Way.RESHAPE, node.shape(0)),)


def _reshape(node: Operands) -> Sequence[Movement] | None:
    """The number of elements is unchanged, or it fails."""
    shape, targets = node.shape(0), node.parameter("shape", 1)
    if targets is None:
        return None
    allow_zero = bool(node.integer("allowzero", 0))
    if shape is not None and 0 in targets[len(shape) :] and not allow_zero:
        raise MisfitError
    own = (UNKNOWN,) * len(targets) if shape is None else (*shape, *(UNKNOWN,) * (len(targets) - len(shape)))
    dims = [_target(*pair, allow_zero=allow_zero) for pair in zip(targets, own, strict=False)]
    missing = [index for index, dim in enumerate(dims) if isinstance(dim, Unknown)]
    if len(missing) == 1 and shape is not None:
        rest = product(dim for dim in dims if not isinstance(dim, Unknown))
        # With 0 elements the rest does not fix the dimension; a -1 fails there.
        if targets[missing[0]] == -1 or (low_of(rest) or 0) > 0:
            dims[missing[0]] = quotient(product(shape), rest)
    if shape is not None and differ(product(shape), product(dims)):
        raise MisfitError
    return (Movement(Way.RESHAPE, tuple(dims)),)


def _target(target: Element, own: Element, *, allow_zero: bool) -> Element:
    """Return the dimension for an element of a Reshape target; `own`: the input's dimension in that position."""
    low = low_of(target)
    if low is None or low < 0:
        return UNKNOWN
    if target == 0 and not allow_zero:
        return own
    # A symbol that is 0 means the dimension of the input, which must then be 0 too.
    as_own = isinstance(quotient(target, own), int)
    return target if allow_zero or low > 0 or as_own else UNKNOWN


def _transpose(node: Operands) -> Sequence[Movement] | None:
    shape, perm = node.shape(0), node.integers("perm", 1)
    if shape is None:
        return None
    perm = tuple(reversed(range(len(shape)))) if perm is None else perm
    if sorted(perm) != [*range(len(shape))]:
        raise MisfitError
    return (Movement(Way.TRANSPOSE, tuple(shape[axis] for axis in perm), (perm,)),)


def _squeeze(node: Operands) -> Sequence[Movement] | None:
    shape, axes = node.shape(0), node.integers("axes", 1)
    if shape is None or (axes is None and (node.has(1) or _integers(shape) is None)):
        return None
    if axes == () and not all(isinstance(dim, int) and dim != 1 for dim in shape):
        return None  # it is undefined whether no axes at all means none or every one
    squeezed = [axis for axis, dim in enumerate(shape) if dim == 1] if axes is None else axes_of(axes, len(shape))
    if any(differ(shape[axis], 1) for axis in squeezed):
        raise MisfitError
    return (Movement(Way.RESHAPE, tuple(dim for axis, dim in enumerate(shape) if axis not in squeezed)),)


def _unsqueeze(node: Operands) -> Sequence[Movement] | None:
    shape, axes = node.shape(0), node.integers("axes", 1)
    if shape is None or axes is None:
        return None
    rank = len(shape) + len(axes)
    added, dims = axes_of(axes, rank), iter(shape)
    return (Movement(Way.RESHAPE, tuple(1 if axis in added else next(dims) for axis in range(rank))),)


def _flatten(node: Operands) -> Sequence[Movement] | None:
    shape, axis = node.shape(0), node.integer("axis", 1)
    if shape is None:
        return None
    if not -len(shape) <= axis <= len(shape):
        raise MisfitError
    return (Movement(Way.RESHAPE, (product(shape[:axis]), product(shape[axis:]))),)


Part = tuple[Element, Element, Element]
"""The start, number of elements and step of a Slice along an axis."""
_UNKNOWN_PART: Part = (UNKNOWN, UNKNOWN, UNKNOWN)
_MAYBE_NONE = 2**31 - 1
"""An end from which on a Slice goes forward to the last element; backward, runtimes disagree."""


def _slice(node: Operands) -> Sequence[Movement] | None:
    shape, starts, ends = node.shape(0), node.parameter("starts", 1), node.parameter("ends", 2)
    if shape is None:
        return None
    axes = node.parameter("axes", 3)
    if axes is None and not node.has(3):
        axes = tuple(range(min(len(part) for part in (shape, starts, ends) if part is not None)))
    axes = _integers(axes)
    if axes is None:
        return (_sliced([_UNKNOWN_PART] * len(shape)),)
    unknown = (UNKNOWN,) * len(axes)
    steps = node.parameter("steps", 4) or (unknown if node.has(4) else (1,) * len(axes))
    starts, ends = starts or unknown, ends or unknown
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise MisfitError
    parts: list[Part] = [(0, dim, 1) for dim in shape]
    disputed = False
    for axis, *cut in zip(axes_of(axes, len(shape)), starts, ends, steps, strict=True):
        unsettled = _is_disputed(shape[axis], *cut)
        parts[axis] = _UNKNOWN_PART if unsettled else _part(shape[axis], *cut)
        disputed = disputed or unsettled
    return (_sliced(parts, disputed=disputed),)


def _is_disputed(dim: Element, start: Element, end: Element, step: Element) -> bool:
    """True if runtimes disagree about what a Slice takes.

    Backward from before the first element, the standard starts at the first element, Python nowhere. Backward to
    INT_MAX, the standard goes nowhere, ONNX Runtime to the first element.
    """
    backward = isinstance(step, int) and step < 0
    before = isinstance(dim, int) and isinstance(start, int) and start < -dim
    return backward and (before or (isinstance(end, int) and end >= _MAYBE_NONE))


def _part(dim: Element, start: Element, end: Element, step: Element) -> Part:
    """Return what a Slice takes of a dimension: ends are clamped, as in Python."""
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        walk = range(*slice(start, end, step).indices(dim))
        return (walk.start if len(walk) else 0), len(walk), step
    to_the_end = end == dim or (isinstance(end, int) and end >= _MAYBE_NONE)
    return (0, dim, 1) if start == 0 and step == 1 and to_the_end else _UNKNOWN_PART


def _sliced(parts: Sequence[Part], *, disputed: bool = False) -> Movement:
    return Movement(Way.SLICE, tuple(count for _, count, _ in parts), tuple(parts), disputed)


def _split(node: Operands) -> Sequence[Movement] | None:
    shape, lengths = node.shape(0), node.parameter("split", 1)
    count = len(node.node.outputs)
    if shape is None:
        return None
    axis = axis_of(node.integer("axis", 0), len(shape))
    if lengths is None:
        lengths = (UNKNOWN,) * count if node.has(1) else _even_lengths(node, shape[axis], count)
    ends = [*accumulate(lengths)]
    if (
        not count
        or len(lengths) != count
        or differ(ends[-1], shape[axis])
        or any((low_of(length) or 0) < 0 for length in lengths)
    ):
        raise MisfitError
    whole: list[Part] = [(0, dim, 1) for dim in shape]
    return [
        _sliced([*whole[:axis], (end - length, length, 1), *whole[axis + 1 :]])
        for end, length in zip(ends, lengths, strict=True)
    ]


def _even_lengths(node: Operands, dim: Element, count: int) -> Dims:
    """Return the lengths of equal parts; with `num_outputs` the last one may be shorter."""
    if not isinstance(dim, int):
        return (quotient(dim, count),) * count
    if node.integer("num_outputs", count) != count or (dim % count and "num_outputs" not in node.node.attributes):
        raise MisfitError
    longest = -(-dim // count)
    return tuple(max(0, min(longest, dim - longest * index)) for index in range(count))


def _concat(node: Operands) -> Sequence[Movement] | None:
    shapes = [shape for shape in node.shapes if shape is not None]
    if len(shapes) < len(node.shapes) or not shapes:
        return None
    if len({len(shape) for shape in shapes}) != 1 or (node.opset >= 4 and "axis" not in node.node.attributes):
        raise MisfitError
    axis = axis_of(node.integer("axis", 1), len(shapes[0]))
    dims: list[Element] = []
    for index, column in enumerate(zip(*shapes, strict=True)):
        if index != axis and differ(*column):
            raise MisfitError
        numbers = [dim for dim in column if isinstance(dim, int)]
        dims.append(sum(column[1:], column[0]) if index == axis else numbers[0] if numbers else column[0])
    return (Movement(Way.CONCAT, tuple(dims), ((axis,),)),)


def _gather(node: Operands) -> Sequence[Movement] | None:
    shape, indices = node.shape(0), node.shape(1)
    if shape is None:
        return None
    axis = axis_of(node.integer("axis", 0), len(shape))
    dims = None if indices is None else (*shape[:axis], *indices, *shape[axis + 1 :])
    return (Movement(Way.GATHER, dims, ((axis,),)),)


def _scatter(node: Operands) -> Sequence[Movement] | None:
    shape, indices, values = map(node.shape, range(3))
    if shape is None:
        return None
    depth = indices[-1] if indices else None
    if indices == () or (isinstance(depth, int) and not 1 <= depth <= len(shape)):
        raise MisfitError
    if indices is None or values is None or not isinstance(depth, int):
        return (Movement(Way.SCATTER, shape, ((UNKNOWN,),)),)
    wanted = (*indices[:-1], *shape[depth:])
    if len(values) != len(wanted) or any(map(differ, values, wanted)):
        raise MisfitError
    return (Movement(Way.SCATTER, shape),)


def _expand(node: Operands) -> Sequence[Movement] | None:
    shape, wanted = node.shape(0), node.parameter("shape", 1)
    if shape is None or wanted is None:
        return None
    sizes = tuple(map(_size, wanted))
    pairs = zip(reversed(shape), reversed(sizes), strict=False)
    if any(differ(*pair) and 1 not in pair for pair in pairs):
        raise MisfitError
    return (Movement(Way.EXPAND, broadcast([shape, sizes])),)


def _tile(node: Operands) -> Sequence[Movement] | None:
    shape, repeats = node.shape(0), node.parameter("repeats", 1)
    if shape is None or node.opset < 6:
        return None
    repeats = (UNKNOWN,) * len(shape) if repeats is None else tuple(map(_size, repeats))
    if len(repeats) != len(shape):
        raise MisfitError
    return (Movement(Way.TILE, tuple(dim * times for dim, times in zip(shape, repeats, strict=True)), (repeats,)),)


def _constant_of_shape(node: Operands) -> Sequence[Movement] | None:
    wanted = node.parameter("", 0)
    return None if wanted is None else (Movement(Way.EXPAND, tuple(map(_size, wanted))),)


RULES: Mapping[str, Rule] = {
    "Identity": _identity,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Flatten": _flatten,
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "Gather": _gather,
    "ScatterND": _scatter,
    "Expand": _expand,
    "Tile": _tile,
    "ConstantOfShape": _constant_of_shape,
}
