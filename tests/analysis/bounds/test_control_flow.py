"""Bounds through If, Loop, Scan, sequences and promoted operands; inputs with defaults, and large constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

from castsmith import bounds
from castsmith.analysis.bounds import reading
from castsmith.analysis.bounds.interval import ANYTHING, MINUS, NAN, NONE, PLUS
from castsmith.analysis.bounds.reading import interval_of_tensor
from castsmith.verification.bounds import Bounds


def found(body: str, inputs: str, ranges: dict[str, Any], constants: str = "", opset: int = 17) -> Bounds:
    text = f"""<ir_version: 10, opset_import: ["" : {opset}, "foreign" : 1, "com.microsoft" : 1]>
        g ({inputs}) => (float y) <{constants}> {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return bounds(model, ranges=ranges)


def ends(
    body: str, inputs: str = "float[3,2] x", constants: str = "float w = {0.5}", opset: int = 17
) -> tuple[str, float, float]:
    made = found(body, inputs, {"x": (-1, 2)} if " x" in inputs else {}, constants, opset)["y"]
    return made.how, made.low, made.high


_IF = """y = If (%s) <then_branch = t () => (float[3,2] a) { a = Neg (x) },
    else_branch = e () => (float[3,2] b) { b = Abs (x) }>"""
_LOOP = """y = Loop (%s, %s, w) <body = b (int64 i, bool c, float s) => (bool co, float so)
    { co = %s k = Constant <value = float {1}> () so = %s }>"""
_AGAIN = "Identity (c)"
_CAPTURING = """If (c) <then_branch = t () => (float p) { p = Add (s, k) },
    else_branch = e () => (float q) { q = Add (s, k) }>"""
_COUNTED = "float w = {0.5}, int64 n = {4}, bool t = {1}"


@pytest.mark.parametrize(
    ("body", "constants", "expected"),
    [
        (_IF % "t", "bool t = {1}", (-2, 1)),
        (_IF % "t", "bool t = {0}", (0, 2)),
        (_IF % "t", "bool[1] t = {0}", (0, 2)),
        # the state may be that of any turn
        (_LOOP % ("n", "", _AGAIN, _CAPTURING), _COUNTED, (0.5, math.inf)),
        (_LOOP % ("n", "t", _AGAIN, "Identity (k)"), _COUNTED, (0.5, 1)),
        (_LOOP % ("n", "", "Not (c)", "Identity (k)"), _COUNTED, (0.5, 1)),
        (_LOOP % ("n", "t", _AGAIN, "Add (s, k)"), _COUNTED, (0.5, math.inf)),
        (_LOOP % ("n", "t", _AGAIN, "Sub (s, k)"), _COUNTED, (-math.inf, 0.5)),
        (_LOOP % ("", "t", _AGAIN, "Add (s, k)"), _COUNTED, (0.5, math.inf)),
    ],
)
def test_branches_and_turns(body: str, constants: str, expected: tuple[float, float]) -> None:
    assert ends(body, constants=constants)[1:] == expected


@pytest.mark.parametrize(("trips", "last"), [("n", 3.0), ("m", 2.0**40), ("", 2.0**62)])
@pytest.mark.parametrize("condition", ["", "t"])
def test_the_number_of_a_turn(trips: str, last: float, condition: str) -> None:
    body = f"""k, y = Loop ({trips}, {condition}, w) 
        <body = b (int64 i, bool c, float s) => (bool co, float so, float e)
        {{ co = Identity (c) so = Identity (s) e = Cast <to = 1> (i) }}>"""
    made = found(body, "float[2] x", {}, "float w = {0.5}, int64 n = {4}, int64 m = {1099511627776}, bool t = {1}")
    assert (made["y"].how, made["y"].low, made["y"].high) == ("proven", 0, last)
    assert (made["k"].low, made["k"].high) == (0.5, 0.5)


def test_what_all_turns_give_is_stacked_in_front() -> None:
    body = """k, v = Loop (n, , w) <body = b (int64 i, bool c, float s) => (bool co, float so, float[3,2] e)
        { co = Identity (c) so = Identity (s) e = Concat <axis = 1> (p, q) }>
        o = Constant <value = int64[1] {1}> () p2 = Constant <value = int64[1] {2}> ()
        a = Constant <value = int64[1] {2}> ()
        y = Slice (v, o, p2, a)"""
    made = found(body, "float[3,1] p, float[3,1] q", {"p": (0, 1), "q": (5, 6)}, "float w = {0.5}, int64 n = {4}")
    assert (made["y"].how, made["y"].low, made["y"].high) == ("proven", 5, 6)


@pytest.mark.parametrize("opset", [8, 9, 17])
@pytest.mark.parametrize(("limit", "most"), [("k", 0.0), ("m", 2.0)])
def test_scans(opset: int, limit: str, most: float) -> None:
    body = f"""y, z = Scan <num_scan_inputs = 1, body = b (float s, float[2] e) => (float so, float[2] o)
        {{ m = ReduceMax <keepdims = 0> (e) k = Constant <value = float {{0}}> () a = Max (s, m) so = Min (a, {limit})
        o = Neg (e) }}> ({"," if opset == 8 else ""} w, x)"""
    inputs, constants = ("float[1,3,2] x", "float[1] w = {-3}") if opset == 8 else ("float[3,2] x", "float w = {-3}")
    made = found(body, inputs, {"x": (-1, 2)}, constants, opset)
    assert (made["y"].how, made["y"].low, made["y"].high) == ("proven", -3, most)
    assert (made["z"].how, made["z"].low, made["z"].high) == ("proven", -2, 1)


@pytest.mark.parametrize("axis", [1, -1])
def test_scans_along_other_axes(axis: int) -> None:
    """Each turn takes a column of two rows, of different ranges; the results of the turns are the columns again."""
    body = f"""c = Concat <axis = 0> (p, q) z = Scan <num_scan_inputs = 1, scan_input_axes = [{axis}],
        scan_output_axes = [{axis}], body = b (float[2] e) => (float[2] o) {{ o = Neg (e) }}> (c)
        o = Constant <value = int64 {{1}}> () y = Gather <axis = 0> (z, o)"""
    made = found(body, "float[1,3] p, float[1,3] q", {"p": (0, 1), "q": (5, 6)})
    assert (made["y"].low, made["y"].high) == (-6, -5)
    assert (made["z"].low, made["z"].high) == (-6, 0)


def test_a_state_that_does_not_settle_is_unknown() -> None:
    """Two states that grow in turn are widened in turn; a NaN or an infinity of one turn stays."""
    body = """a, y = Loop (n, t, w, w) <body = b (int64 i, bool c, float s, float r) => (bool co, float so, float ro)
        { co = Identity (c) k = Constant <value = float {1}> () so = Add (r, k) ro = Identity (s) }>"""
    made = found(body, "float[2] x", {}, _COUNTED)
    assert (made["y"].how, made["y"].low) == ("unknown", 0.5)
    assert (made["a"].how, made["a"].low) == ("unknown", 0.5)
    body = """y = Loop (n, t, w) <body = b (int64 i, bool c, float s) => (bool co, float so)
        { co = Identity (c) k = Constant <value = float {0}> () d = Div (k, s) so = Tanh (d) }>"""
    made = found(body, "float[2] x", {}, _COUNTED)
    assert made["y"].may_be_nan


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        ("s = SequenceConstruct (x, w) y = SequenceAt (s, i)", -1, 2),
        ("s = SequenceConstruct (w) t = SequenceInsert (s, x) y = ConcatFromSequence <axis = 0> (t)", -1, 2),
        ("o = Optional (x) y = OptionalGetElement (o)", -1, 2),
        ("c = And (b, b) f = Cast <to = 1> (c) y = Neg (f)", -1, 0),
        ("c = IsNaN (x) y = Cast <to = 1> (c)", 0, 1),
        ("y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, j)", -1, 2),
    ],
)
def test_sequences_logic_and_moves(body: str, low: float, high: float) -> None:
    constants = "float[3,2] w = {0, 0, 0, 0, 0, 0}, int64 i = {0}, bool b = {1}, int64[2] j = {1, 1}"
    assert ends(body, constants=constants) == ("proven", low, high)


