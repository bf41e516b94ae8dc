"""castsmith diff: every single change is found, and what means the same gives no difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import onnx.shape_inference
import onnx_ir
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from castsmith.verification.diff.models import ModelDiff, diff
from tests.cli.helpers import Command, write_model

TEXT = """<ir_version: 10, opset_import: ["" : 18, "local" : 1], metadata_props: ["key": "value"]>
main (bool c, float[N, 4] x) => (float[N, 4] y, float[N, 8] both)
<float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] v = {0.5, 0.5, 0.5, 0.5}, int64[1] axes = {0}> {
    scaled = Mul (x, w)
    shifted = Add (scaled, v)
    active = Relu (shifted)
    wide = Concat <axis = 1> (active, scaled)
    both = local.twice <factor = 2> (wide)
    chosen = If (c) <
        then_branch = yes () => (float[N, 4] p) { p = Neg (active) },
        else_branch = no () => (float[N, 4] q) { half = Constant <value = float {0.5}> () q = Mul (active, half) }
    >
    d = Cast <to = 11> (chosen)
    y = Cast <to = 1> (d)
}
<opset_import: ["" : 18], domain: "local">
twice <factor> (a, unused) => (b) {
    b = Add (a, a)
}"""


Array = npt.NDArray[Any]


def model() -> ModelProto:
    return onnx.parser.parse_model(TEXT)


def compare(a: ModelProto, b: ModelProto) -> ModelDiff:
    return diff(onnx_ir.from_proto(a), onnx_ir.from_proto(b))


def changed(change: Callable[[ModelProto], object]) -> tuple[ModelDiff, ModelDiff]:
    """The comparison with a model so changed, both ways round."""
    other = model()
    change(other)
    return compare(model(), other), compare(other, model())


def node(proto: ModelProto, output: str) -> onnx.NodeProto:
    return next(node for node in proto.graph.node if output in node.output)


def add_cast(proto: ModelProto) -> None:
    node(proto, "shifted").input[0] = "in_between"
    proto.graph.node.insert(1, helper.make_node("Cast", ["scaled"], ["in_between"], to=TensorProto.FLOAT))


def remove_relu(proto: ModelProto) -> None:
    proto.graph.node.remove(node(proto, "active"))
    rename(proto, "active", "shifted")


def rename(proto: ModelProto, old: str, new: str) -> None:
    """Rename a value wherever it is used or made, subgraphs included."""

    def inside(graph: onnx.GraphProto) -> None:
        for one in graph.node:
            one.input[:] = [new if name == old else name for name in one.input]
            one.output[:] = [new if name == old else name for name in one.output]
            for attribute in one.attribute:
                inside(attribute.g)
        for value in [*graph.initializer, *graph.value_info, *graph.output, *graph.input]:
            value.name = new if value.name == old else value.name

    inside(proto.graph)


def set_constant(proto: ModelProto, name: str, content: Array) -> None:
    tensor = next(tensor for tensor in proto.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(content, name))


def branch(proto: ModelProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in node(proto, "chosen").attribute if a.name == name)


W = np.array([1, 2, 3, 4.5], np.float32)

MUTATIONS: dict[str, tuple[Callable[[ModelProto], object], list[str]]] = {
    "a node added": (add_cast, ["node-added", "operand-changed"]),
    "a node removed": (remove_relu, ["node-removed", *["operand-changed"] * 3]),
    "an operator": (lambda m: setattr(node(m, "active"), "op_type", "Sigmoid"), ["operator-changed"]),
    "an attribute": (lambda m: setattr(node(m, "d").attribute[0], "i", TensorProto.DOUBLE - 1), ["attribute-changed"]),
    "an attribute more": (
        lambda m: node(m, "y").attribute.append(helper.make_attribute("saturate", 1)),
        ["attribute-changed"],
    ),
    "operands in another order": (lambda m: node(m, "wide").input.reverse(), ["operand-changed"] * 2),
    "a constant": (lambda m: set_constant(m, "w", W), ["constant-changed"]),
    "the type of a constant": (lambda m: set_constant(m, "w", W.astype(np.float16)), ["constant-changed"]),
    "the sign of a zero": (lambda m: set_constant(m, "v", np.array([0.5, 0.5, 0.5, -0.5], "f4")), ["constant-changed"]),
    "a constant in a branch": (
        lambda m: (
            branch(m, "else_branch")
            .node[0]
            .attribute[0]
            .t.CopyFrom(numpy_helper.from_array(np.array(0.25, np.float32)))
        ),
        ["constant-changed"],
    ),
    "an operator in a branch": (
        lambda m: setattr(branch(m, "then_branch").node[0], "op_type", "Abs"),
        ["operator-changed"],
    ),
    "an operator in a function": (lambda m: setattr(m.functions[0].node[0], "op_type", "Mul"), ["operator-changed"]),
    "a function added": (
        lambda m: m.functions.add(name="other", domain="local").opset_import.add(version=18),
        ["function-added"],
    ),
    "the IR version": (lambda m: setattr(m, "ir_version", 9), ["ir-version-changed"]),
    "the opset": (lambda m: setattr(m.opset_import[0], "version", 19), ["opset-changed"]),
    "an import": (lambda m: m.opset_import.add(domain="other", version=1), ["opset-changed"]),
    "metadata": (lambda m: setattr(m.metadata_props[0], "value", "other"), ["metadata-changed"]),
    "more metadata": (lambda m: m.metadata_props.add(key="more", value="x"), ["metadata-changed"]),
    "the type of an input": (
        lambda m: setattr(m.graph.input[1].type.tensor_type, "elem_type", TensorProto.DOUBLE),
        ["input-type-changed"],
    ),
    "the shape of an output": (
        lambda m: setattr(m.graph.output[0].type.tensor_type.shape.dim[1], "dim_value", 5),
        ["output-type-changed"],
    ),
    "the name of an input": (lambda m: rename(m, "x", "other"), ["input-renamed"]),
    "the name of an output": (lambda m: rename(m, "both", "other"), ["output-renamed"]),
    "the order of inputs": (lambda m: m.graph.input.append(m.graph.input.pop(0)), ["input-order-changed"]),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_single_change_is_found_and_nothing_else(name: str) -> None:
    change, kinds = MUTATIONS[name]
    forth, back = changed(change)
    assert sorted(found.kind for found in forth.changes) == sorted(kinds)
    swapped = {"added": "removed", "removed": "added"}
    mirrored = [
        kind.replace(kind.split("-")[-1], swapped.get(kind.split("-")[-1], kind.split("-")[-1])) for kind in kinds
    ]
    assert sorted(found.kind for found in back.changes) == sorted(mirrored)
    assert all(found.before != found.after or found.detail for found in forth.changes)


def constant_as_node(proto: ModelProto) -> None:
    weight = proto.graph.initializer.pop(0)
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["elsewhere"], value=weight))
    node(proto, "scaled").input[1] = "elsewhere"


def shuffle(proto: ModelProto) -> None:
    order = ["scaled", "shifted", "active", "chosen", "d", "y", "wide", "both"]
    nodes = [node(proto, output) for output in order]
    copies = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
    del proto.graph.node[:]
    proto.graph.node.extend(copies)


def rename_all(proto: ModelProto) -> None:
    for index, name in enumerate(["scaled", "shifted", "active", "wide", "chosen", "d", "w", "v", "p", "q", "half"]):
        rename(proto, name, f"t{index}")
    for index, one in enumerate(proto.graph.node):
        one.name = f"n{index}"


SAME: dict[str, Callable[[ModelProto], object]] = {
    "nothing": lambda _: None,
    "other names": rename_all,
    "another order": shuffle,
    "other names and another order": lambda m: (shuffle(m), rename_all(m)),
    "a constant as a node": constant_as_node,
    "a constant in raw bytes": lambda m: set_constant(m, "w", np.array([1, 2, 3, 4], np.float32)),
    "an unused constant": lambda m: m.graph.initializer.append(numpy_helper.from_array(np.ones(3), "dead")),
    "a type declared": lambda m: m.graph.value_info.append(helper.make_tensor_value_info("d", TensorProto.DOUBLE, [2])),
    "the producer": lambda m: (setattr(m, "producer_name", "other"), setattr(m, "doc_string", "text")),
    "an absent input at the end": lambda m: node(m, "both").input.append(""),
    "the domain of ONNX by its other name": lambda m: setattr(node(m, "active"), "domain", "ai.onnx"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_means_the_same_is_no_difference(name: str) -> None:
    forth, back = changed(SAME[name])
    assert forth.changes == back.changes == ()
    assert forth.nodes_same == 11


def test_the_largest_difference_of_a_constant_and_where_it_is() -> None:
    forth, _ = changed(lambda m: set_constant(m, "w", np.array([1, 2.25, 3, 2], np.float32)))
    assert forth.changes[0].detail == "2 of 4 elements differ, the largest difference 2.0 at [3]: 4.0 -> 2.0"


def array(dtype: str, *elements: object) -> Array:
    return np.array(elements, dtype)


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        (array("f4", 0, 1), array("f4", -0.0, 1), "1 of 2 elements differ in their bits but not in value, at [0]: "),
        (array("f4", 0, 1), array("f4", np.nan, 9), "2 of 2 elements differ, the largest difference NaN on one side"),
        (array("i8", 2**62), array("i8", 2**62 + 1), "1 of 1 elements differ, the largest difference 1.0 at [0]"),
        (
            array("u8", 2**64 - 1),
            array("u8", 0),
            "1 of 1 elements differ, the largest difference 1.8446744073709552e+19",
        ),
        (array("f4", 1, 2), array("f2", 1, 2), "the values are the same"),
        (array("c8", 1j), array("c8", 2j), "1 of 1 elements differ, the largest difference 1.0 at [0]"),
        (array("O", b"a", b"b"), array("O", b"a", b"c"), "1 of 2 elements differ, at [1]: b'b' -> b'c'"),
        (array("f4", 1, 2), array("f4", 1, 2, 3), ""),
    ],
    ids=str,
)
def test_constants_of_every_kind(before: Array, after: Array, detail: str) -> None:
    models: list[ModelProto] = []
    for content in (before, after):
        weight = numpy_helper.from_array(content, "w")
        value = helper.make_tensor_value_info("y", weight.data_type, None)
        graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [value], [weight])
        models.append(helper.make_model(graph))
    found = [change for change in compare(*models).changes if change.kind == "constant-changed"]
    assert len(found) == 1
    assert found[0].detail.startswith(detail)
    assert bool(found[0].detail) == bool(detail)


def test_equal_branches_of_a_graph_are_told_apart_by_what_becomes_of_them() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    twins (float[N] x) => (float[N] y) { a = Relu (x) b = Relu (x) c = Neg (a) d = Abs (b) y = Add (c, d) }"""
    one, two = onnx.parser.parse_model(text), onnx.parser.parse_model(text)
    two.graph.node[2].input[0], two.graph.node[3].input[0] = "b", "a"
    assert compare(one, two).changes == ()
    two.graph.node[3].op_type = "Exp"
    assert [change.kind for change in compare(one, two).changes] == ["operator-changed"]


