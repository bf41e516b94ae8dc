"""Standard operators in those of com.microsoft: the bytes of ONNX Runtime's quantizer, and the bits of its kernels."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

import castsmith
from castsmith.lowering import UseVendor
from castsmith.numerics.errors import OptionError
from castsmith.passes.core.options import Vendor
from castsmith.targets.target import load_target
from tests.lowering.quantized.random_products import MICROSOFT, TYPES, WITHOUT, blocked_model, check
from tests.lowering.runtime import LEVELS, errors, run, session
from tests.sampling import SEED, sampled, shortened

needs_opset_25 = pytest.mark.skipif(onnx.defs.onnx_opset_version() < 25, reason="onnx has no int2")


@needs_opset_25
@pytest.mark.parametrize("number", range(shortened("random products of quantized weights", 40, 12)))
def test_random_products_from_each_form_to_the_other(number: int) -> None:
    """Another draw in each run of what `python -m tests.lowering.quantized.random_products 2000` takes."""
    check(40 * random.Random(f"{SEED} {number}").randrange(1000) + number)


def written(model: onnx.ModelProto, **options: Any) -> tuple[onnx.ModelProto, list[str]]:
    """Return the model with operators of com.microsoft, which `check` accepts, and the reasons of what was refused."""
    result = castsmith.optimize(model, **{**MICROSOFT, **options})
    assert not errors(result.model, target=MICROSOFT["target"])
    return onnx_ir.to_proto(result.model), [each.reason for each in result.refusals if each.pass_name == "use-vendor"]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_kernel_multiplies_by_the_dequantized_weights(name: str, points: bool, transposed: bool) -> None:
    if onnx.defs.onnx_opset_version() < TYPES[name][2]:
        pytest.skip("onnx has no such type")
    sizes = ((70, 5, 32), (64, 3, 64), (33, 4, 16), (20, 2, 128))
    for size in sampled(f"sizes of blocked weights [{name} {points} {transposed}]", sizes, 2):
        model, weight = blocked_model(name, transposed=transposed, points=points, size=size)
        new, refused = written(model)
        assert not refused
        assert [node.op_type for node in new.graph.node] == ["MatMulNBits"]
        assert len(new.graph.node[0].input) == (4 if points or not TYPES[name][1] else 3)
        for x in (np.eye(size[0], dtype=np.float32), np.ones((1, size[0]), np.float32)):
            for level in LEVELS:
                np.testing.assert_array_equal(run(session(new, level), {"x": x})[0], x @ weight)


def test_it_is_done_on_request_alone() -> None:
    model, _ = blocked_model("int4", size=(640, 50, 32))
    kept = castsmith.optimize(model, target="onnxruntime-cpu")
    assert not kept.rewrites
    for spec in ("use-vendor", "use-vendor{vendor=com.microsoft}"):
        passes = castsmith.optimize(model, target="onnxruntime-cpu", passes=[spec])
        assert bool(passes.rewrites) == ("{" in spec)
    result = castsmith.optimize(model, **MICROSOFT)
    assert [(each.rule, each.effect) for each in result.rewrites] == [("use-matmul-nbits", castsmith.Effect.AS_DEFINED)]
    assert not castsmith.optimize(result.model, **MICROSOFT).rewrites


def test_a_function_without_the_operators_imports_no_domain() -> None:
    model, _ = blocked_model("int4")
    nodes = [helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(helper.make_function("local", "Negative", ["a"], ["b"], nodes, model.opset_import))
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.graph.node.append(helper.make_node("Negative", [model.graph.output[0].name], ["z"], domain="local"))
    model.graph.output.append(helper.make_tensor_value_info("z", 1, None))
    (function,) = written(model)[0].functions
    assert [imported.domain for imported in function.opset_import] == [""]


def product(x: str, w: str, y: str) -> onnx.NodeProto:
    return helper.make_node("MatMul", [x, w], [y])


def test_products_that_share_a_weight_share_its_bytes() -> None:
    nodes = [helper.make_node("Add", ["x", "x"], ["t"]), product("x", "w", "a"), product("t", "w", "b")]
    model, weight = blocked_model("uint4", points=True, nodes=[*nodes, helper.make_node("Add", ["a", "b"], ["y"])])
    new, _ = written(model)
    assert [node.op_type for node in new.graph.node] == ["Add", "MatMulNBits", "MatMulNBits", "Add"]
    assert new.graph.node[1].input[1:] == new.graph.node[2].input[1:]
    assert len(new.graph.initializer) == 3
    x = np.eye(70, dtype=np.float32)
    np.testing.assert_array_equal(run(session(new), {"x": x})[0], 3 * x @ weight)


@pytest.mark.parametrize(("turned", "by_gemm"), [(False, False), (True, False), (True, True)])
def test_gemm_without_factors(turned: bool, by_gemm: bool) -> None:
    c = helper.make_tensor_value_info("c", 1, [5])
    for alpha in (1.0, 2.0):
        gemm = helper.make_node("Gemm", ["x", "d" if by_gemm else "w", "c"], ["y"], alpha=alpha, transB=int(by_gemm))
        model, weight = blocked_model("int4", transposed=turned, nodes=[gemm], inputs=[c])
        if by_gemm:
            del model.graph.node[1]
        new, refused = written(model)
        assert not refused
        if alpha != 1:
            assert "MatMulNBits" not in {node.op_type for node in new.graph.node}
            continue
        assert [node.op_type for node in new.graph.node] == ["MatMulNBits", "Add"]
        given = {"x": np.eye(70, dtype=np.float32), "c": np.arange(5, dtype=np.float32)}
        np.testing.assert_array_equal(run(session(new), given)[0], weight + given["c"])


def branch(name: str, nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(nodes[-1].output[0], 1, None)])


def test_in_both_branches_of_if_with_one_copy_of_the_weight() -> None:
    yes = branch("yes", [product("x", "w", "p")])
    no = branch("no", [helper.make_node("Neg", ["x"], ["n"]), product("n", "w", "q_no")])
    chosen = helper.make_node("If", ["first"], ["y"], then_branch=yes, else_branch=no)
    first = helper.make_tensor_value_info("first", onnx.TensorProto.BOOL, [])
    model, weight = blocked_model("int4", nodes=[chosen], inputs=[first])
    new, refused = written(model)
    assert not refused
    assert [node.op_type for node in new.graph.node] == ["If"]
    assert len(new.graph.initializer) == 2
    x = np.eye(70, dtype=np.float32)
    for first_one, sign in ((True, 1), (False, -1)):
        (got,) = run(session(new), {"x": x, "first": np.array(first_one)})
        np.testing.assert_array_equal(got, sign * weight)


def test_in_a_function_and_in_a_loop() -> None:
    inside, weight = blocked_model("uint4", points=True)
    held = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in inside.graph.initializer]
    imports = list(inside.opset_import)
    function = helper.make_function("local", "Linear", ["x"], ["y"], [*held, *inside.graph.node], imports)
    body = helper.make_graph(
        [helper.make_node("Linear", ["x"], ["each"], domain="local"), helper.make_node("Identity", ["go"], ["again"])],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("again", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("each", 1, None),
        ],
    )
    loop = helper.make_node("Loop", ["n", ""], ["y"], body=body)
    n = numpy_helper.from_array(np.array(2), "n")
    graph = helper.make_graph([loop], "g", list(inside.graph.input), list(inside.graph.output), [n])
    model = helper.make_model(
        graph, opset_imports=[*imports, helper.make_opsetid("local", 1)], functions=[function], ir_version=10
    )
    new, refused = written(model)
    assert not refused
    assert [node.op_type for node in new.functions[0].node if node.domain] == ["MatMulNBits"]
    assert {each.domain for each in new.functions[0].opset_import} == {"", "com.microsoft"}
    x = np.eye(70, dtype=np.float32)
    np.testing.assert_array_equal(run(session(new), {"x": x})[0], np.stack([weight, weight]))


def test_scales_that_are_computed_stay_in_the_graph() -> None:
    model, weight = blocked_model("int4")
    scales = next(tensor for tensor in model.graph.initializer if tensor.name == "s")
    model.graph.initializer.remove(scales)
    model.graph.input.append(helper.make_tensor_value_info("s", 1, scales.dims))
    new, _ = written(model)
    assert [node.op_type for node in new.graph.node] == ["Transpose", "MatMulNBits"]
    x = np.eye(70, dtype=np.float32)
    np.testing.assert_array_equal(run(session(new), {"x": x, "s": numpy_helper.to_array(scales)})[0], weight)


def dequantized(name: str, **given: Any) -> onnx.ModelProto:
    return blocked_model(name, **given)[0]


def with_attribute(model: onnx.ModelProto, **values: int) -> onnx.ModelProto:
    for each in model.graph.node[0].attribute:
        each.i = values.get(each.name, each.i)
    return model


def with_input(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Return the model with an initializer as an input that may change."""
    held = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    model.graph.input.append(helper.make_tensor_value_info(name, held.data_type, held.dims))
    model.graph.initializer.remove(held)
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (dequantized("int4", size=(64, 4, 8)), "blocks of 8: MatMulNBits takes powers of two from 16 on"),
        (dequantized("int4", size=(96, 4, 48)), "blocks of 48: MatMulNBits takes powers of two from 16 on"),
        (
            with_attribute(dequantized("int4", size=(32, 32, 32), nodes=[product("x", "w", "y")]), axis=1),
            "the blocks lie along the outputs of the product, not along its sums",
        ),
        (with_input(dequantized("int4"), "q"), "q is not a constant matrix, so it cannot be packed"),
        (
            with_input(dequantized("uint4", points=True), "z"),
            "the zero points z are not constant, so they cannot be packed",
        ),
        (
            dequantized(
                "int4", nodes=[product("x", "w", "p"), helper.make_node("Add", ["p", "w"], ["y"], name="tied")]
            ),
            "q is also used by Add tied, so that it would be stored twice",
        ),
    ],
)
def test_products_that_are_refused(model: onnx.ModelProto, reason: str) -> None:
    result = castsmith.optimize(model, **MICROSOFT, passes=["use-vendor"])
    assert not result.rewrites
    assert [each.reason for each in result.refusals] == [reason]


