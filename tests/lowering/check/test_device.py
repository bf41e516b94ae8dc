"""Nodes that an execution provider leaves to the CPU provider: counted, or refused on request."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.walks import all_values
from castsmith.lowering.check.device import device_findings, is_prescribed, values_varied
from castsmith.lowering.check.scene import Scene
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.statements import TargetError
from castsmith.targets.target import Target, load_target, target_names
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("untried")

RESHAPED = """<ir_version: 8, opset_import: ["": 17]>
    g (float[4,2] x, double[4] i) => (float[2,4] y, float[4] z) <int64[2] s = {2, 4}, double two = {2}, float[4] f> {
        r = Relu (x) y = Reshape (r, s) j = Add (i, two) f = Cast <to = 1> (j) a = Sqrt (f) z = Abs (a) }"""
LACKING = ("float8e4m3fn", "float4e2m1", "uint4", "bfloat16", "float16", "int16", "double")
DEVICES = [name for name in target_names() if load_target(name).fallback is not None]


def errors(text: str, target: str, *, strict: bool) -> list[str]:
    found = castsmith.check(onnx.parser.parse_model(text), target=target, strict_device=strict)
    return [each.subject for each in found if each.severity is castsmith.Severity.ERROR]


def test_the_providers_of_onnxruntime_fall_back_to_the_cpu() -> None:
    providers = ("coreml", "cuda", "directml", "migraphx", "openvino", "qnn", "tensorrt-rtx", "webgpu")
    assert set(DEVICES) == {*(f"onnxruntime-{name}" for name in providers), "vitis-ai"}
    for device in map(load_target, DEVICES):
        assert device.strict().lacks == device.lacks | device.off_device
        assert not device.lacks & device.off_device
        assert DataType.FLOAT8E4M3FNUZ not in device.off_device  # lowered, not left to the CPU


def test_nodes_and_bytes_that_leave_the_device_are_counted() -> None:
    """Add and Cast have operands of double; the result of the Cast goes back to the device: 4 floats."""
    found = castsmith.check(onnx.parser.parse_model(RESHAPED), target="onnxruntime-webgpu")
    (note,) = (each for each in found if each.code == "leaves-device")
    assert (note.code, note.severity) == ("leaves-device", castsmith.Severity.WARNING)
    assert note.message == (
        "2 of 6 nodes run on onnxruntime-cpu and not on the device, which has no double: Add (1), Cast (1); tensors of"
        " 16 bytes go between the two"
    )
    result = castsmith.optimize(onnx.parser.parse_model(RESHAPED), target="onnxruntime-webgpu")
    warnings = [each.code for each in result.diagnostics if each.severity is castsmith.Severity.WARNING]
    assert warnings == ["target-unknown", "leaves-device"]


def test_a_strict_device_refuses_what_the_standard_does_not_prescribe() -> None:
    assert errors(RESHAPED, "onnxruntime-webgpu", strict=False) == []
    assert errors(RESHAPED, "onnxruntime-webgpu", strict=True) == ["onnxruntime-webgpu double"]
    only = (
        RESHAPED.replace(", double[4] i", "").replace(", float[4] z", "").replace(", double two = {2}, float[4] f", "")
    )
    only = only.replace("j = Add (i, two) f = Cast <to = 1> (j) a = Sqrt (f) z = Abs (a)", "")
    assert errors(only, "onnxruntime-webgpu", strict=True) == []
    for name in DEVICES:
        result = castsmith.optimize(onnx.parser.parse_model(RESHAPED), target=name, strict_device=True)
        assert errors(RESHAPED, name, strict=True) == [
            each.subject for each in result.diagnostics if each.severity is castsmith.Severity.ERROR
        ]


@pytest.mark.parametrize(
    ("name", "strict", "dtype"),
    sampled("types that devices lack", product(DEVICES, (False, True), LACKING), 30, cover=enumerate),
)
def test_what_optimize_does_not_report_check_does_not_find(name: str, strict: bool, dtype: str) -> None:
    """A lowering may need a type that the device lacks, such as the uint8 of codes."""
    text = f"""<ir_version: 13, opset_import: ["": 23]>
        g (float[4] x) => (float[4] y) {{ c = Cast <to = {int(DataType[dtype.upper()])}> (x) y = Cast <to = 1> (c) }}"""
    result = castsmith.optimize(onnx.parser.parse_model(text), target=name, strict_device=strict)
    found = castsmith.check(result.model, target=name, strict_device=strict)
    said = {each.subject for each in result.diagnostics if each.severity is castsmith.Severity.ERROR}
    assert {each.subject for each in found if each.severity is castsmith.Severity.ERROR} <= said
    assert strict or not said


def test_what_the_fallback_lacks_too_is_refused() -> None:
    """Conv of double: the device has no double, and the CPU no such kernel."""
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (double[1,1,4,4] x, double[1,1,2,2] w) => (double[1,1,3,3] y) { y = Conv (x, w) }"""
    assert errors(text, "onnxruntime-webgpu", strict=False) == ["onnxruntime-webgpu has no Conv of double at opset 17"]