def test_a_long_chain_takes_time_in_proportion() -> None:
    def chain(middle: str) -> onnx_ir.Model:
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("v0", "v4000")]
        nodes = [
            helper.make_node(middle if i == 2000 else ("Relu", "Neg")[i % 2], [f"v{i}"], [f"v{i + 1}"])
            for i in range(4000)
        ]
        return onnx_ir.from_proto(helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:])))

    found = diff(chain("Relu"), chain("Exp"))
    assert [change.kind for change in found.changes] == ["operator-changed"]
    assert found.nodes_same == 3999


def test_the_command(castsmith: Command, tmp_path: Path) -> None:
    a, b, c = (tmp_path / f"{name}.onnx" for name in "abc")
    other, renamed = model(), model()
    add_cast(other)
    rename_all(renamed)
    for path, proto in ((a, model()), (b, other), (c, renamed)):
        onnx.save_model(proto, path)
    same = castsmith("diff", a, c)
    assert (same.code, same.err) == (0, "")
    assert same.out == "the same: 11 nodes and everything else\n"
    different = castsmith("diff", a, b)
    assert (different.code, different.err) == (1, "")
    lines = different.out.splitlines()
    assert lines[:2] == [f"--- {a}", f"+++ {b}"]
    assert any(line.startswith("  + in_between = Cast <to = float> (scaled)") for line in lines)
    assert "  input 0: scaled -> in_between" in lines
    assert "Concat" not in different.out
    for option in (("--json",), ("--format", "json")):
        data = json.loads(castsmith("diff", a, b, *option).out)
        assert (data["schema"], data["same"]) == (1, False)
        assert sorted(change["kind"] for change in data["changes"]) == ["node-added", "operand-changed"]
    assert json.loads(castsmith("diff", a, c, "--json").out)["same"] is True


