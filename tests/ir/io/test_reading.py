"""The reader of ordinary models and the writer give what onnx_ir's give, part by part."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx import AttributeProto, TensorProto
from onnx_ir import serde

from castsmith.ir.io.protos import to_proto
from castsmith.ir.io.reading import read
from castsmith.ir.walks import tensor_places
from tests.graphs.backend import node_cases
from tests.graphs.random_graphs import random_model
from tests.sampling import sampled

_TEXT = """<ir_version: 10, opset_import: ["" : 21, "f" : 1], producer_name: "p", doc_string: "d">
g (float[N, 2] x, bool c, float[2] w, float unread) => (float[N, 2] y, float[2] z)
<float[2] w = {1, 2}, int64[0] none = {}> {
    [first] k = Constant <value = float[2] {3, 4}> ()
    a = Add (x, w)
    kept = Clip (a, , k0)
    b, , = Own.many (a, )
    i = If (c) <then_branch = then () => (float[2] r) <float[2] in = {5, 6}> { s = Neg (w) r = Add (s, in) },
                else_branch = e () => (float[2] r) { r = Mul (w, k) }>
    o = Loop (, c, i) <body = l (int64 n, bool d, float[2] state) => (bool d2, float[2] v2) {
        d2 = Identity (d) v2 = If (d) <then_branch = t2 () => (float[2] q) { q = Add (state, i) },
                                       else_branch = e2 () => (float[2] q) { q = Identity (state) }> }>
    z = f.h <k = 2, scale = 0.5> (o)
    y = Own.all <an = 1, af = 1.5, as = "s", ais = [1, 2], afs = [1.5], ass = ["a", "b"]> (b)
}
<domain: "f", opset_import: ["" : 21], doc_string: "about">
h <k, scale: float = 1.0> (param, idle) => (q) {
    s = Constant <value_float: float = @scale> () [n] q = Mul (param, s)
}"""


def proto() -> onnx.ModelProto:
    """A model with every part that the reader takes."""
    text = _TEXT.replace("Own.", "own.").replace("k0", "k").replace("Own", "own")
    model = onnx.parser.parse_model(text)
    model.opset_import.add(domain="own", version=1)
    graph = model.graph
    model.metadata_props.add(key="m", value="1")
    graph.metadata_props.add(key="g", value="1")
    graph.doc_string = "about the graph"
    node = graph.node[1]
    node.doc_string, node.overload = "about a node", ""
    node.metadata_props.add(key="n", value="1")
    graph.node[-1].attribute[0].doc_string = "about an attribute"
    info = graph.value_info.add(name="a", doc_string="about a value")
    info.type.CopyFrom(onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 2, None]))
    info.type.denotation = "IMAGE"
    info.type.tensor_type.shape.dim[0].denotation = "BATCH"
    info.metadata_props.add(key="v", value="1")
    graph.value_info.add(name="none").type.CopyFrom(onnx.helper.make_tensor_type_proto(TensorProto.INT64, None))
    graph.value_info.add(name="b")
    graph.output[1].type.CopyFrom(onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    graph.initializer.add(name="text", data_type=TensorProto.STRING, dims=[2], string_data=[b"a", b"b"])
    outside = graph.initializer.add(name="outside", data_type=TensorProto.FLOAT, dims=[2], data_location=1)
    outside.external_data.add(key="location", value="file")
    outside.metadata_props.add(key="t", value="1")
    model.functions[0].overload = "o"
    model.functions[0].metadata_props.add(key="f", value="1")
    model.functions[0].value_info.append(onnx.helper.make_tensor_value_info("s", TensorProto.FLOAT, []))
    graph.node[-2].overload = "o"
    return model


def contents(model: onnx_ir.Model) -> list[object]:
    """Everything that a model holds, with a number for each value and node."""
    numbers: dict[object, int] = {}
    found: list[object] = []

    def number(part: object) -> int | None:
        return None if part is None else numbers.setdefault(part, len(numbers))

    def tensor(each: Any) -> object:
        where = (str(each.location), each.offset, each.length) if isinstance(each, onnx_ir.ExternalTensor) else None
        data = each.raw.SerializeToString() if isinstance(each, serde.TensorProtoTensor) else None
        texts = each.string_data() if isinstance(each, onnx_ir.StringTensor) else None
        about = each.name, each.dtype, each.shape.numpy(), each.doc_string, dict(each.metadata_props)
        return type(each), where, data, texts and list(texts), about

    def value(each: onnx_ir.Value) -> object:
        shape, kind = each.shape, each.type
        return (
            number(each), each.name, type(kind), kind and (kind.dtype, kind.denotation), each.doc_string,
            shape and [(size if isinstance(size, int) else (size.value,), shape.get_denotation(index))
                       for index, size in enumerate(shape)], shape is None or shape.frozen,
            dict(each.metadata_props), each.const_value and tensor(each.const_value), number(each.producer()),
            each.index(), each.is_graph_input(), each.is_graph_output(), each.is_initializer(),
            [(number(use.node), use.idx) for use in each.uses()],
        )  # fmt: skip

    def attribute(each: onnx_ir.Attr) -> object:
        held: object = each.value
        if isinstance(held, onnx_ir.Graph):
            scope(held)
            held = None
        elif each.type == onnx_ir.AttributeType.TENSOR and held is not None:
            held = tensor(held)
        return each.name, each.type, type(held), held, each.ref_attr_name, each.doc_string

    def scope(graph: onnx_ir.Graph) -> None:
        found.append((graph.name, graph.doc_string, dict(graph.metadata_props), dict(graph.opset_imports)))
        values = [*graph.inputs, *graph.initializers.values(), *(each for node in graph for each in node.outputs)]
        found.extend(map(value, values))
        found.append([*map(number, graph.inputs), *map(number, graph.outputs), *graph.initializers])
        for node in graph:
            assert node.graph is graph
            inputs, outputs = [*map(number, node.inputs)], [*map(number, node.outputs)]
            about = number(node), node.name, *node.op_identifier(), node.doc_string, dict(node.metadata_props)
            found.append((about, inputs, outputs, [attribute(each) for each in node.attributes.values()]))

    names = "ir_version producer_name producer_version domain model_version doc_string metadata_props"
    found.append([getattr(model, name) for name in names.split()])
    scope(model.graph)
    for key, function in model.functions.items():
        found.append((key, [attribute(each) for each in function.attributes.values()]))
        scope(function.graph)
    return found


def require_same(model: onnx.ModelProto) -> None:
    reading, expected = read(model), onnx_ir.from_proto(model)
    assert reading is not None
    assert contents(reading.model) == contents(expected)
    places = list(tensor_places(reading.model))
    assert [place for place, _ in reading.tensors] == [place for place, _ in places]
    assert all(a is b for (_, a), (_, b) in zip(reading.tensors, places, strict=True))
    assert {graph for graph, _ in reading.graphs} == {reading.model.graph, *reading.model.graph.subgraphs()} | {
        graph for function in reading.model.functions.values() for graph in function.subgraphs()
    }
    for each in (reading.model, expected):
        assert to_proto(each) == onnx_ir.to_proto(each)


def test_an_ordinary_model_is_read_and_written_as_by_onnx_ir() -> None:
    require_same(proto())
    older = proto()
    older.ir_version = 9  # what is known of values in functions is in the value_info of the graph
    older.functions[0].overload = older.graph.node[-2].overload = ""
    require_same(older)


def test_random_models_and_those_of_the_standard_are_read_and_written_as_by_onnx_ir() -> None:
    for seed in range(12):
        require_same(random_model(Random(seed))[0])
    cases = [case.model for case in sampled("node tests read in one walk", node_cases("test_").values(), 60)]
    ordinary = [model for model in cases if model is not None and read(model) is not None]
    assert len(ordinary) > len(cases) * 0.9
    for model in ordinary:
        require_same(model)


def _graph(change: Callable[[onnx.GraphProto], Any]) -> Callable[[onnx.ModelProto], Any]:
    return lambda model: change(model.graph)


def _attribute(**given: Any) -> Callable[[onnx.ModelProto], Any]:
    return lambda model: model.graph.node[-1].attribute.add(**given)


def _branch(model: onnx.ModelProto) -> onnx.GraphProto:
    return next(node for node in model.graph.node if node.op_type == "If").attribute[0].g


def _swapped(model: onnx.ModelProto) -> None:
    first = onnx.NodeProto.FromString(model.graph.node[0].SerializeToString())
    del model.graph.node[0]
    model.graph.node.append(first)


def _not_utf8(name: str) -> Callable[[onnx.ModelProto], Any]:
    """Make the name bytes that are not UTF-8, wherever it stands."""

    def change(model: onnx.ModelProto) -> None:
        data, text = model.SerializeToString(), bytes([len(name)]) + name.encode()
        assert text in data
        model.ParseFromString(data.replace(text, text[:-1] + b"\xff"))

    return change


_SEQUENCE = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, None))
_FLOATS = onnx.numpy_helper.from_array(np.ones(2, np.float32), "t")
_UNUSUAL: dict[str, Callable[[onnx.ModelProto], Any]] = {
    "no IR version": lambda m: setattr(m, "ir_version", 0),
    "unknown field": lambda m: m.graph.node[0].MergeFromString(bytes([0xA2, 0x06, 1, 65])),
    "device configuration": lambda m: m.graph.node[0].device_configurations.add(configuration_id="i"),
    "devices": lambda m: (setattr(m, "ir_version", 11), m.configuration.add(name="i")),
    "values of functions": lambda m: (setattr(m, "ir_version", 9), m.graph.value_info.add(name="f::h/s")),
    "annotation": _graph(lambda g: g.quantization_annotation.add(tensor_name="x")),
    "sparse initializer": _graph(lambda g: g.sparse_initializer.add()),
    "out of order": _swapped,
    "repeated node": _graph(lambda g: g.node.append(g.node[0])),
    "undefined": _graph(lambda g: g.node[1].input.append("absent")),
    "undefined result": _graph(lambda g: g.output.add(name="absent")),
    "outer result": lambda m: _branch(m).output[0].__setattr__("name", "w"),
    "hidden value": lambda m: (_branch(m).node[0].output.__setitem__(0, "a"),
                               _branch(m).node[1].input.__setitem__(0, "a")),
    "two inputs": _graph(lambda g: g.input.append(g.input[0])),
    "input without name": _graph(lambda g: g.input.add()),
    "two initializers": _graph(lambda g: g.initializer.append(g.initializer[0])),
    "initializer without name": _graph(lambda g: g.initializer[0].ClearField("name")),
    "bad dimension": _graph(lambda g: g.initializer[0].dims.append(-1)),
    "bad type": _graph(lambda g: setattr(g.initializer[0], "data_type", 99)),
    "bad declared type": _graph(lambda g: setattr(g.input[0].type.tensor_type, "elem_type", 99)),
    "no element type": _graph(lambda g: g.input[0].type.tensor_type.ClearField("elem_type")),
    "sequence": _graph(lambda g: g.input[0].type.CopyFrom(_SEQUENCE)),
    "denotation alone": _graph(lambda g: g.value_info[-1].type.__setattr__("denotation", "d")),
    "metadata twice": _graph(lambda g: [g.metadata_props.add(key="k") for _ in range(2)]),
    "no operator": _graph(lambda g: g.node[0].ClearField("op_type")),
    "attribute twice": _attribute(name="an", i=1, type=AttributeProto.INT),
    "untyped attribute": _attribute(name="u", i=1),
    "type as attribute": _attribute(name="u", tp=_SEQUENCE, type=AttributeProto.TYPE_PROTO),
    "tensors as attribute": _attribute(name="u", tensors=[_FLOATS], type=AttributeProto.TENSORS),
    "graphs as attribute": _attribute(name="u", graphs=[onnx.GraphProto(name="b")], type=AttributeProto.GRAPHS),
    "two messages": _attribute(name="u", t=_FLOATS, tp=_SEQUENCE, type=AttributeProto.TENSOR),
    "no tensor": _attribute(name="u", s=b"", type=AttributeProto.TENSOR),
    "text that is not UTF-8": _attribute(name="u", s=b"\xff", type=AttributeProto.STRING),
    "name of a graph": _not_utf8("then"),
    "name of an input": _not_utf8("unread"),
    "name of an initializer": _not_utf8("outside"),
    "name of a result": _not_utf8("kept"),
    "name of a node": _not_utf8("first"),
    "name of a domain": _not_utf8("own"),
    "name of an attribute": _not_utf8("ais"),
    "name of an input of a function": _not_utf8("idle"),
    "input of a function without name": lambda m: m.functions[0].input.append(""),
    "parameter with a tensor": _attribute(name="u", ref_attr_name="r", t=_FLOATS, type=AttributeProto.TENSOR),
    "graph as parameter": _attribute(name="u", ref_attr_name="r", type=AttributeProto.GRAPH),
    "parameter twice": lambda m: m.functions[0].attribute.append("scale"),
    "graph as default": lambda m: m.functions[0].attribute_proto.add(name="u", g=onnx.GraphProto(), type=5),
    "function twice": lambda m: m.functions.append(m.functions[0]),
    "inputs of a function": lambda m: m.functions[0].input.append("param"),
    "result of a function": lambda m: m.functions[0].output.append("absent"),
    "deep": lambda m: _nest(m.graph, 35),
}  # fmt: skip


def _nest(graph: onnx.GraphProto, depth: int) -> None:
    for _ in range(depth):
        graph.node.append(onnx.NodeProto(op_type="deep", domain="own"))
        graph = graph.node[-1].attribute.add(name="b", type=AttributeProto.GRAPH).g
        graph.SetInParent()


@pytest.mark.parametrize("name", _UNUSUAL)
def test_other_models_are_left_to_the_checks_and_to_onnx_ir(name: str) -> None:
    model = proto()
    _UNUSUAL[name](model)
    assert read(model) is None


_CAST = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float16[2] y) { y = Cast <to = 10> (x) }'


@pytest.mark.parametrize(
    ("old", "new", "sound"),
    [
        ("to = 10", "to = 10", True),
        ("to = 10", "to = 99", False),
        ("to = 10", "to = 1.0", False),
        (" <to = 10>", "", False),
        ("(x)", "(x, x)", False),
        ("(x)", "()", False),
        ("Cast <to = 10> (x)", "Add (x, )", False),
        ("Cast <to = 10> (x)", "Clip (x, , x)", True),
        ("Cast <to = 10> (x)", "If (x) <then_branch = t () => () {}, else_branch = e () => () {}>", False),
        ("Cast <to = 10> (x)", "If (x) <then_branch = t () => (float[2] p) { p = Neg (x) }, else_branch = e () =>"
         " (float[2] q) { q = Neg (x) }>", True),
        ("Cast <to = 10> (x)", "If (x) <then_branch = t () => (float[2] p) { p = Neg (x) }, else_branch = e () =>"
         " (float[2] q, float[2] r) { q = Neg (x) r = Neg (x) }>", False),
    ],
)  # fmt: skip
def test_nodes_that_violate_their_schema_are_not_sound(old: str, new: str, sound: bool) -> None:
    # Nodes of other kinds, which decide nothing.
    good = """a = Cast <to = 1> (x) b = Add (x, x) c = Clip (x, x, x) d, f = If (x) <then_branch = g () => (float[2] i,
        float[2] j) { i = Neg (x) j = Neg (x) }, else_branch = h () => (float[2] k, float[2] l) { k = Neg (x)
        l = Neg (x) }>"""
    found = read(onnx.parser.parse_model(_CAST.replace(old, new).replace("{ y", f"{{ {good} y")))
    assert found is not None
    assert found.is_sound() is sound
