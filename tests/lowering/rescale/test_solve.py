"""The least exponents that move all values into range."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir

import castsmith
from castsmith.lowering.faults import reference_of
from castsmith.lowering.rescale.run import Rescale, RescaleResult
from tests.lowering.test_conversion_healing import case_of


def test_the_least_power_is_taken_with_the_margin() -> None:
    case = case_of("L2 normalization, whose")
    model = onnx_ir.from_proto(case.shipped())
    result = Rescale(reference_of(model, case.inputs()))(model)
    assert isinstance(result, RescaleResult)
    (power,) = set(result.factors.values())
    reference = reference_of(onnx_ir.from_proto(case.shipped()), case.inputs())
    greatest = reference.measured()["n"].magnitude
    assert (greatest / 2**power) ** 2 * 2 <= 65520 < (greatest / 2 ** (power - 1)) ** 2 * 2


def test_a_scale_that_is_not_found_is_told() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[4] x) => (float16[1] y)'
        " { a = ReduceProd (x) b = Log (a) y = Neg (b) }"
    )
    result = castsmith.convert(model, to="float16", inputs={"x": np.full(4, 20, np.float16)}, rescale=True)
    assert [finding.code for finding in result.diagnostics] == ["not-rescaled", "infinite-error"]
    healed = castsmith.convert(model, to="float16", inputs={"x": np.full(4, 20, np.float16)})
    assert healed.error is not None
    assert healed.error.worst < 1e-3
