"""Models kept in float16 by powers of two: exponents of every operator, and the shipped models."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import numpy_helper

import castsmith
from castsmith.ir.records import Effect, Rewrite
from castsmith.ir.walks import all_nodes
from castsmith.lowering.faults import widened
from castsmith.numerics.errors import OptionError
from tests.lowering.shipped import BROKEN, HEALTHY, SIBLINGS, Case, draw, rms_norm, run
from tests.lowering.test_conversion_healing import blocks, case_of, four_bits, generator, in_float, nested

pytestmark = pytest.mark.usefixtures("engines_here")


@pytest.mark.parametrize("case", BROKEN + SIBLINGS, ids=str)
def test_a_shipped_model_is_rescaled_without_a_node_in_float(case: Case) -> None:
    shipped = case.shipped()
    result = castsmith.convert(shipped, to="float16", inputs=case.inputs(), rescale=True)
    proto = result.proto
    onnx.checker.check_model(proto, full_check=True)
    assert case.error(proto) < case.limit
    assert in_float(result.model) == 0
    assert not any(node.op_type == "Cast" for node in proto.graph.node)
    assert result.error is not None
    assert result.before is not None
    assert result.error.worst < case.limit < result.before.worst
    assert result.diagnostics == []
    if all(rewrite.effect is Effect.SCALED for rewrite in result.rewrites):
        assert not any(map(is_inexact, result.rewrites))
        pair = (onnx_ir.to_proto(widened(onnx_ir.from_proto(each))) for each in (shipped, proto))
        before, after = (run(each, case.inputs())[0] for each in pair)
        assert np.array_equal(before, after)
    else:
        assert any(map(is_inexact, result.rewrites))


def is_inexact(rewrite: Rewrite) -> bool:
    return "not exactly" in rewrite.reason or rewrite.rule in ("carry-scale", "shift-softmax")


VANISHING = next(case for case in SIBLINGS if case.name.startswith("squares that vanish"))


@pytest.mark.parametrize("case", [BROKEN[2], BROKEN[5], BROKEN[11], VANISHING], ids=str)
def test_a_model_in_float_is_scaled_before_it_is_converted(case: Case) -> None:
    result = castsmith.convert(case.original(), to="float16", inputs=case.inputs(), rescale=True)
    assert in_float(result.model) == 0
    assert case.error(result.proto) < 5e-3


@pytest.mark.parametrize("case", HEALTHY, ids=str)
def test_a_healthy_model_is_not_scaled(case: Case) -> None:
    result = castsmith.convert(case.shipped(), to="float16", inputs=case.inputs(), rescale=True)
    assert (result.rewrites, result.factors) == ([], {})


def test_four_bit_weights_take_the_scale() -> None:
    model, feeds = four_bits()
    result = castsmith.convert(model, to="float16", inputs=feeds, rescale=True)
    assert in_float(result.model) == 0
    assert result.error is not None
    assert result.error.worst < 5e-3
    scaled = {rewrite.site.node for rewrite in result.rewrites if rewrite.rule == "scale-constant"}
    assert scaled <= {"scale", "scales"}


def test_skip_normalizations_take_the_scale_of_the_stream_in_their_epsilon() -> None:
    model, feeds = generator()
    result = castsmith.convert(model, to="float16", inputs=feeds, rescale=True)
    assert in_float(result.model) == 0
    assert {rewrite.rule for rewrite in result.rewrites} == {"scale-constant", "scale-attribute", "scale-value"}
    (power,) = set(result.factors.values())
    norms = [node for node in result.model.graph if node.op_type.startswith("Skip")]
    assert [node.attributes["epsilon"].as_float() for node in norms] == pytest.approx([1e-6 / 4**power] * 2)
    assert result.error is not None
    assert result.error.worst < 5e-3


def test_values_in_subgraphs_and_functions_are_scaled_there() -> None:
    model, feeds = nested()
    result = castsmith.convert(model, to="float16", inputs=feeds, rescale=True)
    onnx.checker.check_model(result.proto, full_check=True)
    assert {"s_scaled", "m_scaled"} <= result.factors.keys()
    assert not any(node.op_type == "Cast" for node in all_nodes(result.model))
    assert result.diagnostics == []
    (expected,) = run(
        onnx_ir.to_proto(widened(onnx_ir.from_proto(model))), {**feeds, "x": feeds["x"].astype(np.float32)}
    )
    (output,) = run(result.proto, feeds)
    assert np.allclose(expected, output, rtol=1e-2)


def test_functions_whose_calls_need_different_powers_become_their_nodes() -> None:
    model, feeds = blocks()
    result = castsmith.convert(model, to="float16", inputs=feeds, rescale=True)
    onnx.checker.check_model(result.proto, full_check=True)
    assert result.rewrites[0].rule == "inline-functions"
    assert in_float(result.model) == 0
    assert result.diagnostics == []
    assert result.error is not None
    assert result.error.worst < 5e-3


def test_what_a_loop_or_a_branch_hands_on_keeps_its_power() -> None:
    loop = (
        "n = Constant <value = int64 {3}> () c = Constant <value = bool {1}> () b = Relu (h) z = Loop (n, c, b) <body ="
        " t (int64 i, bool go, float16[2, 6, 32] s) => (bool on, float16[2, 6, 32] k) { on = Identity (go)"
        " k = Add (s, h) }>"
    )
    branch = (
        "c = Constant <value = bool {1}> () z = If (c) <then_branch = t () => (float16[2, 6, 32] a) { a = Add (h, x) },"
        " else_branch = e () => (float16[2, 6, 32] b) { b = Neg (h) }>"
    )
    for inner in (loop, branch):
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float16[2, 6, 32] x) => (float16[2, 6, 32] y)'
            f" {{ h = MatMul (x, w) {inner} l = ReduceL2 <axes = [-1]> (z) y = Div (z, l) }}"
        )
        model.graph.initializer.append(numpy_helper.from_array(draw(32, 32, scale=12000).astype(np.float16), "w"))
        result = castsmith.convert(model, to="float16", inputs={"x": draw(2, 6, 32)}, rescale=True)
        onnx.checker.check_model(result.proto, full_check=True)
        assert (in_float(result.model), result.diagnostics) == (0, [])
        assert {"h_scaled", "z_scaled"} <= result.factors.keys()
        assert len(set(result.factors.values())) == 1
        assert result.error is not None
        assert result.error.worst < 2e-3


def test_a_stream_that_grows_by_far_loses_no_bits_in_its_first_norms() -> None:
    first, second, last = (rms_norm(*names) for names in (("x", "a"), ("h", "b"), ("k", "n")))
    body = (
        f"{first} c = MatMul (a, w0) h = Add (x, c) {second} e = MatMul (b, w0) f = Mul (e, big) k = Add (h, f) {last}"
        " z = Add (n, b) y = MatMul (z, w1)"
    )
    weights = {**BROKEN[1].weights, "w0": draw(32, 32, scale=30), "big": np.float32(3e4)}
    case = Case("growing", "", body, weights)
    result = castsmith.convert(case.shipped(), to="float16", inputs=case.inputs(), rescale=True)
    assert in_float(result.model) == 0
    assert case.error(result.proto) < 5e-3


def test_what_no_power_moves_into_range_is_named() -> None:
    """The sine of a multiple is no multiple of the sine."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { a = Mul (x, x) y = Sin (a) }'
    feeds = {"x": np.array([1000, 2000], np.float32)}
    result = castsmith.convert(onnx.parser.parse_model(text), to="float16", inputs=feeds, rescale=True)
    assert [finding.message for finding in result.diagnostics if finding.code == "not-rescaled"] == [
        "no power of two was found that moves a into the range of float16"
    ]


def test_of_outputs_that_are_wrong_none_that_is_right_is_named() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] a, float[2] z) { NODES }'
    model = onnx.parser.parse_model(text.replace("NODES", "a = Mul (x, x) z = Neg (x)"))
    result = castsmith.convert(model, to="float16", inputs={"x": np.array([1000, 2000], np.float32)}, rescale=True)
    assert [finding.message for finding in result.diagnostics if finding.code == "not-rescaled"] == [
        "with powers of two alone a has an error of inf; its values vary too much"
    ]


def test_rescale_is_for_float16() -> None:
    with pytest.raises(OptionError, match="`rescale` is for float16"):
        castsmith.convert(case_of("a plain").original(), to="bfloat16", rescale=True)
