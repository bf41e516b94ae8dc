"""Small arrays whose elements are known, and nodes with the facts about their inputs.

Arrays hold Python ints (bool as 0 or 1), exact Fractions, Polys and UNKNOWN (`castsmith.numerics.symbols`).
`fitted` removes elements that a type does not hold exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.ops.movement import Dims, Operands
from castsmith.numerics.symbols import UNKNOWN, Element, Poly, high_of, low_of, symbol
from castsmith.numerics.types import Kind, element_type

Content = NDArray[Any]
"""An array of objects: the elements of a value."""

MOST = 1 << 10
"""Largest number of elements of a tracked array: over 570 model files 1 << 14 folds no more, and 1 << 8 less."""

_MOST_SCALES = 64
"""The same for floats and for integers below 32 bits: scales of a shape, not weights."""

_PLAIN_FLOATS = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)


@dataclass
class Derived:
    """Symbols for derived quantities: the same for the same operands."""

    symbols: dict[object, Poly] = field(default_factory=dict[object, Poly])

    def symbol(self, key: tuple[object, ...], low: int | None, high: int | None) -> Element:
        """Return the symbol of `key`, an operation and its operands."""
        if key not in self.symbols:
            self.symbols[key] = symbol("", low, high)
        return self.symbols[key]

    def cast(self, element: Element, to: DataType) -> Element:
        """Result of a cast of an integer that the type may not hold."""
        row = element_type(to)
        return self.symbol(("Cast", to, element), int(row.min), int(row.max))


@dataclass(frozen=True)
class Operation:
    """A node, with the facts about its inputs.

    Attributes:
        types: The element types of the inputs.
        to: The element type of the first output.
        opset: The opset of the default domain.
    """

    node: onnx_ir.Node
    opset: int
    types: Sequence[DataType | None]
    to: DataType | None
    shapes: Sequence[Dims | None]
    contents: Sequence[Content | None]
    derived: Derived

    def content(self, index: int) -> Content | None:
        return self.contents[index] if index < len(self.contents) else None

    def operands(self, shapes: Sequence[Dims | None]) -> Operands:
        """Return the node as the rules of movement see it."""
        return Operands(self.node, shapes, self._list, self.opset)

    def _list(self, index: int) -> list[Element] | None:
        content = self.content(index)
        return None if content is None or content.ndim > 1 else content.ravel().tolist()

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def integers(self, index: int) -> tuple[int, ...] | None:
        """Return the elements of an input if all are known numbers."""
        array = self.content(index)
        if array is None or array.ndim > 1:
            return None
        integers = [element for element in array.ravel().tolist() if isinstance(element, int)]
        return tuple(integers) if len(integers) == array.size else None

    def parameter(self, name: str, index: int) -> tuple[int, ...] | None:
        """The parameter that is an attribute in early opsets and an input in later ones; None if absent or unknown."""
        if name in self.node.attributes:
            return tuple(self.node.attributes[name].as_ints())
        return self.integers(index)

    def integer(self, name: str, default: int) -> int:
        return self.node.attributes.get_int(name, default) or 0

    @property
    def floats(self) -> bool:
        """True if the first input is of a floating-point type."""
        dtype = self.types[0] if self.types else None
        return dtype is not None and element_type(dtype).kind is Kind.FLOATING


def array_of(elements: Iterable[Element], shape: Sequence[int]) -> Content:
    """Return the elements as an array."""
    flat = list(elements)
    result = np.empty(len(flat), object)
    result[:] = flat
    return result.reshape(tuple(shape))


def of_tensor(tensor: onnx_ir.TensorProtocol) -> Content | None:
    """Return the elements of a constant; None for many elements, or numbers with zeros of both signs."""
    kind = element_type(tensor.dtype).kind
    if kind > Kind.FLOATING or tensor.size > _most(tensor.dtype):
        return None
    if kind is Kind.FLOATING and tensor.dtype not in _PLAIN_FLOATS:
        return None
    array = tensor.numpy()
    if kind is not Kind.FLOATING:
        return array_of(map(int, array.ravel().tolist()), array.shape)
    numbers = array.astype(np.float64).ravel()
    if not np.isfinite(numbers).all() or (np.signbit(numbers) & (numbers == 0)).any():
        return None
    return array_of(map(_exact, numbers.tolist()), array.shape)


def _most(dtype: DataType) -> int:
    """Return the largest number of elements of a tracked array of the type."""
    row = element_type(dtype)
    return MOST if row.kind is Kind.BOOLEAN or (row.kind is Kind.INTEGER and row.bits >= 32) else _MOST_SCALES


def fitted(content: Content, dtype: DataType | None) -> Content | None:
    """Return the content without elements that the type does not hold exactly: overflow is not tracked."""
    if dtype is None or element_type(dtype).kind > Kind.FLOATING or content.size > _most(dtype):
        return None
    row = element_type(dtype)
    if row.kind is Kind.FLOATING and dtype not in _PLAIN_FLOATS:
        return None
    elements = content.ravel().tolist()
    return array_of((element if holds(element, dtype) else UNKNOWN for element in elements), content.shape)


def holds(element: Element, dtype: DataType) -> bool:
    """True if the type holds the element, exactly. A product of dimensions fits 64 bits, as runtimes require."""
    row = element_type(dtype)
    if isinstance(element, Fraction):
        return _is_float(element, dtype)
    low, high = low_of(element), high_of(element)
    if row.kind is Kind.FLOATING:
        if isinstance(element, int):
            return _is_float(Fraction(element), dtype)
        return low is not None and high is not None and max(-low, high) <= min(2**row.precision, row.max)
    if isinstance(element, Poly) and dtype in (DataType.INT64, DataType.UINT64) and _is_small(element):
        return dtype == DataType.INT64 or (low is not None and low >= 0)
    return low is not None and high is not None and row.min <= low and high <= row.max


_LARGEST_FACTOR = 1 << 31


def _is_small(element: Poly) -> bool:
    """True if no factor of a product of dimensions is as large as the dimensions of a tensor."""
    return all(abs(factor) <= _LARGEST_FACTOR for factor in element.terms.values())


def _is_float(number: Fraction, dtype: DataType) -> bool:
    try:
        double = float(number)
    except OverflowError:
        return False
    with np.errstate(all="ignore"):
        return Fraction(double) == number and float(dtype.numpy().type(double)) == double


def _exact(number: float) -> Element:
    return int(number) if number.is_integer() else Fraction(number)


def is_number(element: Element) -> bool:
    """True if the element is a known number."""
    return isinstance(element, int | Fraction)


def all_integers(content: Content) -> bool:
    """True if all elements are known integers."""
    return all(isinstance(element, int) for element in content.ravel().tolist())
