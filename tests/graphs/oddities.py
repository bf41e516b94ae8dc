"""Models with something odd about them that random bytes seldom make.

Cycles, names given twice, attributes missing or of another kind, functions that call themselves, opsets that do not
fit, types and sizes that do not hold, tensors stored the wrong way, and everything that most models lack: sparse
initializers, annotations, training information, devices, QONNX and promotions. Some results are valid, most are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from random import Random
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

Body = Any
"""A GraphProto or a FunctionProto: what holds nodes."""
Odd = Callable[[ModelProto, Random], None]

_LARGE = (0, -1, 1, 2, 3, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))
_DOMAINS = (
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "com.microsoft",
    "qonnx.custom_op.general",
    "org.openvinotoolkit",
    "f",
    " ",
    "é",
)
_OPERATORS = (
    "Cast",
    "CastLike",
    "If",
    "Loop",
    "Scan",
    "Constant",
    "Identity",
    "Transpose",
    "Concat",
    "BitCast",
    "Reshape",
)
_EACH = 40
"""Nodes of a body that are looked at: real files have thousands."""


def odd(data: bytes, draw: Random) -> bytes:
    """The model with one to three odd changes."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(ODDITIES)(model, draw)
    return model.SerializeToString()


def bodies(model: ModelProto) -> list[Body]:
    """The graph, the functions, and the graphs in their nodes."""
    found: list[Body] = [model.graph, *model.functions]
    for body in found:
        for node in body.node:
            found += [each for attribute in node.attribute for each in (attribute.g, *attribute.graphs) if each.node]
    return found


def some_body(model: ModelProto, draw: Random) -> Body:
    return draw.choice([body for body in bodies(model) if body.node] or [model.graph])


def some_node(model: ModelProto, draw: Random) -> NodeProto:
    body = some_body(model, draw)
    return draw.choice(body.node) if body.node else body.node.add(op_type="Identity", input=["x"], output=["odd"])


def names(body: Body) -> list[str]:
    """The values of a body by name, a few of them."""
    ends = [each if isinstance(each, str) else each.name for each in (*body.input, *body.output)]
    made = [name for node in islice(body.node, _EACH) for name in node.output]
    held = [tensor.name for tensor in islice(getattr(body, "initializer", ()), _EACH)]
    return [*ends, *made, *held] or ["x"]


def set_input(node: NodeProto, name: str, draw: Random) -> None:
    if node.input:
        node.input[draw.randrange(len(node.input))] = name
    else:
        node.input.append(name)


# Names and edges


def cycle(model: ModelProto, draw: Random) -> None:
    """An input of a node is its own result, or that of a later node."""
    body = some_body(model, draw)
    if body.node:
        at = draw.randrange(len(body.node))
        after = [name for node in islice(body.node, at, at + _EACH) for name in node.output]
        set_input(body.node[at], draw.choice(after or ["odd"]), draw)


def reversed_order(model: ModelProto, draw: Random) -> None:
    body = some_body(model, draw)
    nodes = list(body.node)[::-1]
    del body.node[:]
    body.node.extend(nodes)


def name_given_twice(model: ModelProto, draw: Random) -> None:
    node, name = some_node(model, draw), draw.choice(names(some_body(model, draw)))
    if node.output and draw.random() < 0.7:
        node.output[draw.randrange(len(node.output))] = name
    elif draw.random() < 0.5:
        model.graph.input.add(name=name).type.tensor_type.elem_type = TensorProto.FLOAT
    else:
        model.graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0]))


def name_of_another_scope(model: ModelProto, draw: Random) -> None:
    set_input(some_node(model, draw), draw.choice([*names(some_body(model, draw)), "", "nowhere", "\n", "é"]), draw)


def other_count(model: ModelProto, draw: Random) -> None:
    """A node has fewer or more inputs or outputs than it takes."""
    node = some_node(model, draw)
    values = draw.choice((node.input, node.output))
    if values and draw.random() < 0.6:
        del values[draw.randrange(len(values)) :]
    else:
        values.extend(
            draw.choice((["", ""], ["odd0"], [f"odd{i}" for i in range(200)], [draw.choice(names(model.graph))]))
        )


