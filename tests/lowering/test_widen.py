"""bfloat16 and float16 where a target lacks their operators, or the types: in ONNX Runtime, against exact rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import Effect, RewriteResult
from castsmith.lowering.codes import Policy
from castsmith.lowering.sequences_round import round_in_place
from castsmith.lowering.storage import declared_values
from castsmith.lowering.targets import load_target
from castsmith.lowering.version import LegalizeVersion
from castsmith.lowering.widen import WidenFloats
from castsmith.numerics.cast import cast
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from tests.lowering import patterns
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session
from tests.lowering.test_codes import SOURCES
from tests.lowering.test_float8 import model_of

CPU = load_target("onnxruntime-cpu")
BF16, F16 = DataType.BFLOAT16, DataType.FLOAT16
WITHOUT = {dtype: replace(CPU, name="old", lacks=CPU.lacks | {dtype}) for dtype in (BF16, F16)}
SIGNED = [dtype for dtype, row in ELEMENT_TYPES.items() if 4 <= row.bits <= 16 and row.exponent_bits and row.signed]


@pytest.mark.parametrize("to", SIGNED)
@pytest.mark.parametrize(("saturate", "opset"), [(True, 19), (True, 24), (False, 24)])
def test_rounding_in_place(to: DataType, saturate: bool, opset: int):
    around = [patterns.float32_around(to, 20), patterns.float64_around(to)] if to.bitwidth == 8 else []
    for values in (*SOURCES[:2], *around):
        source = DataType.from_numpy(values.dtype)
        codes = cast(values, to, saturate=saturate, opset=28 if to.bitwidth < 8 else opset)
        expected = np.where(np.isnan(values), values, cast(codes, source))
        model = sequence_model(lambda b, x: round_in_place(b, x, to, Policy(saturate, opset)), source, 24)
        for level in LEVELS:
            (got,) = run(session(model, level), {"x": values})
            bits = f"u{values.itemsize}"
            same = (got.view(bits) == expected.view(bits)) | (np.isnan(got) & np.isnan(expected))
            assert same.all(), values[~same][:5]


def widened_outputs(model: onnx_ir.Model, target: object = CPU, **feeds: Array) -> list[Array]:
    result = WidenFloats(target)(model)  # pyright: ignore[reportArgumentType]
    assert isinstance(result, RewriteResult)
    assert not result.records.diagnostics
    assert not WidenFloats(target)(model).modified  # pyright: ignore[reportArgumentType]
    LegalizeVersion(CPU)(model)
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    outputs = [run(session(proto, level), feeds) for level in LEVELS]
    assert [array.tobytes() for array in outputs[0]] == [array.tobytes() for array in outputs[1]]
    return outputs[0]


def operands(dtype: DataType) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    a = cast(rng.normal(0, 30, 40_000).astype(np.float32), dtype)
    b = cast((rng.normal(0, 1, 40_000) * 2.0 ** rng.integers(-9, 9, 40_000)).astype(np.float32), dtype)
    return a, b


EXACT = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}


@pytest.mark.parametrize("op", EXACT)
def test_one_operation_of_bfloat16_is_rounded_once(op: str):
    a, b = operands(BF16)
    (y,) = widened_outputs(
        model_of(f"agraph (bfloat16[N] a, bfloat16[N] b) => (bfloat16[N] y) {{ y = {op} (a, b) }}"), a=a, b=b
    )
    exact = EXACT[op](a.astype(np.float64), b.astype(np.float64))
    assert y.tobytes() == cast(exact, BF16).tobytes()


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("op", EXACT)
def test_a_type_that_is_lacking_is_kept_in_float(dtype: DataType, op: str):
    body = f"""agraph (float[N] a, {type_name(dtype)}[N] b) => (float[N] y, {type_name(dtype)}[N] z) {{
        c = Cast <to = {int(dtype)}> (a) d = {op} (c, b) e = Mul (d, w) z = Neg (e) y = Cast <to = 1> (z) }}"""
    a, b = operands(dtype)
    weight = cast(np.float32(1.7), dtype)
    model = model_of(body, 19, w=weight)
    y, z = widened_outputs(model, WITHOUT[dtype], a=a.astype(np.float32) * np.float32(1.001), b=b.astype(np.float32))
    assert not [value for value in declared_values(model) if value.dtype == dtype]
    first = cast(a.astype(np.float32) * np.float32(1.001), dtype).astype(np.float64)
    second = cast(EXACT[op](first, b.astype(np.float64)), dtype).astype(np.float64)
    expected = -cast(second * weight.astype(np.float64), dtype).astype(np.float32)
    assert y.tobytes() == z.tobytes() == expected.tobytes()


def test_moves_and_casts_stay_as_they_are():
    body = """agraph (float[N,2] x) => (bfloat16[M,N] y) { c = Cast <to = 16> (x) y = Transpose (c) }"""
    assert not WidenFloats(CPU)(model_of(body)).modified


def test_matmul_and_softmax_are_computed_in_float():
    body = """agraph (bfloat16[4,8] a, bfloat16[8,3] b) => (bfloat16[4,3] y) { c = MatMul (a, b) y = Softmax (c) }"""
    a, b = (
        cast(np.random.default_rng(n).integers(-8, 8, s).astype(np.float32), BF16)
        for n, s in ((0, (4, 8)), (1, (8, 3)))
    )
    (y,) = widened_outputs(model_of(body), a=a, b=b)
    c = cast(a.astype(np.float32) @ b.astype(np.float32), BF16).astype(np.float32)
    e = np.exp(c - c.max(1, keepdims=True))
    assert np.array_equal(y, cast(e / e.sum(1, keepdims=True), BF16))


def test_what_stands_in_the_way_is_named():
    body = "agraph (int64[N] x) => (float16[N] y) { y = Cast <to = 10> (x) }"
    result = WidenFloats(WITHOUT[F16])(model_of(body))
    assert isinstance(result, RewriteResult)
    assert not result.modified
    assert [diagnostic.code for diagnostic in result.records.diagnostics] == ["type-not-in-target"]


def test_inputs_that_become_floats_are_said_to():
    body = "agraph (float16[N] x) => (float16[N] y) { y = Identity (x) }"
    result = WidenFloats(WITHOUT[F16])(model_of(body))
    assert isinstance(result, RewriteResult)
    assert [rewrite.effect for rewrite in result.records.rewrites] == [Effect.INTERFACE, Effect.INTERFACE]
