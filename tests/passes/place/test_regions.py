"""Regions at their limits: casts in a row, and the sizes of constants."""

from __future__ import annotations

import onnx_ir
import pytest

from castsmith.ir.records import RewriteResult
from castsmith.passes import PlaceCasts

_HEAD = '<ir_version: 10, opset_import: ["": 21]>'


def placed(model: onnx_ir.Model) -> RewriteResult:
    result = PlaceCasts()(model)
    assert isinstance(result, RewriteResult)
    return result


@pytest.mark.parametrize(("count", "refused"), [(63, False), (64, False), (65, True)])
def test_64_casts_in_a_row(count: int, refused: bool) -> None:
    casts = [f"c{number} = Cast <to = {(10, 1)[number % 2]}> (c{number - 1})" for number in range(1, count + 1)]
    last = ("float16", "float")[count % 2]
    text = f"g (float16[2,3] c0) => ({last}[3,2] y) {{ {' '.join(casts)} y = Transpose (c{count}) }}"
    result = placed(onnx_ir.from_onnx_text(_HEAD + text))
    told = [refusal.reason for refusal in result.records.refusals]
    assert told == ["chain of more than 64 casts; skipped"] * refused
    assert result.modified != refused


@pytest.mark.parametrize(("count", "cast_at_once"), [(1023, True), (1024, True), (1025, False)])
def test_a_constant_of_1024_elements_is_cast_at_once(count: int, cast_at_once: bool) -> None:
    weight = f"<float16[{count}] w = {{{', '.join(['1'] * count)}}}>"
    text = f"g (int64[1] k) => (float[N] y) {weight} {{ a = Reshape (w, k) y = Cast <to = 1> (a) }}"
    model = onnx_ir.from_onnx_text(_HEAD + text)
    assert placed(model).modified == cast_at_once
    (held,) = model.graph.initializers.values()
    assert held.dtype == (onnx_ir.DataType.FLOAT if cast_at_once else onnx_ir.DataType.FLOAT16)
