"""Models that are in float16 already: what goes wrong in them is computed in float, and nothing else is changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx_ir import DataType

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.walks import all_nodes
from castsmith.lowering.faults import computes_in_half
from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules
from tests.lowering.healthy import HEALTHY_EXPORTS
from tests.lowering.shipped import BROKEN, HEALTHY, SIBLINGS, Case, draw, run

pytestmark = pytest.mark.usefixtures("engines_here")


def in_float(model: onnx_ir.Model) -> int:
    """The number of nodes that compute in float."""
    types = infer_element_types(model, PromotionRules())
    nodes = (node for node in all_nodes(model) if node.op_type not in ("Cast", "If", "Loop"))
    return sum(any(value.name and types.type_of(value) == DataType.FLOAT for value in node.outputs) for node in nodes)


def case_of(name: str) -> Case:
    return next(case for case in (*BROKEN, *HEALTHY) if case.name.startswith(name))


@pytest.mark.parametrize("case", BROKEN + SIBLINGS, ids=str)
def test_a_shipped_model_is_healed(case: Case) -> None:
    shipped, inputs = case.shipped(), case.inputs()
    assert case.error(shipped) > (0.5 if case.thread else 0.05)
    result = castsmith.convert(shipped, to="float16", inputs=inputs)
    proto = result.proto
    onnx.checker.check_model(proto, full_check=True)
    assert [value.type for value in (*proto.graph.input, *proto.graph.output)] == [
        value.type for value in (*shipped.graph.input, *shipped.graph.output)
    ]
    error, kept, few = case.error(proto), in_float(result.model), 0.12 * len(shipped.graph.node)
    assert error < case.limit
    assert kept > 0
    if kept > few or (case.thread and error > 1e-3):
        converted = castsmith.convert(case.original(), to="float16", inputs=inputs)
        assert error <= 2.1 * case.error(converted.proto) or error <= 1e-3 or not case.thread
        assert kept <= max(in_float(converted.model) + (not case.thread), few)
    assert result.error is not None
    assert result.error.worst < case.limit
    assert all(fault.reason for fault in result.faults)
    assert any(rewrite.rule == "convert-region" for rewrite in result.rewrites)


@pytest.mark.parametrize("case", HEALTHY, ids=str)
def test_a_healthy_model_is_not_changed(case: Case) -> None:
    shipped = case.shipped()
    assert case.error(shipped) < 5e-3
    result = castsmith.convert(shipped, to="float16", inputs=case.inputs())
    assert (result.rewrites, result.faults) == ([], ())
    assert not castsmith.diff(shipped, result.model)


def test_healthy_exports_are_not_changed() -> None:
    for number, case in enumerate(HEALTHY_EXPORTS):
        shipped, inputs = case.shipped(), case.inputs()
        assert case.error(shipped) < 5e-3, case.name
        for rescale in (False, True) if number % 4 == 0 else (False,):
            result = castsmith.convert(shipped, to="float16", inputs=inputs, rescale=rescale)
            assert (result.rewrites, result.faults, result.factors) == ([], (), {}), case.name
            assert not castsmith.diff(shipped, result.model), case.name


def test_a_healed_model_is_not_changed_again() -> None:
    case = case_of("RMSNorm")
    healed = castsmith.convert(case.shipped(), to="float16", inputs=case.inputs())
    again = castsmith.convert(healed.model, to="float16", inputs=case.inputs())
    assert healed.rewrites
    assert again.rewrites == []


def test_what_an_operator_adds_up_inside_counts_for_the_float_original() -> None:
    for name, operator in (("L2 normalization, whose", "ReduceL2"), ("L2 normalization by", "LpNormalization")):
        case = case_of(name)
        result = castsmith.convert(case.original(), to="float16", inputs=case.inputs())
        kept = [node for node, (dtype, _) in result.precisions.items() if dtype == DataType.FLOAT]
        assert [result.operators[node] for node in kept] == [operator]
        assert "the sum inside reaches" in result.precisions[kept[0]][1]
        assert case.error(result.proto) < 5e-3


def test_ranges_and_generated_inputs_find_faults_too() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[4, 8] x) => (float16[4, 8] y)'
        " { s = Mul (x, x) r = Sqrt (s) y = Neg (r) }"
    )
    mild = castsmith.convert(model, to="float16")
    wide = castsmith.convert(model, to="float16", ranges={"x": (-1000, 1000)})
    assert mild.rewrites == []
    assert {name for name, (dtype, _) in wide.precisions.items() if dtype == DataType.FLOAT} == {"s", "r"}


def test_an_output_that_float16_does_not_hold_is_an_error_with_the_next_step() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[4] x) => (float16[4] y)'
        " { a = Neg (x) b = Neg (a) y = Mul (b, x) }"
    )
    feeds = {"x": np.full(4, 1000, np.float16)}
    result = castsmith.convert(model, to="float16", inputs=feeds)
    (finding,) = result.diagnostics
    assert (finding.code, finding.severity.name) == ("infinite-error", "ERROR")
    assert "convert(to='float')" in finding.help
    assert castsmith.convert(model, to="float", inputs=feeds, keep_io_types=False).error is not None
    with pytest.raises(OptionError, match="is not reached: the error is inf"):
        castsmith.convert(model, to="float16", inputs=feeds, max_error=0.1)


def test_an_error_as_large_as_the_largest_allowed_is_reached() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[4] x) => (float16[4] y) { y = Sqrt (x) }'
    )
    feeds = {"x": np.array([2, 3, 5, 7], np.float16)}
    measured = castsmith.convert(model, to="float16", inputs=feeds).error
    assert measured is not None
    assert measured.worst > 0
    assert castsmith.convert(model, to="float16", inputs=feeds, max_error=measured.worst).error == measured
    with pytest.raises(OptionError, match="is not reached"):
        castsmith.convert(model, to="float16", inputs=feeds, max_error=math.nextafter(measured.worst, 0))


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        ({"io": "convert"}, "let inputs and outputs keep their types"),
        ({"io": "convert", "lower": ["*"]}, "let inputs and outputs keep their types"),
        ({"lower": ["*"]}, "convert without `lower`"),
        ({}, ""),
    ],
)
def test_what_makes_an_output_infinite_is_to_be_left_out(options: dict[str, Any], way_out: str) -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Mul (x, x) }'
    feeds = {"x": np.array([1, 400], np.float32)}
    result = castsmith.convert(onnx.parser.parse_model(text), to="float16", inputs=feeds, **options)
    assert [finding.help for finding in result.diagnostics if finding.code == "infinite-error"] == [way_out] * bool(
        way_out
    )


def test_patterns_keep_nodes_in_float16() -> None:
    case = case_of("RMSNorm")
    kept = castsmith.convert(case.shipped(), to="float16", inputs=case.inputs(), keep="op:Pow,op:Sqrt,op:Add")
    assert {kept.operators[n] for n, (dtype, _) in kept.precisions.items() if dtype == DataType.FLOAT} <= {"ReduceMean"}


def nested() -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A norm in a branch and another in a function, whose squares overflow."""
    branch = "{ s = Mul (x, x) m = ReduceMean <axes = [-1]> (s) r = Sqrt (m) n = Div (x, r) }"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float16[4, 8] x, bool c) => (float16[4, 8] y) {{
            a = If (c) <then_branch = t () => (float16[4, 8] n) {branch},
                        else_branch = e () => (float16[4, 8] z) {{ z = Neg (x) }}>
            y = own.norm (a)
        }}
        <domain: "own", opset_import: ["": 17]>
        norm (v) => (w) {{ big = Add (v, v) s = ReduceSumSquare <axes = [-1]> (big) t = Sqrt (s) w = Div (v, t) }}"""
    )
    return model, {"x": (draw(4, 8) * 1000).astype(np.float16), "c": np.array(True)}


def test_values_in_subgraphs_and_functions_are_found() -> None:
    model, feeds = nested()
    result = castsmith.convert(model, to="float16", inputs=feeds)
    assert {fault.name for fault in result.faults} >= {"s", "m", "r"}
    assert result.error is not None
    assert result.error.worst < 5e-3


def blocks() -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Blocks of one function, whose stream grows beyond float16, and a norm whose names the main graph has too."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float16[2, 6, 32] x) => (float16[2, 6, 32] y) {
            m = MatMul (x, w1) t = own.block (m, w0) u = own.block (t, w0) v = own.block (u, w0) n = own.norm (v)
            y = MatMul (n, w1)
        }
        <domain: "own", opset_import: ["": 17]>
        norm (v) => (d) { q = Mul (v, v) m = ReduceMean <axes = [-1]> (q) t = Sqrt (m) d = Div (v, t) }
        <domain: "own", opset_import: ["": 17, "own": 1]>
        block (s, a) => (t) { n = own.norm (s) d = MatMul (n, a) t = Add (s, d) }"""
    )
    weights = {"w0": draw(32, 32, scale=8000), "w1": draw(32, 32, scale=0.2)}
    model.graph.initializer.extend(numpy_helper.from_array(w.astype(np.float16), n) for n, w in weights.items())
    return model, {"x": draw(2, 6, 32).astype(np.float16)}


