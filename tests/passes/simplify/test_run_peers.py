"""Known errors of other optimizers and runtimes with casts: optimize keeps every bit.

Each row: what goes wrong elsewhere and where, a model, its inputs, and the values that come out when every cast is
computed by exact arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.numerics.promotion.rules import PromotionRules
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for
from tests.passes.place.place_regions import random_model
from tests.sampling import sampled

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
_NAN, _INF = float("nan"), float("inf")

ROWS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "onnxsim, onnxslim, graphsurgeon: float8 constant becomes UINT8": (
        "g () => (float[3] z) <float[3] w = {1, -2.5, 0.3}, float s = {1}> "
        "{ a = Cast <to = 17> (w) z = DequantizeLinear (a, s) }",
        {},
        [1, -2.5, 0.3125],
    ),
    "onnxslim: bfloat16 constant is truncated to integers": (
        "g () => (float[3] z) <float[3] w = {1.1, 0.333, -3.7}> { a = Cast <to = 16> (w) z = Cast <to = 1> (a) }",
        {},
        [1.1015625, 0.33203125, -3.703125],
    ),
    "onnxscript: CastLike loses saturate": (
        "g (float[2] x, float8e4m3fn[1] t) => (float[2] z) "
        "{ a = CastLike <saturate = 0> (x, t) z = Cast <to = 1> (a) }",
        {"x": [1000, 448], "t": [1]},
        [_NAN, 448],
    ),
    "onnxscript: float64 to float32 to float16 collapsed": (
        "g (double[1] x) => (float16[1] z) { a = Cast <to = 1> (x) z = Cast <to = 10> (a) }",
        {"x": [float.fromhex("0x1.0020000001p0")]},
        [1.0],
    ),
    "onnxscript: ConstantOfShape cast to float8 without saturation": (
        "g (int64[1] n) => (float[M] z) { a = ConstantOfShape <value = float[1] {1000000}> (n) b = Cast <to = 17> (a) "
        "z = Cast <to = 1> (b) }",
        {"n": [3]},
        [448, 448, 448],
    ),
    "ONNX Runtime: float to int64 to int32 in one step": (
        "g (float[2] x) => (int32[2] z) { a = Cast <to = 7> (x) z = Cast <to = 6> (a) }",
        {"x": [1e10, -7.9]},
        [1410065408, -7],
    ),
    "ONNX Runtime: float16 arithmetic between casts left out": (
        "g (float[2] x) => (float[2] z) { a = Cast <to = 10> (x) b = Sqrt (a) z = Cast <to = 1> (b) }",
        {"x": [1e5, 1e-9]},
        [_INF, 0],
    ),
    "ONNX Runtime: float8e4m3fn without saturation": (
        "g (float[3] x) => (float[3] z) { a = Cast <to = 17, saturate = 0> (x) z = Cast <to = 1> (a) }",
        {"x": [464, 480, 490]},
        [448, _NAN, _NAN],
    ),
    "ONNX Runtime: float8e5m2 without saturation": (
        "g (float[3] x) => (float[3] z) { a = Cast <to = 19, saturate = 0> (x) z = Cast <to = 1> (a) }",
        {"x": [57344, 61440, 65000]},
        [57344, _INF, _INF],
    ),
    "OpenVINO: float to float16 to float": (
        "g (float[2] x) => (float[2] z) { a = Cast <to = 10> (x) z = Cast <to = 1> (a) }",
        {"x": [1e5, 0.1]},
        [_INF, 0.0999755859375],
    ),
    "OpenVINO: float8e4m3fn by way of float16, saturate ignored": (
        "g (float[2] x) => (float[2] z) { a = Cast <to = 17> (x) z = Cast <to = 1> (a) }",
        {"x": [0.00097656262, 480]},
        [0.001953125, 448],
    ),
    "ONNX Runtime #17565: float64 to float32 to float64 removed": (
        "g (double[1] x) => (double[1] z) { a = Cast <to = 1> (x) z = Cast <to = 11> (a) }",
        {"x": [0.1]},
        [float(np.float32(0.1))],
    ),
    "ONNX Runtime #4039: float to int64 to float removed": (
        "g (float[2] x) => (float[2] z) { a = Cast <to = 7> (x) z = Cast <to = 1> (a) }",
        {"x": [2.75, -2.75]},
        [2, -2],
    ),
    "ONNX Runtime #17953: int32 to uint8 to int32 removed": (
        "g (int32[2] x) => (int32[2] z) { a = Cast <to = 2> (x) z = Cast <to = 6> (a) }",
        {"x": [-1, 300]},
        [255, 44],
    ),
    "int64 to float to int64 removed": (
        "g (int64[1] x) => (int64[1] z) { a = Cast <to = 1> (x) z = Cast <to = 7> (a) }",
        {"x": [16777217]},
        [16777216],
    ),
    "a rounding taken past a move and dropped": (
        "g (float[2] x) => (float[2] z) { a = Cast <to = 10> (x) b = Identity (a) c = Cast <to = 1> (b) z = Neg (c) }",
        {"x": [1e5, 0.1]},
        [-_INF, -0.0999755859375],
    ),
}


@pytest.fixture(params=ROWS, ids=list(ROWS))
def row(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], list[Any]]:
    return ROWS[request.param]


def test_values_are_exact(row: tuple[str, dict[str, Any], list[Any]]) -> None:
    text, given, expected = row
    result = castsmith.optimize(onnx_ir.from_onnx_text(HEAD + text))
    assert same(outputs(result.model, given), expected)


def test_bits_are_those_of_the_model(row: tuple[str, dict[str, Any], list[Any]]) -> None:
    text, given, _ = row
    model = onnx_ir.from_onnx_text(HEAD + text)
    result = castsmith.optimize(model)
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    assert outputs(model, given).tobytes() == outputs(result.model, given).tobytes()


def test_no_cast_to_the_same_type_is_left(row: tuple[str, dict[str, Any], list[Any]]) -> None:
    result = castsmith.optimize(onnx_ir.from_onnx_text(HEAD + row[0]))
    assert not idle_casts(result.model)


def test_half_away_from_zero_to_int4_is_not_folded() -> None:
    """The schema truncates, ONNX Runtime rounds half away from zero: a constant stays for the runtime to decide."""
    model = onnx_ir.from_onnx_text(HEAD + "g () => (int4[2] z) <float[2] w = {0.5, 2.5}> { z = Cast <to = 22> (w) }")
    result = castsmith.optimize(model)
    assert [node.op_type for node in result.model.graph] == ["Cast"]
    assert result.diagnostics


@pytest.mark.parametrize("seed", sampled("random graphs of casts", range(120), 12))
def test_random_graphs_of_casts(seed: int) -> None:
    """Simplified, placed and simplified again: the same bits, and no cast that does nothing."""
    before, passes = random_model(seed, 8), ["simplify-casts", "place-casts", "simplify-casts"]
    after = castsmith.optimize(before, passes=passes).model
    assert not idle_casts(after)
    feeds = inputs_for(before, seed)
    for old, new in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
        assert old.dtype == new.dtype
        assert np.ascontiguousarray(old).tobytes() == np.ascontiguousarray(new).tobytes()
    again = castsmith.optimize(after, passes=passes)
    assert not again.rewrites


def idle_casts(model: onnx_ir.Model) -> list[onnx_ir.Node]:
    """Casts to the type that the value has."""
    types = infer_element_types(model, PromotionRules())
    casts = [node for node in model.graph.all_nodes() if node.op_type == "Cast"]
    return [node for node in casts if types.type_of(node.inputs[0]) == types.type_of(node.outputs[0])]


def outputs(model: onnx_ir.Model, given: dict[str, Any]) -> np.ndarray:
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        if value.name in given:
            assert value.dtype is not None
            feeds[value.name] = np.array(given[value.name]).astype(value.dtype.numpy())
    return np.ascontiguousarray(evaluate(model, feeds)[0])


def same(found: np.ndarray, expected: list[Any]) -> bool:
    wanted = np.array(expected).astype(found.dtype)
    return found.shape == wanted.shape and np.array_equal(found, wanted, equal_nan=found.dtype.kind == "f")
