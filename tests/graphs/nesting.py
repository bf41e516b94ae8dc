"""A graph put where a walk has to find it: in an If, a Loop, a Scan, a function, and a function called in an If."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

Nest = Callable[[onnx.ModelProto], onnx.ModelProto]
_INTEGER, _BOOL = onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def _result(value: onnx.ValueInfoProto, *, stacked: bool) -> onnx.ValueInfoProto:
    """The output of the node around the graph: as the graph's own, or with one more dimension."""
    made = onnx.ValueInfoProto()
    made.CopyFrom(value)
    made.name = f"{value.name}_out"
    if stacked and value.type.tensor_type.HasField("shape"):
        del made.type.tensor_type.shape.dim[:]
        made.type.tensor_type.shape.dim.add(dim_value=1)
        made.type.tensor_type.shape.dim.extend(value.type.tensor_type.shape.dim)
    return made


def _around(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    *,
    stacked: bool = False,
    inputs: tuple[onnx.ValueInfoProto, ...] = (),
    tensors: tuple[onnx.TensorProto, ...] = (),
) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    outputs = [_result(value, stacked=stacked) for value in model.graph.output]
    node.output.extend(value.name for value in outputs)
    given = [*model.graph.input, *inputs]
    made.graph.CopyFrom(helper.make_graph([node], model.graph.name, given, outputs, list(tensors)))
    return made


def _body(
    graph: onnx.GraphProto,
    inputs: tuple[onnx.ValueInfoProto, ...] = (),
    outputs: tuple[onnx.ValueInfoProto, ...] = (),
    first: tuple[onnx.NodeProto, ...] = (),
) -> onnx.GraphProto:
    body = helper.make_graph(
        [*first, *graph.node], "inside", inputs, [*outputs, *graph.output], list(graph.initializer)
    )
    body.value_info.extend(graph.value_info)
    return body


def in_if(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph as both branches of an If."""
    condition = helper.make_tensor_value_info("nest_c", _BOOL, [])
    node = helper.make_node(
        "If", ["nest_c"], [], name="nest", then_branch=_body(model.graph), else_branch=_body(model.graph)
    )
    return _around(model, node, inputs=(condition,))


def in_loop(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph as the body of a Loop that runs once and stacks its results."""
    index, going = helper.make_tensor_value_info("nest_i", _INTEGER, []), _bool("nest_c")
    keeps = helper.make_node("Identity", ["nest_c"], ["nest_co"])
    body = _body(model.graph, (index, going), (_bool("nest_co"),), (keeps,))
    node = helper.make_node("Loop", ["nest_n", ""], [], name="nest", body=body)
    return _around(model, node, stacked=True, tensors=(helper.make_tensor("nest_n", _INTEGER, [], [1]),))


def _bool(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _BOOL, [])


def in_scan(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph as the body of a Scan over one element, which it does not use."""
    body = _body(model.graph, (helper.make_tensor_value_info("nest_e", _INTEGER, []),))
    node = helper.make_node("Scan", ["nest_n"], [], name="nest", body=body, num_scan_inputs=1)
    return _around(model, node, stacked=True, tensors=(helper.make_tensor("nest_n", _INTEGER, [1], [1]),))


def in_function(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph as the body of a function, its initializers as Constant nodes."""
    graph = model.graph
    constants = [helper.make_node("Constant", [], [each.name], value=each) for each in graph.initializer]
    inputs, outputs = [value.name for value in graph.input], [value.name for value in graph.output]
    imports = list(model.opset_import)
    function = helper.make_function("nest", "f", inputs, outputs, [*constants, *graph.node], imports)
    made = _around(model, helper.make_node("f", inputs, [], domain="nest", name="nest"))
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("nest", 1))
    return made


def in_function_in_if(model: onnx.ModelProto) -> onnx.ModelProto:
    """A call of such a function as both branches of an If."""
    return in_if(in_function(model))


NESTS: dict[str, Nest] = {
    "If": in_if,
    "Loop": in_loop,
    "Scan": in_scan,
    "function": in_function,
    "function in If": in_function_in_if,
}