def other_ends(model: ModelProto, draw: Random) -> None:
    """A body gives or takes other values: none, too many, the same twice, its own input or a constant."""
    body = some_body(model, draw)
    ends = draw.choice((body.input, body.output))
    if ends and draw.random() < 0.4:
        del ends[draw.randrange(len(ends))]
    elif isinstance(body, GraphProto):
        made = ends.add(name=draw.choice([*names(body), "odd"]))
        made.type.CopyFrom(some_type(draw))
    else:
        ends.append(draw.choice(names(body)))


def operator(model: ModelProto, draw: Random) -> None:
    node = some_node(model, draw)
    if draw.random() < 0.5:
        node.op_type = draw.choice((*_OPERATORS, "", "Odd"))
    else:
        node.domain = draw.choice(_DOMAINS)


def long_name(model: ModelProto, draw: Random) -> None:
    node = some_node(model, draw)
    node.name = draw.choice(("n" * 100_000, "", "a\x1b[31mb", "\u202e", "a/b\\c", "line\nline", '"', "{0}", "%s"))


# Attributes


def some_attribute(name: str, model: ModelProto, draw: Random) -> AttributeProto:
    """An attribute of any kind."""
    values: list[Any] = [draw.choice(_LARGE), 1.5, "text", b"\xff", [1, 2], [2**62] * 3, [0.5], ["a"]]
    values += [helper.make_tensor("", TensorProto.FLOAT, [1], [1.0]), some_tensor(draw), some_type(draw), GraphProto()]
    made = helper.make_attribute(name, draw.choice(values)) if draw.random() < 0.8 else AttributeProto(name=name)
    if draw.random() < 0.2:
        made.type = draw.choice([AttributeProto.INT, AttributeProto.GRAPH, AttributeProto.UNDEFINED])
    if draw.random() < 0.1:
        made.g.CopyFrom(model.graph)
    return made


def other_attribute(model: ModelProto, draw: Random) -> None:
    """An attribute is missing, stands twice, is of another kind, or refers to one of a function."""
    node, kind = some_node(model, draw), draw.random()
    if not node.attribute:
        name = draw.choice(("to", "axis", "value", "saturate", "body", "then_branch", "perm", "dtype"))
        node.attribute.append(some_attribute(name, model, draw))
        return
    at = draw.randrange(len(node.attribute))
    name = node.attribute[at].name
    if kind < 0.25:
        del node.attribute[at]
    elif kind < 0.6:
        node.attribute[at].CopyFrom(some_attribute(name, model, draw))
    elif kind < 0.8:
        node.attribute.append(some_attribute(name, model, draw))
    else:
        node.attribute[at].ref_attr_name = draw.choice(("to", "odd", "", name))


def cast_attribute(model: ModelProto, draw: Random) -> None:
    """The attributes of a cast: to, saturate, round_mode."""
    casts = [node for body in bodies(model) for node in islice(body.node, 400) if node.op_type in ("Cast", "CastLike")]
    node = draw.choice(casts) if casts else some_node(model, draw)
    name = draw.choice(("to", "to", "saturate", "round_mode"))
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    value: Any = draw.choice([*range(30), -1, 2**40, "FLOAT", "float16", "up", "é", 1.0, [1]])
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


# Functions


def function_called(model: ModelProto, draw: Random) -> None:
    """A function calls itself or another, is called with other inputs, stands twice, or has an overload."""
    if not model.functions:
        node = helper.make_node("Cast", ["v"], ["w"], to=10)
        made = helper.make_function("f", "h", ["v"], ["w"], [node], [helper.make_opsetid("", 21)])
        model.functions.append(made)
        model.opset_import.add(domain="f", version=1)
    function, kind = draw.choice(model.functions), draw.random()
    called = draw.choice(model.functions)
    if kind < 0.4:
        caller = draw.choice((function, model.graph))
        count = draw.choice((len(called.input), 0, 5))
        values = [draw.choice(names(caller)) for _ in range(count)]
        caller.node.add(op_type=called.name, domain=called.domain, input=values, output=["odd called"])
    elif kind < 0.6:
        model.functions.add().CopyFrom(function)
        model.functions[-1].overload = draw.choice(("", "", "other"))
    elif kind < 0.8:
        domain = draw.choice(("", "f", "com.microsoft"))
        del function.opset_import[:]
        function.opset_import.add(domain=domain, version=draw.choice((1, 7, 21, 26, 99, 0)))
    elif kind < 0.9:
        function.domain, function.name = draw.choice((("", "Cast"), ("", "Relu"), ("", ""), ("f", function.name)))
    else:
        function.attribute.append(draw.choice(("to", "odd", "")))


