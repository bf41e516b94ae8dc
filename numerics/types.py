"""The element types of ONNX as rows of facts; extremes and exactness are derived from the rows, never written again.

Sources: ONNX `onnx.proto` (TensorProto.DataType), the schemas of Cast and QuantizeLinear up to opset 28, IEEE 754-2019
(binary16, 32, 64), OCP OFP8 1.0 (e4m3fn, e5m2), OCP MX 1.0 (e8m0, e2m1, e2m3, e3m2), Graphcore/AMD fnuz (arXiv
2206.02915).
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.arguments import whole_number
from castsmith.numerics.errors import ElementTypeError, did_you_mean

TypeLike = DataType | str | int | np.dtype[Any] | type[np.generic] | type[bool] | type[str]
"""Anything that names an element type: see `parse_type`."""

MOST_DIMENSIONS = 64
"""The largest number of dimensions of a numpy array, and so of a value that is computed or followed."""

_MOST_BYTES, _WIDEST = 2**63 - 1, 16
"""The most bytes that numpy counts, and those of the widest element."""


def fits_array(shape: Sequence[int]) -> bool:
    """True if numpy has arrays of that shape, of any type; of an empty array it counts the other dimensions."""
    return len(shape) <= MOST_DIMENSIONS and math.prod(dim for dim in shape if dim) * _WIDEST <= _MOST_BYTES


class Kind(enum.IntEnum):
    """Kind of the values of a type; the order of the first three is the priority of promotion."""

    BOOLEAN = 0
    INTEGER = 1
    FLOATING = 2
    STRING = 3
    COMPLEX = 4


class Specials(enum.Enum):
    """Special values of a floating-point format: the codes that do not stand for finite numbers."""

    NONE = "no infinity, no NaN: every code is finite"
    IEEE = "all exponent bits set: infinity for mantissa zero, NaN otherwise"
    FN = "no infinity; NaN where exponent and mantissa bits are all set"
    FNUZ = "no infinity, no negative zero; NaN is the code of negative zero"
    E8M0 = "no infinity, no zero, no sign; NaN is the code with every bit set"


@dataclass(frozen=True, slots=True)
class Since:
    """The versions of ONNX that introduced a type.

    Attributes:
        cast: The first opset at which Cast takes it, as input and as output alike; None if no opset does.
        quantized: The first opset at which QuantizeLinear makes it and DequantizeLinear takes it; None if never.
        ir_version: The first IR version that has it (onnx.proto); 0 for the types of the first release.
    """

    cast: int | None = 1
    quantized: int | None = None
    ir_version: int = 0


@dataclass(frozen=True)
class ElementType:
    """One row of the table. Bit counts are of the value, not of its storage (a bool is 1 bit in 8)."""

    dtype: DataType
    kind: Kind
    bits: int
    signed: bool = False
    exponent_bits: int = 0
    mantissa_bits: int = 0
    bias: int = 0
    specials: Specials = Specials.NONE
    since: Since = Since()

    @property
    def name(self) -> str:
        """Name in ONNX text, such as `float8e4m3fn`."""
        return self.dtype.name.lower()

    @property
    def precision(self) -> int:
        """Significant bits of a normal number, including the implicit one."""
        return self.mantissa_bits + 1

    @property
    def stored_bits(self) -> int:
        """Bits of an element as BitCast reads it: 8 of a bool, which the schema treats as uint8."""
        return 8 if self.kind is Kind.BOOLEAN else self.bits

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number (of the smallest number for e8m0, which has no subnormals)."""
        return -self.bias if self.specials is Specials.E8M0 else 1 - self.bias

    @cached_property
    def quantum(self) -> Fraction:
        """The smallest positive value: 2**(min_exponent - mantissa_bits)."""
        return Fraction(2) ** (self.min_exponent - self.mantissa_bits)

    @cached_property
    def max(self) -> Fraction:
        """The largest finite value of an integer or floating-point type."""
        if self.kind is Kind.BOOLEAN:
            return Fraction(1)
        if self.kind is Kind.INTEGER:
            return Fraction(2 ** (self.bits - self.signed) - 1)
        if self.kind is not Kind.FLOATING:
            raise ElementTypeError(f"{self.name} has no numeric extremes.")
        top_exponent, top_mantissa = 2**self.exponent_bits - 1, 2**self.mantissa_bits - 1
        if self.specials in (Specials.IEEE, Specials.E8M0):
            top_exponent -= 1
        elif self.specials is Specials.FN:
            top_mantissa -= 1
        significand = 1 + Fraction(top_mantissa, 2**self.mantissa_bits)
        return significand * Fraction(2) ** (top_exponent - self.bias)

    @cached_property
    def min(self) -> Fraction:
        """The most negative finite value; for e8m0, which has no sign and no zero, the smallest value."""
        if self.kind is Kind.INTEGER and self.signed:
            return -(self.max + 1)
        if self.kind is not Kind.FLOATING:
            return Fraction(0)
        return self.quantum if self.specials is Specials.E8M0 else -self.max

    @property
    def has_infinity(self) -> bool:
        return self.specials is Specials.IEEE

    @property
    def has_nan(self) -> bool:
        return self.specials is not Specials.NONE

    @property
    def has_negative_zero(self) -> bool:
        return self.kind is Kind.FLOATING and self.specials not in (Specials.FNUZ, Specials.E8M0)