def test_calls_are_healed_inside_and_not_as_a_whole() -> None:
    model, feeds = blocks()
    result = castsmith.convert(model, to="float16", inputs=feeds)
    assert {(fault.name, fault.node.op_type) for fault in result.faults} >= {
        ("d", "MatMul"),
        ("t", "Add"),
        ("q", "Mul"),
    }
    assert not any(fault.node.domain == "own" for fault in result.faults)
    products = [node for node in result.model.graph if node.op_type == "MatMul"]
    types = infer_element_types(result.model, PromotionRules())
    assert [types.type_of(node.outputs[0]) for node in products] == [DataType.FLOAT16] * 2
    assert result.error is not None
    assert result.error.worst < 5e-3


def four_bits() -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A feed-forward of 4-bit weights, dequantized to float16, whose sum of squares overflows."""
    rng = np.random.default_rng(5)
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["w"], axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node(
            "MatMulNBits", ["h", "b", "scales"], ["u"], domain="com.microsoft", K=32, N=32, bits=4, block_size=32
        ),
        helper.make_node("Mul", ["u", "u"], ["s"]),
        helper.make_node("ReduceMean", ["s", "axes"], ["m"]),
        helper.make_node("Sqrt", ["m"], ["r"]),
        helper.make_node("Div", ["u", "r"], ["y"]),
    ]
    half, four = onnx.TensorProto.FLOAT16, onnx.TensorProto.UINT4
    codes = helper.make_tensor("codes", four, [32, 32], rng.integers(0, 16, 1024).tolist())
    zero = helper.make_tensor("zero", four, [2, 32], [8] * 64)
    weights = [
        numpy_helper.from_array(np.full((2, 32), 0.5, np.float16), "scale"),
        numpy_helper.from_array(rng.integers(0, 256, (32, 1, 16)).astype(np.uint8), "b"),
        numpy_helper.from_array(np.full((32, 1), 2, np.float16), "scales"),
        numpy_helper.from_array(np.array([-1]), "axes"),
    ]
    io = [helper.make_tensor_value_info(name, half, [4, 32]) for name in "xy"]
    graph = helper.make_graph(nodes, "four", io[:1], io[1:], [codes, zero, *weights])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {"x": draw(4, 32, scale=4).astype(np.float16)}


def generator() -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Two feed-forwards as ONNX Runtime's builder of language models writes them, whose stream exceeds float16."""
    rng = np.random.default_rng(6)
    nodes = [helper.make_node("SimplifiedLayerNormalization", ["x", "g0"], ["n0"], epsilon=1e-6, axis=-1)]
    weights: dict[str, np.ndarray] = {"g0": np.ones(32, np.float16)}
    stream, ms = "x", "com.microsoft"
    sizes: dict[str, Any] = {"K": 32, "N": 32, "bits": 4, "block_size": 32}
    for block in range(2):
        for name, scale in (("u", 0.3), ("d", 300)):
            weights[f"{name}{block}_b"] = rng.integers(0, 256, (32, 1, 16)).astype(np.uint8)
            weights[f"{name}{block}_s"] = np.full(32, scale, np.float16)
        weights[f"g{block + 1}"] = np.ones(32, np.float16)
        up = [f"n{block}", f"u{block}_b", f"u{block}_s"], [f"u{block}"]
        down = [f"r{block}", f"d{block}_b", f"d{block}_s"], [f"d{block}"]
        skip = [stream, f"d{block}", f"g{block + 1}"], [f"n{block + 1}", "", "", f"s{block}"]
        nodes += [
            helper.make_node("MatMulNBits", *up, domain=ms, **sizes),
            helper.make_node("Relu", [f"u{block}"], [f"r{block}"]),
            helper.make_node("MatMulNBits", *down, domain=ms, **sizes),
            helper.make_node("SkipSimplifiedLayerNormalization", *skip, domain=ms, epsilon=1e-6),
        ]
        stream = f"s{block}"
    nodes.append(helper.make_node("Neg", ["n2"], ["y"]))
    io = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, [4, 32]) for name in "xy"]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ms, 1)]
    graph = helper.make_graph(nodes, "generator", io[:1], io[1:], tensors)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {"x": draw(4, 32).astype(np.float16)}