def test_an_unknown_fallback_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(
        '{"name": "m", "description": "", "newest_opset": 20, "newest_ir_version": 9, "fallback": "nowhere"}'
    )
    with pytest.raises(TargetError, match="unknown target 'nowhere'; expected coreml, "):
        load_target(str(path))


DEVICE = Target(
    "d",
    "",
    newest_opset=16,
    newest_ir_version=9,
    off_device=frozenset({DataType.DOUBLE, DataType.UINT8}),
    kernels={DataType.BFLOAT16: {"Add": 18, "Abs": 17, "Cast": 13}},
    fallback=load_target("onnxruntime-cpu"),
)


def scene_of(body: str, target: Target = DEVICE) -> Scene:
    text = f'<ir_version: 8, opset_import: ["": 17, "local": 1]> g {body}'
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    return Scene(model, infer_element_types(model, PromotionRules()), target)


AWAY = {
    "(float[2] x) => (float[2] y) { y = Relu (x) }": "",
    "(double[2] x) => (double[2] y) { c = Constant <value = double[1] {1}> () y = Add (x, c) }":
        "1 of 1: no double: Add (1); 0 bytes",
    "(double[2] x) => (float[2] y) { y = Cast <to = 1> (x) }": "1 of 1: no double: Cast (1); 0 bytes",
    "(float[2] x) => (double[2] y) { y = Cast <to = 11> (x) }": "1 of 1: no double: Cast (1); 0 bytes",
    "(float[2] x, double t) => (double[2] y) { y = CastLike (x, t) }": "1 of 1: no double: CastLike (1); 0 bytes",
    "(float[2] x, float s, uint8 z) => (uint8[2] y) { y = QuantizeLinear (x, s, z) }":
        "1 of 1: no uint8: QuantizeLinear (1); 0 bytes",
    "(int64[1] s) => (double[n] y) { y = ConstantOfShape <value = double[1] {1}> (s) }":
        "1 of 1: no double: ConstantOfShape (1); 0 bytes",
    """(bool c) => (double y) { y = If (c) <then_branch = t () => (double a) { a = Constant <value = double {1}> () },
        else_branch = e () => (double b) { b = Constant <value = double {2}> () }> }""":
        "1 of 1: no double: If (1); 0 bytes",
    "() => (double[2] y) { y = RandomNormal <dtype = 11, shape = [2]> () }":
        "1 of 1: no double: RandomNormal (1); 0 bytes",
    "(float[2] i, double n, float[2] v) => (float[2,k] y) { y = OneHot (i, n, v) }": "",
    "(double[2] i, int64 n, double[2] v) => (double[2,k] y) { y = OneHot (i, n, v) }":
        "1 of 1: no double: OneHot (1); 0 bytes",
    "(float[2] x, double[2] e) => (float[2] y) { y = Pow (x, e) }": "",
    "(double[2] x) => (double[2] y) { y = local.Own (x) }": "",
    "(bfloat16[2] x) => (bfloat16[2] y) { y = Abs (x) }": "",
    "(bfloat16[2] x) => (bfloat16[2] z) { y = Add (x, x) z = Neg (y) }":
        "2 of 2: no Add of bfloat16, Neg of bfloat16: Add (1), Neg (1); 0 bytes",
    "(float[2,2] x, float[2] s) => (float[2,2] y) { y = LayerNormalization (x, s) }":
        "1 of 1: no LayerNormalization of opset 17: LayerNormalization (1); 0 bytes",
    "(bool[2] c, float[2] x) => (float[2] y) { y = Where (c, x, x) }": "",
    "(double[2] x) => (double[2] y) { f = Neg (x) a = Sqrt (f) b = Sqrt (a) c = Exp (b) y = Abs (c) }":
        "5 of 5: no double: Sqrt (2), Abs (1), Exp (1), Neg (1); 0 bytes",
    "(double[2] x, float t) => (float[2] y) { y = CastLike (x, t) }": "1 of 1: no double: CastLike (1); 0 bytes",
    "(float[2] x) => (float[2] y) { y = Unheard (x) }": "",
    "(double[2] x) => (double[2] y) { f = Neg (x) a = Sqrt (f) b = Abs (a) c = Exp (b) y = Log (c) }":
        "5 of 5: no double: Abs (1), Exp (1), Log (1), Neg (1) and 1 other operator; 0 bytes",
    "(double[2] x) => (double[2] y) { f = Neg (x) a = Sqrt (f) b = Abs (a) c = Exp (b) d = Log (c) y = Tan (d) }":
        "6 of 6: no double: Abs (1), Exp (1), Log (1), Neg (1) and 2 other operators; 0 bytes",
    "(float[3] x) => (float[3] y) <float[3] a> { a = Relu (x) b = Cast <to = 11> (a) y = Cast <to = 1> (b)}":
        "2 of 3: no double: Cast (2); 12 bytes",
    "(float[N] x) => (double[N] y) <float[N] a> { a = Relu (x) y = Cast <to = 11> (a) }":
        "1 of 2: no double: Cast (1); 0 bytes, and 1 of unknown size",
    "(float[2] x) => (double[2] y) { a = Relu (x) y = Cast <to = 11> (a) }":
        "1 of 2: no double: Cast (1); 0 bytes, and 1 of unknown size",
    "(string[2] x) => (double[2] y) <string[2] a> { a = Identity (x) y = Cast <to = 11> (a) }":
        "1 of 2: no double: Cast (1); 0 bytes, and 1 of unknown size",
}  # fmt: skip


