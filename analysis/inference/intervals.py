"""Values whose elements are known to be integers in a range: facts that make more casts exact.

A value has a range (low, high) if every element is an integer n with low <= n <= high, and no zero among them is
-0. A value of a floating-point type may have one too: it then has no fraction, infinity or NaN. Other values have
no range. It follows from the node that makes the value, and the facts about its operands:

  constants                          their least and greatest element
  Shape, Size, NonZero, ArgMax ...   counts and indices: from 0 up to the bound of the dimensions
  bool                               0 or 1 as a number, through Cast
  integers                           the range of their type
  Cast                               the operand's range, if the target holds all of it
  Clip, Mod                          between the bounds, below the divisor (integers only)
  Add, Sub, Mul, Div, Neg, Range ... of integers that cannot overflow
  CumSum, ReduceSum                  as many of the operand's elements as the dimensions have, added up
  Max, Min                           the greatest, or least, of the operands' bounds
  ReduceMax, ReduceMin               the operand's range, if no dimension may be 0
  moves of elements                  the operand's range
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import prod

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS, operators, traits_of
from castsmith.ir.ops.traits import OF_OPERANDS, Answer, Moves
from castsmith.ir.walks import sources_first
from castsmith.numerics.errors import present
from castsmith.numerics.types import Kind, element_type

_LARGEST = 2**63 - 1
_READ = 1 << 16
"""Largest number of elements of a constant that is examined."""


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"integers from {self.low} to {self.high}"

    def joined(self, other: Range) -> Range:
        """Return the smallest range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def fits(self, dtype: DataType) -> bool:
        """True if every integer of the range is a value of the type."""
        row = element_type(dtype)
        if row.kind > Kind.FLOATING:
            return False
        if row.kind is not Kind.FLOATING:
            return row.min <= self.low and self.high <= row.max
        return row.signed and max(-self.low, self.high) <= min(2**row.precision, row.max)


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of the values of a model, each computed once, on demand.

    Request the range of a value while the node that makes it is unchanged: facts from its operands' shapes may be lost
    when it gets other operands.
    """

    inference: Inference
    largest_dim: int = _LARGEST
    """Upper bound of unknown dimensions."""
    known: dict[onnx_ir.Value, Range | None] = field(default_factory=dict[onnx_ir.Value, "Range | None"])

    def get(self, value: onnx_ir.Value) -> Range | None:
        """Return the range of the value; None if it has none or it is unknown."""
        for source, _ in sources_first(value, self.known, self._operands):
            rule, node = self._rule_of(source)
            range_ = None if rule is None or node is None else rule(node, self)
            self.known[source] = range_ or _of_source(source, self.inference)
        return self.known[value]

    def dims(self, value: onnx_ir.Value | None) -> list[int] | None:
        """Return the largest size of each dimension of the value; None if one is unknown."""
        if value is None:
            return None
        dims = [dim for dim in value.shape or () if isinstance(dim, int) and dim > 0]
        return dims if value.shape is not None and len(dims) == len(value.shape) else None

    def _operands(self, value: onnx_ir.Value) -> list[onnx_ir.Value]:
        """Return the values from whose ranges that of the value follows."""
        rule, node = self._rule_of(value)
        return [] if rule is None or node is None else [value for value in node.inputs if value is not None]

    def _rule_of(self, value: onnx_ir.Value) -> tuple[_Rule | None, onnx_ir.Node | None]:
        node = value.producer()
        if node is None or node.domain not in DEFAULT_DOMAINS:
            return None, None
        rule = _RULES.get(node.op_type)
        if rule is _arithmetic and self.kind(value) is not Kind.INTEGER:  # no matter what the operands are
            rule = None
        return rule, node

    def of(self, value: onnx_ir.Value | None) -> Range | None:
        """Return the facts about an operand for a rule, which runs after all operands were visited."""
        return None if value is None else self.known.get(value)

    def kind(self, value: onnx_ir.Value | None) -> Kind | None:
        dtype = self.inference.type_of(value)
        return None if dtype is None else element_type(dtype).kind


_Rule = Callable[[onnx_ir.Node, Ranges], Range | None]


def _of_source(value: onnx_ir.Value, inference: Inference) -> Range | None:
    """Return the range of a constant, or that of the type of a bool or integer."""
    tensor = constant_tensor(value)
    range_ = None if tensor is None else _of_tensor(tensor)
    dtype = inference.type_of(value)
    if range_ is not None or dtype is None:
        return range_
    if dtype == DataType.BOOL:
        return Range(0, 1)
    return _whole(dtype)


def _whole(dtype: DataType) -> Range | None:
    """Return the range of an integer type."""
    row = element_type(dtype)
    return Range(int(row.min), int(row.max)) if row.kind is Kind.INTEGER else None


def _of_tensor(tensor: onnx_ir.TensorProtocol) -> Range | None:
    if not 0 < tensor.size <= _READ or element_type(tensor.dtype).kind > Kind.FLOATING:
        return None
    array = tensor.numpy()
    if element_type(tensor.dtype).kind is Kind.FLOATING:
        numbers = array.astype(np.float64)
        if not np.isfinite(numbers).all() or (numbers != np.trunc(numbers)).any():
            return None
        if (np.signbit(numbers) & (numbers == 0)).any():
            return None
        return Range(int(numbers.min()), int(numbers.max()))
    return Range(int(array.min()), int(array.max()))


def _indices(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of indices into the operand, or its dimensions: at most the longest of them."""
    value = node.inputs[0]
    dims = None if value is None or value.shape is None else [*value.shape]
    fixed = [dim for dim in dims or () if isinstance(dim, int) and dim > 0]
    if dims is not None and len(fixed) == len(dims):
        return Range(0, max(fixed, default=1))
    return Range(0, max([ranges_.largest_dim, *fixed]))


