"""Every value of one type is a value of another."""

from __future__ import annotations

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.embedding import embeds, has_zero, significant_bits
from castsmith.numerics.exactness import is_exact
from castsmith.numerics.types import ELEMENT_TYPES, NUMERIC_TYPES, element_type


def values_of(dtype: DataType) -> set[bytes]:
    """Each value of a type of at most 16 bits, as the bits of a double; NaN is one value."""
    bits, stored = dtype.bitwidth if dtype is not DataType.BOOL else 1, dtype.numpy()
    codes = np.arange(2**bits, dtype=f"u{stored.itemsize}")
    with np.errstate(all="ignore"):
        doubles = codes.view(stored).astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    return {value.tobytes() for value in doubles}


def test_a_narrow_type_embeds_where_each_of_its_values_is_one() -> None:
    """By the values that numpy and ml_dtypes give to each code."""
    values = {dtype: values_of(dtype) for dtype in NUMERIC_TYPES if dtype.bitwidth <= 16}
    assert {(a, b) for a in values for b in values if is_exact(a, b)} == {
        (a, b) for a in values for b in values if values[a] <= values[b]
    }
    assert {dtype for dtype in values if has_zero(element_type(dtype))} == {
        dtype for dtype, held in values.items() if np.float64(0).tobytes() in held
    }


HOLDING = {
    "FLOAT": "BOOL FLOAT16 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0 INT8 UINT8 INT16 "
    "UINT16 INT4 UINT4 INT2 UINT2 FLOAT4E2M1 FLOAT6E2M3 FLOAT6E3M2",
    "INT32": "BOOL INT8 UINT8 INT16 UINT16 INT4 UINT4 INT2 UINT2",
    "UINT32": "BOOL UINT8 UINT16 UINT4 UINT2",
}
HOLDING["DOUBLE"] = f"FLOAT INT32 UINT32 {HOLDING['FLOAT']}"
HOLDING["INT64"] = f"INT32 UINT32 {HOLDING['INT32']}"
HOLDING["UINT64"] = f"UINT32 {HOLDING['UINT32']}"


def test_wide_types_embed_what_they_hold() -> None:
    for wide in ELEMENT_TYPES:
        if element_type(wide).bits >= 32 or wide is DataType.STRING:
            held = {dtype.name for dtype in ELEMENT_TYPES if embeds(dtype, wide)}
            assert held == {wide.name, *HOLDING.get(wide.name, "").split()} & DataType.__members__.keys(), wide


def test_significant_bits() -> None:
    for name, bits in (("BOOL", 1), ("INT8", 7), ("UINT8", 8), ("INT64", 63), ("FLOAT16", 11), ("FLOAT8E5M2", 3)):
        assert significant_bits(element_type(DataType[name])) == bits, name
