"""Replacements of nodes."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.constants import new_constant
from castsmith.ir.naming import Namer
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewriting import (
    NodeRule,
    Replacement,
    detach,
    first_of,
    insert_behind,
    lacking_identity,
    place_constant,
    replace_nodes,
    rewire,
)
from castsmith.passes.core.session import Session


@pytest.mark.parametrize("count", [7, 8, 9])
def test_inputs_are_rewired(count: int) -> None:
    old = [onnx_ir.Value(name=f"x{index}") for index in range(count)]
    node = onnx_ir.Node("", "Sum", [*old, old[0], None], num_outputs=1)
    new = [onnx_ir.Value(name=f"n{index}") for index in range(count)]
    rewire(node, {**dict(enumerate(new)), count + 1: new[0]} if count > 7 else dict(enumerate(new)))
    expected = [*new, old[0], new[0] if count > 7 else None]
    assert list(node.inputs) == expected
    assert [(each.node, each.idx) for each in old[0].uses()] == [(node, count)]
    assert all(not each.uses() for each in old[1:])
    assert sorted(each.idx for each in new[0].uses()) == ([0, count + 1] if count > 7 else [0])
    assert [[each.idx for each in value.uses()] for value in new[1:]] == [[index] for index in range(1, count)]


def test_nodes_that_are_removed_meanwhile_are_not_offered() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Abs (x) z = Neg (x) }'
    session, offered = Session(onnx_ir.from_onnx_text(text)), list[str]()

    def match(node: onnx_ir.Node) -> None:
        offered.append(node.op_type)
        session.model.graph.remove([other for other in session.model.graph if other.op_type == "Neg"], safe=True)

    replace_nodes(session, "pass", match, types={})
    assert offered == ["Abs"]


def test_a_node_goes_behind_the_value_that_it_reads() -> None:
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x)'
    for name, expected in (("x", ["New", "Neg", "Abs", "Exp"]), ("a", ["Neg", "New", "Abs", "Exp"])):
        model = onnx_ir.from_onnx_text(head + " => (float[2] y) { a = Neg (x) b = Abs (a) y = Exp (x) }")
        values = {value.name: value for value in (*model.graph.inputs, *(node.outputs[0] for node in model.graph))}
        insert_behind(values[name], onnx_ir.node("New", [values[name]]))
        assert [node.op_type for node in model.graph] == expected
    model = onnx_ir.from_onnx_text(head + " => (float[2] x) { }")
    insert_behind(model.graph.inputs[0], onnx_ir.node("New", [model.graph.inputs[0]]))
    assert [node.op_type for node in model.graph] == ["New"]


def test_the_first_rule_that_answers_counts() -> None:
    asked: list[str] = []

    def rule(name: str, operators: frozenset[str] | None, answer: bool) -> NodeRule[str]:
        def apply(_: onnx_ir.Node, facts: str) -> Replacement | None:
            asked.append(f"{name} {facts}")
            return Replacement(name, "Reason.") if answer else None

        return NodeRule(name, "Does.", why="Why.", example="a", operators=operators, apply=apply)

    match = first_of(
        (
            rule("adds", frozenset({"Add"}), False),
            rule("all", None, False),
            rule("both", frozenset({"Add", "Mul"}), True),
            rule("last", None, True),
        ),
        "facts",
    )
    for operator, answer, rules in (
        ("Add", "both", ["adds", "all", "both"]),
        ("Mul", "both", ["all", "both"]),
        ("Neg", "last", ["all", "last"]),
    ):
        asked.clear()
        found = match(onnx_ir.node(operator, []))
        assert isinstance(found, Replacement)
        assert (found.rule, asked) == (answer, [f"{name} facts" for name in rules])
    assert first_of((rule("adds", frozenset({"Add"}), True),), "facts")(onnx_ir.node("Mul", [])) is None


def test_a_node_that_is_not_used_uses_nothing() -> None:
    values = [onnx_ir.Value(name=name) for name in "abc"]
    nodes = [onnx_ir.node("Sum", values), onnx_ir.node("Sum", values[1:])]
    detach(nodes)
    assert not any(value.uses() for value in values)


@pytest.mark.parametrize(
    ("ir_version", "opset", "expected"),
    [
        (8, 21, []),
        (3, 9, [("Constant", "w", "w")]),
        (3, 8, [("Constant", "w_float", "w_float"), ("Cast", "castsmith_Cast", "w")]),
    ],
)
def test_a_constant_is_placed_where_its_graph_can_hold_it(
    ir_version: int, opset: int, expected: list[tuple[str, str, str]]
) -> None:
    text = f'<ir_version: {ir_version}, opset_import: ["": {opset}]> g (float[2] x) => (float[2] y) {{ y = Neg (x) }}'
    model = onnx_ir.from_onnx_text(text)
    (neg,) = model.graph
    constant = new_constant("w", onnx_ir.tensor(np.array([1, 2], np.int8), name="w"))
    place_constant(constant, neg, Namer(model))
    *made, last = model.graph
    assert last is neg
    assert [(node.op_type, node.name, node.outputs[0].name) for node in made] == expected
    assert list(model.graph.initializers) == ([] if expected else ["w"])


OUTPUTS = """<ir_version: 12, opset_import: ["": 24]>
g (float8e8m0[2] x, float[2] f) => (float8e8m0[1] b, float8e8m0[2] c, float[2] e) {
    a, b = Split <num_outputs = 2> (x) c = Cast <to = 24> (f) d = Cast <to = 24> (f) e = Neg (f) }"""


def test_an_output_that_lacks_an_identity() -> None:
    """Of float8e8m0 there is none; none is needed where a node of the graph makes the value, or will."""
    model = onnx_ir.from_onnx_text(OUTPUTS)
    inference = infer_element_types(model, PromotionRules())
    split, c, d, e = model.graph
    x, f = model.graph.inputs
    new = onnx_ir.node("Cast", [f], {"to": 24})
    rows: list[tuple[onnx_ir.Node, list[onnx_ir.Value | None], list[onnx_ir.Node], str]] = [
        (split, [None, None], [], "b"),  # the first is no output of the graph
        (split, [x, d.outputs[0]], [], ""),
        (c, [d.outputs[0]], [], ""),
        (c, [x], [], "c"),
        (c, [None], [], "c"),
        (c, [split.outputs[1]], [], "c"),  # it is an output itself
        (c, [new.outputs[0]], [], "c"),
        (c, [new.outputs[0]], [new], ""),
        (d, [x], [], ""),
        (e, [f], [], ""),
    ]
    for node, values, added, name in rows:
        lack = lacking_identity(node, values, inference, {"": 24}, None, added)
        expected = f"the output {name} would need an Identity of float8e8m0, for which the target has no kernel"
        assert lack == (expected if name else None)
