"""`check` has an error exactly where the runtime refuses: models with one thing wrong, each asked of ONNX Runtime."""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.parser
import onnxruntime
import pytest

import castsmith
from castsmith.ir.records import Severity
from tests.versions import ONNXRUNTIME

IMPORTS = '<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3, "com.microsoft" : 1, "lib" : 1]>'

BODIES = {
    "sound": "g (float[2] x) => (float[2] y) { y = Relu (x) }",
    "an operator of a library": "g (float[2] x) => (float[2] y) { y = lib.Foo (x) }",
    "no such operator of com.microsoft": "g (float[2] x) => (float[2] y) { y = com.microsoft.Foo (x) }",
    "no kernel of com.microsoft": "g (float[2,4] x) => (float[2,4] y) { y = com.microsoft.BiasSplitGelu (x, x) }",
    "an operator of com.microsoft": "g (float[4] x) => (float[4] y) { y = com.microsoft.BiasGelu (x, x) }",
    "too few inputs of com.microsoft": "g (float[2,4] x) => (float[2,4] y) { y = com.microsoft.BiasGelu (x) }",
    "too many inputs of com.microsoft": "g (float[4] x) => (float[4] y) { y = com.microsoft.BiasGelu (x, x, x) }",
    "two types in com.microsoft": "g (float[4] x, double[4] b) => (float[4] y) { y = com.microsoft.BiasGelu (x, b) }",
    "a type that com.microsoft lacks": "g (int32[4] x) => (int32[4] y) { y = com.microsoft.FastGelu (x) }",
    "an attribute that com.microsoft lacks": (
        "g (float[4] x) => (float[4] y) { y = com.microsoft.QuickGelu <beta = 1.0> (x) }"
    ),
    "another kind of attribute of com.microsoft": (
        "g (float[4] x) => (float[4] y) { y = com.microsoft.QuickGelu <alpha = 1> (x) }"
    ),
    "an operator of ai.onnx.ml": "g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Binarizer (x) }",
    "no such operator of ai.onnx.ml": "g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Relu (x) }",
    "a standard operator of a later opset": "g (float[2] x) => (float[2] y) { y = Swish (x) }",
    "no such operator": "g (float[2] x) => (float[2] y) { y = Foo (x) }",
    "shapes that contradict": "g (float[2] x, float[3] z) => (float[2] y) { y = Add (x, z) }",
    "ranks that contradict": "g (float[2] x, float[2,2] z) => (float[2] y) { y = Concat <axis = 0> (x, z) }",
    "widths that contradict": "g (float[2,3] x, float[2,3] z) => (float[2,3] y) { y = MatMul (x, z) }",
    "an axis beyond the rank": "g (float[2] x, float[2] z) => (float[4] y) { y = Concat <axis = 3> (x, z) }",
    "a pair of types without a kernel": (
        "g (float[2] x) => (bfloat16[2] y) { y = RandomUniformLike <dtype = 16> (x) }"
    ),
    "a type without a kernel beside one with": (
        "g (uint8[2,2] x, float s, uint8 z, int8[2,2] b, uint16 o) => (uint16[2,2] y)"
        " { y = QLinearMatMul (x, s, z, b, s, z, s, o) }"
    ),
    "an attribute that the operator lacks": "g (float[2] x) => (float[2] y) { y = Relu <alpha = 1.0> (x) }",
}
HEADERS = {
    "a newer opset of ai.onnx.ml": '<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 6]>',
    "a newer opset of com.microsoft": '<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 2]>',
    "any opset of a library": '<ir_version: 10, opset_import: ["" : 20, "lib" : 1000]>',
}
NOT_IMPORTED = {
    "com.microsoft is not imported": "g (float[4] x) => (float[4] y) { y = com.microsoft.QuickGelu (x) }",
    "a library is not imported": "g (float[4] x) => (float[4] y) { y = lib.Foo (x) }",
}
MODELS = {
    **{name: IMPORTS + body for name, body in BODIES.items()},
    **{name: header + BODIES["sound"] for name, header in HEADERS.items()},
    **{name: '<ir_version: 10, opset_import: ["" : 20]>' + body for name, body in NOT_IMPORTED.items()},
}