def test_what_leaves_a_device() -> None:
    for body, expected in AWAY.items():
        told = list(device_findings(scene_of(body)))
        assert [each.subject for each in told] == (["d"] if expected else []), body
        (message,) = [each.message for each in told] or [""]
        for words, short in (
            (" nodes run on onnxruntime-cpu and not on the device, which has no", ": no"),
            ("tensors of ", ""),
            (" go between the two", ""),
        ):
            message = message.replace(words, short)
        assert message == expected, body
    without = replace(DEVICE, fallback=None)
    assert not list(device_findings(scene_of("(double[2] x) => (double[2] y) { y = Abs (x) }", without)))


def test_the_values_that_the_probe_varied() -> None:
    scene = scene_of(
        "(float[2] x, bool[2] c) => (float[2] y) { a = Cast <to = 1> (x) b = CastLike (a, c) y = Where (c, a, x) }"
    )
    names = [[value and value.name for value in values_varied(node)] for node in scene.nodes]
    assert names == [["x", "a"], ["b"], ["a"]]


PRESCRIBED = {
    "(float[4] x) => (float[4] y) <int64[1] s = {4}> { y = Reshape (x, s) }": True,
    "(float[4] x) => (float[4] y) { s = Constant <value_ints = [4]> () y = Reshape (x, s) }": True,
    "(float[4] x) => (float[4] y) { s = Shape (x) y = Reshape (x, s) }": True,
    "(float[4] x, int64[1] s) => (float[4] y) { y = Reshape (x, s) }": False,
    "(float[4] x) => (float[4] y, int64[1] s) { s = Shape (x) y = Reshape (x, s) }": False,
    "(float[4] x) => (float[4] y) { s = Shape (x) y = Abs (x) }": False,
    "(float[4] x) => (float[4] y) { a = Shape (x) s = Abs (a) y = Reshape (x, s) }": False,
    "(float[4] x) => (float[4] y, int64[1] z) <int64[1] s = {4}> { y = Reshape (x, s) z = Abs (s) }": False,
    "(float[4] x) => (int64[4] y) <int64[1] s = {4}> { y = Expand (s, s) }": False,
    "(float[4] x) => (float[4] y) <int64[1] s = {4}> { y = local.Own (x, s) }": False,
    "(float[4] x) => (float[4] y) <int64[1] s = {4}> { y = Reshape (x, s, s) }": False,
}


def test_which_values_have_a_type_that_the_standard_prescribes() -> None:
    for body, expected in PRESCRIBED.items():
        scene = scene_of(body)
        (value,) = (value for value in all_values(scene.model) if value.name == "s")
        assert is_prescribed(value, scene.imports) == expected, body