def _count(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    dims = ranges_.dims(node.inputs[0])
    return Range(0, _LARGEST if dims is None else prod(dims))


def _move(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of a move: that of the operands that hold elements."""
    row = traits_of(node.domain, node.op_type)
    if not row.holds(node):
        return None
    operands = [ranges_.of(value) for value in row.moved(node.inputs)]
    ranges = [range_ for range_ in operands if range_ is not None]
    return reduce(Range.joined, ranges) if ranges and len(ranges) == len(operands) else None


def _cast(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    like = ranges_.inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
    meaning, range_ = read_cast(node, like), ranges_.of(node.inputs[0])
    if meaning is None or meaning.to is None:
        return None
    if meaning.to == DataType.BOOL:
        return Range(0, 1)
    return range_ if range_ is not None and range_.fits(meaning.to) else None


def _clip(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of integers clipped to bounds; if the bounds cross, the upper one wins, as in the schema."""
    dtype = ranges_.inference.type_of(node.inputs[0])
    if dtype is None or element_type(dtype).kind is not Kind.INTEGER:
        return None
    whole = _whole(dtype)
    whole = present(whole, "the range of the type")
    absent = (whole, Range(whole.low, whole.low), Range(whole.high, whole.high))
    range_, low, high = (
        bound if value is None else ranges_.of(value) or whole
        for value, bound in zip((*node.inputs, None, None), absent, strict=False)
    )
    ceiling = min(high.high, max(range_.high, low.high))
    floor = min(high.low, max(range_.low, low.low))
    return Range(floor, ceiling)


def _mod(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of integers modulo a positive divisor, with the sign of the divisor."""
    integers, divisor = ranges_.kind(node.inputs[0]) is Kind.INTEGER, ranges_.of(node.inputs[1])
    if not integers or node.attributes.get_int("fmod", 0) or divisor is None or divisor.low <= 0:
        return None
    return Range(0, divisor.high - 1)


def _masked(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of the bits that both operands have: at most an operand that is not negative."""
    ranges = [range_ for value in node.inputs if (range_ := ranges_.of(value)) is not None and range_.low >= 0]
    return Range(0, min(range_.high for range_ in ranges)) if ranges else None


def _constant_of_shape(node: onnx_ir.Node, _: Ranges) -> Range | None:
    attribute = node.attributes.get("value")
    if attribute is None:
        return Range(0, 0)
    return None if attribute.is_ref() else _of_tensor(attribute.as_tensor())


def _with_zeros(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of a move of the first operand that inserts zeros."""
    range_ = ranges_.of(node.inputs[0])
    return None if range_ is None else range_.joined(Range(0, 0))


def _extremes(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of the greatest, or least, of integers."""
    ranges = [range_ for value in node.inputs if (range_ := ranges_.of(value)) is not None]
    if len(ranges) < len(node.inputs):
        return None
    pick = max if node.op_type == "Max" else min
    return Range(pick(range_.low for range_ in ranges), pick(range_.high for range_ in ranges))


def _arithmetic(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of integer arithmetic that cannot overflow."""
    dtype = ranges_.inference.type_of(node.outputs[0])
    first, second = (ranges_.of(value) for value in (*node.inputs, None)[:2])
    if dtype is None or element_type(dtype).kind is not Kind.INTEGER or first is None:
        return None
    if node.op_type in _OF_ONE:
        result = _OF_ONE[node.op_type](first)
    else:
        result = None if second is None else _OF_TWO[node.op_type](first, second)
    return result if result is not None and result.fits(dtype) else None


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(corners), max(corners))


def _quotient(a: Range, b: Range) -> Range | None:
    """Divide by an integer of at least 1: the result is not further from 0 than the dividend, however it is rounded."""
    return None if b.low <= 0 else a.joined(Range(0, 0))


def _magnitude(a: Range) -> Range:
    sizes = abs(a.low), abs(a.high)
    return Range(0 if a.low <= 0 <= a.high else min(sizes), max(sizes))


_OF_ONE: Mapping[str, Callable[[Range], Range]] = {
    "Neg": lambda a: Range(-a.high, -a.low),
    "Abs": _magnitude,
    "ReduceMax": lambda a: a,
    "ReduceMin": lambda a: a,
}
_OF_TWO: Mapping[str, Callable[[Range, Range], Range | None]] = {
    "Add": lambda a, b: Range(a.low + b.low, a.high + b.high),
    "Sub": lambda a, b: Range(a.low - b.high, a.high - b.low),
    "Mul": _product,
    "Div": _quotient,
    "Range": Range.joined,
}


def _extreme_along_axes(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of the greatest, or least, of some integers: of none it is an end of their type."""
    return None if ranges_.dims(node.inputs[0]) is None else _arithmetic(node, ranges_)


def _total(node: onnx_ir.Node, ranges_: Ranges) -> Range | None:
    """Return the range of sums of integers along axes; of no integers, and the first of an exclusive sum, it is 0."""
    dims, range_ = ranges_.dims(node.inputs[0]), ranges_.of(node.inputs[0])
    axes, dtype = _axes(node), ranges_.inference.type_of(node.outputs[0])
    if dims is None or axes is None or range_ is None or dtype is None or element_type(dtype).kind is not Kind.INTEGER:
        return None
    if any(not -len(dims) <= axis < len(dims) for axis in axes):
        return None
    count = prod(dims[axis] for axis in axes or range(len(dims)))
    total = Range(min(0, range_.low * count), max(0, range_.high * count))
    return total if total.fits(dtype) else None


def _axes(node: onnx_ir.Node) -> list[int] | None:
    """Return the axes of a node, empty for all; None if they are computed."""
    operand = node.inputs[1] if len(node.inputs) > 1 else None
    if operand is None:
        return [*(node.attributes.get_ints("axes", ()) or ())]
    tensor = constant_tensor(operand)
    return None if tensor is None else [int(axis) for axis in tensor.numpy().ravel()]


_PLACES = (Answer.PLACES, Answer.EXTREME)
_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(operators(lambda row: row.answer in _PLACES or row.moves is Moves.SHAPE), _indices),
    "Size": _count,
    **dict.fromkeys(CASTS, _cast),
    "Clip": _clip,
    "Mod": _mod,
    "BitwiseAnd": _masked,
    "ConstantOfShape": _constant_of_shape,
    **dict.fromkeys(operators(lambda row: row.moves in OF_OPERANDS), _move),
    **dict.fromkeys(("Max", "Min"), _extremes),
    **dict.fromkeys((*_OF_ONE, *_OF_TWO), _arithmetic),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _extreme_along_axes),
    "Trilu": _with_zeros,
    **dict.fromkeys(("CumSum", "ReduceSum"), _total),
}