def test_an_attribute_at_its_default_is_as_good_as_none() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[N, 4] x) => (float[N, 4] y) { a = LeakyRelu <alpha = 0.01> (x) y = Softmax <axis = -1> (a) }"""
    one, two = onnx.parser.parse_model(text), onnx.parser.parse_model(text)
    del two.graph.node[0].attribute[:], two.graph.node[1].attribute[:]
    assert compare(one, two).changes == compare(two, one).changes == ()
    one.graph.node[0].attribute[0].f = 0.5
    assert [(change.kind, change.subject) for change in compare(one, two).changes] == [
        ("attribute-changed", "attribute alpha")
    ]


def test_what_has_no_meaning_is_reported_on_request(castsmith: Command, tmp_path: Path) -> None:
    other = model()
    node(other, "active").metadata_props.add(key="castsmith.rule", value="x")
    other.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "dead"))
    onnx.save_model(model(), tmp_path / "a.onnx")
    onnx.save_model(other, tmp_path / "b.onnx")
    words = ("diff", tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert castsmith(*words).code == 0
    ended = castsmith(*words, "--all")
    assert ended.code == 1
    assert "metadata castsmith.rule: + x" in ended.out
    assert "unused constant dead: + float[3] dead = {1.0, 1.0, 1.0}" in ended.out


def many(path: Path, operator: str, count: int = 40) -> Path:
    lines = [f"v{i + 1} = {operator} (v{i})" for i in range(count)]
    head = '<ir_version: 10, opset_import: ["" : 18]>'
    return write_model(path, f"{head} g (float[N] v0) => (float[N] v{count}) {{ {' '.join(lines)} }}")


def test_many_places_that_changed_alike_are_told_once(castsmith: Command, tmp_path: Path) -> None:
    a, b = many(tmp_path / "a.onnx", "Relu"), many(tmp_path / "b.onnx", "Abs")
    short, full = castsmith("diff", a, b).out, castsmith("diff", a, b, "--full").out
    assert full.count("+ v") == 40
    assert 1 <= short.count("+ v") <= 6
    assert "and in the same way (shown by --full), " in short
    last = short.splitlines()[-1]
    assert last == full.splitlines()[-1]
    assert "40 differences" in last
    assert len(json.loads(castsmith("diff", a, b, "--json").out)["changes"]) == 40
    few = many(tmp_path / "c.onnx", "Relu", 4), many(tmp_path / "d.onnx", "Abs", 4)
    assert castsmith("diff", *few).out.count("+ v") == 4


def test_a_conversion_is_a_line_for_each_region(castsmith: Command, tmp_path: Path) -> None:
    a, b = many(tmp_path / "a.onnx", "Relu"), tmp_path / "b.onnx"
    proto = onnx.load(a)
    for index, each in enumerate(proto.graph.node):
        each.name = f"n{index}"
    onnx.save(onnx.shape_inference.infer_shapes(proto), a)
    assert castsmith("convert", a, "-o", b, "--to", "float16", "--keep", "name:n20", "--force", "op:Relu").code == 0
    short, full = castsmith("diff", a, b).out, castsmith("diff", a, b, "--full").out
    regions = [line for line in short.splitlines() if "converted from" in line]
    assert regions == [
        "g: converted from float to float16: 19 nodes, n1 to n19 (shown by --full)",
        "g: converted from float to float16: 17 nodes, n22 to n38 (shown by --full)",
    ]
    assert short.count("type of") <= 4
    assert full.count("type of") >= 36
    assert short.splitlines()[-1] == full.splitlines()[-1]


def test_nodes_are_shown_with_types_that_no_value_declares(castsmith: Command, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[4] x) => (float16[4] y) {
        half = Cast <to = 10> (x)
        wide = Cast <to = 1> (half)
        y = Cast <to = 10> (wide)
    }"""
    a, b = write_model(tmp_path / "a.onnx", text), tmp_path / "b.onnx"
    shown = castsmith("optimize", a, "-o", b, "--diff").out
    assert "y = Cast <to = float16> (wide)  # (float) -> float16[4]\n" in shown
    assert "wide = Cast <to = float> (half)  # (float16) -> float\n" in castsmith("diff", a, b).out
