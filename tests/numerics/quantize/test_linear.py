"""QuantizeLinear and DequantizeLinear against exact rational arithmetic: types, precisions, corners."""

from __future__ import annotations

import itertools
import random
import warnings
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np
import onnx.defs
import pytest
from onnx_ir import DataType

from castsmith.numerics.quantize import granularity
from castsmith.numerics.quantize.linear import (
    dequantize_linear,
    dequantized_pieces,
    quantize_linear,
    quantized_pieces,
)
from castsmith.numerics.quantize.schema import ATTRIBUTES, PRECISIONS, TYPES
from castsmith.numerics.types import type_name
from tests.numerics import oracle
from tests.numerics.oracle import Settings
from tests.numerics.quantize.quantize_oracle import dequantized, quantized
from tests.sampling import sampled, shortened

OPSETS = (10, 13, 19, 21, 23, 24, 25, 28)
OUTPUTS = [type_name(dtype) for dtype in TYPES["QuantizeLinear", "y"]]
COMPUTE = ("float", "float16", "bfloat16")


def codes_for(name: str, count: int, seed: str) -> list[int]:
    """Codes of a scale or of x: corners, ordinary numbers, and any code at all."""
    generator = random.Random(f"{name} {seed}")
    row = oracle.FLOATS[name]
    sign = 1 << (row.exponent + row.mantissa) if row.sign else 0
    corners = [0, 1, row.top, row.nan or 0, (row.bias << row.mantissa), (row.bias + 1) << row.mantissa]
    corners += [row.inf] if row.inf is not None else []
    ordinary = [((row.bias + generator.randrange(-9, 10)) << row.mantissa) for _ in range(count)]
    ordinary = [code + generator.getrandbits(row.mantissa) if row.mantissa else code for code in ordinary]
    anything = [generator.randrange(row.top) for _ in range(count // 4)]
    return [code + generator.choice((0, sign)) for code in (*corners, *ordinary, *anything)]


STEP = 37 if shortened("16-bit codes to dequantize", 65536 // 37, 65536 // 333) > 1000 else 333
ELEMENTS = shortened("elements to quantize", 120, 48)


def zeros_for(name: str) -> list[int]:
    if name in oracle.FLOATS:
        return [0]
    row = oracle.INTS[name]
    return sorted({row.low, row.high, 0, row.high // 2})


def same(got: np.ndarray, want: list[int], name: str) -> None:
    codes = got.view(oracle.unsigned(name)).reshape(-1).tolist()
    bad = [i for i, (a, b) in enumerate(zip(codes, want, strict=True)) if a != b]
    assert not bad, f"{len(bad)} differ, the first is element {bad[0]}: got {codes[bad[0]]:#x}, not {want[bad[0]]:#x}"


@pytest.mark.parametrize(
    ("output", "precision"), sampled("quantized types", itertools.product(OUTPUTS, COMPUTE), 8, cover=enumerate)
)
def test_quantize(output: str, precision: str) -> None:
    """Every x over a scale of its own (per axis), so that many quotients are met; x and scale of one type."""
    x_codes, scale_codes = codes_for(precision, ELEMENTS, "x"), codes_for(precision, 6, "scale")
    x, scale = (oracle.array_of(precision, codes) for codes in (x_codes, scale_codes))
    xs, scales = ([oracle.decode(precision, code) for code in codes] for codes in (x_codes, scale_codes))
    grid = np.stack([x] * scale.size, axis=1)
    for zero in zeros_for(output):
        for saturate in (True, False) if output.startswith("float8") else (True,):
            for opset in (23, 28) if output.startswith("float8") else (28,):
                points = (
                    None if output in oracle.FLOATS else np.full(scale.shape, zero).astype(oracle.INTS[output].dtype)
                )
                got = quantize_linear(grid, scale, points, axis=1, output_dtype=output, saturate=saturate, opset=opset)
                settings = Settings(saturate=saturate, opset=opset)
                want = [quantized(a, b, zero, output, precision, settings) for a in xs for b in scales]
                same(got, want, output)


SCALED = itertools.product(COMPUTE, [*COMPUTE, "float8e8m0"], [type_name(dtype) for dtype in PRECISIONS])


@pytest.mark.parametrize(
    ("x_type", "scale_type", "precision"), sampled("precisions of QuantizeLinear", SCALED, 6, cover=enumerate)
)
def test_the_stated_precision(x_type: str, scale_type: str, precision: str) -> None:
    x_codes, scale_codes = codes_for(x_type, ELEMENTS, "x"), codes_for(scale_type, 5, "scale")
    xs, scales = ([oracle.decode(n, c) for c in codes] for n, codes in ((x_type, x_codes), (scale_type, scale_codes)))
    grid = np.stack([oracle.array_of(x_type, x_codes)] * len(scale_codes), axis=1)
    scale = oracle.array_of(scale_type, scale_codes)
    for output in ("uint8", "int16", "float8e4m3fn"):
        got = quantize_linear(grid, scale, output_dtype=output, precision=precision)
        same(got, [quantized(a, b, 0, output, precision, Settings()) for a in xs for b in scales], output)


@pytest.mark.parametrize("scale_type", ["float", "float16", "bfloat16"])
def test_int32_is_rounded_to_the_type_of_the_scale(scale_type: str) -> None:
    x = [0, 1, -1, 255, 2049, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)]
    scale_codes = codes_for(scale_type, 6, "int32")
    scales = [oracle.decode(scale_type, code) for code in scale_codes]
    xs = [oracle.decode("int32", n % 2**32) for n in x]
    grid = np.stack([np.array(x, np.int32)] * len(scales), axis=1)
    got = quantize_linear(grid, oracle.array_of(scale_type, scale_codes), output_dtype="int16")
    same(got, [quantized(a, b, 0, "int16", scale_type, Settings()) for a in xs for b in scales], "int16")


def test_an_int32_scale_divides_exactly() -> None:
    generator = random.Random(0)
    x = [generator.randrange(-(2**31), 2**31) >> generator.randrange(31) for _ in range(2000)]
    scales = [generator.randrange(1, 2**31) >> generator.randrange(31) or 1 for _ in range(2000)]
    halves = [(3 * s // 2, s) for s in scales if s < 2**30]
    pairs = [*zip(x, scales, strict=True), *halves]
    got = quantize_linear(*(np.array(n, np.int32) for n in zip(*pairs, strict=True)), axis=0, output_dtype="int16")
    assert got.tolist() == [min(max(round(Fraction(a, b)), -(2**15)), 2**15 - 1) for a, b in pairs]


DEQUANTIZED = itertools.product([type_name(dtype) for dtype in TYPES["DequantizeLinear", "x"]], COMPUTE)


@pytest.mark.parametrize(("source", "output"), sampled("dequantized types", DEQUANTIZED, 8, cover=itemgetter(slice(1))))
def test_dequantize(source: str, output: str) -> None:
    scale_type = {"float": "float16", "float16": "bfloat16", "bfloat16": "float"}[output]
    codes = [0, 1, 5, 2**31 - 1, 2**24 + 1, 2**32 - 1] if source == "int32" else [*oracle.all_codes(source)][::STEP]
    codes = codes if source in ("int16", "uint16", "int32") else list(oracle.all_codes(source))
    scale_codes = codes_for(scale_type, 6, "scale")
    scales = [oracle.decode(scale_type, code) for code in scale_codes]
    xs = [oracle.decode(source, code) for code in codes]
    grid = np.stack([oracle.array_of(source, codes)] * len(scales), axis=1)
    for zero in zeros_for(source) if source != "int32" else [0]:
        points = None if source in oracle.FLOATS else np.full(len(scales), zero).astype(oracle.INTS[source].dtype)
        got = dequantize_linear(grid, oracle.array_of(scale_type, scale_codes), points, output_dtype=output)
        same(got, [dequantized(a, b, zero, output) for a in xs for b in scales], output)


def test_a_zero_point_of_a_float_type_is_added_before_rounding() -> None:
    x, zero = np.array([1.0, 1.0625, -0.0], np.float32), oracle.array_of("float8e4m3fn", [0x30])
    assert quantize_linear(x, np.float32(1), oracle.array_of("float8e4m3fn", [0])).view(np.uint8).tolist() == [
        0x38,
        0x38,
        0,
    ]
    got = quantize_linear(x, np.float32(1), zero)
    assert got.astype(np.float32).tolist() == [1.5, 1.5, 0.5]
    assert dequantize_linear(got, np.float32(2), zero).tolist() == [2.0, 2.0, 0.0]


def test_no_warning() -> None:
    x = np.array([0, -0.0, np.nan, np.inf, -np.inf, 3e38, 1e-45], np.float32)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for output in OUTPUTS:
            for scale in (0, -0.0, np.inf, np.nan, 1e-45):
                y = quantize_linear(x, np.float32(scale), output_dtype=output)
                for dtype in COMPUTE:
                    dequantize_linear(y, np.float32(scale), output_dtype=dtype)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_types_and_attributes_by_opset_are_those_of_the_schema(op: str, opset: int) -> None:
    schema = onnx.defs.get_schema(op, opset)
    assert schema.since_version == opset
    constraints = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    for formal in (*schema.inputs[:2], schema.outputs[0]):
        theirs = constraints.get(formal.type_str, {formal.type_str})
        ours = {f"tensor({type_name(t)})" for t, first in TYPES[op, formal.name].items() if first <= opset}
        assert ours == theirs, formal.name
    assert {name for (of, name), first in ATTRIBUTES.items() if of == op and first <= opset} == set(schema.attributes)


def test_every_version_of_the_operators_is_known() -> None:
    every = onnx.defs.get_all_schemas_with_history()
    for op in ("QuantizeLinear", "DequantizeLinear"):
        assert {s.since_version for s in every if s.name == op and s.domain == ""} == set(OPSETS)


def test_the_default_types() -> None:
    assert quantize_linear(np.float32(3), np.float32(1)).dtype == np.uint8
    assert dequantize_linear(np.uint8(3), np.float16(1)).dtype == np.float16
    assert quantize_linear(np.float32(3), np.float32(1), output_dtype=DataType.INT4).shape == ()


@pytest.mark.parametrize("chunk", [1, 2, 5, 8, 12, 1000])
def test_pieces_are_the_tensor_in_order(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(granularity, "CHUNK", chunk)
    for shape in ((7,), (24,), (5, 3), (2, 3, 4), (3, 8, 2), (1, 6, 5), (4, 1, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for axis, block in itertools.product(range(len(shape)), (0, 1, 2, 3)):
            along = -(-shape[axis] // max(block, 1))
            sizes = [(shape[axis],), ()] if not block else [(*shape[:axis], along, *shape[axis + 1 :])]
            for size in sizes if block < 2 or len(shape) > 1 else ():
                scale = np.arange(1, np.prod(size, dtype=int) + 1, dtype=np.float32).reshape(size) / 8
                zero = (scale * 8 % 5).astype(np.uint8)
                settings: dict[str, Any] = {"axis": axis, "block_size": block, "opset": 25}
                scales, zeros = (
                    spread(parameter, shape, axis, block).astype(np.float64) for parameter in (scale, zero)
                )
                whole = np.clip(np.rint(x / scales) + zeros, 0, 255).astype(np.uint8)
                parts = list(quantized_pieces(x, scale, zero, **settings))
                assert max(part.size for part in parts) <= chunk
                assert np.concatenate(parts).tolist() == whole.reshape(-1).tolist(), (shape, axis, block)
                back = np.concatenate([*dequantized_pieces(whole, scale, zero, **settings)])
                assert back.tolist() == ((whole - zeros) * scales).reshape(-1).tolist()


def spread(parameter: np.ndarray, shape: tuple[int, ...], axis: int, block: int) -> np.ndarray:
    """The scale or zero point of each element of a tensor of the shape."""
    if parameter.ndim == 0:
        return np.broadcast_to(parameter, shape)
    if not block:
        return np.broadcast_to(parameter.reshape([-1 if dim == axis else 1 for dim in range(len(shape))]), shape)
    return np.repeat(parameter, block, axis).take(range(shape[axis]), axis)
