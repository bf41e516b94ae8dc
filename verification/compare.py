"""Comparison of interfaces by declaration, and of contents bit by bit or within a tolerance: the first difference."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.text import type_text
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.verification.evaluate.conversions import Content, Mask, Tensor, bits_of
from castsmith.verification.evaluate.promotion import dtype_of

ALL = "all"
"""The name that accepts a difference of type at every input and output."""


@dataclass(frozen=True)
class Difference:
    """The first difference of two arrays and the number of different elements.

    `index` is empty for scalars, and if types or shapes differ.
    """

    index: tuple[int, ...]
    a: str
    b: str
    elements: int
    of: int


@dataclass(frozen=True)
class Tolerance:
    """How far an element may be from that of the first model, `a`: by atol + rtol * |a|."""

    rtol: float = 0.0
    atol: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.rtol or self.atol)

    def __str__(self) -> str:
        return f"rtol {self.rtol:g}, atol {self.atol:g}"

    def exceeded(self, a: Array, b: Array) -> Array:
        """Return where the elements of two arrays of one type and shape are further apart; bool and text may not be."""
        apart, _ = distances(a, b)
        size = np.abs(_wide(a)) if _is_number(a) else np.zeros(a.shape)
        with np.errstate(all="ignore"):
            return (apart == np.inf) | (apart > self.atol + self.rtol * size)


EXACT = Tolerance()


@dataclass(frozen=True)
class How:
    """How results are compared, and what is concluded."""

    nan_bits: bool = False
    seed: int = 0
    prove: bool = False
    allow_unreached: bool = False
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict[str, Tolerance])
    trace: bool = False


def distances(a: Array, b: Array) -> tuple[Array, Array]:
    """Return how far elements are apart, and relative to those of `a` that are not 0. Infinite: NaN or text differs."""
    if not _is_number(a):
        apart = np.where(np.asarray(a != b), np.inf, 0.0)
        return apart, apart
    with np.errstate(all="ignore"):
        if a.dtype.kind in "iu" and b.dtype.kind in "iu":
            apart = np.where(
                a > b, a.astype(np.uint64) - b.astype(np.uint64), b.astype(np.uint64) - a.astype(np.uint64)
            )
            apart = apart.astype(np.float64)
        else:
            left, right = _wide(a), _wide(b)
            same = (left == right) | (np.isnan(left) & np.isnan(right))
            apart = np.where(same, 0.0, np.nan_to_num(np.abs(left - right), nan=np.inf, posinf=np.inf))
        size = np.abs(_wide(a))
        return apart, np.where(size > 0, np.where(np.isinf(apart), np.inf, apart / size), 0.0)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if element_type(dtype_of(array)).kind is Kind.COMPLEX else np.float64)


def _is_number(array: Array) -> bool:
    return element_type(dtype_of(array)).kind in (Kind.FLOATING, Kind.COMPLEX, Kind.INTEGER)


@dataclass(frozen=True)
class Recoding:
    """Relation of the two types in which two models hold a value. through: `code`, `wider` or `narrower`."""

    a: DataType
    b: DataType
    through: str

    @property
    def limits(self) -> tuple[int, int] | None:
        """The numbers that an input has to be between, so that both models hold it; None: each has its nearest."""
        row = element_type(self.b)
        return (int(row.min), int(row.max)) if self.through == "narrower" and row.kind is Kind.INTEGER else None

    def to_b(self, array: Array) -> Array:
        """Return an input of the first model in the type of the second."""
        return array.view(self.b.numpy()) if self.through == "code" else cast(array, self.b)

    def pair(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Return an output of each in a comparable form."""
        if dtype_of(a) != self.a or dtype_of(b) != self.b:
            return a, b
        if self.through == "code":
            return a, np.asarray(b, order="C").view(self.a.numpy())
        return (cast(a, self.b), b) if self.through == "wider" else (a, cast(b, self.a))


@dataclass(frozen=True)
class Interfaces:
    """The differences of the declared inputs and outputs of two models.

    Attributes:
        differences: Sentences.
        outputs: Differences in the element types of outputs, by name, which a run must confirm: the declared types of a
            model whose operands disagree may be wrong.
        recoded: Accepted differences.
    """

    differences: tuple[str, ...]
    outputs: Mapping[str, str]
    recoded: Mapping[str, Recoding]


