"""Operators on integers and bool that a target lacks: executed in a wider type, with the same results."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.walks import all_nodes
from castsmith.lowering.operators.run import LowerOperators
from castsmith.lowering.operators.wider import OPERATORS
from castsmith.numerics.types import type_name
from castsmith.targets.target import Target, load_target
from tests.evaluator import evaluator, outputs_of
from tests.sampling import check_all

pytestmark = pytest.mark.usefixtures("engines_here")

TENSORRT = load_target("tensorrt-11")
NARROW = (DataType.UINT8, DataType.INT8, DataType.UINT16, DataType.INT16, DataType.BOOL)
MODELS = {
    "ArgMax": "(T[2, 3] x) => (int64[2, 1] y) { y = ArgMax <axis = 1> (x) }",
    "ArgMin": "(T[2, 3] x) => (int64[2, 1] y) { y = ArgMin <axis = 1, select_last_index = 1> (x) }",
    "CenterCropPad": "(T[2, 3] x) => (T[4, 2] y) <int64[2] s = {4, 2}> { y = CenterCropPad (x, s) }",
    "Clip": "(T[2, 3] x, T low, T high) => (T[2, 3] y) { y = Clip (x, low, high) }",
    "Compress": "(T[2, 3] x) => (T[n] y) <bool[3] c = {1, 0, 1}> { y = Compress <axis = 1> (x, c) }",
    "Concat": "(T[2, 3] x, T[2, 1] z) => (T[2, 4] y) { y = Concat <axis = 1> (x, z) }",
    "DepthToSpace": "(T[1, 4, 1, 2] x) => (T[1, 1, 2, 4] y) { y = DepthToSpace <blocksize = 2> (x) }",
    "Equal": "(T[2, 3] x, T[3] z) => (bool[2, 3] y) { y = Equal (x, z) }",
    "Expand": "(T[2, 1] x) => (T[2, 3] y) <int64[2] s = {2, 3}> { y = Expand (x, s) }",
    "Flatten": "(T[2, 3, 2] x) => (T[2, 6] y) { y = Flatten (x) }",
    "Gather": "(T[5, 3] x) => (T[2, 3] y) <int64[2] i = {4, -3}> { y = Gather (x, i) }",
    "GatherElements": "(T[2, 3] x) => (T[1, 3] y) <int64[1, 3] i = {1, 0, -1}> { y = GatherElements (x, i) }",
    "GatherND": "(T[2, 3] x) => (T[2] y) <int64[2, 2] i = {1, 0, 0, 2}> { y = GatherND (x, i) }",
    "Greater": "(T[2, 3] x, T[3] z) => (bool[2, 3] y) { y = Greater (x, z) }",
    "GreaterOrEqual": "(T[2, 3] x, T[3] z) => (bool[2, 3] y) { y = GreaterOrEqual (x, z) }",
    "Identity": "(T[2, 3] x) => (T[2, 3] y) { y = Identity (x) }",
    "Less": "(T[2, 3] x, T[3] z) => (bool[2, 3] y) { y = Less (x, z) }",
    "LessOrEqual": "(T[2, 3] x, T[3] z) => (bool[2, 3] y) { y = LessOrEqual (x, z) }",
    "Max": "(T[2, 3] x, T[3] z) => (T[2, 3] y) { y = Max (x, z) }",
    "Min": "(T[2, 3] x, T[3] z) => (T[2, 3] y) { y = Min (x, z) }",
    "NonZero": "(T[2, 3] x) => (int64[2, n] y) { y = NonZero (x) }",
    "OneHot": "(T[2] v) => (T[3, 4] y) <int64[3] i = {1, 3, 0}, int64 d = {4}> { y = OneHot (i, d, v) }",
    "Pad": "(T[2, 3] x, T v) => (T[3, 4] y) <int64[4] p = {0, 1, 1, 0}> { y = Pad (x, p, v) }",
    "Relu": "(T[2, 3] x) => (T[2, 3] y) { y = Relu (x) }",
    "Reshape": "(T[2, 3] x) => (T[6] y) <int64[1] s = {-1}> { y = Reshape (x, s) }",
    "ReverseSequence": "(T[2, 3] x) => (T[2, 3] y) <int64[3] s = {1, 2, 2}> { y = ReverseSequence (x, s) }",
    "ScatterElements": "(T[2, 3] x, T[1, 2] u) => (T[2, 3] y) <int64[1, 2] i = {1, 0}>"
    " { y = ScatterElements (x, i, u) }",
    "ScatterND": "(T[4] x, T[2] u) => (T[4] y) <int64[2, 1] i = {3, 0}> { y = ScatterND (x, i, u) }",
    "Shape": "(T[2, 3] x) => (int64[2] y) { y = Shape (x) }",
    "Size": "(T[2, 3] x) => (int64 y) { y = Size (x) }",
    "Sign": "(T[2, 3] x) => (T[2, 3] y) { y = Sign (x) }",
    "Slice": "(T[4, 3] x) => (T[2, 3] y) <int64[1] a = {3}, int64[1] e = {0}, int64[1] s = {-2}, int64[1] o = {0}>"
    " { y = Slice (x, a, e, o, s) }",
    "SpaceToDepth": "(T[1, 1, 2, 4] x) => (T[1, 4, 1, 2] y) { y = SpaceToDepth <blocksize = 2> (x) }",
    "Split": "(T[4, 3] x) => (T[2, 3] y, T[2, 3] z) { y, z = Split <num_outputs = 2> (x) }",
    "Squeeze": "(T[2, 1, 3] x) => (T[2, 3] y) <int64[1] a = {1}> { y = Squeeze (x, a) }",
    "Tile": "(T[2, 3] x) => (T[2, 6] y) <int64[2] r = {1, 2}> { y = Tile (x, r) }",
    "Transpose": "(T[2, 3] x) => (T[3, 2] y) { y = Transpose (x) }",
    "Trilu": "(T[3, 3] x) => (T[3, 3] y) { y = Trilu (x) }",
    "Unsqueeze": "(T[2, 3] x) => (T[2, 1, 3] y) <int64[1] a = {1}> { y = Unsqueeze (x, a) }",
    "Where": "(bool[2, 3] c, T[2, 3] x, T[3] z) => (T[2, 3] y) { y = Where (c, x, z) }",
}
"""A model for each operator that runs in a wider type."""

ELSEWHERE = {
    "Ceil", "Floor", "Round",  # of floats alone
    "Scatter",  # gone since opset 11
    "TensorScatter",  # since opset 24, which no runtime here has
}  # fmt: skip


OTHER = {("Equal", DataType.BOOL), ("OneHot", DataType.BOOL)}
"""Equal of bool has a rule of its own, and no engine here runs OneHot of bool."""


def parsed(op_type: str, dtype: DataType) -> onnx.ModelProto:
    text = MODELS[op_type].replace("T[", f"{type_name(dtype)}[").replace("T ", f"{type_name(dtype)} ")
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Return the extremes of the type, and small numbers, in each input."""
    found, random = {}, np.random.default_rng(0)
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dtype, shape = DataType(tensor.elem_type).numpy(), [dim.dim_value for dim in tensor.shape.dim]
        ends = [0, 1] if dtype == np.bool_ else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 3]
        found[value.name] = random.choice(np.array(ends, dtype), shape)
    return found


