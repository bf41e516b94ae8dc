"""Conversions to and from types that a target lacks, as encodings: series of operators that it has.

Call `encode` and `decode`; `choose` selects one of three encodings by the hazards of the target that each withstands.

    table      one look-up; the fastest, for targets with BitCast
    bitcast    integer arithmetic on the bits, for targets with BitCast
    ladder     arithmetic, by sums and a logarithm, for targets without BitCast
    integer    integers below 8 bits, and numbers widened for one later rounding
    storage    values and weights stored as uint8 codes, or packed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.encodings.choose import (
        ARITHMETIC_HAZARDS,
        NEEDS_BITCAST,
        WITHSTANDS,
        Encoding,
        can_encode,
        decode,
        encode,
    )
    from castsmith.lowering.encodings.integer import WIDE_INTEGERS, clamped, encode_integer, number, rounds_since, wide
    from castsmith.lowering.encodings.ladder import round_in_place, to_the_grid
    from castsmith.lowering.encodings.storage import (
        PACKED,
        as_codes,
        can_be_packed,
        declared_values,
        inferred_declared,
        mentioned_types,
        packed_tensor,
        retype_as_codes,
        retyped_attributes,
        unpacked,
    )
    from castsmith.lowering.encodings.table import round_by_table

__all__ = [
    "ARITHMETIC_HAZARDS",
    "NEEDS_BITCAST",
    "PACKED",
    "WIDE_INTEGERS",
    "WITHSTANDS",
    "Encoding",
    "as_codes",
    "can_be_packed",
    "can_encode",
    "clamped",
    "declared_values",
    "decode",
    "encode",
    "encode_integer",
    "inferred_declared",
    "mentioned_types",
    "number",
    "packed_tensor",
    "retype_as_codes",
    "retyped_attributes",
    "round_by_table",
    "round_in_place",
    "rounds_since",
    "to_the_grid",
    "unpacked",
    "wide",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "choose": (
                "ARITHMETIC_HAZARDS",
                "NEEDS_BITCAST",
                "Encoding",
                "WITHSTANDS",
                "can_encode",
                "decode",
                "encode",
            ),
            "integer": ("WIDE_INTEGERS", "clamped", "encode_integer", "number", "rounds_since", "wide"),
            "ladder": ("round_in_place", "to_the_grid"),
            "storage": (
                "PACKED",
                "as_codes",
                "can_be_packed",
                "declared_values",
                "inferred_declared",
                "mentioned_types",
                "packed_tensor",
                "retype_as_codes",
                "retyped_attributes",
                "unpacked",
            ),
            "table": ("round_by_table",),
        },
    )
