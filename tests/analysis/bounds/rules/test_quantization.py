"""Products of operands that are quantized as they come."""

from __future__ import annotations

from castsmith import bounds
from tests.analysis.bounds.rules.grids import check_tight
from tests.analysis.bounds.test_analysis import model_of


def test_products_of_dynamically_quantized_operands() -> None:
    body = (
        """q, s, z = DynamicQuantizeLinear (x) i = MatMulInteger (q, w, z, wz) f = Cast <to = 1> (i) y = Mul (f, s)"""
    )
    model = model_of(body, "float[2,2] x", "int8[2,2] w = {100, -20, 50, 3}, int8 wz = {-1}")
    found = bounds(model, ranges={"x": (-510, 0)})
    check_tight((found["s"].low, found["s"].high), (0, 2))
    assert found["f"].magnitude == 255 * (101 + 51)  # the differences to both zero points
    assert found["y"].how == "proven"
    assert bounds(model, ranges={"x": (0, 1e-3)})["s"].high >= 1  # what ONNX Runtime takes if all of x is 0
