"""Departures of a runtime's Cast from the schema, as rows: the casts, the difference, and one value that shows it.

Each row is checked against the installed runtime, and every departure of `cast_as` from `cast` has its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from onnx_ir import DataType

from castsmith.numerics.types import ELEMENT_TYPES, FLOAT8_TYPES, Kind


@dataclass(frozen=True, slots=True)
class Difference:
    """A departure: `value` of the first of `sources`, cast to the first of `targets`, gives `result`, not `schema`.

    `saturate` None means both settings. All three values are text, as Python prints the number.
    """

    runtime: str
    sources: tuple[DataType, ...]
    targets: tuple[DataType, ...]
    what: str
    value: str
    schema: str
    result: str
    saturate: bool | None = None
    round_modes: tuple[str, ...] = field(default=("up", "down", "nearest"))
    opset: int = 25


def _types(
    kinds: Iterable[Kind], first: Iterable[DataType] = (), least: int = 0, most: int = 64
) -> tuple[DataType, ...]:
    rows = (row for row in ELEMENT_TYPES.values() if row.kind in kinds and least <= row.bits <= most)
    return (*first, *(row.dtype for row in rows if row.dtype not in first))


_D = DataType
_FLOATS = _types((Kind.FLOATING,), (_D.FLOAT,))
_NUMBERS = _types((Kind.FLOATING, Kind.INTEGER, Kind.BOOLEAN), (_D.FLOAT,))
_WIDE = (_D.DOUBLE, _D.INT64, _D.UINT64, _D.INT32, _D.UINT32)
_SUB_BYTE = _types((Kind.INTEGER,), (_D.INT4, _D.UINT4), most=7)
_NARROW_FLOATS = _types((Kind.FLOATING,), most=7)
_FNUZ = (_D.FLOAT8E4M3FNUZ, _D.FLOAT8E5M2FNUZ)
_TEXT = (_D.STRING,)
_TWICE = "rounds to float first, so twice"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "onnxruntime",
        _WIDE,
        (*FLOAT8_TYPES, _D.BFLOAT16, _D.FLOAT16, _D.FLOAT8E8M0),
        _TWICE,
        *("1.0625000000000002", "1.125", "1.0"),
    ),
    Difference(
        "onnxruntime",
        _NUMBERS,
        (_D.FLOAT8E4M3FN,),
        "saturate=0 makes [480, 496) the maximum instead of NaN",
        *("480.0", "nan", "448.0"),
        saturate=False,
    ),
    Difference(
        "onnxruntime",
        _NUMBERS,
        (_D.FLOAT8E5M2,),
        "saturate=0 makes [61440, 65536) NaN instead of infinity",
        *("61440.0", "inf", "nan"),
        saturate=False,
    ),
    Difference(
        "onnxruntime",
        _NUMBERS,
        _FNUZ,
        "before opset 24 infinity becomes the maximum instead of NaN",
        *("inf", "nan", "240.0"),
        saturate=True,
        opset=23,
    ),
    Difference(
        "onnxruntime",
        _NUMBERS,
        (_D.FLOAT8E8M0,),
        "a negative number becomes the minimum (the schema leaves it open)",
        *("-1.0", "nan", "5.877471754111438e-39"),
        saturate=True,
    ),
    Difference(
        "onnxruntime",
        _FLOATS,
        _SUB_BYTE,
        "rounds half away from zero where the schema truncates",
        *("0.5", "0", "1"),
    ),
    Difference(
        "onnxruntime",
        _FLOATS,
        _SUB_BYTE,
        "out of range the low bits remain, and beyond int32 and for NaN 0 (the schema leaves it open)",
        *("9.0", "7", "-7"),
    ),
    Difference(
        "onnxruntime",
        (_D.FLOAT8E4M3FN, _D.FLOAT8E5M2),
        (_D.BOOL,),
        "-0 is true",
        *("-0.0", "False", "True"),
    ),
    Difference(
        "onnxruntime",
        (_D.FLOAT8E8M0,),
        (_D.BOOL,),
        "the smallest number, whose code is 0, is false",
        *("5.877471754111438e-39", "True", "False"),
    ),
    Difference(
        "onnxruntime",
        _FLOATS,
        _TEXT,
        "prints eight significant digits, with an exponent where short, double too",
        *("9.999999747378752e-06", "0.00001", "9.9999997e-06"),
    ),
    Difference(
        "onnxruntime",
        _TEXT,
        _types((Kind.INTEGER, Kind.BOOLEAN), (_D.INT32,), 8),
        "reads the leading digits and ignores the rest; a number out of range wraps",
        *("1e5", "100000", "1"),
    ),
    Difference(
        "onnxruntime",
        _TEXT,
        _SUB_BYTE,
        "reads a floating-point number and converts it as one",
        *("0.5", "0", "1"),
    ),
    Difference(
        "onnxruntime",
        _TEXT,
        (_D.FLOAT16, *FLOAT8_TYPES, _D.BFLOAT16, _D.FLOAT8E8M0, _D.FLOAT),
        "reads a double, so rounds twice or three times",
        *("1.000488281250000000001", "1.0009765625", "1.0"),
    ),
    Difference(
        "reference",
        _WIDE,
        (*FLOAT8_TYPES, _D.BFLOAT16, *_NARROW_FLOATS, _D.FLOAT8E8M0),
        _TWICE,
        *("1.0625000000000002", "1.125", "1.0"),
    ),
    Difference(
        "reference",
        _NUMBERS,
        _FNUZ,
        "before opset 24 infinity becomes the maximum instead of NaN",
        *("inf", "nan", "240.0"),
        saturate=True,
        opset=23,
    ),
    Difference(
        "reference",
        _NUMBERS,
        (_D.FLOAT8E8M0,),
        "the sign is dropped (the schema leaves negative numbers open)",
        *("-1.0", "nan", "1.0"),
    ),
    Difference(
        "reference",
        _NUMBERS,
        (_D.FLOAT8E8M0,),
        "infinity becomes NaN",
        *("inf", "1.7014118346046923e+38", "nan"),
        saturate=True,
    ),
    Difference(
        "reference",
        _NUMBERS,
        (_D.FLOAT8E8M0,),
        "saturate=0 gives the smallest number instead of NaN for zero and anything below it",
        *("0.0", "nan", "5.877471754111438e-39"),
        saturate=False,
    ),
    Difference(
        "reference",
        _NUMBERS,
        (_D.FLOAT8E8M0,),
        "below 2**-126 rounding up, or to nearest past the middle, gives 2**-126",
        *("1e-40", "5.877471754111438e-39", "1.1754943508222875e-38"),
        round_modes=("up", "nearest"),
    ),
    Difference(
        "reference",
        _NUMBERS,
        (_D.FLOAT8E8M0,),
        "saturate=0 rounding down gives the maximum for anything above it",
        *("3e+38", "nan", "1.7014118346046923e+38"),
        saturate=False,
        round_modes=("down",),
    ),
    Difference(
        "reference",
        _FLOATS,
        _SUB_BYTE,
        "out of range the low bits of the integer remain (the schema leaves it open)",
        *("9.0", "7", "-7"),
    ),
    Difference(
        "reference",
        _NUMBERS,
        _TEXT,
        "prints as numpy does: with an exponent where short, nan, inf, True",
        *("1e-05", "0.00001", "1e-05"),
    ),
    Difference(
        "reference",
        _TEXT,
        _NUMBERS,
        "reads as Python and numpy do, so with two or three roundings",
        *("1.000000059604644775390625000000001", "1.0000001192092896", "1.0"),
    ),
)
