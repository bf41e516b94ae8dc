"""Declared types follow what promotion makes."""

from __future__ import annotations

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import Severity, Site
from castsmith.lowering.pipeline import optimize
from castsmith.passes.promote.insert import InsertPromoteTypes


def test_a_record_has_the_types_that_the_results_have_now() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float16[2] x, float[2] y, float[2] z) => (float[2] o) <float16[2] a> { a = Sum (x, y, z) o = Neg (a) }"""
    (first, *_) = optimize(onnx_ir.from_onnx_text(text)).rewrites
    assert "a = Sum (x_float, y, z)  # (float[2], float[2], float[2]) -> float[2]" in first.after
    assert "-> float16[2]" in first.before


@pytest.mark.parametrize(
    ("dtype", "shaped", "expected"),
    [
        (None, False, None),
        (None, True, DataType.FLOAT),  # a shape without a type is not saved
        (DataType.FLOAT16, False, DataType.FLOAT),
        (DataType.FLOAT16, True, DataType.FLOAT),
    ],
)
def test_a_value_that_declares_anything_declares_its_type(
    dtype: DataType | None, shaped: bool, expected: DataType | None
) -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { a = Neg (x) y = Neg (a) }'
    model = onnx_ir.from_onnx_text(text)
    value = next(iter(model.graph)).outputs[0]
    value.type = None if dtype is None else onnx_ir.TensorType(dtype)
    value.shape = onnx_ir.Shape([2]) if shaped else None
    result = InsertPromoteTypes()(model)
    assert value.dtype == expected
    assert [str(record.site) for record in result.records.rewrites] == ["g"] * (expected is not None)


@pytest.mark.parametrize("keep", [True, False])
def test_an_output_that_promotion_widens_follows_or_is_cast_back(keep: bool) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (int64[2] i, float[2] x) => (int64[2] z, float[2] n, u) { z = Add (i, x) n = Neg (x) u = Neg (x) }"""
    model = onnx_ir.from_onnx_text(text)
    records = InsertPromoteTypes(promote_unsafe=True, keep_output_types=keep)(model).records
    outputs = [(value.name, value.dtype) for value in model.graph.outputs]
    assert outputs == [("z", DataType.INT64 if keep else DataType.FLOAT), ("n", DataType.FLOAT), ("u", None)]
    told = [(each.code, each.severity, each.site, each.message, each.help) for each in records.diagnostics]
    kept = [record for record in records.rewrites if record.rule == "keep-output-type"]
    if not keep:
        message = "the graph output z is declared int64[2] but is float"
        way_out = "`keep_output_types` casts it back to the declared type"
        assert told == [("output-type-follows", Severity.WARNING, Site("g", "z", "output"), message, way_out)]
        assert not kept
        return
    assert not told
    assert [record.reason for record in kept] == ["the graph output keeps its declared type int64"]
    cast = model.graph.outputs[0].producer()
    assert cast is not None
    assert [value and (value.name, value.dtype) for value in cast.inputs] == [("z_float", DataType.FLOAT)]
    assert (cast.op_type, bool(cast.name)) == ("Cast", True)


@pytest.mark.parametrize("second", ["float", "double"])
def test_declarations_in_a_function_of_two_signatures_are_left(second: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 21, "f": 1]>
    g (float[2] x, {second}[2] w) => (y, z) {{ y = f.F (x) z = f.F (w) }}
    <domain: "f", opset_import: ["": 21]> F (x) => (y) {{ a = Neg (x) y = Neg (a) }}"""
    model = onnx_ir.from_onnx_text(text)
    (function,) = model.functions.values()
    values = [function.inputs[0], function.graph[0].outputs[0]]
    for value in values:
        value.type = onnx_ir.TensorType(DataType.FLOAT16)
    result = InsertPromoteTypes()(model)
    expected = DataType.FLOAT if second == "float" else DataType.FLOAT16
    assert [value.dtype for value in values] == [expected] * 2
    assert [record.rule for record in result.records.rewrites] == ["declare-types"] * (second == "float")
