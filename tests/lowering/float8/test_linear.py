"""Legal graphs of QuantizeLinear and DequantizeLinear on float8 that ONNX Runtime fuses into what it has no kernel for,
or into something else (microsoft/onnxruntime#22269): lowered they load at every level, with the reference's bits."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from onnx_ir import DataType

import castsmith
from models.proof import first_difference
from tests.evaluator import evaluate
from tests.sampling import check_all, sampled
from tests.versions import ONNXRUNTIME

pytestmark = pytest.mark.usefixtures("engines_here")

Array = np.ndarray[Any, Any]
LEVELS = ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]
# All operands are multiples of 1/8 with few bits, so that every product and sum is exact in any order.
OPERATIONS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "Gemm": ("Gemm <transB = 1> (a, b)", (4, 8), (6, 8)),
    "MatMul": ("MatMul (a, b)", (4, 8), (8, 6)),
    "Conv": ("Conv (a, b)", (1, 2, 5, 5), (3, 2, 3, 3)),
    "Add": ("Add (a, b)", (4, 8), (4, 8)),
    "Mul": ("Mul (a, b)", (4, 8), (4, 8)),
    "Concat": ("Concat <axis = 0> (a, b)", (4, 8), (4, 8)),
    "Where": ("Where (k, a, b)", (4, 8), (4, 8)),
    "MaxPool": ("MaxPool <kernel_shape = [2, 2]> (a)", (1, 2, 3, 3), ()),
    "AveragePool": ("AveragePool <kernel_shape = [2, 2]> (a)", (1, 2, 3, 3), ()),
    "LeakyRelu": ("LeakyRelu <alpha = 0.25> (a)", (4, 8), ()),
    "Relu": ("Relu (a)", (4, 8), ()),
    "Clip": ("Clip (a, low, high)", (4, 8), ()),
    "Transpose": ("Transpose (a)", (4, 8), ()),
    "Reshape": ("Reshape (a, flat)", (4, 8), ()),
    "Resize": ("Resize <mode = 'nearest'> (a, , scales)", (1, 1, 2, 3), ()),
}


@cache
def model_of(name: str, dtype: DataType, weights: bool, tail: bool) -> onnx.ModelProto:
    """op(DQ(Q(a)), DQ(Q(b))): `weights` if b is a constant already quantized, `tail` if its result has Q and DQ."""
    operation, shape, shape_b = OPERATIONS[name]
    dims = ",".join(map(str, shape))
    unknown = ",".join(f"D{axis}" for axis in range(2 if name == "Reshape" else len(shape)))
    inputs = [f"float[{dims}] a0"] + ([] if weights or not shape_b else [f"float[{','.join(map(str, shape_b))}] b0"])
    b = "" if not shape_b else "b = DequantizeLinear (bq, s, zero)"
    b = b if weights or not shape_b else f"bq = QuantizeLinear (b0, s, zero) {b}"
    k = "k = Less (a, b)" if "k," in operation else ""
    end = "yq = QuantizeLinear (r, s, zero) y = DequantizeLinear (yq, s, zero)" if tail else "y = Identity (r)"
    operation = operation.replace("'", '"')
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 20]>
    qdq ({", ".join(inputs)}) => (float[{unknown}] y)
    <float s = {{0.25}}, float low = {{-0.5}}, float high = {{0.5}}, int64[2] flat = {{2, 16}},
     float[4] scales = {{1, 1, 2, 2}}> {{
        aq = QuantizeLinear (a0, s, zero) a = DequantizeLinear (aq, s, zero) {b} {k}
        r = {operation} {end}
    }}""")
    tensors = {"zero": np.zeros((), dtype.numpy())}
    if weights and shape_b:
        tensors["bq"] = (numbers(shape_b, 1) * 4).astype(dtype.numpy())
    model.graph.initializer.extend(onnx_ir.to_proto(onnx_ir.tensor(v, dtype=dtype, name=k)) for k, v in tensors.items())
    used = {value for node in model.graph.node for value in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.checker.check_model(model, full_check=True)
    return model


def numbers(shape: tuple[int, ...], seed: int) -> Array:
    return (np.random.default_rng(seed).integers(-12, 13, shape) / 8).astype(np.float32)


def feeds(name: str, weights: bool) -> dict[str, Array]:
    _, shape, shape_b = OPERATIONS[name]
    b = {} if weights or not shape_b else {"b0": numbers(shape_b, 4)}
    return {"a0": numbers(shape, 2), **b}


@cache
def expected(name: str, dtype: DataType, weights: bool, tail: bool) -> Array:
    """Return the meaning of the model without zero points: runtimes do not add a zero point of 0."""
    model = onnx.ModelProto()
    model.CopyFrom(model_of(name, dtype, weights, tail))
    model.opset_import[0].version = 21
    for node in model.graph.node:
        if "zero" in node.input:
            node.input.remove("zero")
            if node.op_type == "QuantizeLinear":
                node.attribute.append(onnx.helper.make_attribute("output_dtype", int(dtype)))
    return evaluate(onnx_ir.from_proto(model), feeds(name, weights))[0]


def session(model: onnx.ModelProto, level: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("name", "dtype", "target"),
    sampled(
        "operators between Q and DQ",
        itertools.product(
            OPERATIONS, [DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2FNUZ], ["onnxruntime-cpu", "onnxruntime-android"]
        ),
        10,
        cover=enumerate,
    ),
)
def test_lowered_it_runs_at_every_level(name: str, dtype: DataType, target: str):
    for weights, tail in itertools.product((False, True), repeat=2):
        lowered = onnx_ir.to_proto(castsmith.optimize(model_of(name, dtype, weights, tail), target=target).model)
        wanted = {"y": expected(name, dtype, weights, tail)}
        for level in LEVELS:
            (found,) = session(lowered, level).run(None, feeds(name, weights))
            assert first_difference({"y": np.asarray(found)}, wanted) == "", (level, weights, tail)


@pytest.mark.skipif(ONNXRUNTIME != (1, 32), reason="what is stated is of 1.32")
def test_what_onnxruntime_makes_of_the_originals():
    """At its default level it refuses Clip and takes Relu away: right for uint8, wrong for float8."""
    refused, wrong = set[str](), set[str]()
    for name, weights, tail in itertools.product(OPERATIONS, (False, True), (False, True)):
        try:
            opened = session(model_of(name, DataType.FLOAT8E4M3FN, weights, tail), LEVELS[-1])
        except Exception:  # ONNX Runtime raises a class of its own for each of its status codes
            refused.add(name)
            continue
        found = {"y": np.asarray(opened.run(None, feeds(name, weights))[0])}
        if first_difference(found, {"y": expected(name, DataType.FLOAT8E4M3FN, weights, tail)}):
            wrong.add(name)
    assert refused == {"Clip"}
    assert wrong == {"Relu"}


@pytest.mark.parametrize("source", ["float", "int32", "int64"])
@pytest.mark.parametrize("to", [21, 22, 25, 26])
@pytest.mark.parametrize("target", ["onnxruntime-wasm", "openvino-gpu", "iree"])
def test_casts_to_small_integers_leave_no_chain_of_casts(target: str, to: int, source: str) -> None:
    """Their codes are masked, so their range is known, and what decodes them needs no second cast."""
    text = f"g ({source}[N] x) => ({source}[N] y) {{ c = Cast <to = {to}> (x) y = CastLike (c, x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {25 if to > 24 else 21}]> {text}')
    result = castsmith.optimize(model, target=target)
    assert [each.reason for each in result.refusals if "uint8" in each.reason] == []
    assert {"Mod", "BitwiseAnd"} & {node.op_type for node in result.model.graph}


# The shape of x, that of its scale, attributes, and the operator that spreads the scale.
GRANULARITIES = [
    ("2,3", "", "", ""),
    ("2,3", "1", "", "Reshape"),
    ("2,3", "2", "axis = 0", "Reshape"),
    ("2,3", "3", "axis = 1", ""),
    ("2,3", "3", "axis = -1", ""),
    ("3", "3", "axis = 0", ""),
    ("2,3,2", "3", "", "Reshape"),
    ("2,4", "2,2", "axis = 1, block_size = 2", "Gather"),
    ("4,2", "2,2", "axis = 0, block_size = 2", "Gather"),
    ("2", "1", "axis = 0, block_size = 2", "Gather"),
]


def require_spread(shape: str, scales: str, attributes: str, operator: str) -> None:
    count = int(np.prod([int(each) for each in scales.split(",") if each]))
    constant = f"float{f'[{scales}]' * bool(scales)} s = {{{', '.join(str(0.5 + n) for n in range(count))}}}"
    quantizer = ", ".join(filter(None, (attributes, "output_dtype = 17")))
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]> g (float[{shape}] x) => (float8e4m3fn[{shape}] y) <{constant}>
        {{ y = QuantizeLinear <{quantizer}> (x, s) }}"""
    )
    result = castsmith.optimize(model, target="onnxruntime-android")
    onnx.checker.check_model(result.proto, full_check=True)
    first, quotient = result.proto.graph.node[0], next(n for n in result.proto.graph.node if n.op_type == "Div")
    assert (first.op_type if first.output[0] in quotient.input else "") == operator
    sizes = [int(each) for each in shape.split(",")]
    given = {"x": (np.arange(np.prod(sizes)).reshape(sizes) * 1.7 - 3).astype(np.float32)}
    (before,), (after,) = evaluate(onnx_ir.from_proto(model), given), evaluate(result.model, given)
    assert before.tobytes() == after.tobytes()


def test_a_scale_of_each_granularity_is_spread() -> None:
    check_all(require_spread, GRANULARITIES)