_FIRST = Since()
_FLOAT8 = Since(cast=19, quantized=19, ir_version=9)


def _integer(dtype: DataType, bits: int, since: Since, *, signed: bool) -> ElementType:
    return ElementType(dtype, Kind.INTEGER, bits, signed, since=since)


def _float(
    dtype: DataType, exponent: int, mantissa: int, bias: int, specials: Specials, since: Since = _FIRST
) -> ElementType:
    signed = specials is not Specials.E8M0
    bits = signed + exponent + mantissa
    return ElementType(dtype, Kind.FLOATING, bits, signed, exponent, mantissa, bias, specials, since)


_ROWS = (
    ElementType(DataType.BOOL, Kind.BOOLEAN, 1),
    _integer(DataType.INT2, 2, Since(cast=25, quantized=25, ir_version=13), signed=True),
    _integer(DataType.UINT2, 2, Since(cast=25, quantized=25, ir_version=13), signed=False),
    _integer(DataType.INT4, 4, Since(cast=21, quantized=21, ir_version=10), signed=True),
    _integer(DataType.UINT4, 4, Since(cast=21, quantized=21, ir_version=10), signed=False),
    _integer(DataType.INT8, 8, Since(quantized=10), signed=True),
    _integer(DataType.UINT8, 8, Since(quantized=10), signed=False),
    _integer(DataType.INT16, 16, Since(quantized=21), signed=True),
    _integer(DataType.UINT16, 16, Since(quantized=21), signed=False),
    _integer(DataType.INT32, 32, _FIRST, signed=True),
    _integer(DataType.UINT32, 32, _FIRST, signed=False),
    _integer(DataType.INT64, 64, _FIRST, signed=True),
    _integer(DataType.UINT64, 64, _FIRST, signed=False),
    #                             exponent mantissa bias  specials
    _float(DataType.FLOAT4E2M1, 2, 1, 1, Specials.NONE, Since(cast=23, quantized=23, ir_version=11)),
    _float(DataType.FLOAT6E2M3, 2, 3, 1, Specials.NONE, Since(cast=28, quantized=28, ir_version=14)),
    _float(DataType.FLOAT6E3M2, 3, 2, 3, Specials.NONE, Since(cast=28, quantized=28, ir_version=14)),
    _float(DataType.FLOAT8E4M3FN, 4, 3, 7, Specials.FN, _FLOAT8),
    _float(DataType.FLOAT8E4M3FNUZ, 4, 3, 8, Specials.FNUZ, _FLOAT8),
    _float(DataType.FLOAT8E5M2, 5, 2, 15, Specials.IEEE, _FLOAT8),
    _float(DataType.FLOAT8E5M2FNUZ, 5, 2, 16, Specials.FNUZ, _FLOAT8),
    _float(DataType.FLOAT8E8M0, 8, 0, 127, Specials.E8M0, Since(cast=24, ir_version=12)),
    _float(DataType.FLOAT16, 5, 10, 15, Specials.IEEE),
    _float(DataType.BFLOAT16, 8, 7, 127, Specials.IEEE, Since(cast=13)),
    _float(DataType.FLOAT, 8, 23, 127, Specials.IEEE),
    _float(DataType.DOUBLE, 11, 52, 1023, Specials.IEEE),
    ElementType(DataType.STRING, Kind.STRING, 0, since=Since(cast=9)),
    ElementType(DataType.COMPLEX64, Kind.COMPLEX, 64, signed=True, since=Since(cast=None)),
    ElementType(DataType.COMPLEX128, Kind.COMPLEX, 128, signed=True, since=Since(cast=None)),
)

