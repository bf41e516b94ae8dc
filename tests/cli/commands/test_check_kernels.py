"""castsmith check --target: the operators that the target has no kernel for, as the installed runtime does."""

from __future__ import annotations

import itertools
from pathlib import Path

import onnx
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.conformance.probe_models import TEXTS, model_text
from castsmith.ir.records import Severity
from castsmith.lowering.check.scene import Scene, merged
from castsmith.lowering.check.target import target_findings
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.targets.target import load_target
from tests.sampling import sampled

OPSET, IR = 21, 10
ADDITIONS = """<ir_version: 10, opset_import: ["" : 21]>
additions (bfloat16[N] x, bool c) => (bfloat16[N] z) {
    a = Add (x, x)
    z = If (c) <then_branch = one () => (bfloat16[N] p) { p = Add (a, x) },
                else_branch = two () => (bfloat16[N] q) { q = Identity (a) }>
}"""


def found(text: str, target: str) -> list[tuple[str, str, str]]:
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    inference = infer_element_types(model, PromotionRules())
    findings = merged(target_findings(Scene(model, inference, load_target(target))))
    return [(finding.code, str(finding.site), finding.message) for finding in findings]


def legal(text: str) -> bytes:
    """The model; empty where the schema does not have the operator of the type."""
    try:
        model: onnx.ModelProto = onnx.parser.parse_model(text)
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.parser.ParseError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return b""
    return model.SerializeToString()


def refused(model: bytes) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception:  # ONNX Runtime raises a class of its own for each of its status codes
        return True
    return False


@pytest.mark.skipif(onnxruntime.__version__ != "1.32.0", reason="what the target's file says is of 1.32.0")
@pytest.mark.parametrize(
    "dtype", [DataType.BFLOAT16, DataType.INT16, DataType.BOOL, DataType.FLOAT8E5M2], ids=type_name
)
def test_what_is_found_is_what_onnxruntime_refuses(dtype: DataType):
    texts = {op_type: model_text(op_type, dtype, OPSET, IR) for op_type in TEXTS}
    models = {op_type: model for op_type, text in texts.items() if (model := legal(text))}
    assert len(models) > 15
    wanted = {op_type for op_type, model in models.items() if refused(model)}
    got = {
        op for op in models if any(code == "target-lacks-kernel" for code, *_ in found(texts[op], "onnxruntime-cpu"))
    }
    assert got == wanted
    assert wanted or dtype == DataType.BOOL


def test_an_operator_is_found_once_with_the_number_of_its_nodes():
    (finding,) = found(ADDITIONS, "onnxruntime-cpu")
    assert finding == (
        "target-lacks-kernel", "additions: a (Add)",
        "onnxruntime-cpu has no Add of bfloat16 at opset 21, in 2 nodes; this is the first",
    )  # fmt: skip


def test_where_kernels_are_unknown_that_is_said_of_narrow_types():
    text = (
        ADDITIONS.replace("bfloat16", "float8e5m2")
        .replace("Add (x, x)", "Identity (x)")
        .replace("Add (a, x)", "Identity (x)")
    )
    note, finding = found(text, "openvino-gpu")
    assert finding[::2] == ("target-unknown", "the operators of openvino-gpu that support float8e5m2 are unknown")
    assert found(ADDITIONS, "openvino-gpu") == [note]


def test_a_fusion_that_goes_wrong_is_found():
    text = """<ir_version: 10, opset_import: ["" : 21]>
    fused (float[N] x, float s, float8e4m3fn zero) => (float8e4m3fn[N] z) {
        a = Relu (x)
        z = QuantizeLinear (a, s, zero)
    }"""
    (finding,) = found(text, "onnxruntime-cpu")
    assert finding[0] == "target-misfuses"
    assert "a Relu before it is dropped" in finding[2]


MODELS = sorted((Path(__file__).parents[3] / "models").glob("*.onnx"))


@pytest.mark.parametrize(
    ("path", "target"),
    sampled(
        "real models for targets",
        itertools.product(MODELS, ["onnxruntime-cpu", "onnxruntime-android", "openvino-cpu"]),
        9,
        cover=enumerate,
    ),
)
def test_what_optimize_leaves_has_at_most_notes(path: Path, target: str):
    rules = PromotionRules(promote_unsafe=True)
    model = castsmith.optimize(str(path), target=target, promotion=rules).model
    inference = infer_element_types(model, rules)
    findings = merged(target_findings(Scene(model, inference, load_target(target))))
    assert [(each.code, each.message) for each in findings if each.severity is not Severity.NOTE] == []
