"""The vectors of quantizers: which there are, their operands, and their outputs by the formula of the standard."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.conformance.quantized import dequantize_vectors, quantize_vectors, trunc_vectors
from castsmith.conformance.vectors import Vector
from castsmith.numerics.types import parse_type

INT32, INT4, UINT8 = DataType.INT32, DataType.INT4, DataType.UINT8
TYPES = (DataType.FLOAT, UINT8, DataType.FLOAT8E4M3FN, INT32, INT4, DataType.FLOAT8E8M0)
_FORMS = ("half", "tenth", "small", "axis", "blocks")
_FIRST = {"uint8": 13, "float8e4m3fn": 19, "int4": 21, "int32": 13}
"""The opset in which the quantizers get the type."""
_PARAMETERS: dict[str, tuple[Any, int, dict[str, int]]] = {
    "half": (0.5, 0, {}),
    "tenth": (0.1, 3, {}),
    "small": (2**-12, 1, {}),
    "axis": ([0.5, 0.1, 3], 1, {"axis": 0}),
    "blocks": ([0.5, 0.25, 2, 0.125], 0, {"block_size": 8}),
}


@pytest.fixture(scope="module")
def quantized() -> dict[str, Vector]:
    return {vector.name: vector for vector in quantize_vectors(TYPES)}


@pytest.fixture(scope="module")
def dequantized() -> dict[str, Vector]:
    return {vector.name: vector for vector in dequantize_vectors(TYPES)}


def test_each_quantizer_from_the_opset_that_has_it(quantized: dict[str, Vector]) -> None:
    """The scale of int32 was int32 from opset 19 to 22; blocks are of opset 21; float8 may not saturate."""
    expected = dict[str, tuple[int, int]]()
    for source, target, form in itertools.product(("float", "int32"), ("uint8", "float8e4m3fn", "int4"), _FORMS):
        first = max(_FIRST[target], 21 if form == "blocks" else 0)
        begins = [first, *(turn for turn in (19, 23) if source == "int32" and turn > first)]
        ends = [*(begin - 1 for begin in begins[1:]), 28]
        for word in ("", "_no_saturate") if target == "float8e4m3fn" else ("",):
            name = f"quantizelinear_{source}_to_{target}_{form}{word}_opset"
            expected |= {f"{name}{begin}": (begin, end) for begin, end in zip(begins, ends, strict=True)}
    assert {name: (vector.opset, vector.last_opset) for name, vector in quantized.items()} == expected


def test_each_dequantizer_from_the_opset_that_has_it(dequantized: dict[str, Vector]) -> None:
    """Scales of float8e8m0 are of opset 24."""
    expected = dict[str, tuple[int, int]]()
    for (source, first), scale, form in itertools.product(_FIRST.items(), ("float", "float8e8m0"), _FORMS):
        begin = max(first, 21 if form == "blocks" else 0, 24 if scale != "float" else 0)
        expected[f"dequantizelinear_{source}_by_{scale}_{form}_opset{begin}"] = begin, 28
    assert {name: (vector.opset, vector.last_opset) for name, vector in dequantized.items()} == expected


def test_vectors_of_one_opset_and_of_the_types_that_are_asked_for() -> None:
    for make in (quantize_vectors, dequantize_vectors):
        every = list(make(TYPES, 20))
        assert {(vector.opset, vector.last_opset) for vector in every} == {(20, 20)}
        assert not [vector for vector in every if vector.attributes.get("block_size")]
        assert list(make((UINT8, INT4))) == []  # neither a source nor a scale
    assert {vector.inputs[0].dtype for vector in dequantize_vectors((DataType.FLOAT, DataType.INT64))} == set()
    types = {DataType.INT2: 1, INT4: 3, UINT8: 3}
    for dtype, zero in types.items():  # 3, which int2 lacks
        vectors = [each for each in quantize_vectors((DataType.FLOAT, dtype)) if "_tenth_" in each.name]
        assert [int(each.inputs[2].elements) for each in vectors] == [zero]


_QUANTIZED = """
float16 uint8 19 half tenth small axis, 21 blocks | bfloat16 uint8 19 half tenth small axis, 21 blocks
float float4e2m1 23 half tenth small axis blocks | float16 float4e2m1 23 half tenth small axis blocks
bfloat16 float6e2m3 28 half tenth small axis blocks | float int2 25 half tenth small axis blocks | float float8e8m0
float16 float8e5m2 19 half half_no_saturate tenth tenth_no_saturate small small_no_saturate axis axis_no_saturate,
 21 blocks blocks_no_saturate | float float16 | float int64 | float bool | double int8 | int8 int8
