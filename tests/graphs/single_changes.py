"""Changes of one thing in a model: a type, a shape, an arity, an attribute, an opset, a name, a domain, an operator.

Most results are invalid, and which ones a runtime refuses is what `check` has to know.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

Change = Callable[[ModelProto, Random], None]

_TYPES = [number for number in TensorProto.DataType.values() if number]
_USUAL = (1, 6, 7, 9, 10, 11, 16, 17, 2, 3, 8)
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "custom.domain", "ai.onnx.preview.training")
_OPERATORS = (
    *("Add", "Relu", "Identity", "Cast", "MatMul", "Conv", "Concat", "Reshape", "Transpose", "Where", "Equal", "And"),
    *(
        "Softmax",
        "Gather",
        "Gelu",
        "FusedMatMul",
        "QLinearConv",
        "QuantizeLinear",
        "DequantizeLinear",
        "NoSuchOperator",
    ),
)


def _graphs(model: ModelProto) -> list[GraphProto]:
    found = [model.graph]
    for graph in found:
        found += [a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH]
    return found


def _node(model: ModelProto, draw: Random) -> NodeProto:
    nodes = [node for graph in _graphs(model) for node in graph.node]
    return draw.choice(nodes)


def _tensors(model: ModelProto, draw: Random) -> ValueInfoProto:
    graph = model.graph
    infos = [*graph.input, *graph.output, *graph.value_info]
    return draw.choice([info for info in infos if info.type.HasField("tensor_type")])


def _other(draw: Random, values: Any, than: Any) -> Any:
    return draw.choice([value for value in values if value != than])


def type_of_value(model: ModelProto, draw: Random) -> None:
    kind = _tensors(model, draw).type.tensor_type
    kind.elem_type = _other(draw, _USUAL if draw.random() < 0.7 else _TYPES, kind.elem_type)


def type_of_initializer(model: ModelProto, draw: Random) -> None:
    tensor = draw.choice(model.graph.initializer)
    size = 1
    for dim in tensor.dims:
        size *= dim
    number = _other(draw, (1, 6, 7, 10, 11), tensor.data_type)
    made = helper.make_tensor(tensor.name, number, tensor.dims, [1] * size)
    tensor.CopyFrom(made)


def type_of_cast(model: ModelProto, draw: Random) -> None:
    casts = [a for graph in _graphs(model) for node in graph.node for a in node.attribute if a.name in ("to", "dtype")]
    attribute = draw.choice(casts)
    attribute.i = _other(draw, _TYPES, attribute.i)


def shape_of_value(model: ModelProto, draw: Random) -> None:
    dims = _tensors(model, draw).type.tensor_type.shape.dim
    change = draw.randrange(4)
    if change == 0 or not dims:
        dims.add(dim_value=draw.choice((1, 2, 3)))
    elif change == 1:
        del dims[draw.randrange(len(dims))]
    else:
        draw.choice(dims).dim_value = draw.choice((0, 1, 2, 3, 7, 64))


def shape_of_initializer(model: ModelProto, draw: Random) -> None:
    tensor = draw.choice(model.graph.initializer)
    dims = list(tensor.dims)
    if dims and draw.random() < 0.6:
        dims[draw.randrange(len(dims))] += draw.choice((1, -1))
    else:
        dims.append(draw.choice((1, 2)))
    size = 1
    for dim in dims:
        size *= dim
    number = tensor.data_type if tensor.data_type in (1, 6, 7, 10, 11) else 1
    tensor.CopyFrom(helper.make_tensor(tensor.name, number, dims, [1] * size))


def fewer_inputs(model: ModelProto, draw: Random) -> None:
    node = _node(model, draw)
    del node.input[draw.randrange(len(node.input))]


def more_inputs(model: ModelProto, draw: Random) -> None:
    node = _node(model, draw)
    node.input.append(draw.choice([*node.input, ""]))


def empty_input(model: ModelProto, draw: Random) -> None:
    node = _node(model, draw)
    node.input[draw.randrange(len(node.input))] = ""


def more_outputs(model: ModelProto, draw: Random) -> None:
    _node(model, draw).output.append("one_more_output")


def swapped_inputs(model: ModelProto, draw: Random) -> None:
    node = _node(model, draw)
    first, second = draw.sample(range(len(node.input)), 2)
    node.input[first], node.input[second] = node.input[second], node.input[first]


def attribute_removed(model: ModelProto, draw: Random) -> None:
    attributes = draw.choice([node for graph in _graphs(model) for node in graph.node if node.attribute]).attribute
    del attributes[draw.randrange(len(attributes))]


def attribute_value(model: ModelProto, draw: Random) -> None:
    attributes = [a for graph in _graphs(model) for node in graph.node for a in node.attribute]
    attribute = draw.choice([a for a in attributes if a.type in (1, 2, 3, 6, 7)])
    if attribute.type == AttributeProto.INT:
        attribute.i = draw.choice((-2, -1, 0, 1, 2, 3, 100))
    elif attribute.type == AttributeProto.INTS:
        if attribute.ints and draw.random() < 0.5:
            attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice((-1, 0, 1, 2, 5))
        else:
            attribute.ints.append(draw.choice((0, 1, 2)))
    elif attribute.type == AttributeProto.STRING:
        attribute.s = draw.choice((b"NOTSET", b"linear", b"nonsense", b""))
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = draw.choice((0.0, -1.0, 2.5))
    else:
        attribute.floats.append(0.5)


def attribute_kind(model: ModelProto, draw: Random) -> None:
    attributes = [a for graph in _graphs(model) for node in graph.node for a in node.attribute]
    attribute = draw.choice([a for a in attributes if a.type != AttributeProto.GRAPH])
    attribute.CopyFrom(helper.make_attribute(attribute.name, draw.choice((1, 1.5, "text", [1, 2], [0.5]))))


def attribute_added(model: ModelProto, draw: Random) -> None:
    name = draw.choice(("axis", "axes", "alpha", "to", "keepdims", "no_such_attribute"))
    node = _node(model, draw)
    if name not in {each.name for each in node.attribute}:
        node.attribute.append(helper.make_attribute(name, draw.choice((1, 0, [0], 0.5))))


def opset(model: ModelProto, draw: Random) -> None:
    row = draw.choice(model.opset_import)
    row.version = _other(
        draw, (1, 2, 5, 6, 7, 9, 10, 11, 12, 13, 15, 17, 18, 19, 20, 21, 23, 25, 27, 28, 29), row.version
    )


def ir_version(model: ModelProto, draw: Random) -> None:
    model.ir_version = _other(draw, (1, 3, 4, 6, 8, 10, 12, 13, 14, 15, 30), model.ir_version)


def import_removed(model: ModelProto, draw: Random) -> None:
    del model.opset_import[draw.randrange(len(model.opset_import))]


def import_added(model: ModelProto, draw: Random) -> None:
    name = draw.choice(("ai.onnx.ml", "com.microsoft", "custom.domain"))
    model.opset_import.append(helper.make_opsetid(name, draw.choice((1, 2, 3, 6, 7))))


def name_of_node(model: ModelProto, draw: Random) -> None:
    _node(model, draw).name = _node(model, draw).name or "node"


def name_of_output(model: ModelProto, draw: Random) -> None:
    node, other = _node(model, draw), _node(model, draw)
    node.output[draw.randrange(len(node.output))] = draw.choice([*other.output, *other.input, "renamed"])


def name_of_input(model: ModelProto, draw: Random) -> None:
    node, other = _node(model, draw), _node(model, draw)
    node.input[draw.randrange(len(node.input))] = draw.choice([*other.output, *other.input, "undefined"])


def name_of_port(model: ModelProto, draw: Random) -> None:
    ports = draw.choice([model.graph.input, model.graph.output])
    names = [info.name for info in (*model.graph.input, *model.graph.output)]
    draw.choice(ports).name = draw.choice([*names, "renamed", ""])


def name_of_initializer(model: ModelProto, draw: Random) -> None:
    names = [each.name for each in (*model.graph.initializer, *model.graph.input)]
    draw.choice(model.graph.initializer).name = draw.choice([*names, "renamed"])


def domain(model: ModelProto, draw: Random) -> None:
    node = _node(model, draw)
    node.domain = _other(draw, _DOMAINS, node.domain)


def imported_domain(model: ModelProto, draw: Random) -> None:
    domain(model, draw)
    for name in {node.domain for node in model.graph.node} - {row.domain for row in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(name, 1))


def operator(model: ModelProto, draw: Random) -> None:
    node = _node(model, draw)
    node.op_type = _other(draw, _OPERATORS, node.op_type)


def order(model: ModelProto, draw: Random) -> None:
    nodes = list(model.graph.node)
    first, second = draw.sample(range(len(nodes)), 2)
    nodes[first], nodes[second] = nodes[second], nodes[first]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


CHANGES: tuple[Change, ...] = (
    *(type_of_value, type_of_initializer, type_of_cast, shape_of_value, shape_of_initializer),
    *(fewer_inputs, more_inputs, empty_input, more_outputs, swapped_inputs),
    *(attribute_removed, attribute_value, attribute_kind, attribute_added),
    *(opset, ir_version, import_removed, import_added),
    *(name_of_node, name_of_output, name_of_input, name_of_port, name_of_initializer),
    *(domain, imported_domain, operator, order),
)
