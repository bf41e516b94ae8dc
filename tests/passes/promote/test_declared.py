"""Declared types follow what promotion makes."""

from __future__ import annotations

import onnx_ir
import pytest
from onnx_ir import DataType

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
