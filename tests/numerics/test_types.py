"""The rows of the element types, against the tables of others: numpy, ml_dtypes, the schemas and versions of ONNX."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import onnx.defs
import onnx.helper
import pytest
from onnx_ir import DataType

from castsmith.numerics.errors import ArgumentTypeError, ElementTypeError
from castsmith.numerics.types import (
    CODED_TYPES,
    ELEMENT_TYPES,
    FLOAT8_TYPES,
    HALF_TYPES,
    NUMERIC_TYPES,
    ElementType,
    Kind,
    Since,
    element_bytes,
    fits_array,
    parse_type,
    type_name,
)

ROWS = list(ELEMENT_TYPES.values())
FLOATS = [row for row in ROWS if row.kind is Kind.FLOATING]
OLDEST_CAST = 1
OPSETS = range(1, onnx.defs.onnx_opset_version() + 1)


def test_every_type_of_the_installed_onnx_has_a_row() -> None:
    undefined = onnx.TensorProto.UNDEFINED
    assert {int(dtype) for dtype in ELEMENT_TYPES} >= set(onnx.TensorProto.DataType.values()) - {undefined}


def test_limits_are_those_of_numpy_and_ml_dtypes() -> None:
    for row in ROWS:
        if row.kind is Kind.INTEGER:
            info = ml_dtypes.iinfo(row.dtype.numpy())
            assert (row.min, row.max, row.bits) == (info.min, info.max, info.bits), row.name
            assert row.signed == (info.min < 0), row.name
    for row in FLOATS:
        limits: Any = ml_dtypes.finfo(row.dtype.numpy())
        assert row.max == Fraction(float(limits.max)), row.name
        assert row.min == (row.max * -1 if row.signed else Fraction(float(limits.tiny))), row.name
        assert row.mantissa_bits == limits.nmant, row.name
        assert row.precision == limits.nmant + 1, row.name
        assert Fraction(2) ** row.min_exponent == Fraction(float(limits.tiny)), row.name
        assert row.quantum == Fraction(float(limits.smallest_subnormal)), row.name


def test_special_values_are_those_of_ml_dtypes() -> None:
    for row in FLOATS:
        if row.bits > 16:
            continue
        codes = np.arange(2**row.bits, dtype=f"u{row.dtype.numpy().itemsize}").view(row.dtype.numpy())
        with np.errstate(all="ignore"):
            numbers = codes.astype(np.float64)
        assert row.has_nan == np.isnan(numbers).any(), row.name
        assert row.has_infinity == np.isinf(numbers).any(), row.name
        assert row.has_negative_zero == ((numbers == 0) & np.signbit(numbers)).any(), row.name
        assert row.signed == (numbers < 0).any(), row.name


def _first(operator: str, direction: str, row: ElementType) -> int | None:
    """The first opset of which the schema has the type."""
    for opset in OPSETS:
        try:
            schema = onnx.defs.get_schema(operator, opset)
        except onnx.defs.SchemaError:
            continue
        formal = (schema.inputs if direction == "in" else schema.outputs)[0]
        if f"tensor({row.name})" in formal.types:
            return opset
    return None


def test_the_first_versions_are_those_of_the_schemas() -> None:
    newest = OPSETS[-1]
    released = {opset: ir for _, ir, opset, *_ in reversed(onnx.helper.VERSION_TABLE)}
    for row in ROWS:
        since: Since = row.since
        if since.cast is not None and since.cast > newest:
            continue  # the installed release of ONNX is too old
        found = _first("Cast", "in", row)
        assert _first("Cast", "out", row) == found, row.name
        # Below opset 6 the attribute was a text, which changes nothing for the types.
        assert since.cast == (1 if found == OLDEST_CAST else found), row.name
        assert since.quantized == _first("QuantizeLinear", "out", row), row.name
        assert since.ir_version == (released[since.cast] if since.cast is not None and since.cast > 18 else 0), row.name


def test_the_groups_of_types() -> None:
    names = {
        NUMERIC_TYPES: {row.name for row in ROWS} - {"string", "complex64", "complex128"},
        FLOAT8_TYPES: {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"},
        HALF_TYPES: {"float16", "bfloat16"},
        CODED_TYPES: {name for row in ROWS if (name := row.name).startswith(("float8", "float6", "float4"))}
        | {"int2", "uint2", "int4", "uint4"},
    }
    for types, expected in names.items():
        assert {type_name(dtype) for dtype in types} == expected


def test_bits_and_bytes_of_elements() -> None:
    for row in ROWS:
        assert element_bytes(row.dtype) == (32 if row.kind is Kind.STRING else row.dtype.itemsize), row.name
        if row.kind not in (Kind.STRING, Kind.BOOLEAN):
            assert row.bits == row.dtype.itemsize * 8, row.name
        assert row.stored_bits == (0 if row.kind is Kind.STRING else row.dtype.itemsize * 8), row.name
        assert row.exponent_bits == (row.bits - row.signed - row.mantissa_bits if row.kind is Kind.FLOATING else 0)
    assert ELEMENT_TYPES[DataType.BOOL].max == 1
    assert ELEMENT_TYPES[DataType.BOOL].min == 0
    with pytest.raises(ElementTypeError):
        _ = ELEMENT_TYPES[DataType.STRING].max


def test_every_way_to_name_a_type() -> None:
    for row in ROWS:
        numpy = row.dtype.numpy()
        ways: list[Any] = [row.dtype, row.name, row.name.upper(), int(row.dtype), str(int(row.dtype))]
        ways += [row.dtype.short_name()] + ([numpy, numpy.name, numpy.type] if row.kind is not Kind.STRING else [str])
        if numpy.byteorder == "=" and numpy.itemsize > 1 and row.kind is not Kind.STRING:
            ways.append(numpy.newbyteorder(">"))
        for way in ways:
            assert parse_type(way) is row.dtype, way
    texts = [np.dtype(kind) for kind in ("O", "U3", "S3", "T")]
    assert {parse_type(dtype) for dtype in texts} == {DataType.STRING}
    extra = {"boolean": "bool", "b8": "bool", "fp16": "float16", "fp32": "float", "fp64": "double"}
    extra |= {"f8e4m3": "float8e4m3fn", "f8m4e3": "float8e4m3fn", "f8m5e3": "float8e5m2"}
    extra |= {"half": "float16", "single": "float", "str": "string", "f4": "float4e2m1", "fp4": "float4e2m1"}
    extra |= dict.fromkeys(("fp8", "f8", "float8", "e4m3", "fp8_e4m3", "fp8e4m3fn", "float8_e4m3"), "float8e4m3fn")
    extra |= {"fp8_e5m2": "float8e5m2", "e5m2": "float8e5m2", "e8m0": "float8e8m0", "FP8": "float8e4m3fn"}
    extra |= {"fp6e2m3": "float6e2m3", "e3m2": "float6e3m2", "e5m2fnuz": "float8e5m2fnuz", "fp4_e2m1": "float4e2m1"}
    for name, meant in extra.items():
        assert type_name(parse_type(name)) == meant


def test_every_short_form_in_use_names_a_type() -> None:
    """Kind and bits, as people write them: i64, u8, f16, fp16, bf16."""
    for row in ROWS:
        if row.kind is Kind.INTEGER:
            assert parse_type(f"{'i' if row.signed else 'u'}{row.bits}") is row.dtype
            assert parse_type(f"{'int' if row.signed else 'uint'}{row.bits}") is row.dtype
        elif row.kind is Kind.FLOATING and row.bits > 8:
            letter = "b" if row.exponent_bits == 8 and row.bits == 16 else ""
            assert {parse_type(f"{letter}{stem}{row.bits}") for stem in ("f", "float")} == {row.dtype}
            assert letter or parse_type(f"fp{row.bits}") is row.dtype
        elif row.kind is Kind.FLOATING:
            code = row.name.removeprefix(f"float{row.bits}")
            stems = ("", "f8", "fp8", "float8", "float8_", "fp8_") if row.bits == 8 else ("", f"fp{row.bits}")
            assert {parse_type(f"{stem}{code}") for stem in stems} == {row.dtype}


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("fp6", "f6e2m3 or f6e3m2"), ("Float6", "f6e2m3 or f6e3m2"), ("int", "int32 or int64")],
)
def test_a_name_of_several_types_is_refused(name: str, way_out: str) -> None:
    with pytest.raises(ElementTypeError, match=f"^'{name}' is ambiguous as an element type: write {way_out}.$"):
        parse_type(name)


@pytest.mark.parametrize("given", ["float99", "99", 99, 0, "-1", "", float, int, np.integer, np.void, object, "O8"])
def test_a_name_of_no_type_is_refused(given: Any) -> None:
    with pytest.raises(ElementTypeError):
        parse_type(given)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (1.0, "a value of type float"), (None, "None"), (True, "a value of type bool"), ([1], "a value of type list"),
        (np.float32(1), "a value of type float32"), (np.True_, "a value of type bool"),
    ],
)  # fmt: skip
def test_a_value_that_names_no_type_is_refused(given: Any, kind: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"^an element type must be a name, number or dtype, not {kind}.$"):
        parse_type(given)


def test_the_shapes_that_numpy_has() -> None:
    """At most 64 dimensions, and bytes that 63 bits count: the widest element has 16."""
    for shape, fits in (
        ((), True), ((1,) * 64, True), ((1,) * 65, False), ((2**59 - 1,), True), ((2**59,), False), ((0,), True),
        ((0, 2**59 - 1), True), ((0, 2**59), False), ((2**30, 2**28), True), ((2**30, 2**29), False), ((0, 0), True),
    ):  # fmt: skip
        assert fits_array(shape) is fits, shape
        if not 0 < math.prod(shape) < 2**59 or math.prod(shape) == 1:  # without elements, or one
            try:
                np.empty(shape, np.complex128)
            except ValueError:
                assert not fits, shape
            else:
                assert fits, shape
