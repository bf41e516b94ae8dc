"""Every part of a model round-trips, or the model is refused in a sentence."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.io.carried import CarriedType, carry_training, restore_types, type_proto_text
from castsmith.ir.io.loading import from_proto, read_proto
from castsmith.ir.io.protos import to_proto
from castsmith.verification.diff.models import diff
from tests.graphs.backend import node_cases
from tests.ir.same_protos import normal_form
from tests.sampling import sampled

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n"])
MAP = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
OPAQUE = onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="o"), denotation="o")
TYPES = {
    "map": MAP,
    "sequence of maps": helper.make_sequence_type_proto(MAP),
    "optional sequence of maps": helper.make_optional_type_proto(helper.make_sequence_type_proto(MAP)),
    "map of sequences": helper.make_map_type_proto(TensorProto.STRING, helper.make_sequence_type_proto(FLOATS)),
    "opaque": OPAQUE,
    "sequence": helper.make_sequence_type_proto(FLOATS),
    "optional": helper.make_optional_type_proto(FLOATS),
    "optional sequence": helper.make_optional_type_proto(helper.make_sequence_type_proto(FLOATS)),
    "sparse": helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2, 3]),
    "open sequence": onnx.TypeProto(sequence_type=onnx.TypeProto.Sequence()),
    "shape alone": onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(shape=FLOATS.tensor_type.shape)),
    "denotation alone": onnx.TypeProto(denotation="IMAGE"),
}


def typed(name: str, found: onnx.TypeProto) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=found, doc_string=f"about {name}")


def model_with(found: onnx.TypeProto) -> onnx.ModelProto:
    """A model that has the type everywhere: inputs, outputs, value_info, branches, functions and an attribute."""
    inner = helper.make_graph([helper.make_node("Own", ["b"], ["t"], domain="v")], "then", [], [typed("t", found)])
    other = helper.make_graph([helper.make_node("Own", ["m"], ["e"], domain="v")], "else", [], [typed("e", found)])
    inner.value_info.append(typed("b", found))
    inner.node.insert(0, helper.make_node("Own", ["x"], ["b"], domain="v"))
    nodes = [
        helper.make_node("Own", ["x"], ["m"], domain="v", kind=found, kinds=[found, FLOATS]),
        helper.make_node("f", ["m"], ["r"], domain="local"),
        helper.make_node("If", ["c"], ["i"], then_branch=inner, else_branch=other),
    ]
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 21), ("v", 1), ("local", 1))]
    body = [helper.make_node("Own", ["p"], ["q"], domain="v"), helper.make_node("Own", ["q"], ["s"], domain="v")]
    function = helper.make_function("local", "f", ["p"], ["s"], body, opsets, value_info=[typed("q", found)])
    inputs = [typed("x", found), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(
        nodes, "g", inputs, [typed("r", found), typed("i", found)], value_info=[typed("m", found)]
    )
    return helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("kind", TYPES)
def test_types_come_through(kind: str, tmp_path: Path) -> None:
    proto = model_with(TYPES[kind])
    before = proto.SerializeToString(deterministic=True)
    model = from_proto(proto)
    assert proto.SerializeToString(deterministic=True) == before
    expected = normal_form(proto)
    for each in (model, model.clone(), castsmith.optimize(proto).model, castsmith.optimize(model.clone()).model):
        assert normal_form(to_proto(each)) == expected
    onnx_ir.save(model, tmp_path / "other.onnx")  # onnx_ir's own save keeps the type too, for `load` to restore
    assert normal_form(to_proto(castsmith.load(tmp_path / "other.onnx"))) == expected


def test_an_element_type_declared_since_the_load_is_saved(tmp_path: Path) -> None:
    """A value_info with a shape and no element type gets the type that its node gives; a second run finds it there."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }'
    )
    info = model.graph.value_info.add(name="a")
    info.type.tensor_type.shape.dim.add(dim_value=2)
    path = tmp_path / "declared.onnx"
    first = castsmith.optimize(model)
    castsmith.save(first.model, path)
    (saved,) = onnx.load(path).graph.value_info
    assert saved.type == helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    assert len(first.rewrites) == 1
    assert castsmith.optimize(path).rewrites == []


