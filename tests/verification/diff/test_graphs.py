"""Every kind of difference: two models of a few nodes, and the changes that are found, word for word."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.records import NodeItem
from castsmith.verification.diff.graphs import (
    _name_text,  # pyright: ignore[reportPrivateUsage]
    _source,  # pyright: ignore[reportPrivateUsage]
    _source_changes,  # pyright: ignore[reportPrivateUsage]
    attribute_changes,
    unused_constant_changes,
)
from castsmith.verification.diff.keys import (
    Keys,
    _input_key,  # pyright: ignore[reportPrivateUsage]
    attribute_key,
)
from castsmith.verification.diff.models import rewrites_between
from castsmith.verification.diff.tensors import tensor_difference

_HEAD = '<ir_version: 10, opset_import: ["" : 21, "f" : 1]> '
_BASE = (
    "g (float[2] x, float[2] z) => (float[2] y, float[2] v) { a = Relu (x) y = Elu <alpha = 0.5> (a) v = Add (a, z) }"
)
_BRANCHES = """g (bool c, float[2] x) => (float[2] y) { y = If (c) <
    then_branch = t () => (float[2] p) { p = Neg (x) }, else_branch = e () => (float[2] q) { q = Abs (x) }> }"""
_CONSTANTS = """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[1] s = {3}> {
    a = Add (x, w) y = Mul (a, s) }"""
_FUNCTION = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
    g (float[2] x) => (float[2] y) { y = f.h <k = 2.0> (x) }
    <domain: "f", opset_import: ["" : 21]> h <k, j> (p) => (q) { r = Abs (p) q = LeakyRelu <alpha: float = @k> (r) }"""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text if text.startswith("<") else _HEAD + text)


def changes(before: Any, after: Any, **given: bool) -> list[tuple[str, ...]]:
    a, b = (parsed(each) if isinstance(each, str) else each for each in (before, after))
    found = castsmith.diff(a, b, **given)
    return [(each.kind, each.place, each.subject, each.before, each.after, each.detail) for each in found.changes]