def test_operators_that_nothing_is_known_of() -> None:
    made = found("a = foreign.Op (x) y = Tanh (a)", "float[3,2] x", {"x": (0, 1)})
    assert -1.0001 <= made["y"].low <= -1
    assert made["y"].may_be_nan


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_operands_that_disagree_in_type(dtype: str) -> None:
    made = found("y = Add (x, w)", f"{dtype}[2] x, float[2] w", {"x": (1, 3), "w": (0.5, 0.5)})["y"]
    assert (made.how, made.low, made.high) == ("proven", 1.5, 3.5)


def with_default(default: list[float], ranges: dict[str, Any]) -> Any:
    text = '<ir_version: 10, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg (x) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(default, np.float32), "x"))
    return bounds(model, ranges=ranges)["y"]


def test_an_input_with_a_default_keeps_it_or_has_the_declared_range_too() -> None:
    made = with_default([1, 5], {})
    assert (made.how, made.low, made.high) == ("proven", -5, -1)
    assert made.assumes == ("inputs that have a default value keep it",)
    made = with_default([1, 5], {"x": (-1, 2)})
    assert (made.how, made.low, made.high, made.assumes) == ("proven", -5, 1, ())
    assert with_default([-3, 0], {"x": (-1, 2)}).high == 3
    assert with_default([math.nan, 0], {"x": (-1, 2)}).may_be_nan


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf])
def test_of_a_large_constant_the_ends_of_each_column_are_known(
    dtype: Any, special: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_READ", 11)
    array = np.arange(12).reshape(2, 2, 3).astype(dtype) - dtype(4)
    held, bits = special is not None and array.dtype.kind == "f", {np.inf: PLUS, -np.inf: MINUS}
    expected = (bits.get(special, NAN) if special is not None else NONE) if held else NONE
    clean = array.astype(np.float64).reshape(-1, 3)
    if held:
        array[1, 0, 1] = special
        clean[2, 1] = clean[0, 1]
    made = interval_of_tensor(onnx_ir.tensor(array))
    assert made.dims == (2, 2, 3)
    assert made.low.tolist() == [[clean.min(axis=0).tolist()]]
    assert made.high.tolist() == [[clean.max(axis=0).tolist()]]
    assert made.special.tolist() == [[[NONE, expected, NONE]]]
    monkeypatch.setattr(reading, "_WIDEST", 2)
    joint = interval_of_tensor(onnx_ir.tensor(array))
    assert (joint.least, joint.greatest, joint.low.size) == (clean.min(), clean.max(), 1)
    assert (joint.bits, joint.dims) == (expected, made.dims)
    monkeypatch.setattr(reading, "_READ", 12)
    whole = interval_of_tensor(onnx_ir.tensor(array))
    for ends in (whole.low, whole.high):
        assert (np.where(np.isfinite(array), ends, 0) == np.where(np.isfinite(array), array, 0)).all()
    assert (whole.special != NONE).tolist() == (~np.isfinite(array)).tolist()


def test_constants_of_one_infinity() -> None:
    """There is no finite element, for which 0 stands."""
    for read in (reading._READ, 1):  # pyright: ignore[reportPrivateUsage]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "_READ", read)
            made = interval_of_tensor(onnx_ir.tensor(np.full((2, 2), -np.inf, np.float32)))
        assert (made.least, made.greatest, made.bits) == (0, 0, MINUS)


def test_integers_that_float64_does_not_hold_lie_between_the_ends() -> None:
    made = interval_of_tensor(onnx_ir.tensor(np.array([2**53 + 1, -(2**63), 7], np.int64)))
    assert [int(low) <= number <= int(high) for low, number, high in
            zip(made.low, (2**53 + 1, -(2**63), 7), made.high, strict=True)] == [True] * 3  # fmt: skip
    assert (made.low[2], made.high[2]) == (7, 7)


def test_constants_without_numbers() -> None:
    texts = interval_of_tensor(onnx_ir.tensor(np.array(["a"]), dtype=onnx_ir.DataType.STRING))
    assert (texts.bits, texts.greatest) == (ANYTHING, -texts.least)
    none = interval_of_tensor(onnx_ir.tensor(np.zeros((0, 2), np.float32)))
    assert (none.bits, none.least, none.greatest, none.dims) == (NONE, 0, 0, (0, 2))


def test_constants_in_a_graph_that_does_not_fit_are_known() -> None:
    body = """y = If (c) <then_branch = t (float u) => (float a) <float[2] w = {1, 3}> { b = Add (w, x) a = Neg (u) },
        else_branch = e () => (float p) <float v = {5}> { p = Identity (v) }>"""
    made = found(body, "bool c, float[2] x", {})
    assert made["y"].how == "unknown"
    assert [(made[name].low, made[name].high) for name in ("w", "v")] == [(1, 3), (5, 5)]
    assert made["b"].how == "unknown"