def test_a_classifiers_output_is_shown_and_compared() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
      g (float[N, 2] p) => (float z) { z = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (p) }"""
    a, b = onnx.parser.parse_model(text), onnx.parser.parse_model(text)
    for proto, key in ((a, TensorProto.INT64), (b, TensorProto.STRING)):
        kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        proto.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(kind))
    (change,) = diff(from_proto(a), from_proto(b)).changes
    assert (change.before, change.after) == ("seq(map(int64, float))", "seq(map(string, float))")
    assert not diff(from_proto(a), from_proto(a)).changes


def trained() -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>'
        " { c = Cast <to = 1> (x) y = Mul (c, w) }"
    )
    info = proto.training_info.add()
    info.algorithm.CopyFrom(
        onnx.parser.parse_graph("a (float[2] g) => (float[2] n) <float r = {0.5}> { s = Mul (g, r) n = Sub (w, s) }")
    )
    info.update_binding.add(key="w", value="n")
    return proto


def test_training_information_is_kept_and_compared() -> None:
    proto = trained()
    assert normal_form(to_proto(from_proto(proto))) == normal_form(proto)
    result = castsmith.optimize(proto)
    assert result.rewrites
    assert list(to_proto(result.model).training_info) == list(proto.training_info)
    without = trained()
    del without.training_info[:]
    (change,) = diff(from_proto(proto), from_proto(without)).changes
    assert change.kind == "training-changed"
    assert not diff(from_proto(proto), from_proto(proto)).changes


def test_a_weight_that_only_a_branch_of_training_reads_is_kept() -> None:
    """So that the training information keeps its meaning: a change of that weight is refused."""
    text = """<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) <float w = {1}, float v = {2}> {
        y = Neg (x) }"""
    proto = onnx.parser.parse_model(text)
    inner = helper.make_graph([helper.make_node("Neg", ["w"], ["t"])], "t", [], [typed("t", FLOATS)])
    node = helper.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=inner)
    proto.training_info.add().algorithm.CopyFrom(helper.make_graph([node], "a", [], [typed("o", FLOATS)]))
    model = from_proto(proto)
    del model.graph.initializers["v"]
    assert to_proto(model).training_info == proto.training_info
    del model.graph.initializers["w"]
    with pytest.raises(ModelError, match="'w'"):
        to_proto(model)


def test_types_as_text() -> None:
    shown = {
        kind: str(from_proto(model_with(TYPES[kind])).graph.inputs[0].type) for kind in ("map", "map of sequences")
    }
    assert shown == {"map": "map(int64, float)", "map of sequences": "map(string, seq(float))"}
    carried = {repr(from_proto(model_with(MAP)).graph.inputs[0].type) for _ in range(2)}
    assert carried == {"CarriedType(map(int64, float))"}
    assert len({hash(from_proto(model_with(MAP)).graph.inputs[0].type) for _ in range(2)}) == 1


def test_types_that_no_name_fits() -> None:
    for number, text in ((1, "float"), (0, "?"), (999, "?"), (-1, "?")):
        assert type_proto_text(helper.make_tensor_type_proto(number, None)) == text
        assert type_proto_text(helper.make_sparse_tensor_type_proto(number, None)) == f"sparse_tensor({text})"
    carried = from_proto(model_with(MAP)).graph.inputs[0].type
    assert isinstance(carried, CarriedType)
    assert carried == CarriedType(carried.denotation or "")
    for other in (onnx_ir.TensorType(onnx_ir.DataType.UNDEFINED, denotation=carried.denotation), None, 3):
        assert not carried.__eq__(other)
    assert carried != CarriedType("other")


def test_a_map_stays_one_though_an_element_type_was_declared() -> None:
    model = from_proto(model_with(MAP))
    written = onnx_ir.to_proto(model)
    for value in (*written.graph.input, *written.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    restore_types(written)
    assert [value.type for value in (written.graph.input[0], *written.graph.output)] == [MAP] * 3


def test_training_information_with_weights_in_data_files_is_refused() -> None:
    proto = trained()
    tensor = proto.training_info[0].algorithm.initializer[0]
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="r.bin")
    with pytest.raises(
        ModelError, match=r"g: training_info keeps the tensor 'r' in a data file, expected in the model\.$"
    ):
        carry_training(onnx_ir.from_proto(base()), proto)


def test_training_information_is_not_left_behind(tmp_path: Path) -> None:
    model = from_proto(trained())
    value = model.graph.initializers["w"]
    value.const_value = onnx_ir.tensor([1.0, 2.0], dtype=onnx_ir.DataType.DOUBLE, name="w")
    value.dtype = onnx_ir.DataType.DOUBLE
    with pytest.raises(ModelError, match="training_info refers to 'w', which has changed"):
        castsmith.save(model, tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


def test_models_of_the_standard_come_through() -> None:
    changed: list[str] = []
    for name, case in sampled("node tests to read and write", node_cases("test_").items(), 240):
        assert case.model is not None
        if normal_form(to_proto(from_proto(case.model))) != normal_form(case.model):
            changed.append(name)
    assert not changed


def filled(kind: Message, path: tuple[str, ...] = ()) -> Message:
    """A message with something in every field that the installed onnx knows, three levels deep."""
    numbers = itertools.count(3)
    for field in kind.DESCRIPTOR.fields:
        if field.containing_oneof is not None and field is not field.containing_oneof.fields[0]:
            continue
        if field.message_type is not None and len(path) < 3 and field.message_type.full_name not in path:
            child = getattr(kind, field.name)
            filled(child if isinstance(child, Message) else child.add(), (*path, kind.DESCRIPTOR.full_name))
        elif field.message_type is None and field.type == FieldDescriptor.TYPE_STRING:
            put(kind, field.name, f"{field.name}{next(numbers)}")
        elif field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64):
            put(kind, field.name, 1)
    return kind


def put(message: Message, name: str, value: object) -> None:
    current = getattr(message, name)
    if isinstance(current, str | int):
        setattr(message, name, value)
    else:
        current.append(value)


def base() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["": 21, "l": 1]> g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>'
        " { a = Mul (x, w) b = l.f (a) y = Relu (b) }"
        ' <domain: "l", opset_import: ["": 21]> f (p) => (q) { q = Abs (p) }'
    )


def pick(proto: onnx.ModelProto) -> dict[str, Message]:
    function = proto.functions[0]
    return {
        "model": proto,
        "graph": proto.graph,
        "node": proto.graph.node[0],
        "input": proto.graph.input[0],
        "output": proto.graph.output[0],
        "initializer": proto.graph.initializer[0],
        "function": function,
        "function node": function.node[0],
    }


FIELDS = [(place, field.name) for place, message in pick(base()).items() for field in message.DESCRIPTOR.fields]


REFUSED = {
    ("model", "graph"), ("model", "training_info"), ("model", "functions"), ("graph", "node"),
    ("graph", "initializer"), ("graph", "sparse_initializer"), ("graph", "output"), ("node", "attribute"),
    ("initializer", "segment"), ("function", "attribute_proto"), ("function", "node"), ("function node", "attribute"),
}  # fmt: skip
"""What is not supported, or not valid as it is filled here."""


@pytest.mark.parametrize(("place", "name"), FIELDS)
def test_every_field_comes_through_or_is_refused(place: str, name: str) -> None:
    """A field that a later onnx adds is found here."""
    proto = base()
    message = pick(proto)[place]
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.message_type is not None:
        child = getattr(message, name)
        filled(child if isinstance(child, Message) else child.add())
    elif field.type == FieldDescriptor.TYPE_STRING and name not in ("input", "output", "name", "domain", "op_type"):
        put(message, name, "something")
    else:
        return
    try:
        written = to_proto(from_proto(proto))
    except ModelError:
        assert (place, name) in REFUSED
        return
    assert (place, name) not in REFUSED
    assert normal_form(written) == normal_form(proto)


def duplicate_attribute(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute.extend([helper.make_attribute("k", 1), helper.make_attribute("k", 2)])


def duplicate_initializer(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(proto.graph.initializer[0])
    proto.graph.initializer[-1].dims.append(1)  # of one type and shape, the last is meant


def duplicate_function(proto: onnx.ModelProto) -> None:
    proto.functions.append(proto.functions[0])


def duplicate_metadata(proto: onnx.ModelProto) -> None:
    for value in "ab":
        proto.metadata_props.add(key="k", value=value)


def unknown_field(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].MergeFromString(bytes([0xA2, 0x06, 1, 65]))  # field 100


@pytest.mark.parametrize(
    "change", [duplicate_attribute, duplicate_initializer, duplicate_function, duplicate_metadata, unknown_field]
)
def test_what_would_be_lost_is_refused(change: Callable[[onnx.ModelProto], None]) -> None:
    proto = base()
    change(proto)
    with pytest.raises(ModelError):
        from_proto(proto)


def test_an_attribute_of_old_models_that_states_no_type() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 3, opset_import: ["": 9]> g (float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }'
    )
    expected = normal_form(proto)
    proto.graph.node[0].attribute[0].ClearField("type")
    assert normal_form(to_proto(from_proto(proto))) == expected


def test_of_several_imports_of_a_domain_the_last_counts() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 1]> g (float[2] x) => (float[2] y) { y = Softmax (x) }'
    )
    del proto.opset_import[:]
    proto.opset_import.extend(helper.make_opsetid("", version) for version in (12, 13))
    assert dict(from_proto(proto).opset_imports) == {"": 13}
    proto.opset_import.add(domain="ai.onnx", version=13)
    assert dict(from_proto(proto).opset_imports) == {"": 13, "ai.onnx": 13}


CORPUS = os.environ.get("CASTSMITH_CORPUS")


@pytest.mark.skipif(CORPUS is None, reason="CASTSMITH_CORPUS names no folder of models")
def test_models_of_a_folder_come_through() -> None:
    changed: list[Path] = []
    for path in sorted(Path(CORPUS or "").rglob("*.onnx")):
        try:
            written = to_proto(castsmith.load(path))
        except ModelError:
            continue
        before = read_proto(path)
        if not before.graph.sparse_initializer and normal_form(written) != normal_form(before):
            changed.append(path)
    assert not changed