_PAIRS: dict[str, tuple[str, str, str, list[tuple[str, ...]]]] = {
    "attribute": (
        _BASE,
        "alpha = 0.5",
        "alpha = 0.25",
        [("attribute-changed", "g: y (Elu)", "attribute alpha", "0.5", "0.25", "")],
    ),
    "attribute left out": (
        _BASE,
        "<alpha = 0.5>",
        "",
        [("attribute-changed", "g: y (Elu)", "attribute alpha", "0.5", "not set", "")],
    ),
    "attribute at its default": (
        _BASE,
        "<alpha = 0.5>",
        "<alpha = 1.0>",
        [("attribute-changed", "g: y (Elu)", "attribute alpha", "0.5", "1.0", "")],
    ),
    "attribute of another type": (
        _BASE,
        "Relu (x)",
        "Cast <to = 1> (x)",
        [
            (
                "operator-changed",
                "g: a (Relu)",
                "operator",
                "a = Relu (x)  # (float[2]) -> float",
                "a = Cast <to = float> (x)  # (float[2]) -> float",
                "",
            )
        ],
    ),
    "operator": (
        _BASE,
        "Relu (x)",
        "Neg (x)",
        [
            (
                "operator-changed",
                "g: a (Relu)",
                "operator",
                "a = Relu (x)  # (float[2]) -> float",
                "a = Neg (x)  # (float[2]) -> float",
                "",
            )
        ],
    ),
    "operand": (
        _BASE,
        "Add (a, z)",
        "Add (x, z)",
        [("operand-changed", "g: v (Add)", "input 0", "a", "x", "")],
    ),
    "operands swapped": (
        _BASE,
        "Add (a, z)",
        "Add (z, a)",
        [
            ("operand-changed", "g: v (Add)", "input 0", "a", "z", ""),
            ("operand-changed", "g: v (Add)", "input 1", "z", "a", ""),
        ],
    ),
    "operand left out": (
        _BASE,
        "Add (a, z)",
        "Sum (a)",
        [
            (
                "operator-changed",
                "g: v (Add)",
                "operator",
                "v = Add (a, z)  # (float, float[2]) -> float[2]",
                "v = Sum (a)  # (float) -> float[2]",
                "",
            )
        ],
    ),
    "node added": (
        _BASE,
        "y = Elu",
        "b = Abs (a) y = Elu",
        [("node-added", "g: b (Abs)", "node", "", "b = Abs (a)  # (float) -> float", "")],
    ),
    "input renamed": (_BASE, "z", "w", [("input-renamed", "g", "name of input z", "z", "w", "")]),
    "input of another type": (
        _BASE,
        "float[2] z",
        "float[N] z",
        [("input-type-changed", "g", "input z", "float[2]", "float[N]", "")],
    ),
    "inputs in another order": (
        _BASE,
        "float[2] x, float[2] z",
        "float[2] z, float[2] x",
        [("input-order-changed", "g", "order of inputs", "x, z", "z, x", "")],
    ),
    "input added": (
        _BASE,
        "float[2] z)",
        "float[2] z, float[2] u)",
        [("input-added", "g", "input u", "", "float[2]", "")],
    ),
    "input removed": (
        _BASE.replace("(a, z)", "(a, x)"),
        ", float[2] z) => (float[2] y, float[2] v)",
        ") => (float[2] y, float[2] v)",
        [("input-removed", "g", "input z", "float[2]", "", "")],
    ),
    "output removed": (_BASE, ", float[2] v)", ")", [("output-removed", "g", "output v", "float[2]", "", "")]),
    "output renamed": (_BASE, "v", "o", [("output-renamed", "g", "name of output v", "v", "o", "")]),
    "outputs in another order": (
        _BASE,
        "float[2] y, float[2] v",
        "float[2] v, float[2] y",
        [("output-order-changed", "g", "order of outputs", "y, v", "v, y", "")],
    ),
    "output of another type": (
        _BASE,
        "float[2] v)",
        "float16[2] v)",
        [("output-type-changed", "g", "output v", "float[2]", "float16[2]", "")],
    ),
    "constant": (
        _CONSTANTS,
        "{1, 2}",
        "{1, 4}",
        [
            (
                "constant-changed",
                "g: a (Add)",
                "constant w",
                "float[2]",
                "float[2]",
                "1 of 2 elements differ, the largest difference 2.0 at [1]: 2.0 -> 4.0",
            )
        ],
    ),
    "constant of one element": (
        _CONSTANTS,
        "{3}",
        "{5}",
        [
            (
                "constant-changed",
                "g: y (Mul)",
                "constant s",
                "float[1] {3.0}",
                "float[1] {5.0}",
                "1 of 1 elements differ, the largest difference 2.0 at [0]: 3.0 -> 5.0",
            )
        ],
    ),
    "constant of another type": (
        _CONSTANTS,
        "float[1] s = {3}",
        "float16[1] s = {3}",
        [
            (
                "constant-changed",
                "g: y (Mul)",
                "constant s",
                "float[1]",
                "float16[1]",
                "1 of 1 elements differ, the largest difference 2.9999998211860657 at [0]: 3.0 -> 2e-07",
            )
        ],
    ),
    "constant of another shape": (
        _CONSTANTS,
        "float[1] s = {3}",
        "float s = {3}",
        [("constant-changed", "g: y (Mul)", "constant s", "float[1]", "float[]", "")],
    ),
    "constant for an input": (
        _CONSTANTS,
        "Add (x, w)",
        "Add (x, x)",
        [("operand-changed", "g: a (Add)", "input 1", "w", "x", "")],
    ),
    "constant renamed": (_CONSTANTS, "w", "other", []),
    "NaN": (
        _CONSTANTS,
        "{3}",
        "{nan}",
        [
            (
                "constant-changed",
                "g: y (Mul)",
                "constant s",
                "float[1] {3.0}",
                "float[1] {nan}",
                "1 of 1 elements differ, the largest difference NaN on one side at [0]: 3.0 -> nan",
            )
        ],
    ),
    "branch": (
        _BRANCHES,
        "Neg (x)",
        "Relu (x)",
        [
            (
                "operator-changed",
                "t: p (Neg)",
                "operator",
                "p = Neg (x)  # (float[2]) -> float[2]",
                "p = Relu (x)  # (float[2]) -> float[2]",
                "",
            )
        ],
    ),
    "node in a branch": (
        _BRANCHES,
        "p = Neg (x)",
        "r = Abs (x) p = Neg (r)",
        [
            ("node-added", "t: r (Abs)", "node", "", "r = Abs (x)  # (float[2]) -> float", ""),
            ("operand-changed", "t: p (Neg)", "input 0", "x", "r", ""),
        ],
    ),
    "type in a branch": (
        _BRANCHES,
        "=> (float[2] p)",
        "=> (float[3] p)",
        [("output-type-changed", "t", "output p", "float[2]", "float[3]", "")],
    ),
    "function": (
        _FUNCTION,
        "Abs (p)",
        "Neg (p)",
        [
            (
                "operator-changed",
                "f.h: r (Abs)",
                "operator",
                "r = Abs (p)  # (float) -> float",
                "r = Neg (p)  # (float) -> float",
                "",
            )
        ],
    ),
    "opset of a function": (
        _FUNCTION,
        '<domain: "f", opset_import: ["" : 21]>',
        '<domain: "f", opset_import: ["" : 20]>',
        [("opset-changed", "h", "opset of ai.onnx", "21", "20", "")],
    ),
    "reference": (
        _FUNCTION,
        "@k",
        "@j",
        [("attribute-changed", "f.h: q (LeakyRelu)", "attribute alpha", "@k", "@j", "")],
    ),
    "argument": (_FUNCTION, "2.0", "3.0", [("attribute-changed", "g: y (h)", "attribute k", "2.0", "3.0", "")]),
    "parameter": (
        _FUNCTION,
        "h <k, j>",
        "h <j, k: float = 2.0>",
        [("parameter-changed", "h", "parameter k", "None", "2.0", "")],
    ),
    "function added": (
        _FUNCTION,
        '<domain: "f"',
        '<domain: "f", opset_import: ["" : 21]> i (p) => (q) { q = Abs (p) } <domain: "f"',
        [("function-added", "f.i", "function", "", "f.i", "")],
    ),
    "opset": (_HEAD + _BASE, '"" : 21', '"" : 20', [("opset-changed", "", "opset of ai.onnx", "21", "20", "")]),
    "opset left out": (_HEAD + _BASE, ', "f" : 1', "", [("opset-changed", "", "opset of f", "1", "", "")]),
    "ir version": (
        _HEAD + _BASE,
        "ir_version: 10",
        "ir_version: 9",
        [("ir-version-changed", "", "IR version", "10", "9", "")],
    ),
    "metadata": (
        '<ir_version: 10, opset_import: ["" : 21], metadata_props: ["a": "1"]> ' + _BASE,
        '"a": "1"',
        '"a": "2", "b": ""',
        [("metadata-changed", "", "metadata a", "1", "2", ""), ("metadata-changed", "", "metadata b", "", "", "")],
    ),
    "name of a node": (_BASE, "a = Relu", "[n] a = Relu", []),
    "strings": (
        """g (float[2] x) => (string[2] y) <string[2] w = {"a", "b"}> { y = Identity (w) }""",
        '"a"',
        '"c"',
        [
            (
                "constant-changed",
                "g: y (Identity)",
                "constant w",
                "string[2]",
                "string[2]",
                "1 of 2 elements differ, at [0]: b'a' -> b'c'",
            )
        ],
    ),
    "number of outputs": (
        _BASE.replace("v = Add (a, z)", "m, n = Split <num_outputs = 2> (x) v = Add (a, m)"),
        "m, n = Split <num_outputs = 2> (x) v = Add (a, m)",
        "m, n, o = Split <num_outputs = 3> (x) v = Add (a, m)",
        [
            ("attribute-changed", "g: m (Split)", "attribute num_outputs", "2", "3", ""),
            ("output-count-changed", "g: m (Split)", "number of outputs", "2", "3", ""),
        ],
    ),
    "declared type of a value": (
        _BASE.replace("v) {", "v) <float[2] a> {"),
        "<float[2] a>",
        "<float[3] a>",
        [("type-changed", "g: a (Relu)", "type of a", "float[2]", "float[3]", "")],
    ),
    "declared type of a value left out": (
        _BASE.replace("v) {", "v) <float[2] a> {"),
        "<float[2] a>",
        "",
        [],
    ),
}
"""A model, what is changed in its text, and the changes: kind, place, subject, before, after, detail."""


