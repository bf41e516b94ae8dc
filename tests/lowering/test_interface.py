"""Graph inputs and outputs of narrow types as wider numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import Effect
from castsmith.lowering.formats import all_codes
from castsmith.lowering.interface import convert_inputs, convert_outputs, wide_type
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import OptionError
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import CODED_TYPES, type_name
from castsmith.passes.core.session import Session
from castsmith.targets.target import load_target
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import LEVELS, Array, run, session

ANDROID = load_target("onnxruntime-android")


def wide_outputs(model: onnx_ir.Model, **feeds: Array) -> list[Array]:
    result = optimize(model, target=ANDROID, interface="wide", passes=["lower-float8{always=true}", "legalize-version"])
    assert not result.diagnostics
    interface = [rewrite for rewrite in result.rewrites if rewrite.effect is Effect.INTERFACE]
    assert {rewrite.rule for rewrite in interface} == {"widen-interface"}
    proto = onnx_ir.to_proto(result.model)
    onnx.checker.check_model(proto, full_check=True)
    assert [value.name for value in proto.graph.output] == [value.name for value in model.graph.outputs]
    outputs = [run(session(proto, level), feeds) for level in LEVELS]
    assert [array.tobytes() for array in outputs[0]] == [array.tobytes() for array in outputs[1]]
    return outputs[0]


@pytest.mark.parametrize("dtype", CODED_TYPES)
def test_every_value_goes_through(dtype: DataType):
    name, wide = type_name(dtype), wide_type(dtype)
    body = f"agraph ({name}[2,N] x) => ({name}[N,2] y, {name}[2,N] x) {{ y = Transpose (x) }}"
    x = cast(all_codes(dtype), wide).reshape(2, -1)
    y, same = wide_outputs(model_of(body, 28), x=x)
    assert y.dtype == same.dtype == wide.numpy()
    nan = np.isnan(x) if dtype.is_floating_point() else np.zeros(x.shape, bool)
    for actual, wanted, not_a_number in ((y, x.T, nan.T), (same, x, nan)):
        assert actual[~not_a_number].tobytes() == wanted[~not_a_number].tobytes()
        assert not not_a_number.any() or np.isnan(actual[not_a_number]).all()


def test_inputs_are_rounded_on_their_way_in():
    body = "agraph (float8e4m3fn[N] x) => (float8e4m3fn[N] y) { y = Identity (x) }"
    x = np.array([1.06, 449.0, 1e9, -0.0, -3.3], np.float32)
    (y,) = wide_outputs(model_of(body), x=x)
    assert y.tobytes() == cast(cast(x, DataType.FLOAT8E4M3FN), DataType.FLOAT).tobytes()


def test_names_stay():
    body = "agraph (float8e5m2[N] x) => (float8e5m2[N] y) { y = Identity (x) }"
    result = optimize(model_of(body), target=ANDROID, interface="wide")
    graph = result.model.graph
    assert [(value.name, value.dtype) for value in (*graph.inputs, *graph.outputs)] == [
        ("x", DataType.FLOAT), ("y", DataType.FLOAT),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["lower-float8", "widen-floats"])
def test_an_unknown_interface_is_refused(name: str):
    model: Any = model_of("agraph (float[N] x) => (float[N] y) { y = Identity (x) }")
    with pytest.raises(OptionError, match=r"unknown interface 'codes'; expected 'stored' or 'wide'"):
        optimize(model, target=ANDROID, passes=[f"{name}{{interface=codes}}"])


def test_a_default_a_sequence_and_other_types_stay() -> None:
    text = """<ir_version: 10, opset_import: ["" : 23]>
        g (float8e4m3fn[2] x, float8e5m2[2] e, float8e4m3fn[2] k, int8[2] i, seq(float[2]) s)
        => (float8e4m3fn[2] y, float8e4m3fn[2] y2, float8e5m2[2] e, int8[2] i, seq(float[2]) s)
        <float8e4m3fn[2] k = {1, 2}> { y = Identity (x) z = Identity (k) y2 = Transpose (z) }"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    types = {DataType.FLOAT8E4M3FN: DataType.FLOAT, DataType.FLOAT8E5M2: DataType.FLOAT16}
    session_of_run = Session(model)
    rewrites = convert_inputs(session_of_run, "p", "r", types, "tried")
    assert [(rewrite.site.node, rewrite.before, rewrite.after) for rewrite in rewrites] == [
        ("x", "float8e4m3fn[2] x", "float[2] x"),
        ("e", "float8e5m2[2] e", "float16[2] e"),
    ]
    assert {rewrite.reason for rewrite in rewrites} == {"inputs and outputs were tried"}
    first, second = list(model.graph)[:2]
    assert [(node.op_type, node.attributes.get_int("saturate")) for node in (second, first)] == [
        ("Cast", None),
        ("Cast", 0),
    ]
    rewrites = convert_outputs(session_of_run, "p", "r", types, "tried", {model.graph.outputs[0]})
    assert [rewrite.site.node for rewrite in rewrites] == ["y"]
    assert convert_outputs(session_of_run, "p", "r", {}, "tried") == []
    assert convert_inputs(session_of_run, "p", "r", types, "tried") == []


def test_the_wide_type_of_each_narrow_one() -> None:
    floats = {dtype for dtype in CODED_TYPES if dtype.is_floating_point()}
    signed = {DataType.INT4, DataType.INT2}
    assert {dtype: wide_type(dtype) for dtype in CODED_TYPES} == {
        **dict.fromkeys(floats, DataType.FLOAT),
        **dict.fromkeys(signed, DataType.INT8),
        **dict.fromkeys(set(CODED_TYPES) - floats - signed, DataType.UINT8),
    }
    assert {DataType.UINT4, DataType.INT4} < set(CODED_TYPES)