def test_operators_of_onnx_runtime_are_healed() -> None:
    model, feeds = generator()
    result = castsmith.convert(model, to="float16", inputs=feeds)
    assert {fault.name for fault in result.faults} >= {"d0", "d1"}
    assert result.error is not None
    assert result.error.worst < 5e-3
    assert castsmith.bounds(model, inputs=feeds)["d0"].magnitude > 65504


def test_four_bit_models_with_float16_arithmetic() -> None:
    model, feeds = four_bits()
    assert computes_in_half(onnx_ir.from_proto(model))
    result = castsmith.convert(model, to="float16", inputs=feeds)
    floats = {name for name, (dtype, _) in result.precisions.items() if dtype == DataType.FLOAT}
    assert floats == {"s", "m", "r"}
    assert result.error is not None
    assert result.error.worst < 5e-3
    assert {tensor.name for tensor in result.proto.graph.initializer} == {t.name for t in model.graph.initializer}


def test_healthy_four_bit_models_are_not_changed() -> None:
    model, feeds = four_bits()
    for scales in (tensor for tensor in model.graph.initializer if tensor.name in ("scale", "scales")):
        small = (numpy_helper.to_array(scales) / 16).astype(np.float16)
        scales.CopyFrom(numpy_helper.from_array(small, scales.name))
    for rescale in (False, True):
        result = castsmith.convert(model, to="float16", inputs=feeds, rescale=rescale)
        assert (result.rewrites, result.faults) == ([], ())
        assert result.error is not None
        assert result.error.worst < 5e-3


