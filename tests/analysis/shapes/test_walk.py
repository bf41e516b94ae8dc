"""Shapes with symbols, and the elements computed from them: every rule beside where it says nothing.

`inferred.txt` has one line for each: opset, nodes, shape of `y`, elements of `y`. `python -m
tests.analysis.shapes.test_walk` writes the last two again, to be read.
"""

from __future__ import annotations

import re
from pathlib import Path

import onnx.parser
import onnx_ir

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.symbols import high_of, low_of
from castsmith.passes.shapes.targets import constant_target

FILE = Path(__file__).with_name("inferred.txt")
HEAD = (
    "float[N,4,M] x, float[3,4] w, float[7,N] z, float[0,5] e, float[1,N] o, int64[2] s, int64[65] many, int64[K] l,"
    " int64 n, int32[2] m, bool c, float h, float16[N] half"
)


def inferred(opset: str, nodes: str) -> str:
    """Return shape and elements of `y`; a symbol without a name is `?`."""
    model, shapes = shapes_of(opset, nodes)
    shape, content = shapes.shape(model.graph.outputs[0]), shapes.content(model.graph.outputs[0])
    elements = "-" if content is None else str(content.tolist())
    text = f"{'-' if shape is None else str(list(shape))} | {elements}"
    return re.sub(r"[\w?]+(\*[\w?]+)+", lambda found: "*".join(sorted(found[0].split("*"))), text)


def shapes_of(opset: str, nodes: str) -> tuple[onnx_ir.Model, Shapes]:
    text = (
        f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1, "ai.onnx.ml": 3, "local": 1]>'
        f" g ({HEAD}) => (y) {{ {nodes} }}"
    )
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    return model, Shapes(model, inference)


def lines() -> list[list[str]]:
    return [line.split(" | ") for line in FILE.read_text(encoding="utf-8").splitlines() if line[:1] not in ("#", "")]


def test_shapes_and_elements() -> None:
    for opset, nodes, *expected in lines():
        assert inferred(opset, nodes) == " | ".join(expected), nodes


