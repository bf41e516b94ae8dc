"""The codec: convert an array from one element type to another, bit for bit as the ONNX Cast of an opset defines it.

Call `cast(array, to, opset=..., saturate=...)`. Passes, lowerings and tests compute every conversion with it.

    convert      `cast` and `bit_cast`
    settings     types and attributes by opset; `policy_for` gives the settings in force
    codec        arrays of codes: rounding by a table of all codes
    narrowing    `narrow` and `widen`, the two halves of a conversion of floating-point codes
    integers     floating-point numbers truncated by numpy, unless one is out of range
    compiled     conversions by the kernels of `kernels`, which numba compiles, for those who ask for them
    strings      numbers from and to text
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.numerics.cast.codec import Array, code_dtype, code_mask
    from castsmith.numerics.cast.convert import CHUNK, bit_cast, cast, check_cast, code_chunks, elements_of, texts_of
    from castsmith.numerics.cast.narrowing import narrow, widen
    from castsmith.numerics.cast.settings import (
        FIRST_OPSET,
        NEWEST_OPSET,
        Policy,
        policy_for,
        require_settings,
        require_type,
    )
    from castsmith.numerics.cast.strings import fits, is_integer, is_number, parse_floats

__all__ = [
    "CHUNK",
    "FIRST_OPSET",
    "NEWEST_OPSET",
    "Array",
    "Policy",
    "bit_cast",
    "cast",
    "check_cast",
    "code_chunks",
    "code_dtype",
    "code_mask",
    "elements_of",
    "fits",
    "is_integer",
    "is_number",
    "narrow",
    "parse_floats",
    "policy_for",
    "require_settings",
    "require_type",
    "texts_of",
    "widen",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "codec": ("Array", "code_dtype", "code_mask"),
            "convert": ("CHUNK", "bit_cast", "cast", "check_cast", "code_chunks", "elements_of", "texts_of"),
            "narrowing": ("narrow", "widen"),
            "settings": ("FIRST_OPSET", "NEWEST_OPSET", "Policy", "policy_for", "require_settings", "require_type"),
            "strings": ("fits", "is_integer", "is_number", "parse_floats"),
        },
    )
