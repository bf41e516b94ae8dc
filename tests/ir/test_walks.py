"""Walks over a model with a subgraph in a subgraph, a function with a subgraph, and tensors in all places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.survey import survey
from castsmith.ir.walks import (
    Held,
    all_nodes,
    all_tensors,
    all_values,
    bind_parameters,
    constant_bytes,
    drop_unused_domains,
    graph_of,
    graphs_of,
    holders,
    imports_by_scope,
    nodes_once_inlined,
    opset_obstacle,
    put_tensor,
    sources_first,
    tensor_places,
    tensors_in,
)
from castsmith.numerics.errors import InternalError

TEXT = """<ir_version: 10, opset_import: ["": 21, "d": 1, "a": 1, "b": 2]>
g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
  first = Abs (x)
  y = If (c) <
    then_branch = t () => (float[2] p) <float[2] v = {3, 4}> {
      inner = If (c) <then_branch = tt () => (float[2] q) { q = Add (v, w) },
        else_branch = te () => (float[2] r) { r = d.f (first) }>
      p = Neg (inner) },
    else_branch = e () => (float[2] s) { k = Constant <value = float[2] {5, 6}> () s = a.op (k) }>
}
<opset_import: ["": 12, "a": 1], domain: "d">
f (m) => (o) { z = Constant <value = bool {1}> ()
  o = If (z) <then_branch = ft () => (u) { u = Identity (m) },
    else_branch = fe () => (n) { n = Constant <value_float = 7.0> () }>
}"""


def parsed(text: str = TEXT) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def node_of(model: onnx_ir.Model, output: str) -> onnx_ir.Node:
    return next(node for node in all_nodes(model) if node.outputs[0].name == output)


def test_each_node_comes_before_those_inside_it() -> None:
    model = parsed()
    order = ["first", "y", "inner", "q", "r", "p", "k", "s", "z", "o", "u", "n"]
    assert [node.outputs[0].name for node in all_nodes(model)] == order
    found = survey(model)
    assert [node.outputs[0].name for node in found.nodes] == order
    assert found.domains == {"d", "a"}
    assert [node.outputs[0].name for node in found.of({"If"})] == ["y", "inner", "o"]
    assert [node.outputs[0].name for node in found.of({"Constant", "If", "Abs"})] == [
        *("first", "y", "inner", "k", "z", "o", "n")
    ]
    assert found.of({"Cast"}) == []
    names = [(graph.name, node.outputs[0].name) for graph, node in holders(model).items()]
    assert names == [*(("t", "y"), ("tt", "inner"), ("te", "inner"), ("e", "y"), ("ft", "o"), ("fe", "o"))]
    assert [(graph.name, node) for graph, node in found.holders.items()] == [
        (graph.name, node) for graph, node in holders(model).items()
    ]
    assert [graph.name for graph in graphs_of(node_of(model, "y"))] == ["t", "e"]


def test_each_value_comes_once() -> None:
    model = parsed()
    model.graph.inputs.append(model.graph.initializers["w"])
    names = [value.name for value in all_values(model)]
    assert sorted(str(name) for name in names) == sorted(
        ["c", "x", "w", "v", "first", "y", "inner", "q", "r", "p", "k", "s", "m", "z", "o", "u", "n"]
    )


def test_each_scope_has_the_imports_of_the_one_around_it() -> None:
    model = parsed()
    opsets = {graph.name or "": imports[""] for graph, imports in imports_by_scope(model).items()}
    assert opsets == {**dict.fromkeys(("g", "t", "tt", "te", "e"), 21), **dict.fromkeys(("ft", "fe", ""), 12)}
    drop_unused_domains(model, ("a", "b"))
    (function,) = model.functions.values()
    assert (set(model.graph.opset_imports), set(function.opset_imports)) == ({"", "d", "a"}, {"", "a"})


def test_a_node_in_no_graph_is_an_internal_error() -> None:
    node = onnx_ir.node("Abs", [], name="loose")
    with pytest.raises(InternalError, match="the node loose is in no graph"):
        graph_of(node)


def test_sources_come_first_and_a_cycle_ends() -> None:
    graph: Mapping[str, list[str]] = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": [], "e": ["f"], "f": ["e", "d"]}
    settled: dict[str, list[str]] = {}
    for start in ("a", "e"):
        for item, missing in sources_first(start, settled, graph.__getitem__):
            settled[item] = missing
    assert settled == {"d": [], "c": [], "b": [], "a": [], "f": [], "e": ["f"]}
    assert [*settled][-3:] == ["a", "e", "f"]
    assert not [*sources_first("a", settled, graph.__getitem__)]


def places() -> onnx_ir.Model:
    one, two, three = (onnx.numpy_helper.from_array(np.array([n], np.float32), f"t{n}") for n in (1, 2, 3))
    node = onnx.helper.make_node("op", [], ["y"], domain="a", several=[one, two], one=three, number=1)
    attribute = next(each for each in node.attribute if each.name == "one")
    attribute.doc_string = "kept"
    graph = onnx.helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], [two])
    function = onnx.helper.make_function("d", "f", [], [], [], [], [], [attribute])
    return onnx_ir.from_proto(onnx.helper.make_model(graph, functions=[function]))


def test_tensors_are_found_and_replaced_in_each_place() -> None:
    model = places()
    found = [*tensor_places(model)]
    assert [place.name for place, _ in found] == ["t2", "one", "one", "several", "several"]
    assert [place.index for place, _ in found if isinstance(place, Held)] == [None, None, 0, 1]
    assert [float(tensor.numpy()[0]) for _, tensor in found] == [2, 3, 3, 1, 2]
    assert sum(tensor.nbytes for tensor in all_tensors(model)) == constant_bytes(model) == 20
    for number, (place, _) in enumerate(found):
        put_tensor(place, onnx_ir.tensor(np.array([10 + number], np.float32)))
    assert [float(tensor.numpy()[0]) for tensor in all_tensors(model)] == [10, 11, 12, 13, 14]
    assert node_of(model, "y").attributes["one"].doc_string == "kept"
    assert [float(tensor.numpy().ravel()[0]) for tensor in all_tensors(parsed())] == [1, 3, 5, 1]


def test_what_holds_no_tensor_gives_none() -> None:
    model = parsed()
    model.graph.initializers["w"].const_value = None  # as of a model whose weights are not there
    assert [float(tensor.numpy().ravel()[0]) for tensor in all_tensors(model)] == [3, 5, 1]
    for kind in (onnx_ir.AttributeType.TENSOR, onnx_ir.AttributeType.TENSORS):
        assert not tensors_in(onnx_ir.Attr("value", kind, None))
        assert not tensors_in(onnx_ir.RefAttr("value", "other", kind))
    assert not tensors_in(onnx_ir.AttrInt64("value", 1))


def test_parameters_are_bound_and_omitted_ones_go() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "d": 1]> g (float[2] x) => (y) { y = d.f <axis = 1> (x) }
    <opset_import: ["": 21], domain: "d"> f <axis, other> (x) => (y) {
        y = Softmax <axis: int = @axis, more: int = @other, fixed = 3> (x) }"""
    model = parsed(text)
    (call,), (function,) = model.graph, model.functions.values()
    (node,) = function
    bind_parameters(node, dict(call.attributes))
    assert {name: each.value for name, each in node.attributes.items()} == {"axis": 1, "fixed": 3}


