"""The preset `half`: a constant beside 16-bit operands takes their type where it fits."""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.parser
import pytest

from castsmith import PromotionRules, optimize
from castsmith.ir.io.protos import to_proto


def repaired(constant: str, half: str = "float16", body: str = "y = Add (x, w)", promotion: str = "half") -> list[str]:
    """Return the element type of the result and the operators, after the repair."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({half}[2,2] x, float[2,2] v) => ({half}[2,2] y) <{constant}> {{ {body} }}"""
    after = to_proto(optimize(onnx.parser.parse_model(text), promotion=promotion).model)
    onnx.checker.check_model(after, full_check=True)
    output = onnx.TensorProto.DataType.Name(after.graph.output[0].type.tensor_type.elem_type).lower()
    return [output, *(node.op_type for node in after.graph.node)]


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "constant",
    ["float w = {0.1}", "float[1] w = {0.1}", "float[2,2] w = {1, 2, 3, 0.1}", "double[2] w = {0.1, 1e-12}"],
)
def test_a_constant_of_any_rank_gives_way(constant: str, half: str) -> None:
    assert repaired(constant, half) == [half, "Add"]


@pytest.mark.parametrize("constant", ["float w = {1e-12}", "float[2] w = {1, 100000}", "float[2] w = {1e-12, 1e-12}"])
def test_a_constant_that_does_not_fit_widens(constant: str) -> None:
    assert repaired(constant) == ["float", "Cast", "Add"]


def test_infinities_and_zeros_fit() -> None:
    assert repaired("float[2] w = {0, 0}") == ["float16", "Add"]


def test_it_gives_way_to_16_bits_alone() -> None:
    assert repaired("float w = {0.1}", body="y = Add (x, v)") == ["float", "Cast", "Add"]
    assert repaired("double[2] w = {0.1, 1}", "float", body="y = Add (v, w)") == ["double", "Cast", "Add"]


def test_more_than_two_operands_and_other_operators() -> None:
    assert repaired("float[2] w = {0.1, 1}", body="y = Sum (x, w, x)") == ["float16", "Sum"]
    assert repaired("float w = {0}, float u = {6}", body="y = Clip (x, w, u)") == ["float16", "Clip"]


_SCALES = "float[2] w = {1, 0.1}, float[2] b = {0, 0}"


@pytest.mark.parametrize(
    "body",
    ["LayerNormalization (x, w, b)", "InstanceNormalization (x, w, b)", "BatchNormalization (x, w, b, b, w)"],
)
def test_scales_of_normalizations_give_way(body: str) -> None:
    if not body.startswith("Layer"):
        body = body.replace("(x", "(x3")
        body = f"i = Constant <value_ints = [0]> () x3 = Unsqueeze (x, i) y3 = {body} y = Squeeze (y3, i)"
    else:
        body = f"y = {body}"
    found = repaired(_SCALES, body=body)
    assert found[0] == "float16"
    assert "Cast" not in found


def test_a_scale_that_does_not_fit_widens() -> None:
    found = repaired("float[2] w = {1, 100000}", body="y = LayerNormalization (x, w)")
    assert found == ["float", "Cast", "LayerNormalization"]


def test_other_presets_widen() -> None:
    assert repaired("float[1] w = {0.1}", promotion="openvino") == ["float", "Cast", "Add"]
    assert PromotionRules.preset("half") == PromotionRules(half_constants=True)