TARGETS: list[tuple[str, tuple[int, list[int]] | None]] = [
    ("d = Shape (x) f = Add (d, zero) y = Reshape (x, f)", (1, [0, 4, 0])),
    ("d = Shape (x) f = Identity (d) y = Reshape <allowzero = 1> (x, f)", None),  # two of three are unknown
    ("d = Shape (z) f = Identity (d) y = Reshape <allowzero = 1> (z, f)", (1, [7, -1])),
    ("d = Shape (z) y = Reshape (z, d)", None),  # nothing is computed
    ("d = Shape (w) f = Identity (d) y = Reshape (w, f)", None),  # a constant already
    ("y = Reshape (w, s)", None),
    ("d = Shape (z) f = Gather (d, swapped) y = Reshape (z, f)", (1, [-1, 7])),
    ("d = Shape (z) f = Gather (d, swapped) y = Reshape <allowzero = 1> (z, f)", (1, [-1, 7])),
    ("d = Shape (z) f = Gather (d, twice) y = Reshape (z, f)", None),  # the rest may be 0
    ("d = Shape (z) f = Gather (d, swapped) t = Concat <axis = 0> (f, minus) y = Reshape (z, t)", None),
    ("d = Shape (z) f = Identity (d) t = Concat <axis = 0> (f, one) y = Reshape (z, t)", (1, [7, 0, 1])),
    ("d = Shape (x) y = If (c) <then_branch = t () => (a) { a = Identity (w) }, else_branch = f () => (b)"
     " { b = Identity (h) }> f = Identity (d) r = Reshape (y, f)", None),
    ("d = Shape (z) f = Identity (d) y = Expand (z, f)", (1, [7, 1])),
    ("d = Shape (z) f = Identity (d) y = Expand (o, f)", (1, [7, 1])),
    ("d = Shape (z) f = Identity (d) y = Expand (w, f)", (1, [7, 1])),  # 4 is above 1
    ("d = Shape (z) f = Gather (d, swapped) y = Expand (o, f)", None),
    ("d = Shape (z) f = Gather (d, swapped) y = Expand (w, f)", (1, [1, 7])),
    ("d = Shape (x) f = Identity (d) y = Expand (w, f)", None),  # more dimensions than the operand
    ("d = Shape (x) f = Gather (d, one) y = Expand (x, f)", None),  # a number already
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f)", (2, [2**63 - 1])),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, none)", (2, [2**63 - 1])),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, none, one)", (2, [2**63 - 1])),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, none, minus)", None),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, first)", (2, [2**63 - 1])),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, one)", None),  # another dimension
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, beyond)", None),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, swapped)", None),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, l)", None),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, none, l)", None),
    ("d = Shape (x) f = Gather (d, none) t = Concat <axis = 0> (f, one) y = Slice (x, twice, t)", (2, [2**63 - 1, 1])),
    ("d = Shape (x) f = Gather (d, none) t = Concat <axis = 0> (f, one) y = Slice (x, twice, t, swapped)", None),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, straight)", None),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, f)", None),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, , one)", (2, [2**63 - 1])),
    ("d = Shape (x) f = Gather (d, none) y = Slice (x, none, f, none, )", (2, [2**63 - 1])),
    ("d = Shape (x) f = Gather (d, none) u = Reshape (x, l) y = Slice (u, none, f)", None),
    ("d = Shape (x) f = Gather (d, none) u = Reshape (x, l) y = Expand (u, f)", None),
    ("f = local.op (x) y = Reshape (x, f)", None),
    ("d = Shape (z) f = ReduceProd <keepdims = 0> (d) y = Reshape (z, f)", None),
    ("d = Shape (x) f = Add (d, one) y = Reshape (x, f)", None),
    ("d = Shape (z) f = Gather (d, one) t = Concat <axis = 0> (none, f) y = Reshape <allowzero = 1> (z, t)", None),
    ("d = Shape (z) f = Gather (d, swapped) t = Concat <axis = 0> (f, none) y = Reshape (z, t)", None),
    ("d = Shape (x) f = Identity (d) y = Relu (x)", None),
]  # fmt: skip
LISTS = {
    "one": "1",
    "none": "0",
    "minus": "-1",
    "swapped": "1, 0",
    "straight": "0, 1",
    "twice": "1, 1",
    "first": "-3",
    "beyond": "-4",
}


def test_operands_of_shapes() -> None:
    given = " ".join(f"{name} = Constant <value_ints = [{text}]> ()" for name, text in LISTS.items())
    given = f"{given} zero = Constant <value_int = 0> ()"
    for nodes, expected in TARGETS:
        model, shapes = shapes_of("21", f"{given} {nodes}")
        last = list(model.graph)[-1]
        assert constant_target(last, shapes) == expected, nodes


_DECLARED: list[tuple[str, list[int | str | None], str, str, bool]] = [
    # nodes, the declared shape of `y`, how it is used; the shape that follows, and whether the two contradict
    ("y = Reshape (x, l)", [2, "K"], "", "[2, K]", False),
    ("y = Reshape (x, l)", [2, "K"], "ignored", "-", False),
    ("y = NonZero (x)", [3, 7], "", "[3, 7]", False),
    ("y = NonZero (x)", [3, "K"], "", "[3, K]", False),
    ("y = NonZero (x)", [3, 1], "", "[3, 1]", False),
    ("y = NonZero (x)", [3, None], "", "[3, ?]", False),
    ("y = NonZero (x)", [3, 0], "", "[3, ?]", False),
    ("y = NonZero (x)", [3, -1], "", "[3, ?]", False),
    ("y = NonZero (x)", [3, 7], "ignored", "[3, ?]", False),
    ("y = NonZero (x)", [9, 7], "", "[3, 7]", True),
    ("y = NonZero (x)", [9, 7], "preferred", "[9, 7]", False),
    ("y = NonZero (x)", [3, "K"], "preferred", "[3, K]", False),
    ("y = Relu (w)", [3, 4], "", "[3, 4]", False),
    ("y = Relu (w)", [3, "K"], "", "[3, 4]", False),
    ("y = Relu (w)", [3, 5], "", "[3, 4]", True),
    ("y = Relu (w)", [3, 5], "preferred", "[3, 4]", True),
    ("y = Relu (w)", [12], "", "[3, 4]", True),
    ("y = Relu (x)", [2, 4, 6], "", "[N, 4, M]", True),
    ("y = Relu (x)", [2, 4, 6], "preferred", "[2, 4, 6]", False),
    ("y = Relu (x)", [2, 6], "preferred", "[N, 4, M]", True),
]