@pytest.mark.parametrize("name", _PAIRS)
def test_changes(name: str) -> None:
    base, old, new, expected = _PAIRS[name]
    assert old in base
    assert changes(base, base.replace(old, new)) == expected
    assert changes(base, base) == []


def with_metadata(**entries: str) -> onnx.ModelProto:
    model = parsed(_BASE)
    for key, value in entries.items():
        model.graph.node[0].metadata_props.add(key=key, value=value)
    return model


def test_metadata_of_nodes_count_on_request() -> None:
    before, after = with_metadata(a="1", b="2", d=""), with_metadata(a="1", b="3", c="")
    assert changes(before, after) == []
    place = "g: a (Relu)"
    assert changes(before, after, everything=True) == [
        ("node-metadata-changed", place, "metadata b", "2", "3", ""),
        ("node-metadata-changed", place, "metadata c", "", "", ""),
        ("node-metadata-changed", place, "metadata d", "", "", ""),
    ]


def array(*numbers: float, dtype: Any = np.float32) -> Any:
    return np.array(numbers, dtype)


def tensor(*numbers: float, name: str = "t") -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(array(*numbers), name)


def test_unused_constants_count_on_request() -> None:
    def model(**arrays: float) -> onnx.ModelProto:
        made = parsed(_BASE)
        made.graph.initializer.extend(tensor(number, name=name) for name, number in arrays.items())
        return made

    before, after = model(p=1, q=2, r=3), model(q=2, r=4, s=5)
    assert changes(before, after) == []
    assert changes(before, after, everything=True) == [
        ("unused-constant-removed", "g", "unused constant p", "float[1] p = {1.0}", "", ""),
        ("unused-constant-changed", "g", "unused constant r", "float[1] r = {3.0}", "float[1] r = {4.0}", ""),
        ("unused-constant-added", "g", "unused constant s", "", "float[1] s = {5.0}", ""),
    ]


