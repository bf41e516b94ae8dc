"""int64 to int32 and double to float, on request: in ONNX Runtime, the same numbers as before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.lowering.narrow.run import NarrowTypes
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import OptionError
from castsmith.lowering.results import Result
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import LEVELS, Array, run, session


def build(body: str, weights: Mapping[str, Array] | None) -> onnx_ir.Model:
    return model_of(body, 21, "", **(weights or {}))


def narrowed(body: str, *types: str, weights: Mapping[str, Array] | None = None, **options: Any) -> Result:
    result = optimize(build(body, weights), narrow=types or ("int64",), **options)
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    return result


def same_numbers(result: Result, body: str, weights: Mapping[str, Array] | None = None, **feeds: Array) -> None:
    (before,) = (onnx_ir.to_proto(build(body, weights)),)
    expected = run(session(before, LEVELS[0]), feeds)
    fed = {value.name or "": feeds[value.name or ""].astype(value.dtype.numpy()) for value in result.model.graph.inputs
           if value.dtype is not None}  # fmt: skip
    for level in LEVELS:
        for got, wanted in zip(run(session(onnx_ir.to_proto(result.model), level), fed), expected, strict=True):
            assert np.array_equal(got, wanted)


def types_in(model: onnx_ir.Model) -> set[DataType | None]:
    return {output.dtype for node in model.graph.all_nodes() for output in node.outputs}


INDICES = """agraph (int64[N] ids, float[9,4] t) => (float[N,4] y, int64[N] z) {
    k = Clip (ids, low, high) y = Gather (t, k) m = Mul (k, two) n = Sub (m, high) a = Abs (n) d = Div (a, two)
    b = Neg (d) c = Concat <axis = 0> (b, n) s = Slice (c, from, to) w = Less (k, two) v = Where (w, k, m)
    g = Max (v, two) z = Add (g, s) }"""
WEIGHTS: dict[str, Array] = {name: np.array(value) for name, value in
           {"low": 0, "high": 8, "two": 2, "from": [0], "to": [4]}.items()}  # fmt: skip


def test_integers_within_bounds():
    result = narrowed(INDICES, weights=WEIGHTS, narrow_interface=True)
    assert not result.refusals
    assert not [value for value in (*result.model.graph.inputs, *result.model.graph.outputs)
                if value.dtype == DataType.INT64]  # fmt: skip
    assert DataType.INT64 not in types_in(result.model)
    same_numbers(result, INDICES, WEIGHTS, ids=np.array([3, -7, 100, 8]), t=np.ones((9, 4), np.float32))


def test_the_interface_stays_unless_asked():
    result = narrowed(INDICES, weights=WEIGHTS)
    assert [value.dtype for value in result.model.graph.inputs] == [DataType.INT64, DataType.FLOAT]
    assert {refusal.witness for refusal in result.refusals} == {"2147483648"}
    same_numbers(result, INDICES, WEIGHTS, ids=np.array([3, 2**40, -(2**40), 8]), t=np.ones((9, 4), np.float32))


@pytest.mark.parametrize(("constant", "op", "fits"), [
    (2**31 - 1, "Add", False), (2**31 - 9, "Add", True), (2**28, "Mul", False), (2**28 - 1, "Mul", True),
    (2**31, "Min", False), (-(2**31), "Add", True), (-(2**31) - 1, "Max", False),
])  # fmt: skip
def test_bounds_are_exact(constant: int, op: str, fits: bool):
    body = f"agraph (int64[N] x) => (int64[N] z) {{ k = Clip (x, low, high) z = {op} (k, c) }}"
    weights = {"low": np.array(0), "high": np.array(8), "c": np.array(constant)}
    result = narrowed(body, weights=weights)
    assert (DataType.INT32 in types_in(result.model)) is fits
    same_numbers(result, body, weights, x=np.array([-1, 0, 3, 8, 9]))
    if not fits:
        assert result.refusals[-1].witness in (str(constant), str(2**31), "-2147483649")


@pytest.mark.parametrize(("size", "cast"), [(0, False), (1, False), (1 << 16, False), ((1 << 16) + 1, True)])
def test_a_constant_of_up_to_65536_elements_is_narrowed_at_once(size: int, cast: bool):
    body = f"agraph (float[2, 3] x) => (bool[{size}] z) {{ n = Size (x) z = Less (n, c) }}"
    result = NarrowTypes(narrow="int64")(build(body, {"c": np.arange(size)}))
    casts = [node.inputs[0] for node in result.model.graph.all_nodes() if node.op_type == "Cast"]
    assert [value.name for value in casts if value is not None] == ["n", *["c"] * cast]


def test_the_range_of_an_input_is_believed_and_stated():
    result = narrowed(INDICES, weights=WEIGHTS, ranges={"ids": (-4, 8.5)})
    assert DataType.INT32 in types_in(result.model)
    assert [(each.code, each.message, each.site.name) for each in result.diagnostics] == [
        ("assumed-range", "assumed: ids holds integers from -4 to 8", "ids")
    ]
    same_numbers(result, INDICES, WEIGHTS, ids=np.array([3, 0, -4, 8]), t=np.ones((9, 4), np.float32))


@pytest.mark.parametrize(("ranges", "fits"), [
    ({"x": (0, 2**31 - 9)}, True), ({"x": (0, 2**31 - 8)}, False), ({"x": (-(2**31) - 1, 0)}, False), ({}, False),
])  # fmt: skip
def test_the_ends_of_a_range_are_exact(ranges: dict[str, tuple[float, float]], fits: bool):
    body = "agraph (int64[N] x) => (int64[N] z) { z = Add (x, c) }"
    result = narrowed(body, weights={"c": np.array(8)}, ranges=ranges)
    assert (DataType.INT32 in types_in(result.model)) is fits
    assert [each.code for each in result.diagnostics] == ["assumed-range"] * fits


def test_a_range_of_what_is_no_input_is_refused():
    with pytest.raises(OptionError, match="names 'idz', which is not an input of the model; did you mean 'ids'"):
        narrowed(INDICES, weights=WEIGHTS, ranges={"idz": (0, 1)})


def test_operators_that_demand_int64_keep_it():
    body = """agraph (float[A,B] x) => (float[C,D] y) { s = Shape (x) a = Gather (s, zero) b = Mul (a, two)
        d = Unsqueeze (b, at) c = Concat <axis = 0> (d, rest) y = Reshape (x, c) }"""
    weights = {"zero": np.array(0), "two": np.array(2), "at": np.array([0]), "rest": np.array([-1])}
    unknown = narrowed(body, weights=weights)
    assert {refusal.site.op for refusal in unknown.refusals} == {"Gather", "Mul", "Unsqueeze", "Concat"}
    assert DataType.INT32 not in types_in(unknown.model)
    result = narrowed(body, weights=weights, largest_dim=2**29)
    assert [diagnostic.code for diagnostic in result.diagnostics] == ["assumed-largest-dim"]
    reshape = result.model.graph.outputs[0].producer()
    assert reshape is not None
    assert reshape.inputs[1] is not None
    cast = reshape.inputs[1].producer()
    assert cast is not None
    assert cast.op_type == "Cast"
    same_numbers(result, body, weights, x=np.arange(12, dtype=np.float32).reshape(3, 4))


DOUBLES = """agraph (float16[N] h, float[N] x) => (float[N] y, bool[N] b, double[N] s) {
    d = Cast <to = 11> (x) e = Cast <to = 11> (h) m = Max (d, e, half) r = Neg (m) q = Floor (r) b = Greater (q, e)
    w = Where (b, d, q) y = Cast <to = 1> (w) s = Add (w, tenth) }"""


def test_doubles_that_are_floats():
    weights = {"half": np.array(0.5), "tenth": np.array(0.1)}
    result = narrowed(DOUBLES, "double", weights=weights)
    assert [(refusal.site.op, refusal.witness) for refusal in result.refusals] == [("Add", "0.1")]
    doubles = [node.op_type for node in result.model.graph if node.outputs[0].dtype == DataType.DOUBLE]
    assert sorted(doubles) == ["Add", "Cast"]
    x = np.array([0.3, -0.0, np.nan, np.inf, 1e-42, -7.7], np.float32)
    same = run(session(onnx_ir.to_proto(result.model)), {"h": x.astype(np.float16), "x": x})
    before = run(session(onnx_ir.to_proto(build(DOUBLES, weights))), {"h": x.astype(np.float16), "x": x})
    for got, wanted in zip(same, before, strict=True):
        assert np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f")


def test_nothing_is_narrowed_unasked():
    result = optimize(build(INDICES, WEIGHTS))
    assert DataType.INT32 not in types_in(result.model)


def test_a_type_that_is_not_narrowed_is_named():
    with pytest.raises(OptionError, match="float16 is not narrowed; int64 and double can be"):
        optimize(build(INDICES, WEIGHTS), narrow=["float16"])