# Types, sizes and versions


def some_type(draw: Random) -> TypeProto:
    element = draw.choice((*range(29), 99, -1))
    shape = draw.choice(([], [2], [0], [-1], [2**62, 2**62], ["N"], [""], [None], [1] * 70))
    made, kind = TypeProto(), draw.random()
    if kind < 0.1:
        return made
    tensor = made.tensor_type
    if kind > 0.6:
        tensor = draw.choice(
            (made.sequence_type.elem_type, made.optional_type.elem_type, made.map_type.value_type)
        ).tensor_type
        made.map_type.key_type = 7 if made.HasField("map_type") else 0
        if draw.random() < 0.5:
            made.ClearField("map_type")
    if kind < 0.2:
        made.sparse_tensor_type.elem_type = element
        return made
    tensor.elem_type = element
    if draw.random() < 0.8:
        for each in shape:
            dim = tensor.shape.dim.add()
            if isinstance(each, int):
                dim.dim_value = each
            elif each is not None:
                dim.dim_param = each
    return made


def other_type(model: ModelProto, draw: Random) -> None:
    """An input, an output or a value_info declares another type, or a type that is rarely seen."""
    graphs = [body for body in bodies(model) if isinstance(body, GraphProto)]
    graph = draw.choice(graphs)
    infos = [*graph.input, *graph.output, *islice(graph.value_info, _EACH)]
    info = draw.choice(infos) if infos and draw.random() < 0.8 else graph.value_info.add(name=draw.choice(names(graph)))
    if draw.random() < 0.5 and info.type.HasField("tensor_type"):
        info.type.tensor_type.elem_type = draw.choice((*range(29), 99, -1))
    else:
        info.type.CopyFrom(some_type(draw))


def other_version(model: ModelProto, draw: Random) -> None:
    kind = draw.random()
    if kind < 0.4:
        for entry in model.opset_import:
            entry.version = draw.choice((*range(1, 30), 0, -1, 2**31, 2**62))
    elif kind < 0.6:
        model.opset_import.add(domain=draw.choice(_DOMAINS), version=draw.choice((0, 1, 7, 13, 21, 28)))
    elif kind < 0.7:
        del model.opset_import[:]
    else:
        model.ir_version = draw.choice((*range(15), 99, -1, 2**62))


# Tensors


def some_tensor(draw: Random) -> TensorProto:
    """A tensor whose type, sizes and data need not agree."""
    dims = draw.choice(([], [1], [2], [0], [3, 0], [2, 2], [-1], [2**62], [2**32, 2**32], [0, 2**62], [1] * 70))
    tensor = TensorProto(name="odd tensor", data_type=draw.choice((*range(29), 99, -1)), dims=dims)
    for kind in draw.sample(
        ("raw", "float", "int32", "int64", "string", "double", "uint64"), draw.choice((0, 1, 1, 1, 2))
    ):
        store(tensor, kind, draw)
    if draw.random() < 0.05:
        tensor.segment.begin, tensor.segment.end = 0, draw.choice(_LARGE)
    return tensor


def store(tensor: TensorProto, kind: str, draw: Random) -> None:
    count = draw.choice((1, 2, 4, 0))
    values: dict[str, Sequence[Any]] = {
        "float": [0.1] * count,
        "int32": [draw.choice((1, -1, 300, 70_000, -(2**31)))] * count,
        "int64": [draw.choice((1, -1, 2**62))] * count,
        "string": [draw.choice((b"1", b"\xff", b"\0", b"", b"1e999"))] * count,
        "double": [1e300] * count,
        "uint64": [2**64 - 1] * count,
    }
    if kind == "raw":
        tensor.raw_data = bytes(draw.randrange(256) for _ in range(draw.choice((0, 1, 3, 4, 8, 16))))
    else:
        getattr(tensor, f"{kind}_data").extend(values[kind])