def test_defaults_of_inputs() -> None:
    def model(number: float | None) -> onnx.ModelProto:
        made = parsed(_BASE)
        if number is not None:
            made.graph.initializer.append(tensor(number, 1, name="z"))
        return made

    place = ("constant-changed", "g", "default of input z")
    assert changes(model(1), model(1)) == []
    assert changes(model(None), model(1)) == [(*place, "", "set", "")]
    assert changes(model(1), model(None)) == [(*place, "set", "", "")]
    assert changes(model(1), model(4)) == [
        (*place, "float[2]", "float[2]", "1 of 2 elements differ, the largest difference 3.0 at [0]: 1.0 -> 4.0")
    ]


def graph(text: str) -> onnx.GraphProto:
    return onnx.parser.parse_graph(f"b () => (float[2] r) {{ {text} }}")


def attribute(value: Any) -> onnx.AttributeProto:
    """An attribute `a`, of one tensor or graph or of a list."""
    if not isinstance(value, list):
        return onnx.helper.make_attribute("a", value)
    kind = "graphs" if isinstance(value[0], onnx.GraphProto) else "tensors"
    made = onnx.AttributeProto(name="a", type=getattr(onnx.AttributeProto, kind.upper()))
    getattr(made, kind).extend(value)
    return made


def with_attribute(*values: Any) -> onnx.ModelProto:
    made = parsed(_BASE)
    made.graph.node[0].op_type, made.graph.node[0].domain = "n", "f"
    made.graph.node[0].attribute.extend(attribute(value) for value in values)
    return made


