"""One node as its rule sees it: what its operands may be, and what is declared of its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import AttributeType, DataType

from castsmith.analysis.bounds.interval import (
    ANYTHING,
    MINUS,
    MOST_DIMENSIONS,
    NAN,
    NONE,
    PLUS,
    Bits,
    Dims,
    Interval,
    UnknownRangeError,
    anything,
    collapsed,
    inherited,
    interval_of,
    joined_along,
    whole,
)
from castsmith.analysis.bounds.reading import has_rows
from castsmith.analysis.bounds.remembered import Remembered
from castsmith.analysis.bounds.rounding import (
    Array,
    held,
    is_float,
    is_integer,
    kept,
    limits_of,
    outward,
    overflows,
    rounded,
    sum_error,
    vanished,
)
from castsmith.analysis.bounds.sums import Matrix
from castsmith.analysis.bounds.weights import Weights, computed_array, is_followed, weights_in, weights_of
from castsmith.analysis.shapes.dims import Names, dims_of
from castsmith.analysis.shapes.elements import Content, Derived, Operation, array_of, of_tensor
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.attributes import attribute_of, int_of, ints_of, text_of
from castsmith.numerics.symbols import UNKNOWN, Element, symbol

DEFAULTS = "inputs that have a default value keep it"
LENGTHS = "symbolic dimensions are between 1 and 65536"
LONGEST = 1 << 16
NO_OVERFLOW = "no value overflows the model's own type"

_MOST_EXACT = 2.0**53
"""Integers up to which float64 holds each."""
_FOLLOWED = 4096
"""Elements of an integer operand, such as a shape, that are followed one by one."""
_LONGEST_SHAPE = 64


def require_finite(weights: Matrix) -> None:
    """Raise UnknownRangeError for a matrix that holds NaN or an infinity."""
    numbers = weights if weights.dtype.kind in "fiu" else weights.astype(np.float32)
    # NaN is the least of all numbers for numpy, and an infinity is the least or the greatest.
    if numbers.size and not (np.isfinite(numbers.min()) and np.isfinite(numbers.max())):
        raise UnknownRangeError


def spoilt(*operands: Interval) -> np.uint8:
    """What sums of products may be if an operand is infinite or NaN: infinity times 0 is NaN."""
    bits = np.bitwise_or.reduce([operand.bits for operand in operands])
    return ANYTHING if bits & ANYTHING > NAN else bits


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front. Raises UnknownRangeError for one that a value of the rank does not have."""
    if not -rank <= axis < rank:
        raise UnknownRangeError
    return axis % rank