def test_models_in_float_or_without_arithmetic_are_not_healed() -> None:
    case = case_of("a plain network")
    assert not computes_in_half(onnx_ir.from_proto(case.original()))
    assert computes_in_half(onnx_ir.from_proto(case.shipped()))
    assert run(case.original(), case.inputs())


def test_sums_count_as_the_target_adds_them_up() -> None:
    norm = case_of("L2 normalization, whose").shipped()
    feeds = case_of("L2 normalization, whose").inputs()
    reasons = {
        target: [fault.reason for fault in castsmith.convert(norm, to="float16", inputs=feeds, target=target).faults]
        for target in (None, "tensorrt-10", "onnxruntime-cpu", "openvino-cpu")
    }
    (plain,), (unknown,) = reasons[None], reasons["tensorrt-10"]
    assert plain.endswith("(measured)")
    assert unknown.endswith("(measured); whether tensorrt-10 adds up in float16 is unknown")
    assert reasons["onnxruntime-cpu"] == reasons["openvino-cpu"] == []


def test_a_product_of_matrices_whose_sums_overflow_where_the_target_adds_up_in_float16() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float16[2, 8] x) => (float16[2, 3] y) { y = MatMul (x, w) }'
    )
    weights = np.full((8, 3), 1, np.float16)
    weights[4:] = -1
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    feeds = {"x": np.full((2, 8), 20000, np.float16)}
    for target, places in ((None, 0), ("onnxruntime-cpu", 0), ("onnxruntime-webgpu", 1)):
        result = castsmith.convert(model, to="float16", inputs=feeds, target=target)
        assert len(result.faults) == in_float(result.model) == places, target
    fault = castsmith.convert(model, to="float16", inputs=feeds, target="onnxruntime-webgpu").faults[0]
    assert fault.reason == "y fits float16, but the sum inside reaches 80000 (measured)"
    scaled = castsmith.convert(model, to="float16", inputs=feeds, target="onnxruntime-webgpu", rescale=True)
    assert (in_float(scaled.model), scaled.error is not None and scaled.error.worst) == (0, 0.0)


@pytest.mark.parametrize(
    "node",
    [
        "y = Conv (x, w)",
        "t = Transpose <perm = [1, 0, 2]> (w) y = ConvTranspose (x, t)",
        "f = Flatten (x) w2 = Flatten (w) y = Gemm <transB = 1> (f, w2)",
    ],
)
def test_sums_inside_of_convolutions_and_gemm(node: str) -> None:
    out = "[2, 3, 1]" if "Conv" in node else "[2, 3]"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float16[2, 8, 1] x) => (float16{out} y) {{ {node} }}'
    )
    weights = np.full((3, 8, 1), 1, np.float16)
    weights[:, 4:] = -1
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    feeds = {"x": np.full((2, 8, 1), 20000, np.float16)}
    half = castsmith.Target("half", sums={"*": "float16"})
    assert castsmith.convert(model, to="float16", inputs=feeds).faults == ()
    (fault,) = castsmith.convert(model, to="float16", inputs=feeds, target=half).faults
    assert fault.reason == "y fits float16, but the sum inside reaches 80000 (measured)"
    scaled = castsmith.convert(model, to="float16", inputs=feeds, target=half, rescale=True)
    assert (in_float(scaled.model), scaled.error is not None and scaled.error.worst) == (0, 0.0)