def without(op_type: str, dtype: DataType) -> Target:
    """Return a target that has everything but a kernel of this operator for this type."""
    return Target(
        "lacking", newest_opset=21, newest_ir_version=10, types=list(DataType)[1:24], probed=[op_type, "Cast"],
        kernels={dtype: {"Cast": 6, "Add": 7, "Equal": 7} if op_type != "Equal" else {"Cast": 6, "Add": 7}},
    )  # fmt: skip


def _runs_in_a_wider_type(op_type: str, dtype: DataType) -> None:
    before = parsed(op_type, dtype)
    if not _is_valid(before):
        return
    target = without(op_type, dtype)
    result = LowerOperators(target)(onnx_ir.from_proto(before))
    assert [each.rule for each in result.records.rewrites] == ["run-in-wider-type"]
    after = onnx_ir.to_proto(result.model)
    onnx.checker.check_model(after, full_check=True)
    assert not LowerOperators(target)(result.model).modified
    given = feeds(before)
    expected, found = (outputs_of(evaluator(each), given) for each in (onnx_ir.from_proto(before), result.model))
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def _is_valid(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model, full_check=True)
    except onnx.checker.ValidationError:
        return False
    except onnx.shape_inference.InferenceError:
        return False
    return True


def test_each_operator_gives_the_same_in_a_wider_type() -> None:
    check_all(
        _runs_in_a_wider_type, [(name, dtype) for name in MODELS for dtype in NARROW if (name, dtype) not in OTHER]
    )


def test_every_operator_is_executed() -> None:
    assert set(MODELS) | ELSEWHERE == OPERATORS


def lowered(text: str) -> tuple[onnx_ir.Model, list[str]]:
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 20]> g {text}')
    result = LowerOperators(TENSORRT)(model)
    return result.model, [each.rule for each in result.records.rewrites]


def test_equal_of_bool_is_not_xor() -> None:
    model, rules = lowered("(bool[4] a, bool[4] b) => (bool[4] y) { y = Equal (a, b) }")
    assert rules == ["equal-of-bool"]
    assert [node.op_type for node in all_nodes(model)] == ["Xor", "Not"]
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    (y,) = outputs_of(evaluator(model), {"a": a, "b": b})
    assert y.tolist() == [True, False, False, True]


def test_nodes_in_subgraphs_are_lowered_too() -> None:
    model, rules = lowered(
        "(bool c, bool[4] x) => (int64[1, n] y) { y = If (c) <"
        " then_branch = a () => (int64[1, k] p) { p = NonZero (x) },"
        " else_branch = b () => (int64[1, l] q) { q = NonZero (x) }> }"
    )
    assert rules == ["run-in-wider-type"] * 2
    assert not castsmith.optimize(model, target=TENSORRT).diagnostics


@pytest.mark.parametrize(
    "text",
    [
        "(uint8[4] x) => (uint8[4] y) { y = Add (x, x) }",
        "(int8[4] x) => (int8[4] y) { y = Abs (x) }",
        "(float[4] x) => (float[4] y) { y = Identity (x) }",
    ],
)
def test_what_may_exceed_the_type_or_is_taken_stays(text: str) -> None:
    assert lowered(text)[1] == []