def other_tensor(model: ModelProto, draw: Random) -> None:
    """An initializer or the value of a Constant is stored the wrong way, or is of another type."""
    tensors = list(islice(model.graph.initializer, _EACH))
    tensors += [a.t for body in bodies(model) for n in islice(body.node, _EACH) for a in n.attribute if a.HasField("t")]
    if not tensors or draw.random() < 0.2:
        model.graph.initializer.append(some_tensor(draw))
        model.graph.initializer[-1].name = draw.choice(names(model.graph))
        return
    tensor, kind = draw.choice(tensors), draw.random()
    if kind < 0.3:
        tensor.data_type = draw.choice((*range(29), 99, -1))
    elif kind < 0.5:
        del tensor.dims[:]
        tensor.dims.extend(draw.choice(([], [1], [0], [-1], [2**62], [7, 7], [1] * 70)))
    elif kind < 0.8:
        store(tensor, draw.choice(("raw", "float", "int32", "int64", "string", "double", "uint64")), draw)
    else:
        name = tensor.name
        tensor.CopyFrom(some_tensor(draw))
        tensor.name = name


def sparse_initializer(model: ModelProto, draw: Random) -> None:
    """A sparse initializer, in place of one or beside them, whose indices may be out of order or of range."""
    graph = model.graph
    name = draw.choice([t.name for t in graph.initializer][:_EACH] or names(graph))
    if draw.random() < 0.7:
        kept = [tensor for tensor in graph.initializer if tensor.name != name]
        del graph.initializer[:]
        graph.initializer.extend(kept)
    number = draw.choice(
        (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT16, TensorProto.STRING)
    )
    count = draw.choice((0, 1, 2))
    stored: list[Any] = [b"a"] * count if number == TensorProto.STRING else [1] * count
    values = helper.make_tensor(name, number, [count], stored)
    at = draw.choice(([0, 1], [1, 0], [0, 0], [5, -1], [2**62, 0]))[:count]
    indices = helper.make_tensor("i", TensorProto.INT64, [count], at)
    indices.data_type = draw.choice((7, 7, 7, 6, 1))
    if draw.random() < 0.2:
        indices.dims.append(1)
    dims = draw.choice(([2], [2], [4], [2, 2], [0], [], [2**40], [-1]))
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=dims)
    if draw.random() < 0.8:
        graph.sparse_initializer.append(sparse)
    else:
        made = graph.node.add(op_type="Constant", output=["odd sparse"])
        made.attribute.append(helper.make_attribute("sparse_value", sparse))


# What most models lack


def remarks(model: ModelProto, draw: Random) -> None:
    """Annotations, metadata, training information and devices, about values that need not be there."""
    graph, kind = model.graph, draw.random()
    name = draw.choice([*names(graph), "nowhere", ""])
    if kind < 0.25:
        annotation = graph.quantization_annotation.add(tensor_name=name)
        for _ in range(draw.choice((0, 1, 2))):
            annotation.quant_parameter_tensor_names.add(key=draw.choice(("SCALE_TENSOR", "", "odd")), value=name)
    elif kind < 0.5:
        holder = draw.choice((model, graph, some_node(model, draw)))
        for _ in range(draw.choice((1, 2))):
            key = draw.choice(
                ("", "castsmith.rule", "castsmith.pass", "castsmith.from", "pkg.torch.onnx.name_scopes", "odd")
            )
            holder.metadata_props.add(key=key, value=draw.choice(("", "x", "['a', ", "[[[[", "é", "x" * 100_000)))
    elif kind < 0.75:
        training = model.training_info.add()
        training.algorithm.CopyFrom(graph if draw.random() < 0.5 else GraphProto())
        training.update_binding.add(key=name, value=draw.choice(("", "nowhere")))
    else:
        model.configuration.add(name=draw.choice(("", "c")), num_devices=draw.choice((0, 2, -1)))
        some_node(model, draw).device_configurations.add(configuration_id=draw.choice(("c", "nowhere", "")))


