"""Models that fold-constants leaves alone and that no evaluator runs: too large, malformed, or not in its hands."""

from __future__ import annotations

import onnx_ir
import pytest

from castsmith.ir.records import RewriteResult
from castsmith.passes.fold.run import FoldConstants
from tests.golden import model_text

TRUNC = '"qonnx.custom_op.general": 1'

REFUSED = {
    "a trillion elements": (
        "g () => (float16[N] y) <int64[2] s = {1000000, 1000000}> { a = ConstantOfShape (s) y = Cast <to = 10> (a) }",
        "fold-growth: the file would grow by 1999999999984 bytes, and max_growth is 4096",
    ),
    "a trillion elements on the way": (
        "g () => (float16[1, 1] y) <float[1] w = {1}, int64[2] s = {1000000, 1000000}, int64[2] zeros = {0, 0},"
        " int64[2] ones = {1, 1}> { a = Expand (w, s) b = Slice (a, zeros, ones) y = Cast <to = 10> (b) }",
        "fold-invalid: an array [1000000, 1000000] of float on the way would be larger than all constants of the model",
    ),
    "an index that is not there": (
        "g () => (float16[1] y) <float[2] w = {1, 2}, int64[1] i = {2}> { p = Gather (w, i) y = Cast <to = 10> (p) }",
        "fold-invalid: an index on the way is out of bounds",
    ),
    "an element that is put in place twice": (
        "g () => (float16[1] y) <float[1] w = {1}, int64[2, 1] i = {0, -1}, float[2] v = {1, 2}>"
        " { p = ScatterND (w, i, v) y = Cast <to = 10> (p) }",
        "fold-invalid: an element is put in place twice on the way, and which one stays is not said",
    ),
    "a scale that fits nothing": (
        "g () => (uint8[2] y) <float[2] w = {1, 2}, float[3] s = {1, 2, 3}> { y = QuantizeLinear (w, s) }",
        "fold-invalid: Axis 1 is out of range for a tensor of rank 1.",
    ),
    "no version of Trunc has three inputs": (
        "g () => (float[1] y) <float[1] x = {255}> { y = qonnx.custom_op.general.Trunc"
        ' <rounding_mode = "UP"> (x, x, x) }',
        "fold-invalid: g: (unnamed) (Trunc): Trunc has 3 inputs, which fits no version of it that"
        " qonnx.custom_op.general 1 has.",
    ),
    "a bit width that is none": (
        "g () => (float[1] y) <float[1] x = {255}, float z = {0}> { y = qonnx.custom_op.general.Trunc"
        ' <rounding_mode = "UP"> (x, x, z, z, z) }',
        "fold-invalid: The in_bitwidth of QONNX Trunc must be an integer from 1 to 1023, not array(0., dtype=float32).",
    ),
}

LEFT = {
    "an axis that is not there": (
        "g () => (float16[N] y) <float[2] w = {1, 2}> { a = Flatten <axis = 7> (w) y = Cast <to = 10> (a) }"
    ),
    "a shape that does not fit": (
        "g () => (float16[N] y) <float[2] w = {1, 2}, int64[1] s = {3}> { a = Reshape (w, s) y = Cast <to = 10> (a) }"
    ),
    "an axis named twice": (
        "g () => (float16[N] y) <float[2] w = {1, 2}, int64[2] a = {0, 0}> { b = Slice (w, a, a, a) y = Cast <to = 10>"
        " (b) }"
    ),
    "types that differ": (
        "g () => (float16[N] y) <float[1] w = {1}, double[1] v = {2}> { a = Concat <axis = 0> (w, v) y = Cast <to = 10>"
        " (a) }"
    ),
    "a sequence is no tensor": (
        "g () => (float16[1] y) <float[1] w = {1}, int64 i = {0}> { a = SequenceConstruct (w) b = Identity (a)"
        " c = SequenceAt (b, i) y = Cast <to = 10> (c) }"
    ),
    "the caller chooses the value": (
        'g () => (float16 z) { z = local.f <v = 1.0> () } <domain: "local", opset_import: ["": 21]> f <v> () => (z)'
        " { w = Constant <value_float: float = @v> () z = Cast <to = 10> (w) }"
    ),
    "the caller chooses the axes": (
        'g () => (float16[2] z) { z = local.f <p = [0]> () } <domain: "local", opset_import: ["": 21]> f <p> () =>'
        " (z) { w = Constant <value = float[2] {1, 2}> () t = Transpose <perm: ints = @p> (w) z = Cast <to = 10> (t) }"
    ),
}


def _model(graph: str) -> onnx_ir.Model:
    return onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21, "local": 1, {TRUNC}]>' + graph)


def _fold(model: onnx_ir.Model, max_total_growth: int = 1 << 20) -> RewriteResult:
    result = FoldConstants(max_total_growth=max_total_growth)(model)
    assert isinstance(result, RewriteResult)
    return result


@pytest.mark.parametrize(("graph", "said"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_reason(graph: str, said: str) -> None:
    model = _model(graph)
    before = model_text(model)
    (refusal,) = _fold(model).records.refusals
    assert f"{refusal.rule}: {refusal.reason}" == said
    assert model_text(model) == before


@pytest.mark.parametrize("graph", LEFT.values(), ids=LEFT)
def test_left_alone(graph: str) -> None:
    model = _model(graph)
    before = model_text(model)
    records = _fold(model).records
    assert not records.rewrites
    assert not records.refusals
    assert model_text(model) == before


def test_the_total_budget_holds_over_all_nodes() -> None:
    """Two constants grow by 6 bytes each; the second is refused, but not a third that shrinks."""
    constants = "float8e4m3fn[2] v = {1, 2}, float8e4m3fn[2] w = {3, 4}, float[2] u = {1, 2}"
    body = "a = Cast <to = 1> (v) b = Cast <to = 1> (w) c = Cast <to = 10> (u)"
    model = _model(f"g () => (float[2] a, float[2] b, float16[2] c) <{constants}> {{ {body} }}")
    records = _fold(model, max_total_growth=8).records
    assert [rewrite.site.op for rewrite in records.rewrites] == ["Cast", "Cast"]
    (refusal,) = records.refusals
    assert refusal.reason == "the file would grow by 6 bytes, and 2 of max_total_growth are left"


def test_a_shape_before_opset_5_is_an_attribute() -> None:
    """The reference evaluator has no such Reshape."""
    body = 'a = Reshape <shape = [0, 1]> (w) y = Cast <to = "FLOAT16"> (a)'
    graph = f"g () => (float16[2, 1] y) <float[2] w = {{1, 2}}> {{ {body} }}"
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 1]>{graph}')
    assert len(_fold(model).records.rewrites) == 1
    (constant,) = model.graph.initializers.values()
    assert constant.const_value is not None
    assert constant.const_value.numpy().tolist() == [[1], [2]]