@dataclass(frozen=True)
class Step:
    """A node with what its inputs may be.

    Attributes:
        node: The node.
        inputs: The interval of each input; None for one that is left out.
        opset: The version of the operator's domain.
        dims: For each output the dimensions; None where the rank is unknown.
        dtypes: For each output the element type.
        intervals: The intervals of all values before it.
        constants: The constants that the inputs of functions are, in this call.
        remembered: What was found of large constants in another model.
    """

    node: onnx_ir.Node
    inputs: Sequence[Interval | None]
    opset: int
    dims: Sequence[Dims | None]
    dtypes: Sequence[DataType | None]
    intervals: Mapping[onnx_ir.Value, Interval]
    constants: Mapping[onnx_ir.Value, onnx_ir.Value] = field(default_factory=dict[onnx_ir.Value, onnx_ir.Value])
    remembered: Remembered | None = None

    # Operands.

    def input(self, index: int) -> Interval:
        """The interval of an input that must be there."""
        interval = self.optional(index)
        if interval is None:
            raise UnknownRangeError
        return interval

    def optional(self, index: int) -> Interval | None:
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def operands(self) -> list[Interval]:
        """The intervals of the inputs that are there."""
        return [operand for operand in self.inputs if operand is not None]

    def value(self, index: int) -> onnx_ir.Value | None:
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def _source(self, index: int) -> onnx_ir.Value | None:
        """The input, or the constant that a call gives for it."""
        value = self.value(index)
        return value if value is None else self.constants.get(value, value)

    def tensor(self, index: int) -> onnx_ir.TensorProtocol | None:
        """The tensor of a constant input."""
        return constant_tensor(self._source(index))

    def array(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the elements of a constant input, also if a few nodes compute it from a constant.

        These are casts and dequantized weights.
        """
        return computed_array(self._source(index), self.opset, self._has_default)

    def weights(self, index: int) -> Weights | None:
        """Return a constant input that is a matrix, also if a few nodes compute it from a constant."""
        tensor = self.tensor(index)
        if tensor is not None and is_followed(tensor) and has_rows(tensor):
            return weights_in(tensor, self.remembered)
        array = self.array(index)
        return None if array is None or array.ndim != 2 else weights_of(array)

    def _has_default(self, value: onnx_ir.Value) -> bool:
        """True for an input that is taken to keep its default."""
        interval = self.intervals.get(value)
        return interval is not None and DEFAULTS in interval.assumes and value.is_graph_input()

    def integers(self, index: int) -> list[int] | None:
        """The elements of an integer input that is fixed, such as a shape or axes; None where it is not."""
        tensor, interval = self.tensor(index), self.optional(index)
        if interval is None or not is_integer(interval.dtype):
            return None
        if tensor is not None and tensor.size <= _FOLLOWED:
            return [int(number) for number in np.asarray(tensor.numpy()).reshape(-1)]
        exact = interval.exact
        return None if exact is None else [int(number) for number in exact.reshape(-1)]

    def operation(self) -> Operation:
        """Return the node as the rules of shapes see it."""
        types = [None if operand is None else operand.dtype for operand in self.inputs]
        shapes = [None if operand is None else _symbolic(operand.dims) for operand in self.inputs]
        contents = [self._content(index) for index in range(len(self.inputs))]
        to = self.dtypes[0] if self.dtypes else None
        return Operation(self.node, self.opset, types, to, shapes, contents, Derived())

    def _content(self, index: int) -> Content | None:
        """Return the elements of a small constant, or of integers such as a shape, as far as they are known."""
        tensor, interval = self.tensor(index), self.optional(index)
        if tensor is not None:
            return of_tensor(tensor)
        if interval is None or not is_integer(interval.dtype) or interval.dims is None:
            return None
        dims = [dim for dim in interval.dims if dim is not None]
        if len(dims) < len(interval.dims) or math.prod(dims) > _LONGEST_SHAPE:
            return None
        low, high = (np.broadcast_to(end, dims).ravel() for end in (interval.low, interval.high))
        return array_of((int(a) if a == b else UNKNOWN for a, b in zip(low, high, strict=True)), dims)

    def with_dims(self, imports: Mapping[str, int], names: Names) -> Step:
        """Return the step with the dimensions of the results that follow from those of the operands."""
        inferred = [_known_dims(shape) for shape in dims_of(self.operation(), imports, names)]
        return replace(self, dims=[_completed(*pair) for pair in zip(inferred, self.dims, strict=True)])

    def shaped(self, dims: Dims | None) -> Step:
        """Return the step as one of a single result, with other dimensions."""
        return replace(self, dims=[dims])

    # Attributes.

    def axis(self, rank: int, default: int, name: str = "axis") -> int:
        """The axis that an attribute names, counted from the front."""
        return axis_of(self.int(name, default), rank)

    def axes(self, rank: int | None, name: str = "axes", index: int = 1) -> list[int] | None:
        """Return the axes of an attribute or an input, counted from the front if the rank is known; None if absent.

        Raises:
            UnknownRangeError: They are not fixed, a value of the rank does not have them, or one is named twice.
        """
        named = self.ints(name)
        if named is None:
            if self.value(index) is None:
                return None
            named = self.integers(index)
            if named is None:
                raise UnknownRangeError
        axes = named if rank is None else [axis_of(axis, rank) for axis in named]
        if len(set(axes)) < len(axes):
            raise UnknownRangeError
        return axes

    def ints(self, name: str) -> list[int] | None:
        return ints_of(self.node, name)

    def int(self, name: str, default: int) -> int:
        return int_of(self.node, name, default)

    def float(self, name: str, default: float) -> float:
        """Return an attribute, which like its default is a number of type float: 0.01 is a little less.

        Raises:
            UnknownRangeError: It is NaN or infinite.
        """
        number = self.number(name, default)
        if not math.isfinite(number):
            raise UnknownRangeError
        return number

    def number(self, name: str, default: float) -> float:
        """Return an attribute that may also be infinite or NaN."""
        stored = attribute_of(self.node, name, AttributeType.FLOAT)
        return float(np.float32(default)) if stored is None else float(stored)

    def tensor_attribute(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return the elements of a tensor that is an attribute; None if absent."""
        tensor = attribute_of(self.node, name, AttributeType.TENSOR)
        return None if tensor is None else np.asarray(tensor.numpy())

    def text(self, name: str, default: str) -> str:
        return text_of(self.node, name, default)

    # Results.

    def anything(self, index: int = 0) -> Interval:
        """All that the type of an output holds, infinities and NaN included: nothing is known."""
        return anything(self.dtypes[index], self.dims[index], **inherited(*self.inputs))

    def unbounded(self, index: int = 0) -> Interval:
        """Sums of products without a known bound: finite by assumption if an operand is so, else anything."""
        if is_integer(self.dtypes[index]) or all(operand.bounded for operand in self.operands):
            return self.anything(index)
        special = spoilt(*self.operands)
        return whole(self.dtypes[index], self.dims[index], special, **inherited(*self.inputs))

    def result(
        self,
        low: Array,
        high: Array,
        *operands: Interval,
        special: Bits | np.uint8 = NONE,
        index: int = 0,
        **facts: Any,
    ) -> Interval:
        """The interval of exact results in [low, high], rounded once to the type of the output, and `special` ones.

        The ends were computed in float64; they are moved outward first. One that overflows makes the result infinite,
        unless an operand is finite by assumption alone: then the result is, too.
        """
        dtype, bounded = self.dtypes[index], all(operand.bounded for operand in operands)
        dims, facts = self.dims[index], {**inherited(*operands), **facts}
        if not (is_float(dtype) or is_integer(dtype)):
            return self.anything(index)
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        low, high = outward(low, high)
        if is_integer(dtype):
            return interval_of(*_within_integers(low, high, dtype), NONE, dims, dtype, **facts)
        ends = rounded(low, high, dtype)
        over = [np.isinf(end) & (bounded | np.isfinite(before)) for end, before in zip(ends, (low, high), strict=True)]
        special = (
            special | np.where(over[1] & (ends[1] > 0), PLUS, NONE) | np.where(over[0] & (ends[0] < 0), MINUS, NONE)
        )
        with np.errstate(invalid="ignore"):
            low, high = (
                np.where(beyond, held(end, before, dtype), end)
                for beyond, end, before in zip(over, ends, (low, high), strict=True)
            )
        return interval_of(low, high, special, dims, dtype, **facts)

    def picked(
        self,
        low: Array,
        high: Array,
        *operands: Interval | None,
        special: Bits | np.uint8 = NONE,
        index: int = 0,
        **facts: Any,
    ) -> Interval:
        """The interval of results in [low, high] that are not rounded: operands, their negatives, or integers."""
        dtype, dims, facts = self.dtypes[index], self.dims[index], {**inherited(*operands), **facts}
        ends = _within_integers(low, high, dtype) if is_integer(dtype) else kept(low, high, dtype)
        return interval_of(*ends, special, dims, dtype, **facts)

    def total(
        self, low: Array, high: Array, size: Array, count: float, *operands: Interval, signs: np.uint8 = ANYTHING
    ) -> tuple[Array, Array, Bits]:
        """Bounds of a sum of `count` products in any order, fused or not, and what its parts may overflow to.

        Args:
            low: The least exact sum.
            high: The greatest exact sum.
            size: The sum of the absolute values of the terms.
            count: The number of terms.
            operands: The operands of the products.
            signs: What a part that overflows leads to: PLUS if no term is negative, else anything.
        """
        dtype, bounded = self.dtypes[0], all(operand.bounded for operand in operands)
        with np.errstate(all="ignore"):
            error = np.where(np.isfinite(size), size * sum_error(count, dtype), 0.0) + vanished(count, dtype)
            low, high = low - error, high + error
        over = overflows(size, count, dtype, bounded=bounded)
        return low, high, np.where(over, signs, NONE)


def _symbolic(dims: Dims | None) -> tuple[Element, ...] | None:
    """Return the dimensions, with symbols for unknown ones, which show where the result has them."""
    return None if dims is None else tuple(symbol() if dim is None else dim for dim in dims)


def _known_dims(shape: tuple[Element, ...] | None) -> Dims | None:
    if shape is None or len(shape) > MOST_DIMENSIONS:
        return None
    return tuple(dim if isinstance(dim, int) else None for dim in shape)


def _completed(inferred: Dims | None, declared: Dims | None) -> Dims | None:
    """The dimensions that follow from the operands, completed by the declared ones."""
    if inferred is None or declared is None or len(inferred) != len(declared):
        return declared if inferred is None else inferred
    return tuple(a if a is not None else b for a, b in zip(inferred, declared, strict=True))


def _within_integers(low: Array, high: Array, dtype: DataType | None) -> tuple[Array, Array]:
    """Integers that may exceed their type wrap round, so that they can be any."""
    least, greatest = limits_of(dtype)
    low, high = np.ceil(low), np.floor(high)
    inside = (low >= max(least, -_MOST_EXACT)) & (high <= min(greatest, _MOST_EXACT))
    return np.where(inside, low, least), np.where(inside, high, greatest)


def longest(dims: Sequence[int | None], axes: Iterable[int]) -> tuple[float, frozenset[str]]:
    """The largest number of elements along the axes, and what it assumes of symbolic dimensions."""
    sizes = [dims[axis] for axis in axes]
    count = math.prod(float(LONGEST) if size is None else size for size in sizes)
    return count, frozenset({LENGTHS}) if None in sizes else frozenset[str]()


def along(x: Interval, dims: Dims | None, axes: Sequence[int] | None = None) -> Interval:
    """The interval joined along the axes, with other dimensions of that rank; one entry for all without a rank."""
    return collapsed(x, dims) if x.dims is None or dims is None else joined_along(x, axes, dims)


Rule = Callable[[Step], "Interval | Sequence[Interval]"]