def test_bfloat16_has_no_kernel_and_products_of_other_weights_are_left() -> None:
    model = dequantized("int4")
    bfloat16 = castsmith.convert(model, to="bfloat16", keep_io_types=False).model
    reasons = [each.reason for each in castsmith.optimize(bfloat16, **MICROSOFT, passes=["use-vendor"]).refusals]
    assert reasons == ["onnxruntime-cpu has no com.microsoft.MatMulNBits of bfloat16"]
    plain = helper.make_graph(
        [product("x", "w", "y")],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 2])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")],
    )
    result = castsmith.optimize(helper.make_model(plain, opset_imports=[helper.make_opsetid("", 21)]), **MICROSOFT)
    assert not result.refusals


OLD = replace(load_target("onnxruntime-cpu"), name="onnxruntime-1.16", newest_opset=17, newest_ir_version=10)
"""A target whose opset lacks QuantizeLinear of 16 bits and of int4; ONNX Runtime of today runs its models too."""


@pytest.mark.parametrize("name", ["uint16", "int16", "uint4", "int4"])
@pytest.mark.parametrize(("shape", "axis"), [((), None), ((4,), 0), ((30,), -1)])
def test_quantizers_below_their_opset(name: str, shape: tuple[int, ...], axis: int | None) -> None:
    rng, dtype = np.random.default_rng(len(name)), np.dtype(getattr(ml_dtypes, name, name))
    x = rng.normal(0, 60, (4, 30)).astype(np.float32)
    layout: dict[str, Any] = {} if axis is None else {"axis": axis}
    scale, zero = rng.uniform(0.01, 20, shape).astype(np.float32), rng.integers(0, 7, shape).astype(dtype)
    code = helper.np_dtype_to_tensor_dtype(zero.dtype)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **layout),
        helper.make_node("QuantizeLinear", ["x", "s"], ["p"], output_dtype=code, **layout),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"], **layout),
        helper.make_node("DequantizeLinear", ["p", "s"], ["b"], **layout),
        helper.make_node("Sub", ["a", "b"], ["y"]),
    ]
    held = [onnx_ir.to_proto(onnx_ir.tensor(array, name=key)) for key, array in (("s", scale), ("z", zero))]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info(each, 1, None) for each in ("a", "b", "y")],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert not any(node.domain for node in castsmith.optimize(model, target=OLD).model.graph)
    result = castsmith.optimize(model, target=OLD, vendor="com.microsoft")
    assert not errors(result.model, target=OLD)
    assert result.model.opset_imports[""] == 17
    assert [node.domain for node in result.model.graph] == ["com.microsoft"] * 4 + [""]
    new = onnx_ir.to_proto(result.model)
    for level in LEVELS:
        for got, wanted in zip(run(session(new, level), {"x": x}), run(session(model, level), {"x": x}), strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
    back = castsmith.optimize(new, target=WITHOUT, passes=["lower-custom"]).model
    assert not any(node.domain for node in back.graph)


@pytest.mark.parametrize(
    ("floats", "layout", "reason"),
    [
        (np.float16, {}, "com.microsoft.QuantizeLinear rounds other types than float in another place"),
        (np.float32, {"axis": 0, "block_size": 2}, "com.microsoft.QuantizeLinear has no blocks"),
    ],
)
def test_quantizers_that_are_refused(floats: Any, layout: dict[str, Any], reason: str) -> None:
    scale = np.ones((2, 30) if layout else (), floats)
    quantize = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=onnx.TensorProto.UINT16, **layout)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(floats)), [4, 30])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.UINT16, None)
    graph = helper.make_graph([quantize], "g", [x], [y], [numpy_helper.from_array(scale, "s")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    result = castsmith.optimize(model, target=OLD, vendor="com.microsoft", passes=["use-vendor"])
    assert [each.reason for each in result.refusals] == [reason]


def test_a_model_that_defines_an_operator_of_the_vendor_is_left() -> None:
    model = dequantized("int4")
    body = [helper.make_node("Identity", ["a"], ["b"])]
    imports = [helper.make_opsetid("", 21)]
    model.functions.append(helper.make_function("com.microsoft", "MatMulNBits", ["a"], ["b"], body, imports))
    result = castsmith.optimize(model, **MICROSOFT, passes=["use-vendor"])
    assert [each.reason for each in result.refusals] == ["the model defines operators of com.microsoft"]
    assert not result.rewrites


def test_targets_that_do_not_run_the_operators() -> None:
    model = dequantized("int4")
    vendors: list[tuple[str, Vendor]] = [
        ("tflite", "com.microsoft"),
        ("onnxruntime-cpu", "trt"),
        ("tensorrt-11", "com.microsoft"),
    ]
    for target, vendor in vendors:
        with pytest.raises(
            OptionError, match=f"^operators of {vendor} .* need a target that runs them, unlike {target}.$"
        ):
            castsmith.optimize(model, target=target, vendor=vendor)
    with pytest.raises(OptionError, match="vendor needs a target that runs operators of that domain"):
        castsmith.optimize(model, vendor="com.microsoft")
    with pytest.raises(OptionError, match=r"^operators of trt .* need a target that runs them.$"):
        UseVendor("trt")(onnx_ir.from_proto(model))