_GRAPHS = [[graph("r = Neg (x)")], [graph("r = Neg (x)")] * 2, [graph("r = Neg (x)"), graph("r = Abs (x)")]]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([tensor(1, 2)], [tensor(1, 4)], ("attribute a", "float[2]", "float[2]",
         "1 of 2 elements differ, the largest difference 2.0 at [1]: 2.0 -> 4.0")),
        ([tensor(1, 2)], [], ("attribute a", "a tensor", "not set", "")),
        ([[tensor(1), tensor(2)]], [[tensor(1), tensor(4)]], ("attribute a", "a tensor", "a tensor", "")),
        ([_GRAPHS[0]], [_GRAPHS[1]], ("number of graphs in a", "1", "2", "")),
        ([], [_GRAPHS[0]], ("attribute a", "not set", "a graph", "")),
        ([tensor(1, 2)], [_GRAPHS[0]], ("attribute a", "a tensor", "a graph", "")),
    ],
)  # fmt: skip
def test_attributes_of_tensors_and_graphs(before: list[Any], after: list[Any], expected: tuple[str, ...]) -> None:
    one, other = with_attribute(*before), with_attribute(*after)
    assert changes(one, other) == [("attribute-changed", "g: a (n)", *expected)]
    assert changes(one, one) == []
    assert changes(other, other) == []


def test_attributes_that_refer_to_a_parameter() -> None:
    """One that refers differs from one that states a value, and from one that refers to another."""
    keys = Keys()

    def node(attribute: onnx.AttributeProto, refers: str = "") -> onnx_ir.Node:
        made = onnx.NodeProto(op_type="n", domain="f", output=["y"])
        made.attribute.add().CopyFrom(attribute)
        if refers:
            made.attribute[0].Clear()
            made.attribute[0].name, made.attribute[0].type = "a", attribute.type
            made.attribute[0].ref_attr_name = refers
        return onnx_ir.from_proto(made)

    for value in (3, tensor(1, 2), graph("r = Identity (r0)")):
        plain, one, other = (node(attribute(value), refers) for refers in ("", "p", "q"))
        for a, b in itertools.product((plain, one, other), repeat=2):
            found = list(attribute_changes(a, b, "g", keys))
            assert [change.subject for change in found] == ["attribute a"] * (a is not b)
            texts = {text for change in found for text in (change.before, change.after)}
            assert ("@p" in str(texts)) is (one in (a, b) and a is not b)


def test_graphs_of_one_attribute_are_compared() -> None:
    found = changes(with_attribute(_GRAPHS[1]), with_attribute(_GRAPHS[2]))
    assert [change[:2] for change in found] == [("operator-changed", "b: r (Neg)")]


def test_nodes_in_one_place_are_matched() -> None:
    """Of two nodes of one operator with the same operand, each takes the one that feeds the same consumer."""
    before = """g (float[2] x, float[2] z) => (float[2] y) { a = Elu <alpha = 0.5> (x) b = Elu <alpha = 0.25> (x)
        c = Add (a, z) d = Mul (b, c) y = Neg (d) }"""
    after = before.replace("0.5", "0.75").replace("0.25", "2.0").replace("Neg", "Abs")
    assert [change[1:5] for change in changes(before, after) if change[0] == "attribute-changed"] == [
        ("g: a (Elu)", "attribute alpha", "0.5", "0.75"),
        ("g: b (Elu)", "attribute alpha", "0.25", "2.0"),
    ]


