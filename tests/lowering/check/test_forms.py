"""The forms of QuantizeLinear and DequantizeLinear that TensorRT takes, by the sources that its file names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.lowering.check.run import all_findings
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.targets.statements import QUANTIZATION_RULES, TargetError
from castsmith.targets.target import Target, load_target
from tests.lowering.check.test_registered import openvino_refusal
from tests.lowering.check.test_target import PLAIN as NOTHING_LACKING, model_of
from tests.sampling import check_all

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


SYMMETRIC = "quantize the model symmetrically, as this target requires"
BLOCKS_OUT = "choose supported blocks; optimize replaces float8 and types of up to 4 bits"
Q, D = "y = QuantizeLinear (x, s, z)", "y = DequantizeLinear (q, s)"
OF_INT4 = "(float[4] x, float s) => (float[4] y) <float[4] w = {{1, 2, 3, 4}}> {{ {} y = DequantizeLinear (q, s) }}"
OF_BLOCKS = "(int8[{0}] q, float[{1}] s) => (y) {{ y = DequantizeLinear <{2}> (q, s) }}"
FORMS: list[tuple[str, str, str]] = [
    # The rule, a graph, and the results of the nodes that break it.
    *((ZERO, f"(float[2] x, float s{computed}) => (y) {constant} {{ {Q} }}", broken)
      for computed, constant, broken in (
          ("", "<int8 z = {0}>", ""), ("", "<int8 z = {3}>", "y"), (", int8 z", "", "y"))),
    (ZERO, "(float[2,2] x, float[2] s) => (y) <int8[2] z = {0, 1}> { y = QuantizeLinear (x, s, z) }", "y"),
    (ZERO, "(float[2] x, float s) => (y) { y = QuantizeLinear (x, s) }", ""),
    (ZERO, "(float[2] x, float s) => (y) <int8 z = {3}> { y = com.microsoft.QuantizeLinear (x, s, z) }", ""),
    *((SCALE, f"(int8[2,2] q) => (y) <float{size} s = {{{scale}}}> {{ {D} }}", broken)
      for size, scale, broken in (
          ("", "0.5", ""), ("", "0", "y"), ("", "-1", "y"), ("[2]", "1, 2", ""), ("[2]", "1, 0", "y"),
          ("[2]", "-1, 1", "y"))),
    (SCALE, f"(int8[2] q, float s) => (y) {{ {D} }}", ""),
    (INT4, OF_INT4.format("q = QuantizeLinear <output_dtype = 22> (x, s)"), "q y"),
    (INT4, OF_INT4.format("q = QuantizeLinear <output_dtype = 22> (w, s)"), ""),
    (INT4, OF_INT4.format("q = QuantizeLinear <output_dtype = 3> (x, s)"), ""),
    (INT4, "(float s, int4 z) => (y) <float[4] w = {1, 2, 3, 4}> { q = com.microsoft.QuantizeLinear (w, s, z)"
     " y = DequantizeLinear (q, s) }", "y"),
    (INT4, f"(int4[4] q, float s) => (y) {{ {D} }}", "y"),
    (INT4, "(float s) => (y) <int4[4] w = {1, 2, 3, 4}> { y = DequantizeLinear (w, s) }", ""),
    (INT4, "(float s) => (y) <int4[4] w = {1, 2, 3, 4}> { q = Identity (w) y = DequantizeLinear (q, s) }", "y"),
    *((BLOCKS, OF_BLOCKS.format(dims, scales, form), broken)
      for dims, scales, form, broken in (
          ("2,4,8", "1,4,8", "axis = 0, block_size = 2", "y"), ("2,4,8", "2,2,8", "axis = 1, block_size = 2", ""),
          ("2,4,8", "2,4,4", "axis = 2, block_size = 2", ""), ("2,4,8", "2,4,4", "axis = -1, block_size = 2", ""),
          ("2,4,8", "2,2,8", "axis = -2, block_size = 2", ""), ("2,4,8", "1,4,8", "axis = -3, block_size = 2", "y"),
          ("2,4,8", "2,2,8", "block_size = 2", ""), ("2,4,8,2", "2,2,8,2", "block_size = 2", "y"),
          ("2,4,8,2", "2,4,4,2", "axis = 2, block_size = 2", ""),
          ("2,4,8,2", "2,2,8,2", "axis = 1, block_size = 2", "y"),
          ("2,4,8", "2", "axis = 0, block_size = 0", ""), ("2,4,8", "2", "axis = 0", ""))),
    *((BLOCKS, f"(int8[2,4,8] v, int64[n] n, float[2,2,8] s) => (y) {{ q = Reshape (v, n)"
       f" y = DequantizeLinear <axis = {axis}, block_size = 2> (q, s) }}", "") for axis in (-3, 0)),
    (CONSTANT, f"(int8[2] q, float s) => (y) {{ {D} }}", "y"),
    (CONSTANT, f"(int8[2] q) => (y) <float s = {{1}}> {{ {D} }}", ""),
    (WHOLE, OF_BLOCKS.format("4,8", "4,4", "block_size = 2"), ""),
    (WHOLE, OF_BLOCKS.format("4,7", "4,4", "block_size = 2"), "y"),
    (SCALED, "(float[4,8] x, float[4,4] s) => (y) { y = QuantizeLinear <block_size = 2> (x, s) }", "y"),
]  # fmt: skip
WAYS = {
    CONSTANT: "quantize with scales from calibration, or write the arithmetic out",
    WHOLE: BLOCKS_OUT,
    SCALED: BLOCKS_OUT,
}


def check_form(rule: str, text: str, broken: str) -> None:
    model = model_of(f"g {text}")
    for rules, names in (([rule], broken), ([], "")):
        target = replace(NOTHING_LACKING, quantization=dict.fromkeys(rules, ""))
        found = [each for each in all_findings(model, PromotionRules(), target) if each.code == "target-lacks-form"]
        assert " ".join(each.site.output for each in found) == names
        for each in found:
            message = f"t does not take this {each.site.op}: {QUANTIZATION_RULES[rule]}"
            assert (each.message, each.help, each.subject) == (message, WAYS.get(rule, SYMMETRIC), rule)


def test_each_rule_of_quantization_alone() -> None:
    check_all(check_form, FORMS)


def test_the_first_rule_that_is_broken_is_told() -> None:
    model = model_of("g (float[2] x) => (y) <float s = {0}, int8 z = {3}> { y = QuantizeLinear (x, s, z) }")
    for rules in ((ZERO, SCALE), (SCALE, ZERO)):
        found = all_findings(model, PromotionRules(), replace(NOTHING_LACKING, quantization=dict.fromkeys(rules, "")))
        assert [each.subject for each in found] == [rules[0]]


IDLE = [
    ("y = Cast <to = 10, saturate = 0> (x)", ["saturate"]),
    ("y = Cast <to = 10> (x)", []),
    ("y = Cast <to = 17, saturate = 0> (x)", []),
    ('y = Cast <to = 24, saturate = 0, round_mode = "down"> (x)', []),
    ('y = Cast <to = 17, saturate = 0, round_mode = "down"> (x)', ["round_mode"]),
    ('y = Cast <to = 10, saturate = 0, round_mode = "down"> (x)', ["saturate", "round_mode"]),
    ("y = CastLike <saturate = 0> (x, h)", ["saturate"]),
    ("y = CastLike <saturate = 0> (x, f)", []),
    ("y = CastLike (x, h)", []),
]


def test_attributes_without_effect() -> None:
    for body, names in IDLE:
        model = onnx.parser.parse_model(
            f'<ir_version: 11, opset_import: ["": 24]> g (float[2] x, float16 h, float8e4m3fn f) => (y) {{ {body} }}'
        )
        for hazards, expected in (({"attributes-without-effect": ""}, names), ({}, list[str]())):
            target = Target(
                "t", newest_opset=24, newest_ir_version=12, types=ELEMENT_TYPES, kernels={}, hazards=hazards
            )
            found = [(each.subject, each.message, each.help) for each in castsmith.check(model, target=target)]
            message = f"t does not load this {body.split()[2]}: {{}} has no effect on its type"
            way_out = "`optimize(target='t')` removes it"
            assert found == [(name, message.format(name), way_out) for name in expected], body


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