ELEMENT_TYPES: dict[DataType, ElementType] = {row.dtype: row for row in _ROWS}
"""Every element type of ONNX, narrow to wide within its kind."""

NUMERIC_TYPES: tuple[DataType, ...] = tuple(row.dtype for row in _ROWS if row.kind <= Kind.FLOATING)
"""Boolean, integer and floating-point types: those that Cast converts by arithmetic."""

FLOAT8_TYPES: tuple[DataType, ...] = tuple(
    row.dtype for row in _ROWS if row.kind is Kind.FLOATING and row.bits == 8 and row.signed
)
"""The four types of the float8 tables of the Cast schema; float8e8m0 has rules of its own."""

CODED_TYPES: tuple[DataType, ...] = tuple(
    row.dtype
    for row in _ROWS
    if row.kind in (Kind.INTEGER, Kind.FLOATING) and (row.bits < 8 or (row.bits == 8 and row.kind is Kind.FLOATING))
)
"""Types that can be stored as codes, one in the low bits of each uint8: below 8 bits, and the 8-bit floats."""

HALF_TYPES: tuple[DataType, ...] = tuple(row.dtype for row in _ROWS if row.kind is Kind.FLOATING and row.bits == 16)
"""Types that float holds with enough precision left to compute in."""

_EXTRA_NAMES = {
    "b8": DataType.BOOL,
    "half": DataType.FLOAT16,
    "single": DataType.FLOAT,
    "str": DataType.STRING,
    # OpenVINO's own names, and those of the examples in the document of ConvertPromoteTypes-14.
    "boolean": DataType.BOOL,
    "f8e4m3": DataType.FLOAT8E4M3FN,
    "f8m4e3": DataType.FLOAT8E4M3FN,
    "f8m5e3": DataType.FLOAT8E5M2,
    # Only one type of 4 bits, and of those of 8 bits the one that runtimes mean by the name.
    **dict.fromkeys(("f4", "float4"), DataType.FLOAT4E2M1),
    **dict.fromkeys(("f8", "float8", "float8e4m3"), DataType.FLOAT8E4M3FN),
}
_AMBIGUOUS = {
    "int": "int32 or int64",
    "complex": "complex64 or complex128",
    **dict.fromkeys(("f6", "fp6", "float6"), "f6e2m3 or f6e3m2"),
}
"""Names that could mean several types, and what to write instead."""

_NUMBER = re.compile(r"[0-9]{1,9}")


def element_type(dtype: DataType) -> ElementType:
    """Return the row of `dtype`.

    Raises:
        ElementTypeError: The type is UNDEFINED or unknown to this version.
    """
    try:
        return ELEMENT_TYPES[dtype]
    except KeyError:
        raise ElementTypeError(f"unknown element type {dtype!r}.") from None


