"""16-bit floats that a target lacks: computed in float with the same bits, beside what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.numerics.cast.convert import cast
from castsmith.targets.target import Target
from tests.evaluator import evaluate

EXACT, ONCE = castsmith.Effect.BIT_EXACT, castsmith.Effect.IN_WIDER_TYPE
HALVES = ("float16", "bfloat16")
Row = tuple[str, int, str, castsmith.Effect | None]
XY = "(HALF[4] x, HALF[4] v) => (HALF[4] y)"

ROWS: dict[str, Row] = {
    "one rounding": (f"{XY} {{ y = Add (x, v) }}", 23, "", EXACT),
    "one rounding of one operand": (f"{XY} {{ y = Sqrt (x) }}", 23, "", EXACT),
    "no rounding": (f"{XY} {{ y = Neg (x) }}", 23, "", None),
    "a move": (f"{XY} {{ y = Transpose (x) }}", 23, "", None),
    "a scatter that adds": (
        f"{XY} <int64[4] i = {{3, 2, 1, 0}}> {{ y = ScatterElements <reduction = \"add\"> (x, i, v) }}", 23, "", ONCE,
    ),
    "a scatter that selects": (
        f"{XY} <int64[4] i = {{3, 2, 1, 0}}> {{ y = ScatterElements <reduction = \"max\"> (x, i, v) }}", 23, "", None,
    ),
    "several roundings": (f"{XY} {{ y = LeakyRelu <alpha = 0.3> (x) }}", 23, "", ONCE),
    "a sum of three": (f"{XY} {{ y = Sum (x, v, x) }}", 23, "", ONCE),
    "a cast to float": ("(HALF[4] x) => (float[4] y) { y = Cast <to = 1> (x) }", 23, "", None),
    "a cast like float": ("(HALF[4] x, float k) => (float[4] y) { y = CastLike (x, k) }", 23, "", None),
    "a cast of float": ("(float[4] x) => (HALF[4] y) { y = Cast <to = TO> (x) }", 23, "", EXACT),
    "a cast of text": (
        "(string[4] x) => (HALF[4] y) { y = Cast <to = TO> (x) }", 23,
        "a cast to HALF from string has no exact replacement", None,
    ),
    "a cast to text": (
        "(HALF[4] x) => (string[4] y) { y = Cast <to = 8> (x) }", 23,
        "a cast to string from HALF has no exact replacement", None,
    ),
    "a cast like text": (
        "(HALF[4] x, string k) => (string[4] y) { y = CastLike (x, k) }", 23,
        "a cast to string from HALF has no exact replacement", None,
    ),
    "text cast like a half": (
        "(string[4] x, HALF k) => (HALF[4] y) { y = CastLike (x, k) }", 23,
        "a cast to HALF from string has no exact replacement", None,
    ),
    "another domain": (f"{XY} {{ y = local.Own (x) }}", 23, "local.Own may compute something else in float", None),
    "a sum without Clip": (
        f"{XY} {{ y = Add (x, v) }}", 10,
        "rounding the result of Add needs Clip with bounds as inputs: raise the opset from 10 to 11", None,
    ),
    "a move without Clip": (f"{XY} {{ y = Transpose (x) }}", 10, "", None),
    "integers of 64 bits without Min": (
        "(int64[4] x) => (HALF[4] y) { y = Cast <to = TO> (x) }", 11,
        "rounding the result of Cast needs Min of int64: raise the opset from 11 to 12", None,
    ),
    "integers of 64 bits": ("(int64[4] x) => (HALF[4] y) { y = Cast <to = TO> (x) }", 12, "", EXACT),
    "integers of 32 bits": ("(uint32[4] x) => (HALF[4] y) { y = Cast <to = TO> (x) }", 11, "", EXACT),
    "a branch": (
        """(bool c, HALF[4] x) => (HALF[4] y) { y = If (c) <then_branch = t () => (HALF[4] p) { p = Add (x, x) },
            else_branch = e () => (HALF[4] q) { q = Mul (x, x) }> }""", 23, "", EXACT,
    ),
}  # fmt: skip


def feeds_of(model: onnx_ir.Model) -> dict[str, np.ndarray[Any, Any]]:
    found = dict[str, np.ndarray[Any, Any]]()
    for value in model.graph.inputs:
        dtype, shape = value.dtype or DataType.FLOAT, value.shape.numpy() if value.shape else ()
        numbers = np.resize([0.1, 40000, 70000, 3] if value.name == "x" else [1, 40000, 2], int(np.prod(shape)))
        if dtype == DataType.STRING:
            array = np.array([str(number) for number in numbers], object)
        elif dtype.is_floating_point():
            array = cast(numbers.astype(np.float32), dtype)
        else:
            array = numbers.astype(dtype.numpy())
        found[value.name or ""] = array.reshape(shape)
    return found


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", ROWS)
def test_a_type_that_the_target_lacks(name: str, half: str) -> None:
    body, opset, reason, effect = ROWS[name]
    if half == "bfloat16" and opset < 13:
        return  # no opset before 13 has bfloat16
    body = body.replace("HALF", half).replace("TO", "10" if half == "float16" else "16")
    text = f'<ir_version: 10, opset_import: ["" : {opset}, "local" : 1]> g {body}'
    before = onnx_ir.from_proto(onnx.parser.parse_model(text))
    target = Target("t", "", newest_opset=25, newest_ir_version=12, lacks=frozenset({DataType[half.upper()]}))
    result = castsmith.optimize(before, target=target, passes=["widen-floats"])
    if reason:
        reason = reason.replace("HALF", half)
        assert [(each.rule, each.reason) for each in result.refusals] == [("widen-storage", reason)]
        assert [each.message for each in result.diagnostics] == [f"t has no {half}, but {reason}"]
        assert result.rewrites == []
        return
    assert (result.refusals, result.diagnostics) == ([], [])
    rounded = [each for each in result.rewrites if each.rule == "round-in-place"]
    assert {each.effect for each in rounded} == ({effect} if effect else set())
    left = [node for node in result.model.graph.all_nodes() if node.outputs[0].dtype == DataType[half.upper()]]
    assert left == []
    feeds = feeds_of(before)
    if effect is not castsmith.Effect.IN_WIDER_TYPE:
        wide = {key: in_float(array, half) for key, array in feeds.items()}
        for old, new in zip(evaluate(before, feeds), evaluate(result.model, wide), strict=True):
            assert in_float(old, half).tobytes() == new.tobytes()


def in_float(array: np.ndarray[Any, Any], half: str) -> np.ndarray[Any, Any]:
    return cast(array, "float") if array.dtype == DataType[half.upper()].numpy() else array


@pytest.mark.parametrize("emit_functions", [False, True])
@pytest.mark.parametrize(
    ("body", "rounded", "others"),
    [
        ("(bfloat16[2] x) => (bfloat16[2] y, float[1] m) { y, m = LayerNormalization (x, x) }", "y", "m"),
        ("(bfloat16[2] x) => (bfloat16[2] z, float[1] n) { y, m = LayerNormalization (x, x) z = Neg (y) n = Neg (m) }",
         "y", "mnz"),
        ("(bfloat16[2] x) => (bfloat16[2] y, float[1] i) { y, , i = LayerNormalization (x, x) }", "y", "i"),
        ("""(bfloat16[1, 1, 2] x, bfloat16[1, 4, 2] w, bfloat16[1, 4, 1] r)
            => (bfloat16[1, 1, 1] z, bfloat16[1, 1, 1] c) { , h, c = LSTM <hidden_size = 1> (x, w, r) z = Neg (h) }""",
         "hc", "z"),
    ],
)  # fmt: skip
def test_each_of_several_results_keeps_its_name(body: str, rounded: str, others: str, emit_functions: bool) -> None:
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 23]> g {body}')
    places = {value.name: value.index() for value in model.graph[0].outputs}
    target = Target("t", "", newest_opset=25, newest_ir_version=12, lacks={DataType.BFLOAT16})
    after = castsmith.optimize(model, target=target, passes=["widen-floats"], emit_functions=emit_functions).model
    last = "round_to_bfloat16" if emit_functions else "Mul"
    makers = {value.name: node.op_type for node in after.graph for value in node.outputs}
    assert {name for name in makers if name in {*rounded, *others}} == {*rounded, *others}
    assert {name: makers[name] for name in rounded} == dict.fromkeys(rounded, last)
    assert {name: makers[name] == last for name in others} == dict.fromkeys(others, False)
    before_rounding = {value.name: value.index() for value in after.graph[0].outputs}
    assert {name: before_rounding[f"{name}_float"] for name in rounded} == {name: places[name] for name in rounded}
    assert all(any(value.uses() or value.is_graph_output() for value in node.outputs) for node in after.graph)
