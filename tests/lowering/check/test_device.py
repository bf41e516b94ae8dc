"""Nodes that an execution provider leaves to the CPU provider: counted, or refused on request."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import onnx.parser
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.targets.statements import TargetError
from castsmith.targets.target import load_target, target_names
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