@cache
def _names() -> dict[str, DataType]:
    full = {row.name: row.dtype for row in _ROWS}
    short = {row.dtype.short_name(): row.dtype for row in _ROWS}
    numpy = {row.dtype.numpy().name: row.dtype for row in _ROWS if row.kind is not Kind.STRING}
    names = numpy | full | short | _EXTRA_NAMES
    # The common notation of floats: fp16, fp8e5m2, and e5m2 alone.
    common = {f"fp{name[1:]}": dtype for name, dtype in names.items() if re.match(r"f\d", name)}
    bare = {row.dtype.short_name()[2:]: row.dtype for row in _ROWS if re.match(r"f\de", row.dtype.short_name())}
    return common | bare | {"e4m3": DataType.FLOAT8E4M3FN} | names


@cache
def element_bytes(dtype: DataType) -> float:
    """Return the bytes of one element; for a string, which has no fixed size, more than for any number."""
    return 32.0 if dtype is DataType.STRING else dtype.itemsize


def parse_type(name: TypeLike) -> DataType:
    """Return the element type that `name` names.

    Args:
        name: The name in ONNX text (`float8e4m3fn`, `double`), in short form (`f8e4m3fn`, `f64`, `fp16`, `half`, `fp8`
            for float8e4m3fn), of numpy or ml_dtypes (`float8_e4m3fn`, `float64`) or of OpenVINO (`boolean`, `f8e4m3`),
            in any case; the number of the type (17, also as text), a member of onnx_ir.DataType or onnx.TensorProto; a
            numpy dtype or scalar class.

    Raises:
        ElementTypeError: The name, number or dtype is not an ONNX element type.
        ArgumentTypeError: The value does not name a type.
    """
    if isinstance(name, DataType):
        return element_type(name).dtype
    if isinstance(name, str):
        if _NUMBER.fullmatch(name):
            return _of_number(int(name))
        dtype = _names().get(name.lower()) or _names().get(name.lower().replace("_e", "e"))
        if name.lower() in _AMBIGUOUS:
            raise ElementTypeError(f"{name!r} is ambiguous as an element type: write {_AMBIGUOUS[name.lower()]}.")
        if dtype is None:
            way_out = did_you_mean(name, _names(), "expected a name such as float16, bf16 or i64")
            raise ElementTypeError(f"{name!r} is not an element type of ONNX; {way_out}")
        return dtype
    if isinstance(name, np.dtype | type):
        return _of_numpy(name)
    return _of_number(whole_number("an element type", name, "a name, number or dtype"))


def _of_number(number: int) -> DataType:
    try:
        return element_type(DataType(number)).dtype
    except (ElementTypeError, ValueError):
        raise ElementTypeError(f"{number} is not the number of an element type of ONNX.") from None


def _of_numpy(numpy_type: np.dtype[Any] | type) -> DataType:
    if isinstance(numpy_type, type):
        _require_scalar_class(numpy_type)
    dtype = np.dtype(numpy_type)
    if dtype.kind in "OUST":
        return DataType.STRING
    try:
        return element_type(DataType.from_numpy(dtype.newbyteorder("="))).dtype
    except (TypeError, ElementTypeError):
        raise ElementTypeError(f"ONNX has no element type for numpy's {dtype}.") from None


_NAME_OF = {float: "float32 or float64", int: "int32 or int64", complex: "complex64 or complex128"}


def _require_scalar_class(scalar_class: type) -> None:
    """Refuse the classes that numpy converts to a default type: abstract ones, and Python's float, int and complex."""
    name = scalar_class.__name__
    if scalar_class in _NAME_OF:
        raise ElementTypeError(f"Python's {name} is ambiguous as an element type: write {_NAME_OF[scalar_class]}.")
    if scalar_class in _ABSTRACT or not issubclass(scalar_class, np.generic | bool | str):
        raise ElementTypeError(f"the class {name} is not an element type of ONNX.")


_ABSTRACT = (
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
    np.flexible,
    np.character,
    np.void,
)


@cache
def type_name(dtype: DataType) -> str:
    """Return the name of `dtype` in ONNX text."""
    return element_type(dtype).name