def test_declared_shapes_complete_what_is_inferred() -> None:
    for nodes, declared, use, expected, contradicted in _DECLARED:
        model, shapes = shapes_of("21", nodes)
        model.graph.outputs[0].shape = onnx_ir.Shape(declared)
        shapes = Shapes(model, shapes.inference, declared=use != "ignored", preferred=use == "preferred")
        shape = shapes.shape(model.graph.outputs[0])
        assert ("-" if shape is None else str(list(shape)), shapes.contradicted) == (expected, contradicted), nodes
    for declared in (False, True):
        again = shapes_of("21", "y = Relu (x)")[1].restarted(declared=declared)
        assert (again.declared, again.preferred) == (declared, declared)


def test_no_dimension_is_larger_than_the_walk_is_told() -> None:
    model, shapes = shapes_of("21", "y = Relu (x)")
    for most, high in ((0, None), (100, 100)):
        limited = Shapes(model, shapes.inference, most)
        for walk in (limited, limited.restarted(declared=False)):
            dims = walk.shape(model.graph.outputs[0])
            assert dims is not None
            assert [(low_of(dim), high_of(dim)) for dim in dims] == [(0, high), (4, 4), (0, high)]


def test_nodes_in_a_cycle_have_no_shapes() -> None:
    """No file holds one, but a model in memory may."""
    model, shapes = shapes_of("21", "a = Relu (x) y = Add (a, x)")
    first, last = model.graph
    first.replace_input_with(0, last.outputs[0])
    assert [shapes.shape(node.outputs[0]) for node in (last, first)] == [None, None]
    assert [shapes.content(node.outputs[0]) for node in (last, first)] == [None, None]


def test_what_enters_a_body_has_no_shape_but_the_count_and_the_condition_of_a_loop() -> None:
    """What a body declares of the rest may be wrong in a turn, or in a call."""
    nodes = """y = Loop (n, c, w) <body = b (int64[7] i, bool[7] k, float[3,4] p) => (bool q, float[3,4] r)
        { q = Identity (k) r = Identity (p) }>
        f, g = Scan <num_scan_inputs = 1, body = s (float[3,4] a, float[4] d) => (float[3,4] t, float[4] u)
        { t = Identity (a) u = Identity (d) }> (w, w)"""
    model, shapes = shapes_of("21", nodes)
    for graph, expected in zip(model.graph.subgraphs(), ([(), (), None], [None, None]), strict=True):
        assert [shapes.shape(value) for value in graph.inputs] == expected, graph.name
    assert shapes.shape(model.graph.inputs[1]) == (3, 4)
    of_function = onnx_ir.Value(name="v", shape=onnx_ir.Shape([2]))
    assert onnx_ir.Graph([of_function], [], nodes=[]).inputs
    assert shapes.shape(of_function) is None


if __name__ == "__main__":
    made: list[str] = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        first = line.split(" | ")[:2]
        made.append(line if line[:1] in ("#", "") else " | ".join((*first, inferred(*first))))
    FILE.write_text("\n".join(made) + "\n", encoding="utf-8")
