"""The move of every operator that only moves elements: shapes and details, and what is invalid or unknown beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from castsmith.ir.ops.attributes import MisfitError
from castsmith.ir.ops.movement import (
    Dims,
    Operands,
    axes_of,
    axis_of,
    broadcast,
    may_be_constant,
    movement_of,
    moves_elements,
    moves_of,
)
from castsmith.ir.ops.moves import Move, MoveError, Way, move, operands_of
from castsmith.numerics.symbols import UNKNOWN, Element, symbol

SHAPES = {"x": (2, 3, 4), "w": (2, 3), "v": (3,), "h": (), "e": (0, 3), "o": (1, 3), "i": (2, 1), "p": (2,)}
SHAPES["u"] = (2, 2)
"""The shapes of the operands; that of `q` is unknown."""

Row = tuple[int, str, str]

# opset, node with the integers of `a` to `d` as lists, result
ROWS: list[Row] = [
    (21, "Identity (x)", "RESHAPE (2, 3, 4)"),
    (21, "Identity (q)", "-"),
    (21, "Reshape (x, [6, 4])", "RESHAPE (6, 4)"),
    (21, "Reshape (x, [0, -1])", "RESHAPE (2, 12)"),
    (21, "Reshape (x, [0, 0, 0])", "RESHAPE (2, 3, 4)"),
    (21, "Reshape (x, [4, 3, 2, 0])", "-"),
    (21, "Reshape (x, [-1, 5])", "-"),
    (21, "Reshape (x, [-1, -1, 6])", "-"),
    (21, "Reshape (x, [-2, -12])", "-"),
    (21, "Reshape (x, [5, 5])", "-"),
    (21, "Reshape (x, q)", "-"),
    (21, "Reshape (e, [0, 5])", "RESHAPE (0, 5)"),
    (21, "Reshape (e, [0, -1])", "-"),
    (21, "Reshape <allowzero = 1> (e, [5, 0])", "RESHAPE (5, 0)"),
    (21, "Reshape <allowzero = 0> (e, [5, 0])", "-"),
    (21, "Reshape <allowzero = 1> (x, [0, 12])", "-"),
    (21, "Reshape <allowzero = 1> (x, [6, -1])", "RESHAPE (6, 4)"),
    (21, "Reshape <allowzero = 1> (x, [-2, -12])", "-"),
    (4, "Reshape <shape = [3, 2]> (w)", "RESHAPE (3, 2)"),
    (21, "Transpose (x)", "TRANSPOSE (4, 3, 2) (2, 1, 0)"),
    (21, "Transpose <perm = [1, 2, 0]> (x)", "TRANSPOSE (3, 4, 2) (1, 2, 0)"),
    (21, "Transpose <perm = [0, 0, 1]> (x)", "-"),
    (21, "Transpose <perm = [0, 1]> (x)", "-"),
    (21, "Squeeze (o)", "RESHAPE (3)"),
    (21, "Squeeze (x)", "RESHAPE (2, 3, 4)"),
    (21, "Squeeze (o, [0])", "RESHAPE (3)"),
    (21, "Squeeze (o, [-2])", "RESHAPE (3)"),
    (21, "Squeeze (o, [1])", "-"),
    (21, "Squeeze (o, [2])", "-"),
    (21, "Squeeze (o, [0, 0])", "-"),
    (21, "Squeeze (o, [])", "-"),
    (21, "Squeeze (w, [])", "RESHAPE (2, 3)"),
    (21, "Squeeze (o, q)", "-"),
    (11, "Squeeze <axes = [0]> (o)", "RESHAPE (3)"),
    (21, "Unsqueeze (w, [0])", "RESHAPE (1, 2, 3)"),
    (21, "Unsqueeze (w, [-1, 0])", "RESHAPE (1, 2, 3, 1)"),
    (21, "Unsqueeze (w, [1, 2])", "RESHAPE (2, 1, 1, 3)"),
    (21, "Unsqueeze (w, [4])", "-"),
    (21, "Unsqueeze (w, [3, 3])", "-"),
    (21, "Unsqueeze (w, q)", "-"),
    (11, "Unsqueeze <axes = [2]> (w)", "RESHAPE (2, 3, 1)"),
    (21, "Flatten (x)", "RESHAPE (2, 12)"),
    (21, "Flatten <axis = 0> (x)", "RESHAPE (1, 24)"),
    (21, "Flatten <axis = 3> (x)", "RESHAPE (24, 1)"),
    (21, "Flatten <axis = -1> (x)", "RESHAPE (6, 4)"),
    (21, "Flatten <axis = -3> (x)", "RESHAPE (1, 24)"),
    (21, "Flatten <axis = 4> (x)", "-"),
    (21, "Flatten <axis = -4> (x)", "-"),
    (21, "Slice (w, [0], [1])", "SLICE (1, 3) (0, 1, 1) (0, 3, 1)"),
    (21, "Slice (w, [1], [9], [1])", "SLICE (2, 2) (0, 2, 1) (1, 2, 1)"),
    (21, "Slice (w, [-1], [-9], [-1], [-2])", "SLICE (2, 2) (0, 2, 1) (2, 2, -2)"),
    (21, "Slice (w, [0], [3], [1], [2])", "SLICE (2, 2) (0, 2, 1) (0, 2, 2)"),
    (21, "Slice (w, [2], [1], [1])", "SLICE (2, 0) (0, 2, 1) (0, 0, 1)"),
    (21, "Slice (w, [0], [3], [1], [0])", "-"),
    (21, "Slice (w, [0], [3], [2])", "-"),
    (21, "Slice (w, [0], [3], [-3])", "-"),
    (21, "Slice (w, [0, 0], [3, 3], [1, 1])", "-"),
    (21, "Slice (w, [0, 0], [3])", "-"),
    (21, "Slice (w, [0], [3], [1], [1, 1])", "-"),
    (21, "Slice (w, q, [3])", "-"),
    (21, "Slice (w, [0], q)", "-"),
    (21, "Slice (w, [0], [3], q)", "-"),
    (21, "Slice (w, [0], [3], [1], q)", "-"),
    (21, "Slice (w, [0], [1], , [1])", "SLICE (1, 3) (0, 1, 1) (0, 3, 1)"),
    (9, "Slice <starts = [1], ends = [3], axes = [1]> (w)", "SLICE (2, 2) (0, 2, 1) (1, 2, 1)"),
    (21, "Concat <axis = 0> (w, o)", "CONCAT (3, 3) (0)"),
    (21, "Concat <axis = -1> (w, u)", "CONCAT (2, 5) (1)"),
    (21, "Concat <axis = 1> (w, o)", "-"),
    (21, "Concat <axis = 2> (w, w)", "-"),
    (21, "Concat <axis = 0> (w, v)", "-"),
    (21, "Concat <axis = 0> (w, q)", "-"),
    (21, "Concat (w, w)", "-"),
    (4, "Concat (w, w)", "-"),
    (3, "Concat (w, w)", "CONCAT (2, 6) (1)"),
    (21, "Gather (w, v)", "GATHER (3, 3) (0)"),
    (21, "Gather <axis = 1> (x, u)", "GATHER (2, 2, 2, 4) (1)"),
    (21, "Gather <axis = -1> (w, h)", "GATHER (2) (1)"),
    (21, "Gather <axis = 2> (w, v)", "-"),
    (21, "Gather (w, q)", "-"),
    (21, "ScatterND (w, i, w)", "SCATTER (2, 3)"),
    (21, "ScatterND (w, u, p)", "SCATTER (2, 3)"),
    (21, "ScatterND (w, u, w)", "-"),
    (21, "ScatterND (w, v, w)", "-"),
    (21, "ScatterND (w, h, w)", "-"),
    (21, "ScatterND (w, i, q)", "-"),
    (21, "ScatterND (w, q, w)", "-"),
    (21, 'ScatterND <reduction = "none"> (w, i, w)', "SCATTER (2, 3)"),
    (21, 'ScatterND <reduction = "max"> (w, i, w)', "-"),
    (21, 'ScatterND <reduction = "add"> (w, i, w)', "-"),
    (21, "Expand (o, [4, 3])", "EXPAND (4, 3)"),
    (21, "Expand (o, [5, 1, 1])", "EXPAND (5, 1, 3)"),
    (21, "Expand (w, [1])", "EXPAND (2, 3)"),
    (21, "Expand (w, [3])", "EXPAND (2, 3)"),
    (21, "Expand (w, [2])", "-"),
    (21, "Expand (o, [0, 3])", "EXPAND (0, 3)"),
    (21, "Expand (w, [0, 3])", "-"),
    (21, "Expand (o, [-1, 3])", "-"),
    (21, "Expand (w, q)", "-"),
    (21, "Split <num_outputs = 2> (w)", "SLICE (1, 3) (0, 1, 1) (0, 3, 1), SLICE (1, 3) (1, 1, 1) (0, 3, 1)"),
    (21, "Split <axis = -1, num_outputs = 2> (v)", "SLICE (2) (0, 2, 1), SLICE (1) (2, 1, 1)"),
    (21, "Split <axis = 1> (x, [2, 1])", "SLICE (2, 2, 4) (0, 2, 1) (0, 2, 1) (0, 4, 1), "
         "SLICE (2, 1, 4) (0, 2, 1) (2, 1, 1) (0, 4, 1)"),
    (21, "Split <axis = 0> (w, [2, 0])", "SLICE (2, 3) (0, 2, 1) (0, 3, 1), SLICE (0, 3) (2, 0, 1) (0, 3, 1)"),
    (21, "Split <axis = 0> (w, [3, -1])", "-"),
    (21, "Split <axis = 0> (w, [1, 2])", "-"),
    (21, "Split <axis = 0> (w, [1, 1, 0])", "-"),
    (21, "Split <axis = 2, num_outputs = 2> (w)", "-"),
    (21, "Split <axis = 0> (w, q)", "-"),
    (13, "Split <axis = 0> (v)", "-"),  # uneven without num_outputs
    (13, "Split <axis = 0> (w)", "SLICE (1, 3) (0, 1, 1) (0, 3, 1), SLICE (1, 3) (1, 1, 1) (0, 3, 1)"),
    (11, "Split <axis = 0, split = [1, 2]> (v)", "SLICE (1) (0, 1, 1), SLICE (2) (1, 2, 1)"),
    (21, "ConstantOfShape ([2, 3])", "EXPAND (2, 3)"),
    (21, "ConstantOfShape ([])", "EXPAND ()"),
    (21, "ConstantOfShape ([2, 0])", "EXPAND (2, 0)"),
    (21, "ConstantOfShape ([2, -1])", "-"),
    (21, "ConstantOfShape (q)", "-"),
]  # fmt: skip


def parsed(opset: int, text: str) -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """Read a node; a list in place of an operand is one whose integers are known."""
    head, _, inputs = text.rpartition("(")
    names, lists = list[str](), dict[str, tuple[int, ...]]()
    for number, part in enumerate(inputs.rstrip(")").replace("], ", "];").replace(", [", ";[").split(";")):
        if part.startswith("["):
            lists[f"list{number}"] = tuple(int(each) for each in part.strip("[]").split(",") if each.strip())
            names.append(f"list{number}")
        else:
            names += [name.strip() for name in part.split(",")]
    outputs = "y, z" if head.startswith("Split") else "y"
    known = ", ".join(f"float[N] {name}" for name in dict.fromkeys(names) if name)
    node_text = f"g ({known}) => ({outputs}) {{ {outputs} = {head}({', '.join(names)}) }}"
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {node_text}'), lists


def operands(opset: int, text: str) -> Operands:
    proto, lists = parsed(opset, text)
    (node,) = onnx_ir.from_proto(proto).graph
    given = ["" if value is None else value.name or "" for value in node.inputs]
    shapes = [(len(lists[name]),) if name in lists else SHAPES.get(name) for name in given]
    return Operands(node, shapes, lambda index: lists.get(given[index]), opset)


def text_of(moves: object) -> str:
    if moves is None:
        return "-"
    assert isinstance(moves, tuple | list)
    parts = [(each.way.name, each.shape, *each.detail) for each in moves if isinstance(each, Move)]  # pyright: ignore[reportUnknownVariableType]
    return ", ".join(" ".join([way, *(f"({', '.join(map(str, dims))})" for dims in rest)]) for way, *rest in parts)


def test_every_move_beside_what_is_invalid() -> None:
    for opset, node, expected in ROWS:
        found = operands(opset, node)
        assert moves_elements(found.node)
        assert text_of(moves_of(found)) == expected, (opset, node)


def test_moves_give_what_the_operators_compute() -> None:
    for opset, text, expected in ROWS:
        if expected == "-" or opset < 5:  # the reference has no older Reshape
            continue
        proto, lists = parsed(opset, text)
        fed: dict[str, np.ndarray[Any, Any]] = {name: np.array(numbers, np.int64) for name, numbers in lists.items()}
        for place, name in enumerate(proto.graph.node[0].input):
            if name and name not in fed:
                array = np.arange(np.prod(SHAPES[name])).reshape(SHAPES[name])
                fed[name] = (
                    array * 3 // 2 % 2 if place == 1 and text.startswith(("Gather", "ScatterND")) else array + 10.0
                )
        moves = moves_of(operands(opset, text))
        assert moves is not None
        arrays = [fed[name] for name in proto.graph.node[0].input if name]
        arrays = [np.zeros(())] if text.startswith("ConstantOfShape") else arrays
        arrays = arrays[: operands_of(moves[0].way, len(arrays))]
        for what, wanted in zip(moves, ReferenceEvaluator(proto).run(None, fed), strict=True):
            np.testing.assert_array_equal(move(what, arrays), wanted, text)


def test_an_operator_of_another_domain_moves_nothing() -> None:
    for domain, name, expected in (("", "Reshape", True), ("ai.onnx", "Reshape", True), ("com.acme", "Reshape", False),
                                   ("", "Resize", False)):  # fmt: skip
        assert moves_elements(onnx_ir.Node(domain, name, [])) is expected
    parameter = onnx_ir.RefAttr("perm", "p", onnx_ir.AttributeType.INTS)
    assert not moves_elements(onnx_ir.Node("", "Transpose", [], [parameter]))


def test_moves_of_arrays() -> None:
    array, places = np.arange(6).reshape(2, 3), np.array([[1], [0]])
    for what, arrays, expected in (
        (Move(Way.SLICE, (2, 2), ((0, 2, 1), (2, 2, -2))), [array], [[2, 0], [5, 3]]),
        (Move(Way.SLICE, (2, 0), ((0, 2, 1), (0, 0, -1))), [array], [[], []]),
        (Move(Way.SLICE, (1, 3), ((1, 1, -1), (0, 3, 1))), [array], [[3, 4, 5]]),
        (Move(Way.SLICE, (2, 2), ((1, 2, -1), (1, 2, 1))), [array], [[4, 5], [1, 2]]),
        (Move(Way.RESHAPE, (3, 2)), [array], [[0, 1], [2, 3], [4, 5]]),
        (Move(Way.TRANSPOSE, (3, 2), ((1, 0),)), [array], [[0, 3], [1, 4], [2, 5]]),
        (Move(Way.EXPAND, (2, 2, 1)), [np.array([[7], [8]])], [[[7], [8]], [[7], [8]]]),
        (Move(Way.CONCAT, (2, 6), ((1,),)), [array, array], [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]),
        (Move(Way.GATHER, (2, 2), ((1,),)), [array, np.array([2, -3])], [[2, 0], [5, 3]]),
        (Move(Way.SCATTER, (2, 3)), [array, places, array], [[3, 4, 5], [0, 1, 2]]),
        (Move(Way.SCATTER, (2, 3)), [array, np.array([[1, -1]]), np.array([9])], [[0, 1, 2], [3, 4, 9]]),
        (Move(Way.SCATTER, (2, 3)), [array, np.zeros((0, 1), np.int64), np.zeros((0, 3))], [[0, 1, 2], [3, 4, 5]]),
    ):
        found = move(what, arrays)
        assert found.shape == what.shape
        assert found.tolist() == expected, what
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    for what, arrays in (
        (Move(Way.GATHER, (1,), ((0,),)), [np.arange(3), np.array([3])]),
        (Move(Way.SCATTER, (3,)), [np.arange(3), np.array([[3]]), np.array([1])]),
    ):
        with pytest.raises(MoveError, match="an intermediate index is out of bounds"):
            move(what, arrays)
    with pytest.raises(MoveError, match="duplicate indices: ScatterND leaves the result undefined"):
        move(Move(Way.SCATTER, (3,)), [np.arange(3), np.array([[2], [-1]]), np.array([1, 2])])


N, POSITIVE, MANY, OTHER = symbol("n"), symbol("p", 1), symbol("m", 2), symbol("o", 2)
KNOWN: dict[str, Element] = {"n": N, "p": POSITIVE, "m": MANY, "o": OTHER, "?": UNKNOWN, "2n": N + N}


def dims_of(text: str) -> Dims | None:
    """The dimensions that a word such as `2,n,?` says; None for `-`."""
    if text == "-":
        return None
    return tuple(KNOWN[part] if part in KNOWN else int(part) for part in text.split(",") if part)


# opset, operator, attributes, shapes of operands, elements of the parameters after them, shapes of results or "misfit"
SYMBOLIC: list[tuple[int, str, dict[str, Any], str, tuple[str, ...], str]] = [
    (21, "Identity", {}, "n,2", (), "n,2"),
    (21, "Reshape", {}, "n,4", ("2,2n",), "2,2n"),
    (21, "Reshape", {}, "n,4", ("-1,2",), "2n,2"),
    (21, "Reshape", {}, "n,4", ("0,2,2",), "n,2,2"),
    (21, "Reshape", {}, "n,4", ("-1,8",), "?,8"),
    (21, "Reshape", {}, "-", ("-1,8",), "?,8"),
    (21, "Reshape", {}, "-", ("0,8",), "?,8"),
    (21, "Reshape", {}, "n,4", ("?,2",), "2n,2"),
    (21, "Reshape", {}, "n,4", ("?,0",), "n,4"),
    (21, "Reshape", {}, "n,0", ("?,0",), "?,0"),
    (21, "Reshape", {}, "n,4", ("n,4",), "n,4"),  # a symbol that is 0 means that of the input
    (21, "Reshape", {}, "4,n", ("n,4",), "n,4"),
    (21, "Reshape", {}, "4,n", ("n,?",), "?,?"),
    (21, "Reshape", {}, "n,4", ("n,?",), "n,?"),
    (21, "Reshape", {}, "4,p", ("p,4",), "p,4"),
    (21, "Reshape", {}, "?,4", ("n,2",), "?,2"),
    (21, "Reshape", {}, "0,4", ("n,4",), "0,4"),
    (21, "Reshape", {}, "n,4", ("2n,2",), "2n,2"),  # 0 elements or 0 dimensions alike
    (21, "Reshape", {"allowzero": 1}, "4,n", ("n,4",), "n,4"),
    (21, "Reshape", {}, "2,3", ("4,2",), "misfit"),
    (21, "Reshape", {}, "2", ("2,0",), "misfit"),
    (21, "Transpose", {}, "n,2,?", (), "?,2,n"),
    (21, "Transpose", {}, "-", (), "none"),
    (21, "Squeeze", {}, "1,n", ("0",), "n"),
    (21, "Squeeze", {}, "1,n", ("1",), "1"),
    (21, "Squeeze", {}, "1,2", ("1",), "misfit"),
    (21, "Squeeze", {}, "1,n", (), "none"),
    (21, "Squeeze", {}, "2,3", ("",), "2,3"),
    (21, "Squeeze", {}, "2,n", ("",), "none"),
    (21, "Squeeze", {}, "1,2", ("-",), "none"),
    (21, "Unsqueeze", {}, "n", ("0,-1",), "1,n,1"),
    (21, "Flatten", {"axis": 1}, "n,2,3", (), "n,6"),
    (21, "Flatten", {"axis": 0}, "n", (), "1,n"),
    (21, "Slice", {}, "n,4", ("0", "2147483647"), "n,4"),
    (21, "Slice", {}, "n,4", ("0", "2147483646"), "?,4"),
    (21, "Slice", {}, "n,4", ("0", "n"), "n,4"),
    (21, "Slice", {}, "n,4", ("1", "2147483647"), "?,4"),
    (21, "Slice", {}, "n,4", ("0", "2147483647", "0", "2"), "?,4"),
    (21, "Slice", {}, "n,4", ("1", "3", "1"), "n,2"),
    (21, "Slice", {}, "n,4", ("1", "3", "?"), "?,?"),
    (21, "Slice", {}, "n,4", ("1", "3", "-"), "?,?"),
    (21, "Slice", {}, "4,n", ("-", "3"), "?,n"),  # as many axes as ends
    (21, "Slice", {}, "4,n", ("-", "-"), "?,?"),
    (21, "Slice", {}, "4,n", ("?", "3"), "?,n"),
    (21, "Slice", {}, "4,n", ("3", "-9", "0", "-1"), "4,n"),
    (21, "Slice", {}, "4,n", ("-4", "-9", "0", "-1"), "1,n"),
    (21, "Slice", {}, "4,n", ("-5", "-9", "0", "-1"), "?,n disputed"),
    (21, "Slice", {}, "4,n", ("3", "2147483647", "0", "-1"), "?,n disputed"),
    (21, "Slice", {}, "4,n", ("3", "2147483646", "0", "-1"), "0,n"),
    (21, "Slice", {}, "4,3", ("-5,0", "-9,2", "0,1", "-1,1"), "?,2 disputed"),
    (21, "Split", {"axis": 0}, "n,4", ("1,2",), "1,4 2,4"),
    (21, "Split", {"axis": 0}, "2n,4", ("-",), "?,4 ?,4"),
    (21, "Split", {"axis": 0}, "2n,4", (), "n,4 n,4"),
    (21, "Split", {"axis": 0, "num_outputs": 2}, "5", (), "3 2"),
    (21, "Split", {"axis": 0, "num_outputs": 2}, "1", (), "1 0"),
    (21, "Split", {"axis": 0, "num_outputs": 3}, "6", (), "misfit"),
    (21, "Split", {}, "4,n", (), "2,n 2,n"),
    (21, "Split", {"axis": 0}, "4,n", ("1,2",), "misfit"),
    (21, "Split", {"axis": 0}, "-", ("1,2",), "none"),
    (21, "Concat", {"axis": 0}, "n,4 2,4", (), "n+2,4"),
    (21, "Concat", {"axis": 0}, "n,? 2,4", (), "n+2,4"),
    (21, "Concat", {"axis": 0}, "n,m 2,?", (), "n+2,m"),
    (21, "Concat", {"axis": 1}, "3,m 2,?", (), "misfit"),
    (21, "Concat", {"axis": 0}, "n,4 -", (), "none"),
    (21, "Gather", {"axis": 1}, "n,4,2 m,3", (), "n,m,3,2"),
    (21, "Gather", {"axis": 1}, "n,4,2 -", (), "-"),
    (21, "Gather", {"axis": 3}, "n,4,2 m,3", (), "misfit"),
    (21, "ScatterND", {}, "n,4 m,1 m,4", (), "n,4"),
    (21, "ScatterND", {}, "n,4 m,? m,4", (), "n,4 ?"),
    (21, "ScatterND", {}, "n,4 - m,4", (), "n,4 ?"),
    (21, "ScatterND", {}, "n,4 m,1 -", (), "n,4 ?"),
    (21, "ScatterND", {}, "n,4  m,4", (), "misfit"),
    (21, "ScatterND", {}, "n,4  -", (), "misfit"),
    (21, "ScatterND", {}, "n,4 m,2 m", (), "n,4"),
    (21, "ScatterND", {}, "n,4 m,3 m", (), "misfit"),
    (21, "ScatterND", {}, "n,4 m,0 m,n,4", (), "misfit"),
    (21, "ScatterND", {}, "n,4 m,1 m,5", (), "misfit"),
    (21, "ScatterND", {}, "- m,1 m,5", (), "none"),
    (21, "Expand", {}, "1,4", ("n,1",), "n,4"),
    (21, "Expand", {}, "n,4", ("-3,1",), "?,4"),
    (21, "Expand", {}, "3,4", ("n,1",), "3,4"),
    (21, "Expand", {}, "3,4", ("2,1",), "misfit"),
    (21, "Expand", {}, "4", ("n,1",), "n,4"),
    (21, "Tile", {}, "n,4", ("2,3",), "2n,12"),
    (21, "Tile", {}, "n,4", ("2,-1",), "2n,?"),
    (21, "Tile", {}, "n,4", ("-",), "?,?"),
    (21, "Tile", {}, "n,4", ("2",), "misfit"),
    (5, "Tile", {}, "n,4", ("2,3",), "none"),
]


def symbolic(opset: int, op_type: str, attributes: dict[str, Any], shapes: str, lists: tuple[str, ...]) -> Operands:
    dims, elements = [dims_of(word) for word in shapes.split(" ")], [dims_of(word) for word in lists]
    names = [f"x{number}" for number in range(len(dims) + len(lists))]
    node = onnx_ir.node(op_type, [onnx_ir.Value(name=name) for name in names], attributes)
    if op_type == "Split":
        outputs = int(attributes.get("num_outputs", 2)) if attributes.get("num_outputs") != 3 else 2
        node = onnx_ir.Node("", op_type, node.inputs, node.attributes.values(), num_outputs=outputs)
    every = [*dims, *(None if part is None else (len(part),) for part in elements)]
    return Operands(node, every, lambda index: elements[index - len(dims)], opset)


def test_moves_of_symbolic_shapes() -> None:
    for opset, op_type, attributes, shapes, lists, expected in SYMBOLIC:
        try:
            found = movement_of(symbolic(opset, op_type, attributes, shapes, lists))
        except MisfitError:
            assert expected == "misfit", (op_type, shapes, lists)
            continue
        case = (op_type, attributes, shapes, lists)
        if found is None:
            assert expected == "none", case
            continue
        words = expected.removesuffix(" disputed")
        assert [part.disputed for part in found] == [expected.endswith(" disputed")] * len(found), case
        if words.endswith(" ?"):
            assert (found[0].shape, found[0].detail) == (dims_of(words[:-2]), ((UNKNOWN,),)), case
            continue
        KNOWN["n+2"] = N + 2
        assert [part.shape for part in found] == [dims_of(word) for word in words.split(" ")], case


def test_dimensions_that_broadcast() -> None:
    for shapes, expected in (
        ("2,1 3", "2,3"), ("n 1", "n"), ("1 n", "n"), ("n n", "n"), ("n 3", "3"), ("3 n", "3"), ("m o", "m"),
        ("m p", "?"), ("n o", "?"), ("? 3", "3"), ("? ?", "?"), ("? 1", "?"), ("4,n 2,1,1", "2,4,n"), (" ", ""),
    ):  # fmt: skip
        assert broadcast([dims_of(word) or () for word in shapes.split(" ")]) == dims_of(expected), shapes
    assert broadcast([]) == ()


def test_axes() -> None:
    assert [axis_of(axis, 3) for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert (axes_of([-1, 0], 3), axes_of([], 3)) == ([2, 0], [])
    for axes in ([3], [-4], [0, 0], [2, -1]):
        with pytest.raises(MisfitError):
            axes_of(axes, 3)


def test_operators_whose_results_may_be_constant() -> None:
    found = {name for name in ("Constant", "Reshape", "Identity", "Relu", "Cast", "Add")
             if may_be_constant(onnx_ir.Node("", name, []))}  # fmt: skip
    assert found == {"Constant", "Reshape", "Identity"}


def test_an_unknown_list_of_more_dimensions_than_an_array_has() -> None:
    for length, misfit in ((64, False), (65, True)):
        node = onnx_ir.node("ConstantOfShape", [onnx_ir.Value(name="x")])
        operand = Operands(node, [(length,)], lambda _: None, 21)
        if misfit:
            with pytest.raises(MisfitError):
                movement_of(operand)
        else:
            assert [part.shape for part in movement_of(operand) or ()] == [(UNKNOWN,) * length]