def interfaces(a: onnx_ir.Model, b: onnx_ir.Model, accept: Collection[str] = ()) -> Interfaces:
    """Compare names, order, element types, ranks, fixed sizes and optional inputs.

    Args:
        accept: The inputs and outputs whose element type may differ, or `all`.
    """
    differences: list[str] = []
    pending: dict[str, str] = {}
    recoded: dict[str, Recoding] = {}
    for port, left, right in (("input", a.graph.inputs, b.graph.inputs), ("output", a.graph.outputs, b.graph.outputs)):
        names = [[value.name or "" for value in side] for side in (left, right)]
        if names[0] != names[1]:
            kind = "order" if sorted(names[0]) == sorted(names[1]) else "names"
            texts = (", ".join(side) or "none" for side in names)
            differences.append("the {}s differ in {}: {} and {}".format(port, kind, *texts))
        by_name = {value.name or "": value for value in right}
        for value in left:
            counterpart = by_name.get(value.name or "")
            if counterpart is None:
                continue
            if port == "input" and (value.const_value is None) != (counterpart.const_value is None):
                differences.append(f"the input {value.name} has a default in only one model")
            text = f"the {port} {value.name} is {type_text(value)} and {type_text(counterpart)}"
            other_shape, accepted = _other_shape(port, value, counterpart), bool({ALL, value.name or ""} & set(accept))
            undeclared = port == "output" and None in (value.type, counterpart.type)
            other_type = value.type != counterpart.type and not undeclared
            recoding = _recoding(value.dtype, counterpart.dtype) if other_type and accepted else None
            if recoding is not None and not other_shape:
                recoded[value.name or ""] = recoding
            if (other_shape or (other_type and recoding is None)) and port == "output":
                pending[value.name or ""] = text
            elif other_shape or (other_type and recoding is None):
                differences.append(text)
    return Interfaces(tuple(differences), pending, recoded)


def _other_shape(port: str, a: onnx_ir.Value, b: onnx_ir.Value) -> bool:
    """True if the ranks or fixed sizes differ; an output of the second model may declare more."""
    own, other = (
        None if value.shape is None else [dim if isinstance(dim, int) else None for dim in value.shape]
        for value in (a, b)
    )
    if port == "input" or own is None or other is None or len(own) != len(other):
        return own != other and not (port == "output" and own is None)
    return any(x not in (None, y) for x, y in zip(own, other, strict=True))


_BYTE = 8


def _recoding(a: DataType | None, b: DataType | None) -> Recoding | None:
    """Return how `b` holds the values of `a`; None if it cannot."""
    numbers = (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOATING)
    if (
        a is None
        or b is None
        or DataType.UNDEFINED in (a, b)
        or not all(element_type(t).kind in numbers for t in (a, b))
    ):
        return None
    own_row, other_row = element_type(a), element_type(b)
    coded = own_row.kind is Kind.FLOATING or (own_row.signed and own_row.bits < _BYTE)
    if coded and other_row.kind is Kind.INTEGER and not other_row.signed and other_row.bits == 8 * a.numpy().itemsize:
        return Recoding(a, b, "code")
    return Recoding(a, b, "wider") if embeds(a, b) else Recoding(a, b, "narrower") if embeds(b, a) else None


def difference(
    a: Array, b: Array, open_in_a: Mask = None, *, nan_bits: bool = False, tolerance: Tolerance = EXACT
) -> Difference | None:
    """Return the first element that differs in any bit, except where `open_in_a` allows any result.

    Args:
        nan_bits: NaN of another sign or payload is a difference.
        tolerance: How far numbers may be apart.
    """
    if dtype_of(a) != dtype_of(b) or a.shape != b.shape:
        return Difference((), _kind(a), _kind(b), a.size, a.size)
    differ = np.asarray(bits_of(a) != bits_of(b))
    if differ.ndim > a.ndim:
        differ = differ.any(axis=-1)
    if not nan_bits and element_type(dtype_of(a)).kind in (Kind.FLOATING, Kind.COMPLEX):
        differ &= ~(np.isnan(a) & np.isnan(b))
    if open_in_a is not None and open_in_a.shape == differ.shape:
        differ &= ~open_in_a
    if tolerance and differ.any():
        differ &= tolerance.exceeded(a, b)
    if not differ.any():
        return None
    index = tuple(int(i) for i in np.unravel_index(int(differ.argmax()), differ.shape))
    left, right = (str(side[index]) if tolerance else element_text(side, index) for side in (a, b))
    return Difference(index, left, right, int(differ.sum()), a.size)