def refusal(model: onnx.ModelProto) -> str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # of ONNX Runtime, which has many kinds
        return str(error)
    return ""


def errors(model: onnx.ModelProto, target: str | None) -> list[str]:
    return [str(each) for each in castsmith.check(model, target=target) if each.severity is Severity.ERROR]


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
def test_an_error_is_what_onnxruntime_refuses():
    wrong = []
    for name, text in MODELS.items():
        model = onnx.parser.parse_model(text)
        theirs, ours = refusal(model), errors(model, "onnxruntime-cpu")
        if bool(theirs) != bool(ours):
            wrong.append(f"{name}: {theirs or 'loads'}; check: {ours}")
    assert not wrong


def test_an_error_without_a_target_is_what_the_checker_refuses():
    wrong = []
    for name, text in MODELS.items():
        if "com.microsoft" in name:  # of which the checker has no schemas
            continue
        model = onnx.parser.parse_model(text)
        try:
            onnx.checker.check_model(model, full_check=True)
            theirs = ""
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            theirs = str(error)
        if bool(theirs) != bool(ours := errors(model, None)):
            wrong.append(f"{name}: {theirs or 'valid'}; check: {ours}")
    assert not wrong


def test_an_unknown_domain_is_a_note_without_a_target():
    (found,) = castsmith.check(onnx.parser.parse_model(MODELS["an operator of a library"]))
    assert (found.code, found.severity) == ("unknown-operator", Severity.NOTE)


def test_the_library_is_named_as_the_way_out():
    (found,) = castsmith.check(onnx.parser.parse_model(MODELS["an operator of a library"]), target="onnxruntime-cpu")
    assert found.message == "onnxruntime-cpu has no operator Foo of lib: it needs a custom operator library"
    assert "register_custom_ops_library" in found.help


def test_an_operator_that_openvino_does_not_convert_is_an_error():
    (found,) = castsmith.check(onnx.parser.parse_model(MODELS["an operator of a library"]), target="openvino-cpu")
    assert (found.code, found.severity) == ("unregistered-operator", Severity.ERROR)
    assert found.message == "openvino-cpu has no operator Foo of lib"
    assert castsmith.check(onnx.parser.parse_model(MODELS["sound"]), target="openvino-cpu") == []


def test_optimize_and_fit_leave_operators_of_a_library_alone():
    """The application may register it: what is written before is written after, with a warning."""
    model = onnx.parser.parse_model(MODELS["an operator of a library"])
    result = castsmith.optimize(model, target="onnxruntime-cpu")
    assert [(each.code, each.severity) for each in result.diagnostics] == [("unregistered-operator", Severity.WARNING)]
    assert [step.command for step in castsmith.fit(model, target="onnxruntime-cpu").plan] == ["optimize"]


VALUES = """g (float[1,1,4,4] x, uint8[2] u, uint8[2] v) => (float[1,1,{size},{size}] y, uint8[2] w) {{
    y = Resize <mode = "{mode}", antialias = {antialias}> (x, , s) w = BitShift <direction = "{direction}"> (u, v) }}"""


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
@pytest.mark.parametrize("mode", ["nearest", "linear", "nonsense"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("direction", ["LEFT", "left"])
def test_values_of_attributes_are_those_of_the_kernels(mode: str, antialias: int, direction: str):
    text = VALUES.format(size=8, mode=mode, antialias=antialias, direction=direction)
    model = onnx.parser.parse_model(IMPORTS + text)
    model.graph.initializer.append(onnx.helper.make_tensor("s", 1, [4], [1.0, 1.0, 2.0, 2.0]))
    assert bool(refusal(model)) == bool(errors(model, "onnxruntime-cpu"))
