"""Models kept in float16 by powers of two: exponents of every operator, and the shipped models."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import numpy_helper

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.records import Effect
from castsmith.ir.walks import all_nodes
from castsmith.lowering.healing import reference_of, widened
from castsmith.lowering.rescale.exponents import read
from castsmith.lowering.rescale.run import Rescale, RescaleResult
from castsmith.lowering.rescale.softmax import softmax_of
from castsmith.lowering.rescale.solve import Bound, solve
from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules
from tests.lowering.shipped import BROKEN, HEALTHY, SIBLINGS, Case, draw, rms_norm, run
from tests.lowering.test_healing import blocks, case_of, four_bits, generator, in_float, nested


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


def widened_proto(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all of its float16 constants and values in float."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT16:
            array = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*copy.graph.input, *copy.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return copy


@pytest.mark.parametrize("case", BROKEN, ids=str)
def test_what_is_exact_in_float_is_said_to_be(case: Case) -> None:
    result = castsmith.convert(case.shipped(), to="float16", inputs=case.inputs(), rescale=True)
    exact = all(rewrite.effect is Effect.SCALED for rewrite in result.rewrites)
    assert exact != any(
        "not exactly" in rewrite.reason or rewrite.rule == "shift-softmax" for rewrite in result.rewrites
    )
    if exact:
        before, after = (run(widened_proto(each), case.inputs())[0] for each in (case.shipped(), result.proto))
        assert np.array_equal(before, after)


def exponents(body: str, needs: dict[str, int], **weights: object) -> dict[str, int]:
    """The exponents of values and adapters that keep the least exponents asked of values, by name."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
        f" g (float16[4, 4] x, float16[4, 4] z) => (float16[4, 4] y) {{ {body} }}"
    )
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array, np.float16), name))
    graph = onnx_ir.from_proto(model).graph
    values = {value.name: value for node in graph for value in node.outputs}
    bounds = [
        Bound(values[name], low=need) if need > 0 else Bound(values[name], high=need) for name, need in needs.items()
    ]
    whole = onnx_ir.Model(graph, ir_version=10)
    found = solve(whole, infer_element_types(whole, PromotionRules()), bounds)
    assert found.unsolved == ()
    scaled = {value.name or "": exponent for value, exponent in found.values.items()}
    scaled |= {f"{place.name}@": power for place, power in found.adapters.items() if isinstance(place, onnx_ir.Value)}
    edges = [(edge, power) for edge, power in found.adapters.items() if not isinstance(edge, onnx_ir.Value)]
    for (owner, index), exponent in (*found.constants.items(), *edges):
        source, reader = read((owner, index)), owner.outputs[0].name if isinstance(owner, onnx_ir.Node) else ""
        assert source is not None
        scaled[f"{source.name}@{reader}"] = exponent
    scaled |= {f"{name}@{node.outputs[0].name}": exponent for (node, name), exponent in found.attributes.items()}
    return scaled | {f"repair@{node.outputs[0].name}": exponent for node, exponent in found.repairs.items()}


W = np.ones((4, 4))
EXPONENTS: list[tuple[str, dict[str, int], dict[str, int]]] = [
    ("a = MatMul (x, w) y = MatMul (a, v)", {"a": 3}, {"a": 3, "w@a": 3, "v@y": -3}),
    ("a = Mul (x, x) b = Sqrt (a) y = Div (b, v)", {"a": 5}, {"x@a": 6, "a": 6, "b": 3, "v@y": 3}),
    ("a = MatMul (x, w) b = Reciprocal (a) y = Mul (b, v)", {"b": 2}, {"a": -2, "w@a": -2, "b": 2, "v@y": -2}),
    ("a = MatMul (x, w) b = Add (a, z) y = Mul (b, v)", {"b": 4}, {"a": 4, "b": 4, "w@a": 4, "z@b": 4, "v@y": -4}),
    (
        "a = Mul (x, x) b = ReduceMean (a) c = Sqrt (b) y = Div (x, c)",
        {"a": 7},
        {"a": 8, "b": 8, "c": 4, "x@": 4},
    ),
    (
        "a = MatMul (x, w) b = Pow (a, cube) c = Pow (b, third) y = Div (c, a)",
        {"b": 8},
        {"a": 3, "w@a": 3, "b": 9, "c": 3, "repair@c": 9},
    ),
    (
        "a = Gemm <alpha = 0.01> (x, z) b = Log (a) y = Gemm (b, w, x)",
        {"a": 3},
        {"a": 3, "alpha@a": 3, "repair@b": 3},
    ),
    ("a = Exp (x) y = Mul (a, w)", {"a": 5}, {"a": 5, "repair@a": 5, "w@y": -5}),
    ("a = MatMul (x, w) b = Exp (z) c = Mul (a, b) y = Div (c, s)", {"c": 4}, {"a": 4, "w@a": 4, "c": 4, "s@y": 4}),
    ("a = MatMul (x, w) y = LpNormalization (a)", {"a": -3}, {"a": -3, "w@a": -3}),
    ("a = MatMul (x, w) y = LayerNormalization (a, s)", {"a": 3}, {"a": 3, "w@a": 3, "epsilon@y": 6}),
    (
        "a = MatMul (x, w) b = ReduceSumSquare (a) c = Sqrt (b) y = Div (a, c)",
        {"b": 4},
        {"a": 2, "b": 4, "c": 2, "w@a": 2},
    ),
    (
        "a = MatMul (x, w) b = Transpose (a) c = Relu (b) y = Gemm (c, v, s)",
        {"c": 1},
        {"a": 1, "b": 1, "c": 1, "w@a": 1, "v@y": -1},
    ),
    (
        "a = MatMul (x, w) b = MatMul (z, v) c = MatMul (a, b) y = Div (c, s)",
        {"c": 4},
        {"a": 4, "w@a": 4, "c": 4, "s@y": 4},
    ),
    (
        "a = MatMul (x, w) b = Max (a, s) c = Clip (b, s) y = Mul (c, v)",
        {"a": 2},
        {"a": 2, "b": 2, "c": 2, "w@a": 2, "s@b": 2, "s@c": 2, "v@y": -2},
    ),
    (
        "a = MatMul (x, w) b = Concat <axis = 0> (a, z) c = Slice (b, st, en) y = Mul (c, v)",
        {"b": 2},
        {"a": 2, "b": 2, "c": 2, "w@a": 2, "z@b": 2, "v@y": -2},
    ),
]