def test_removed_nodes_stand_before_what_followed_them() -> None:
    before = "g (float[2] x) => (float[2] y) { a = Abs (x) b = Neg (a) c = Relu (b) y = Exp (c) }"
    after = "g (float[2] x) => (float[2] y) { b = Neg (x) y = Exp (b) }"
    found = castsmith.diff(parsed(before), parsed(after))
    kinds = ["node-removed", "operand-changed", "node-removed", "operand-changed"]
    assert [change.kind for change in found.changes] == kinds
    assert (found.nodes_same, found.nodes_changed, found.nodes_added, found.nodes_removed) == (0, 2, 0, 2)
    assert found.summary() == "4 differences; nodes: 0 the same, 2 changed, 0 added, 2 removed"
    assert repr(found) == f"<ModelDiff: {found.summary()}>"


_LONG, _TEXT = 2**62, "x" * 99


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (np.array([1, 2.0]), np.array([1, 2.5]),
         "1 of 2 elements differ, the largest difference 0.5 at [1]: 2.0 -> 2.5"),
        (np.array([[1, 9], [2, 3]]), np.array([[1, 2], [3, 3]]),
         "2 of 4 elements differ, the largest difference 7.0 at [0, 1]: 9 -> 2"),
        (array(0.0), array(-0.0), "1 of 1 elements differ in their bits but not in value, at [0]: 0.0 -> -0.0"),
        (array(np.nan, 1), array(np.nan, 1.5),
         "1 of 2 elements differ, the largest difference 0.5 at [1]: 1.0 -> 1.5"),
        (array(np.nan, 1), array(1, 9),
         "2 of 2 elements differ, the largest difference NaN on one side at [0]: nan -> 1.0"),
        (array(np.inf, 1), array(1, 1), "1 of 2 elements differ, the largest difference inf at [0]: inf -> 1.0"),
        (array(1, 2), array(1, 2, dtype=np.float16), "the values are the same"),
        (array(1, 2), array(1, 4, dtype=np.int32),
         "1 of 2 elements differ, the largest difference 2.0 at [1]: 2.0 -> 4"),
        (np.array([_LONG, _LONG]), np.array([_LONG, _LONG + 1]),
         f"1 of 2 elements differ, the largest difference 1.0 at [1]: {_LONG} -> {_LONG + 1}"),
        (np.array([1 + 1j]), np.array([1 + 3j]),
         "1 of 1 elements differ, the largest difference 2.0 at [0]: (1+1j) -> (1+3j)"),
        (np.array([1 + 1j]), np.array([1.0]), ""),
        (np.array([1.0]), np.array([1 + 1j]), ""),
        (np.array([1.0]), np.array([[1.5]]), ""),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), "1 of 2 elements differ, at [1]: b'b' -> b'c'"),
        (np.array([_TEXT], object), np.array(["y"], object),
         f"1 of 1 elements differ, at [0]: b'{_TEXT[:38]}... -> b'y'"),
    ],
)  # fmt: skip
def test_differences_of_constants(before: Any, after: Any, expected: str) -> None:
    tensors = [onnx_ir.from_proto(onnx.numpy_helper.from_array(array, "t")) for array in (before, after)]
    assert tensor_difference(*tensors).detail == expected


def test_changes_of_a_pass_without_records() -> None:
    texts = (_BASE, _BASE.replace("Relu", "Neg").replace("0.5", "0.25"))
    models = [onnx_ir.from_proto(parsed(text)) for text in texts]
    records = rewrites_between(models[0], models[1], "my-pass")
    assert [(each.pass_name, each.rule, str(each.site), each.reason.partition(" differs")[0]) for each in records] == [
        ("my-pass", "unrecorded-change", "g: a (Relu)", "operator"),
        ("my-pass", "unrecorded-change", "g: y (Elu)", "attribute alpha"),
    ]
    assert [(each.before, each.after) for each in records][1] == ("0.5", "0.25")
    items = [item for each in records for item in (*each.removed, *each.made)]
    assert [item.op_type if isinstance(item, NodeItem) else None for item in items] == ["Relu", "Neg", None, None]
    newer = models[0].clone()
    newer.graph.opset_imports[""] = 22
    (whole,) = rewrites_between(models[0], newer, "p")
    assert (str(whole.site), whole.reason.split()[0]) == ("g", "opset")