def test_functions_of_another_opset_are_not_inlined() -> None:
    model = parsed()
    (name,) = model.functions
    assert opset_obstacle(model, [name]) == "function d::f imports opset 12 of ai.onnx, but the model imports opset 21"
    assert opset_obstacle(model, []) is None
    model.functions[name].opset_imports[""] = 21
    assert opset_obstacle(model, [name]) is None
    model.functions[name].opset_imports["new"] = 3
    assert opset_obstacle(model, [name]) is None
    model.functions[name].opset_imports["b"] = 1
    assert opset_obstacle(model, [name]) == "function d::f imports opset 1 of b, but the model imports opset 2"


def test_nodes_are_counted_as_if_inlined() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "d": 1]> g (float[2] x) => (y) {
        a = d.f (x) b = d.f (a) y = d.h (b) }
    <opset_import: ["": 21, "d": 1], domain: "d"> f (x) => (y) { a = d.h (x) b = d.h (a) y = Abs (b) }
    <opset_import: ["": 21], domain: "d"> h (x) => (y) { a = Abs (x) y = Neg (a) }"""
    model = parsed(text)
    f, h = model.functions
    assert nodes_once_inlined(model, {f, h}) == 12
    assert nodes_once_inlined(model, {f}) == 7
    assert nodes_once_inlined(model, {h}) == 4
    assert nodes_once_inlined(model, {("d", "unknown", "")}) == 3