@pytest.mark.parametrize(("body", "needs", "expected"), EXPONENTS, ids=str)
def test_exponents(body: str, needs: dict[str, int], expected: dict[str, int]) -> None:
    scalar = np.ones(4)
    body = body.replace("st, en", "starts, ends")
    text = (
        ""
        if "starts" not in body
        else "starts = Constant <value = int64[1] {0}> () ends = Constant <value = int64[1] {4}> () "
    )
    names = {
        "w": W,
        "v": W,
        "cube": np.float16(3),
        "third": np.float16(1 / 3),
        "s": scalar if "LayerNorm" in body or "Gemm" in body else np.float16(1),
    }
    used = {name: array for name, array in names.items() if f" {name}" in body or f"({name}" in body}
    assert exponents(text + body, needs, **used) == expected


SOFTMAXES = [
    ("t = ReduceSum (e, a) y = Div (e, t)", True),
    ("t = ReduceSum (e, a) r = Reciprocal (t) y = Mul (r, e)", True),
    ("t = ReduceSum (e, a) s = Add (t, eps) y = Div (e, s)", True),
    ("m = Mul (e, z) t = ReduceSum (m, a) y = Div (m, t)", True),
    ("t = ReduceSum <keepdims = 0> (e, a) l = Log (t) u = Unsqueeze (l, a) y = Sub (x, u)", True),
    ("t = ReduceSum (e, a) l = Log (t) d = Div (e, t) y = Sub (d, l)", True),
    ("t = ReduceSum (e, a) y = Mul (e, t)", False),  # of the degree 2
    ("t = ReduceSum (e, a) s = Add (t, one) y = Div (e, s)", True),  # 1 is an exponential too
    ("t = Add (e, one) l = Log (t) y = Neg (l)", True),
    ("l = Log (e) y = Neg (l)", False),
    ("t = ReduceSum <keepdims = 0> (e, a) s = Add (t, one) l = Log (s) u = Unsqueeze (l, a) y = Sub (x, u)", False),
    ("m = Mul (e, z) t = ReduceSum (m, a) s = Add (eps, t) y = Div (m, s)", True),
    ("c = Cast <to = 9> (z) m = Where (c, e, nil) t = ReduceSum (m, a) y = Div (m, t)", True),
    ("c = Cast <to = 9> (z) m = Where (c, e, one) t = ReduceSum (m, a) y = Div (m, t)", False),  # 1 is of degree 0
    ("m = Mul (e, z) t = ReduceSum (m, a) y = Div (e, t)", False),  # what is masked may exceed the sum
    ("t = ReduceSum (e, a) d = Div (t, t) l = Log (e) y = Add (d, l)", True),
    ("t = ReduceSum (e, a) d = Div (e, t) y = Add (d, e)", False),
    ("t = ReduceSum (e, a) u = ReduceSum (e, b) d = Div (e, t) f = Div (e, u) y = Add (d, f)", False),  # two axes
    ("t = ReduceSum <keepdims = 0> (e, a) y = Div (e, t)", False),  # of other axes
    ("t = ReduceMax (e) y = Div (e, t)", False),
]


@pytest.mark.parametrize(("body", "is_one"), SOFTMAXES, ids=str)
def test_what_stays_the_same_if_a_number_is_subtracted_below_the_exponential(body: str, is_one: bool) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[4, 4] x, float16[4, 4] z) => (float16[4, 4] y)'
        f" {{ e = Exp (x) {body} }}"
    )
    constants = {
        "a": np.array([-1]),
        "b": np.array([0]),
        "eps": np.float16(1e-5),
        "one": np.float16(1),
        "nil": np.float16(0),
    }
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    exponential = next(iter(onnx_ir.from_proto(model).graph))
    assert (softmax_of(exponential) is not None) == is_one


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
    (found,) = run(result.proto, feeds)
    assert np.allclose(expected, found, rtol=1e-2)


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
    assert [found.code for found in result.diagnostics] == ["not-rescaled", "infinite-error"]
    healed = castsmith.convert(model, to="float16", inputs={"x": np.full(4, 20, np.float16)})
    assert healed.error is not None
    assert healed.error.worst < 1e-3


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


def test_rescale_is_for_float16() -> None:
    with pytest.raises(OptionError, match="`rescale` is for float16"):
        castsmith.convert(case_of("a plain").original(), to="bfloat16", rescale=True)