@dataclass
class Count:
    """Counts of the comparison of one output.

    Attributes:
        elements: All elements that the first model gave.
        left_out: Those of them that the standard leaves undefined.
        open_in_b: Compared elements that are undefined only in the second model.
        numbers: Compared elements that are not NaN.
        absolute: The largest distance of compared elements, if they are compared with a tolerance or traced.
        relative: The same relative to the elements of the first model that are not 0.
    """

    elements: int = 0
    left_out: int = 0
    open_in_b: int = 0
    numbers: int = 0
    absolute: float = 0.0
    relative: float = 0.0

    @property
    def compared(self) -> int:
        return self.elements - self.left_out

    def add(self, a: Tensor, b: Tensor) -> None:
        """Count the elements of one result."""
        defined = np.ones(a.array.shape, np.bool_) if a.undefined is None else ~a.undefined
        self.elements += a.array.size
        self.left_out += a.array.size - int(defined.sum())
        if b.undefined is not None and b.undefined.shape == defined.shape:
            self.open_in_b += int((b.undefined & defined).sum())
        floating = element_type(dtype_of(a.array)).kind in (Kind.FLOATING, Kind.COMPLEX)
        self.numbers += int((defined & ~np.isnan(a.array)).sum() if floating else defined.sum())

    def measure(self, a: Array, b: Array, open_in_a: Mask) -> None:
        """Note how far the elements of one result are apart."""
        if dtype_of(a) != dtype_of(b) or a.shape != b.shape:
            self.absolute = self.relative = np.inf
            return
        apart, relative = distances(a, b)
        defined = True if open_in_a is None else ~open_in_a
        self.absolute = max(self.absolute, float(apart.max(initial=0.0, where=defined)))
        self.relative = max(self.relative, float(relative.max(initial=0.0, where=defined)))


def compare(
    a: Content,
    b: Content,
    count: Count,
    recoding: Recoding | None,
    nan_bits: bool,
    tolerance: Tolerance = EXACT,
    *,
    measured: bool = False,
) -> Difference | None:
    """Return the first difference of two contents; the compared elements are counted, and measured if asked."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        pair = (a.array, b.array) if recoding is None else recoding.pair(a.array, b.array)
        count.add(Tensor(pair[0], a.undefined), b)
        if tolerance or measured:
            count.measure(*pair, a.undefined)
        return difference(*pair, a.undefined, nan_bits=nan_bits, tolerance=tolerance)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (left, right) in enumerate(zip(a, b, strict=True)):
            inner = compare(left, right, count, recoding, nan_bits, tolerance, measured=measured)
            if inner is not None:
                return Difference((index, *inner.index), inner.a, inner.b, inner.elements, inner.of)
        count.elements += not a  # an empty sequence is compared by its length
        count.numbers += not a
        return None
    if a is None and b is None:
        count.elements += 1
        count.numbers += 1
        return None
    return Difference((), _content_text(a), _content_text(b), 1, 1)


def _content_text(content: Content) -> str:
    if isinstance(content, list):
        return f"a sequence of {len(content)}"
    return "nothing" if content is None else _kind(content.array)


def element_text(array: Array, index: tuple[int, ...]) -> str:
    """Return an element as a number, and as its bits if the number is ambiguous."""
    element, dtype = array[index], dtype_of(array)
    if element_type(dtype).kind is not Kind.FLOATING:
        return repr(element) if dtype is DataType.STRING else str(element)
    code = int(bits_of(np.asarray(element).reshape(1))[0])
    return f"{element} (0x{code:0{array.dtype.itemsize * 2}x})"


def on_common_ground(a: Array, b: Array) -> tuple[Array, Array] | None:
    """Return both arrays in a comparable form; None if there is no such form, as for values beside their codes.

    They are unchanged, or converted to numbers if one model has another type of the same kind.
    """
    if a.shape != b.shape:
        return None
    types = dtype_of(a), dtype_of(b)
    if types[0] == types[1]:
        return a, b
    kinds = {element_type(dtype).kind for dtype in types}
    if kinds not in ({Kind.FLOATING}, {Kind.INTEGER}) or any(element_type(dtype).bits > 53 for dtype in types):
        return None
    return cast(a, DataType.DOUBLE), cast(b, DataType.DOUBLE)


def _kind(array: Array) -> str:
    return f"{type_name(dtype_of(array))}[{', '.join(map(str, array.shape))}]"
