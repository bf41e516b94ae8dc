"""One node as its rule sees it: the intervals of its operands, and what is declared of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Dims, Interval, flags, whole, with_bounds
from castsmith.ir.bounds.reading import has_rows, read_constant
from castsmith.ir.bounds.rounding import Array, is_float, is_integer, limits_of, outward, overflows, rounded
from castsmith.ir.bounds.sums import BlockSums, Layout, Matrix
from castsmith.ir.bounds.weights import Weights, computed_array, is_followed, weights_of
from castsmith.ir.constants import constant_tensor

DEFAULTS = "inputs that have a default value keep it"
LENGTHS = "symbolic dimensions are at most 65536"
LONGEST = 1 << 16
NO_OVERFLOW = "no value overflows the model's own type"


class UnknownRangeError(Exception):
    """A rule cannot bound this node; the result is unbounded."""


def require_finite(weights: Matrix) -> None:
    """Raise UnknownRangeError for a matrix that holds NaN or an infinity."""
    numbers = weights if weights.dtype.kind in "fiu" else weights.astype(np.float32)
    # NaN is the least of all numbers for numpy, and an infinity is the least or the greatest.
    if numbers.size and not (np.isfinite(numbers.min()) and np.isfinite(numbers.max())):
        raise UnknownRangeError


@dataclass(frozen=True)
class Step:
    """A node with the intervals of its inputs.

    Attributes:
        node: The node.
        inputs: The interval of each input; None for one that is left out. A large constant is read when its interval is
            asked for, or by `read`.
        opset: The version of the operator's domain.
        dims: For each output the declared dimensions; None where the rank is unknown.
        dtypes: For each output the element type.
        known: The intervals of all values before it.
        read: Computes sums from the rows of a large constant, in the same pass as its interval if that is not known.
    """

    node: onnx_ir.Node
    inputs: Sequence[Interval | None]
    opset: int
    dims: Sequence[Dims | None]
    dtypes: Sequence[DataType | None]
    known: Mapping[onnx_ir.Value, Interval]
    read: Callable[[onnx_ir.Value, Sequence[BlockSums[Any]]], None] = read_constant

    def input(self, index: int) -> Interval:
        """The interval of an input that must be there."""
        found = self.optional(index)
        if found is None:
            raise UnknownRangeError
        return found

    def optional(self, index: int) -> Interval | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def value(self, index: int) -> onnx_ir.Value | None:
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def tensor(self, index: int) -> onnx_ir.TensorProtocol | None:
        """The tensor of a constant input."""
        return constant_tensor(self.value(index))

    def array(self, index: int) -> np.ndarray[Any, Any] | None:
        """Return the elements of a constant input, also if a few nodes compute it from a constant.

        These are casts and dequantized weights.
        """
        return computed_array(self.value(index), self.opset, self._has_default)

    def weights(self, index: int) -> Weights | None:
        """Return a constant input that is a matrix, also if a few nodes compute it from a constant."""
        value, tensor = self.value(index), self.tensor(index)
        if value is not None and tensor is not None and is_followed(tensor) and has_rows(tensor):
            k, n = (int(each) for each in tensor.shape.numpy())
            return Weights(Layout(k, n), lambda: np.asarray(tensor.numpy()), partial(self.read, value))
        array = self.array(index)
        return None if array is None or array.ndim != 2 else weights_of(array)

    def dims_of(self, index: int) -> Dims | None:
        """Return the dimensions of an input that must be there; those of a constant are known before it is read."""
        tensor = self.tensor(index)
        return self.input(index).dims if tensor is None else tuple(int(each) for each in tensor.shape.numpy())

    def _has_default(self, value: onnx_ir.Value) -> bool:
        """True for an input that is taken to keep its default."""
        interval = self.known.get(value)
        return interval is not None and DEFAULTS in interval.assumes and value.is_graph_input()

    def integers(self, index: int) -> list[int] | None:
        """The elements of an integer input that is fixed, such as a shape or axes; None where it is not."""
        tensor = self.tensor(index)
        if tensor is not None and tensor.size <= 4096:
            return [int(each) for each in np.asarray(tensor.numpy()).reshape(-1)]
        interval = self.optional(index)
        exact = None if interval is None else interval.exact
        return None if exact is None else [int(each) for each in exact.reshape(-1)]

    def partly_known(self, index: int) -> list[int | None] | None:
        """Return the elements of an integer vector, such as a shape; None for unknown elements or an unknown length."""
        known = self.integers(index)
        interval = self.optional(index)
        if known is not None or interval is None or interval.dims is None or len(interval.dims) != 1:
            return None if known is None else list(known)
        length = interval.dims[0]
        if length is None or length > 64:
            return None
        low, high = (np.broadcast_to(each, (length,)) for each in (interval.low, interval.high))
        return [int(a) if a == b else None for a, b in zip(low, high, strict=True)]

    def axes(self, name: str = "axes", index: int = 1) -> list[int] | None:
        """Return the axes given by an attribute or an input; None if absent. Raises UnknownRangeError if not fixed."""
        attribute = self.node.attributes.get(name)
        if attribute is not None:
            return [int(each) for each in attribute.as_ints()]
        if self.value(index) is None:
            return None
        found = self.integers(index)
        if found is None:
            raise UnknownRangeError
        return found

    def int(self, name: str, default: int) -> int:
        return self.node.attributes.get_int(name, default)

    def float(self, name: str, default: float) -> float:
        """Return an attribute, which like its default is a number of type float: 0.01 is a little less."""
        return self.node.attributes.get_float(name, float(np.float32(default)))

    def text(self, name: str, default: str) -> str:
        return self.node.attributes.get_string(name, default)

    def merged(self, found: Dims | None, index: int = 0) -> Dims | None:
        """The dimensions that a rule found, completed by the declared ones."""
        declared = self.dims[index]
        if found is None or declared is None or len(found) != len(declared):
            return declared if found is None else found
        return tuple(a if a is not None else b for a, b in zip(found, declared, strict=True))

    def unbounded(self, index: int = 0, **facts: Any) -> Interval:
        """All that the type of an output holds."""
        given = {**flags(*self.inputs), **facts}
        if not given["infinite"] and not is_integer(self.dtypes[index]):
            given["assumes"] |= {NO_OVERFLOW}
        return whole(self.dtypes[index], self.dims[index], **given)

    def result(self, low: Array, high: Array, dims: Dims | None, *operands: Interval, **facts: Any) -> Interval:
        """The interval of exact results in [low, high], rounded once to the type of the output.

        The bounds were computed in float64; they are moved outward first.
        """
        dtype = self.dtypes[0]
        base = operands[0] if operands else self.input(0)
        given = {**flags(*(operands or self.inputs)), **facts, "dtype": dtype}
        low, high = outward(low, high)
        before = low, high
        if is_float(dtype):
            low, high = rounded(low, high, dtype)
        else:
            low, high = self._within_integers(low, high, dtype)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            if is_float(dtype) and (overflows(before[0], low) or overflows(before[1], high)):
                given["infinite"] = True
            if all(each.finite for each in operands):
                given["infinite"] = facts.get("infinite", True)
            low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return with_bounds(base, low, high, self.merged(dims), **given)

    @staticmethod
    def _within_integers(low: Array, high: Array, dtype: DataType | None) -> tuple[Array, Array]:
        """Integers that may exceed their type wrap round, so that they can be any."""
        least, greatest = limits_of(dtype)
        if not is_integer(dtype):
            return low, high
        low, high = np.ceil(low), np.floor(high)
        out = (low < least) | (high > greatest)
        return np.where(out, least, low), np.where(out, greatest, high)


Rule = Callable[[Step], "Interval | Sequence[Interval]"]