def conversion(model: ModelProto, draw: Random) -> None:
    """A cast on an edge, to any type, so that what comes after has operands that disagree."""
    body = some_body(model, draw)
    at = draw.randrange(len(body.node) + 1)
    before = [name for node in islice(body.node, at) for name in node.output]
    ends = [each if isinstance(each, str) else each.name for each in body.input]
    name = draw.choice(before[-_EACH:] + ends or ["x"])
    made = f"odd {draw.randrange(10**6)}"
    number, kind = draw.choice(list(range(1, 29))), draw.random()
    new = helper.make_node("Cast", [name], [made], to=number)
    if kind < 0.15:
        new = helper.make_node("CastLike", [name, draw.choice(names(body))], [made])
    elif kind < 0.25:
        new = helper.make_node("BitCast", [name], [made], to=number)
    elif kind < 0.35:
        scale = draw.choice(names(body))
        new = helper.make_node(draw.choice(("QuantizeLinear", "DequantizeLinear")), [name, scale, scale], [made])
    for node in islice(body.node, at, at + _EACH):
        for index, each in enumerate(node.input):
            if each == name:
                node.input[index] = made
    body.node.insert(at, new)


def foreign(model: ModelProto, draw: Random) -> None:
    """An operator of QONNX or of promotion, whose inputs are whatever is there."""
    body = some_body(model, draw)
    kind, domain = draw.choice(
        (
            ("Trunc", "qonnx.custom_op.general"),
            ("Quant", "qonnx.custom_op.general"),
            ("BipolarQuant", "qonnx.custom_op.general"),
            ("ConvertPromoteTypes", "org.openvinotoolkit"),
            ("DequantizeLinear", "com.microsoft"),
        )
    )
    values = [draw.choice([*names(body), ""]) for _ in range(draw.choice((0, 1, 2, 3, 4, 5, 6, 7)))]
    node = helper.make_node(kind, values, ["odd foreign"], domain=domain)
    if draw.random() < 0.6:
        name = draw.choice(
            ("rounding_mode", "signed", "narrow", "promote_unsafe", "u64_integer_promotion_target", "axis")
        )
        node.attribute.append(some_attribute(name, model, draw))
    body.node.append(node)
    if draw.random() < 0.8 and all(entry.domain != domain for entry in model.opset_import):
        model.opset_import.add(domain=domain, version=draw.choice((1, 2, 3)))


def control_flow(model: ModelProto, draw: Random) -> None:
    """A body of If, Loop or Scan is empty, of another, or stands in a node that is something else."""
    graphs = [
        a for body in bodies(model) for node in body.node for a in node.attribute if a.type == AttributeProto.GRAPH
    ]
    if not graphs:
        body = GraphProto(name="b", output=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])])
        inputs = [draw.choice(names(model.graph)) for _ in range(draw.choice((1, 2, 3)))]
        node = helper.make_node(draw.choice(("If", "Loop", "Scan", "SequenceMap")), inputs, ["odd flow"], body=body)
        model.graph.node.append(node)
        return
    attribute, kind = draw.choice(graphs), draw.random()
    if kind < 0.2:
        attribute.g.CopyFrom(GraphProto())
    elif kind < 0.4:
        other = GraphProto()
        other.CopyFrom(draw.choice(graphs).g)  # protobuf crashes if it copies a message over one around it
        attribute.g.CopyFrom(other)
    elif kind < 0.6:
        attribute.name = draw.choice(("then_branch", "else_branch", "body", "odd"))
    elif kind < 0.8:
        attribute.g.initializer.append(some_tensor(draw))
    else:
        attribute.graphs.add().CopyFrom(attribute.g)


def nothing(model: ModelProto, draw: Random) -> None:
    """A whole part of the model is missing."""
    parts: list[tuple[ModelProto | GraphProto, str]] = [(model, "graph"), (model, "functions"), (model, "opset_import")]
    parts += [(model.graph, part) for part in ("input", "output", "node", "initializer", "value_info", "name")]
    holder, name = draw.choice(parts)
    holder.ClearField(name)


ODDITIES: tuple[Odd, ...] = (
    *(cycle, reversed_order, name_given_twice, name_of_another_scope, other_count, other_ends, operator, long_name),
    *(other_attribute, other_attribute, cast_attribute, function_called, other_type, other_type, other_version),
    *(other_tensor, other_tensor, sparse_initializer, remarks, conversion, conversion, conversion, foreign),
    *(control_flow, nothing),
)
