"""What a run covers of a model: branches and turns, results that vary, rows that are read, operands that are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import pytest

from castsmith.verification.evaluate.conversions import Tensor
from castsmith.verification.evaluate.coverage import Coverage, held_nodes

_HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'


def _node(line: str, inputs: str = "float[2] x, float[2] z, bool[2] c", more: str = "") -> onnx_ir.Node:
    model = onnx_ir.from_onnx_text(f"{_HEAD}g ({inputs}) => (y) {more} {{ {line} }}")
    return model.graph[-1]


_IF = _node(
    "d = Identity (c) y = If (d) <then_branch = t () => (float a) { b = Neg (x) a = Abs (b) },"
    " else_branch = e () => (float e) { e = Neg (x) }>",
    "float x, bool c",
)
_LOOP = _node(
    "t = Constant <value = bool {1}> () y = Loop (n, t, x) <body = b (int64 i, bool k, float v) => (bool k2, float w)"
    " { k2 = Identity (k) w = Add (v, v) }>",
    "float x, int64 n",
)
_SCAN = _node("y = Scan <num_scan_inputs = 1, body = b (float v) => (float w) { w = Neg (v) }> (x)", "float[2] x")
_OTHER = _node("y = Neg (x)")


@pytest.mark.parametrize(
    ("node", "taken", "expected"),
    [
        (_IF, [], []),
        (_IF, ["then_branch"], [("else_branch", "the else_branch of g: y (If) was never taken")]),
        (_IF, ["else_branch"], [("then_branch", "the then_branch of g: y (If) was never taken")]),
        (_IF, ["then_branch", "else_branch"], []),
        (_LOOP, [], []),
        (_LOOP, ["0"], [("1", "the body of g: y (Loop) never ran")]),
        (_LOOP, ["1"], [("", "g: y (Loop) never ran with 0 iterations")]),
        (_LOOP, ["0", "1"], [("", "g: y (Loop) never ran with several iterations")]),
        (_LOOP, ["0", "2"], [("", "g: y (Loop) never ran with 1 iteration")]),
        (_LOOP, ["0", "1", "2"], []),
        (_SCAN, ["1"], [("", "g: y (Scan) never ran with several iterations")]),
        (_SCAN, ["2"], [("", "g: y (Scan) never ran with 1 iteration")]),
        (_SCAN, ["0"], [("1", "the body of g: y (Scan) never ran")]),
        (_SCAN, ["1", "2"], []),
        (_OTHER, ["1"], []),
    ],
)
def test_what_never_ran(node: onnx_ir.Node, taken: list[str], expected: list[tuple[str, str]]) -> None:
    coverage = Coverage()
    for way in taken:
        coverage.took((), node, way)
    assert list(coverage.untaken([_OTHER, node])) == [(node, *row) for row in expected]
    assert list(coverage.untaken([_OTHER] if node is not _OTHER else [])) == []


def test_a_branch_counts_in_each_call_and_a_turn_in_any() -> None:
    """Two calls of one function: each has its own condition, and both run the same body."""
    calls = [(_node("y = Abs (x)"),), (_node("y = Neg (x)"),)]
    coverage = Coverage()
    for call, way, turns in zip(calls, ("then_branch", "else_branch"), ("0", "12"), strict=True):
        coverage.took(call, _IF, way)
        for turn in turns:
            coverage.took(call, _LOOP, turn)
    assert sorted(way for _, way, _ in coverage.untaken([_IF, _LOOP])) == ["else_branch", "then_branch"]


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([], []),
        ([np.zeros(0)], []),
        ([np.array([1.0, 1.0]), np.array([1.0])], ["always the same"]),
        ([np.array([1.0, 2.0])], []),
        ([np.array([1.0]), np.array([2.0])], []),
        ([np.array([0.0, -0.0])], []),
        ([np.array([np.nan, np.inf])], ["never finite"]),
        ([np.array([np.nan]), np.array([np.nan, 1])], []),
        ([np.array([1, 2]), np.array([3, np.nan])], []),
        ([np.array([True, True])], ["always the same"]),
        ([np.array([True]), np.array([False])], []),
        ([np.array([3], np.int8)] * 2, ["always the same"]),
        ([np.array([1 + 2j, 1 + 2j])], ["always the same"]),
        ([np.array([1 + 2j, 1 + 3j])], []),
        ([np.array(["a", "a"], object)], ["always the same"]),
        ([np.array(["a", "b"], object)], []),
    ],
)
def test_results_that_never_varied(results: list[Any], expected: list[str]) -> None:
    coverage = Coverage()
    for array in results:
        coverage.saw(_OTHER, 0, Tensor(array))
        coverage.saw(_OTHER, 1, Tensor(np.arange(3.0)))
    assert list(coverage.flat([_IF, _OTHER])) == [(_OTHER, f"the result of g: y (Neg) was {said}") for said in expected]
    assert list(coverage.flat([_IF])) == []


def test_rows_that_are_read_add_up() -> None:
    coverage = Coverage()
    for indices in ([0, 3, 3], [-1]):
        coverage.read(_OTHER, 5, np.array(indices))
    assert coverage.rows[_OTHER].tolist() == [True, False, False, True, True]


_A, _B = np.array([1, 2]), np.array([3, 0])
_WHERE, _BOUNDS = _node("y = Where (c, x, z)"), "<float l = {0}, float h = {9}>"
_CLIP, _MAX = _node("y = Clip (x, l, h)", more=_BOUNDS), _node("y = Max (x, l)", more=_BOUNDS)


@pytest.mark.parametrize(
    ("node", "operands", "result", "places"),
    [
        (_WHERE, [np.array([True, False]), _A, _B], np.array([1, 0]), []),
        (_WHERE, [np.array([True, True]), _A, _B], _A, [2]),
        (_WHERE, [np.array([False, False]), _A, _B], _B, [1]),
        (_WHERE, [np.zeros(0, bool), _A, _B], np.zeros(0), [1, 2]),
        (_CLIP, [_B, np.array(0), np.array(9)], _B, [2]),
        (_CLIP, [_A, np.array(0), np.array(9)], _A, [1, 2]),
        (_CLIP, [_A, np.array(0), np.array(2)], _A, [1]),
        (_CLIP, [_A, None, np.array(2)], _A, [1]),
        (_MAX, [_A, np.array(2)], np.array([2, 2]), []),
        (_MAX, [_A, np.array(0)], _A, [1]),
        (_OTHER, [_A], _A, []),
        (_node("y = Max (x, z)"), [_A, _B], np.array([3, 2]), []),
        (_node("y = Min (x)"), [_A], _A, []),
    ],
)
def test_operands_that_gave_no_element(node: onnx_ir.Node, operands: list[Any], result: Any, places: list[int]) -> None:
    """Of Where both, of others those that are constants: bounds."""
    coverage = Coverage()
    coverage.chose((), node, operands, result)
    assert list(coverage.unchosen([node])) == []  # of no node that has not run
    coverage.saw(node, 0, Tensor(np.asarray(result if result.size else _A)))
    said = f"of g: y ({node.op_type}) contributed no element to its result"
    assert list(coverage.unchosen([node])) == [(node, place, f"operand {place + 1} {said}") for place in places]


def test_choices_of_all_calls_add_up() -> None:
    coverage = Coverage()
    for call, flag in (((), True), ((_OTHER,), False)):
        coverage.chose(call, _WHERE, [np.array([flag]), _A, _B], _A)
    coverage.saw(_WHERE, 0, Tensor(_A))
    assert list(coverage.unchosen([_WHERE])) == []


def test_operands_are_shown_to_those_who_watch() -> None:
    seen = list[tuple[str, float]]()
    coverage = Coverage()
    coverage.fed(_OTHER, [_A, _B])
    coverage.watched[_OTHER, 1] = [lambda array: seen.append(("a", float(array[0]))), lambda _: seen.append(("b", 0))]
    coverage.fed(_OTHER, [_A, _B])
    coverage.fed(_OTHER, [_A, None])
    coverage.fed(_WHERE, [_A, _B])
    assert seen == [("a", 3.0), ("b", 0)]


def test_the_nodes_that_a_node_holds() -> None:
    assert [node.op_type for node in held_nodes(_IF, "then_branch")] == ["Neg", "Abs"]
    assert [node.op_type for node in held_nodes(_IF, "else_branch")] == ["Neg"]
    assert [node.op_type for node in held_nodes(_SCAN, "body")] == ["Neg"]
    assert held_nodes(_SCAN, "num_scan_inputs") == []
