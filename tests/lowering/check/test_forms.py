"""The forms of QuantizeLinear and DequantizeLinear that TensorRT takes, by the sources that its file names."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.targets.statements import QUANTIZATION_RULES, TargetError
from castsmith.targets.target import load_target
from tests.lowering.check.test_registered import openvino_refusal

pytestmark = pytest.mark.usefixtures("untried")

ZERO, SCALE, INT4, BLOCKS, CONSTANT, WHOLE, SCALED = QUANTIZATION_RULES
PLAIN = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2,4,8] x) => (float[2,4,8] y) <float s = {0.5}, int8 zero = {0}> {
        q = QuantizeLinear (x, s, zero) y = DequantizeLinear (q, s, zero) }"""
OF_WEIGHTS = """<ir_version: 10, opset_import: ["": 21]>
    g (float[4] x) => (float[4] y) <float s = {0.5}, float[4] w = {1, -2, 3, 7}, int4 zero = {0}> {
        q = QuantizeLinear (w, s, zero) d = DequantizeLinear (q, s, zero) y = Mul (x, d) }"""
BLOCKED = (
    PLAIN.replace("float s = {0.5}, int8 zero = {0}", "float[2,4,2] s = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}")
    .replace(", zero)", ")")
    .replace("Linear (", "Linear <axis = 2, block_size = 4> (")
)


@pytest.mark.parametrize("target", ["tensorrt-10", "tensorrt-11"])
@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (PLAIN, []),
        (PLAIN.replace("int8 zero = {0}", "int8 zero = {3}"), [ZERO, ZERO]),
        (PLAIN.replace("x) =>", "x, int8 zero) =>").replace(", int8 zero = {0}", ""), [ZERO, ZERO]),
        (PLAIN.replace("{0.5}", "{0}"), [SCALE, SCALE]),
        (PLAIN.replace("{0.5}", "{-1}"), [SCALE, SCALE]),
        (PLAIN.replace("int8", "int4"), [INT4, INT4]),
        (OF_WEIGHTS, []),
        (BLOCKED, []),
        (
            BLOCKED.replace("[2,4,2] s", "[1,4,8] s")
            .replace("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", ",".join("1" * 32))
            .replace("<axis = 2, block_size = 4>", "<axis = 0, block_size = 2>"),
            [BLOCKS],
        ),
    ],
)
def test_forms_that_tensorrt_does_not_take_are_errors(target: str, text: str, rules: list[str]) -> None:
    model = onnx.parser.parse_model(text)
    found = [each.subject for each in castsmith.check(model, target=target) if each.code == "target-lacks-form"]
    assert found[: len(rules)] == rules
    assert bool(found) == bool(rules)
    result = castsmith.optimize(model, target=load_target("tensorrt-11"))
    left = [] if rules and rules[0] in (ZERO, BLOCKS) else found  # the others are written out
    assert [each.subject for each in result.diagnostics if each.code == "target-lacks-form"] == left


def test_tract_takes_constant_scales_only() -> None:
    text = PLAIN.replace("ir_version: 10", "ir_version: 8").replace("21]", "17]")
    assert castsmith.check(onnx.parser.parse_model(text), target="tract") == []
    computed = text.replace("x) =>", "x, float s) =>").replace("float s = {0.5}, ", "")
    found = castsmith.check(onnx.parser.parse_model(computed), target="tract")
    assert [each.subject for each in found] == [CONSTANT, CONSTANT]


WEIGHTS = """<ir_version: 10, opset_import: ["": 21]> g (float[LAST] x) => (float[4,LAST] y)
    <int8[4,LAST] w = {NUMBERS}, float[4,2] s = {1,2,3,4,5,6,7,8}> {
        d = DequantizeLinear <axis = 1, block_size = 4> (w, s) y = Mul (x, d) }"""
VECTOR = """<ir_version: 10, opset_import: ["": 21]> g (float[8] x) => (float[8] y)
    <int8[8] w = {1,2,3,4,5,6,7,8}, float[2] s = {1,2}> {
        d = DequantizeLinear <axis = 0, block_size = 4> (w, s) y = Mul (x, d) }"""


@pytest.mark.parametrize(("last", "rules"), [(8, []), (7, [WHOLE]), (5, [WHOLE])])
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_openvino_takes_whole_blocks_and_narrow_types_in_others_are_lowered(
    kind: str, last: int, rules: list[str]
) -> None:
    numbers = ",".join(str(number % 8) for number in range(4 * last))
    model = onnx.parser.parse_model(WEIGHTS.replace("LAST", str(last)).replace("NUMBERS", numbers))
    w = onnx.numpy_helper.to_array(model.graph.initializer[0]).astype(ml_dtypes.int4 if kind == "int4" else "int8")
    model.graph.initializer[0].CopyFrom(onnx_ir.to_proto(onnx_ir.tensor(w, name="w")))
    assert [each.subject for each in castsmith.check(model, target="openvino-cpu")] == rules
    made = castsmith.optimize(model, target="openvino-cpu", max_growth=0)
    assert [each.subject for each in made.diagnostics] == (rules if kind == "int8" else [])
    kept = [node for node in made.model.graph if node.op_type == "DequantizeLinear"]
    assert bool(kept) == (not rules or kind == "int8")


ZERO_POINTS = """<ir_version: 10, opset_import: ["": 21]> g (float[SIZE,LAST] x, float[SIZE,2] s, uint8[SIZE,2] z)
    => (uint8[SIZE,LAST] y) { y = QuantizeLinear <axis = 1, block_size = 2> (x, s, z) }"""


def test_openvino_has_no_blocks_of_vectors_and_few_to_quantize() -> None:
    quantized = [(ZERO_POINTS, "3", "4", []), (ZERO_POINTS, "N", "4", [SCALED]), (ZERO_POINTS, "3", "3", [WHOLE])]
    for text, size, last, rules in [(VECTOR, "", "", [WHOLE]), (BLOCKED, "", "", [SCALED]), *quantized]:
        model = onnx.parser.parse_model(text.replace("SIZE", size).replace("LAST", last))
        assert [each.subject for each in castsmith.check(model, target="openvino-cpu")] == rules
        assert bool(openvino_refusal(model)) == bool(rules)


def test_every_rule_has_a_source_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    assert set(load_target("tensorrt-11").quantization) == {ZERO, SCALE, INT4, BLOCKS}
    assert set(load_target("tract").quantization) == {CONSTANT}
    assert set(load_target("openvino-cpu").quantization) == {WHOLE, SCALED}
    known = [load_target(name).quantization for name in ("tensorrt-11", "tract", "openvino-cpu")]
    assert all(source for rules in known for source in rules.values())
    path = tmp_path / "mine.json"
    path.write_text(
        '{"name": "m", "description": "", "newest_opset": 20, "newest_ir_version": 9, "quantization": {"odd": ""}}'
    )
    with pytest.raises(TargetError, match="unknown rule 'odd' of 'quantization'; expected constant-zero"):
        load_target(str(path))