"""
"""Of two types each opset at which quantizers to the second begin, with their forms; types of 8 bits may not saturate.
16-bit floats are quantized from opset 19, to a scale of their own type."""


def test_quantizers_of_other_types() -> None:
    for line in _QUANTIZED.replace("\n ", " ").replace("\n", "|").split("|"):
        if not line.strip():
            continue
        source, target, *words = line.replace(",", "").split()
        expected, opset = list[tuple[str, int, int]](), 0
        for word in words:
            if word.isdigit():
                opset = int(word)
            else:
                expected.append((f"quantizelinear_{source}_to_{target}_{word}_opset{opset}", opset, 28))
        vectors = list(quantize_vectors([*dict.fromkeys((parse_type(source), parse_type(target)))]))
        found = [
            (vector.name, vector.opset, vector.last_opset)
            for vector in vectors
            if f"_{source}_to_{target}_" in vector.name
        ]
        assert found == expected, line
        for vector in vectors:
            assert (vector.inputs[0].dtype, vector.inputs[1].dtype) == (parse_type(source), parse_type(source)), line
            file = vector.name.partition("_opset")[0] + f"_by_{source}_"
            assert [each.file for each in vector.inputs] == [file + part for part in ("data", "scale", "zero_point")]
            assert ("saturate" in vector.attributes) is ("no_saturate" in vector.name)


def test_the_data_of_dequantizers() -> None:
    """Of 16 bits the whole domain with a scale of a tenth, else the numbers near which a result changes."""
    for source, bits in (("int16", 16), ("uint16", 16), ("uint8", 8), ("int4", 4)):
        for scale in ("float", "float16"):
            first = {16: 21, 8: 19 if scale == "float16" else 13, 4: 21}[bits]
            vectors = list(dequantize_vectors([parse_type(source), parse_type(scale)]))
            assert [(vector.name.split("_")[4], vector.opset) for vector in vectors] == [
                ("half", first), ("tenth", first), ("small", first), ("axis", first), ("blocks", 21),
            ]  # fmt: skip
            for vector in vectors:
                data = vector.inputs[0].elements
                assert (data.size == 2**16) is (bits == 16 and "_tenth_" in vector.name)
                assert data.size >= min(2**bits, 256)
                assert vector.output_type is parse_type(scale)


def test_the_operands_of_each_form(quantized: dict[str, Vector], dequantized: dict[str, Vector]) -> None:
    for vector in (*quantized.values(), *dequantized.values()):
        form = next(word for word in vector.name.split("_") if word in _FORMS)
        scales, zero, attributes = _PARAMETERS[form]
        data, scale, *zeros = vector.inputs
        letter = "y" if vector.op == "QuantizeLinear" else "x"
        names = ["x", f"{letter}_scale", f"{letter}_zero_point"][: 2 + len(zeros)]
        assert [operand.name for operand in vector.inputs] == names
        rows, columns = {"axis": (3, 1), "blocks": (data.elements.shape[0], 4)}.get(form, (1, 1))
        shape = {"axis": (3,), "blocks": (rows, columns)}.get(form, ())
        assert [scale.elements.shape, *(each.elements.shape for each in zeros)] == [shape] * (1 + len(zeros))
        if scale.dtype == DataType.FLOAT:
            assert np.array_equal(scale.elements, np.broadcast_to(np.array(scales, np.float32), shape))
        elif scale.dtype == INT32:
            assert np.array_equal(scale.elements, np.broadcast_to(np.maximum(np.rint(scales), 1), shape))
        quantized_type = vector.output_type if vector.op == "QuantizeLinear" else data.dtype
        assert bool(zeros) == (vector.op == "QuantizeLinear" or quantized_type in (UINT8, INT4))
        for each in zeros:
            assert each.dtype == quantized_type
            assert {*map(float, each.elements.reshape(-1))} == {zero if quantized_type in (UINT8, INT4) else 0}
        others = {"saturate": 0} if "no_saturate" in vector.name else {}
        others |= {"output_dtype": 1} if scale.dtype == DataType.FLOAT8E8M0 else {}
        assert dict(vector.attributes) == {**attributes, **others}
        expected = data.elements.shape
        assert vector.output.shape == expected
        if form == "blocks":
            quarters = data.elements.reshape(rows, 4, 8)  # each block has the same elements, and its own scale
            assert all(quarters[:, 0].tobytes() == quarters[:, place].tobytes() for place in range(4))
        elif form == "axis":
            assert len({row.tobytes() for row in data.elements}) == 1


def test_operands_of_one_file_are_the_same(quantized: dict[str, Vector], dequantized: dict[str, Vector]) -> None:
    files = dict[str, bytes]()
    for vector in (*quantized.values(), *dequantized.values(), *trunc_vectors()):
        for operand in vector.inputs:
            content = operand.elements.tobytes()
            assert files.setdefault(operand.file, content) == content, operand.file


def _of_rows(vector: Vector, place: int) -> Any:
    """An operand, with an element for each of the data."""
    data, array = vector.inputs[0].elements, np.asarray(vector.inputs[place].elements, np.float32)
    if vector.attributes.get("block_size"):
        array = np.repeat(array, 8, axis=1)
    return np.broadcast_to(array[:, None] if array.ndim == 1 else array, data.shape)


def test_the_outputs_are_those_of_the_formula(quantized: dict[str, Vector], dequantized: dict[str, Vector]) -> None:
    limits = {UINT8: (0, 255), INT4: (-8, 7)}
    for vector in quantized.values():
        data, defined = vector.inputs[0].elements.astype(np.float32), vector.defined()
        if vector.output_type in limits:
            with np.errstate(all="ignore"):
                steps = np.rint(data / _of_rows(vector, 1)) + _of_rows(vector, 2)
            expected = np.clip(steps, *limits[vector.output_type])
            assert np.array_equal(vector.output.astype(np.float32)[defined], expected[defined]), vector.name
            assert np.array_equal(~defined, np.isnan(data))
    for vector in dequantized.values():
        if vector.inputs[1].dtype == DataType.FLOAT and vector.inputs[0].dtype in limits:
            with np.errstate(all="ignore"):
                zero = _of_rows(vector, 2) if len(vector.inputs) == 3 else 0
                expected = (vector.inputs[0].elements.astype(np.float32) - zero) * _of_rows(vector, 1)
            assert np.array_equal(vector.output, expected.astype(np.float32)), vector.name


def test_the_vectors_of_trunc() -> None:
    """8 bits, of a scale of a half, to fewer: the first version keeps the scale, the second has its own."""
    modes, widths = (
        ("FLOOR", "CEIL", "ROUND", "HALF_EVEN", "UP", "DOWN", "HALF_UP", "HALF_DOWN"),
        ((0, 4), (3, 2), (0, 8)),
    )
    expected = list[tuple[str, list[float], dict[str, Any]]]()
    for mode, (zero, bits) in itertools.product(modes, widths):
        name = f"{mode.lower()}_zero{zero}_bits{bits}"
        settings: dict[str, Any] = {"rounding_mode": mode}
        expected.append((f"trunc_v1_{name}", [0.5, zero, 8, bits], settings))
        for signed, narrow in itertools.product((1, 0), repeat=2):
            operands = [0.5, zero, 8, 0.5 * 2 ** (8 - bits), bits]
            flags = {"signed": signed, "narrow": narrow}
            expected.append((f"trunc_v2_{name}_signed{signed}_narrow{narrow}", operands, {**settings, **flags}))
    vectors = {vector.name: vector for vector in trunc_vectors()}
    assert vectors.keys() == {name for name, *_ in expected}
    for name, operands, attributes in expected:
        vector, version = vectors[name], int(name[7])
        places = ["x", "scale", "zeropt", "in_bitwidth", *["out_scale"][: version - 1], "out_bitwidth"]
        assert [operand.name for operand in vector.inputs] == places
        assert [float(operand.elements) for operand in vector.inputs[1:]] == operands
        assert np.array_equal(vector.inputs[0].elements, np.arange(-80, 80.5, 0.5))
        assert (dict(vector.attributes), vector.domain_version) == (attributes, version)
        assert (vector.opset, vector.last_opset, vector.domain) == (13, 28, "qonnx.custom_op.general")
    first = vectors["trunc_v1_floor_zero0_bits8"]  # nothing is cut off
    assert np.array_equal(first.output, first.inputs[0].elements)