def test_where_a_value_comes_from() -> None:
    body = "c = Constant <value_float = 1.0> () y = Add (x, w)"
    model = onnx_ir.from_proto(parsed(f"g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ {body} }}"))
    constant, node = model.graph
    x, w = node.inputs
    assert x is not None
    assert w is not None
    assert [*map(_source, (x, w, constant.outputs[0], node.outputs[0]))] == ["input", "constant", "constant", "Add"]
    assert [_name_text(value) for value in (x, None, onnx_ir.Value(name=None))] == ["x", "none", "(unnamed)"]


def test_an_operand_that_is_left_out_on_one_side() -> None:
    matching: Any = None
    value = onnx_ir.Value(name="v")
    pairs = [(None, None), (None, value), (value, None)]
    found = [[(c.before, c.after) for c in _source_changes(matching, x, y, "g", "input 1")] for x, y in pairs]
    assert found == [[], [("none", "v")], [("v", "none")]]


@pytest.mark.parametrize(
    ("left", "right", "count"), [(1, 1, 0), (1, 2, 1), (None, 1, 0), (1, None, 0), (None, None, 0)]
)
def test_unused_constants_without_content(left: float | None, right: float | None, count: int) -> None:
    """One that a malformed model declares without a tensor is not compared."""

    def scope(number: float | None) -> onnx_ir.Graph:
        made = onnx_ir.Graph([], [], nodes=[], name="g")
        content = None if number is None else onnx_ir.tensor([number], name="p")
        made.initializers["p"] = onnx_ir.Value(name="p", const_value=content)
        return made

    assert len(list(unused_constant_changes(scope(left), scope(right), "g"))) == count


_CONTENTS: list[Any] = [
    tensor(1, 2), tensor(1, 4), [tensor(1), tensor(2)], [tensor(1), tensor(4)], [tensor(1)], graph("r = Neg (x)"),
    graph("r = Abs (x)"), [graph("r = Neg (x)")], [graph("r = Neg (x)"), graph("r = Neg (x)")], [graph("r = Abs (x)")],
]  # fmt: skip


def test_keys_of_attributes_are_those_of_their_contents() -> None:
    """Also of tensors and graphs, which are other objects in each model."""

    def key(value: Any, keys: Keys) -> Any:
        outer, read = onnx_ir.Value(name="x"), onnx_ir.serde.deserialize_attribute(attribute(value))
        for inner in (
            read.as_graphs() if read.type.name == "GRAPHS" else [read.as_graph()] if read.type.name == "GRAPH" else []
        ):
            inner[0].replace_input_with(0, outer)
        return attribute_key(read, keys, {outer: 7})

    keys = Keys()
    first, again = ([key(value, keys) for value in _CONTENTS] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(_CONTENTS)
    for one, other in ((tensor(1, 2), tensor(1, 2, name="u")), ([tensor(1)], [tensor(1, name="u")])):
        assert key(one, keys) == key(other, keys)  # names of tensors are no contents
    long = [tensor(*(float(n == at) for n in range(5000)), name="t") for at in (2000, 3000)]
    assert key(long[0], keys) != key(long[1], keys)
    assert key(long[:1], keys) != key(long[1:], keys)


def test_keys_of_values_that_a_malformed_model_does_not_define() -> None:
    assert [change[0] for change in changes(_BASE.replace("(a, z)", "(a)"), _BASE.replace("(a, z)", "(a, )"))] == []
    keys = Keys()
    p, again, q = (onnx_ir.Value(name=name) for name in "ppq")
    found = [_input_key(value, keys, {}) for value in (p, again, q)]
    assert found[0] == found[1] != found[2]
    assert _input_key(None, keys, {}) not in found
    assert _input_key(p, keys, {p: 99}) == 99
