"""Files and protos that are refused, word for word."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import AttributeProto, TensorProto

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.io import readable
from castsmith.ir.io.loading import as_model, from_bytes, from_proto, load_structure, read_proto
from castsmith.ir.io.readable import require_readable, type_of_attribute
from castsmith.ir.records import Flaw, Site

_TEXT = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>
    { a = Add (x, w) [n] y = f.h <k = 2> (a) }
    <domain: "f", opset_import: ["" : 21]> h <k> (p) => (q) { q = Neg (p) }"""


def proto() -> onnx.ModelProto:
    return onnx.parser.parse_model(_TEXT)


def sparse(
    dims: tuple[int, ...] = (2, 3), places: Any = ((0, 1), (1, 2)), dtype: Any = np.int64
) -> onnx.SparseTensorProto:
    values = onnx.numpy_helper.from_array(np.ones(2, np.float32), "s")
    indices = onnx.numpy_helper.from_array(np.array(places, dtype), "i")
    return onnx.SparseTensorProto(values=values, indices=indices, dims=dims)


def external(model: onnx.ModelProto, **entries: str) -> None:
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def twice(parent: Any) -> None:
    for value in ("1", "2"):
        parent.metadata_props.add(key="k", value=value)


def _set(name: str, value: Any) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        setattr(model, name, value)

    return change


def attribute(node: int, **given: Any) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        model.graph.node[node].attribute.add(**given)

    return change


def dims(*sizes: int) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        model.graph.initializer[0].dims[:] = sizes

    return change


_W = "graph 'g': tensor 'w'"
_CASES: dict[str, tuple[Callable[[onnx.ModelProto], Any], str]] = {
    "no version": (_set("ir_version", 0), "the model: unsupported IR version 0."),
    "negative version": (_set("ir_version", -1), "the model: unsupported IR version -1."),
    "opset": (lambda m: m.opset_import.add(domain="d", version=-1), "the model: invalid opset -1 of the domain 'd'."),
    "opset of a function": (lambda m: m.functions[0].opset_import.add(domain="", version=2**40),
                            f"function 'h': invalid opset {2**40} of the domain 'ai.onnx'."),
    "functions": (lambda m: m.functions.append(m.functions[0]),
                  "the model: two functions have the name ('f', 'h', ''), and only one of them could be kept."),
    "metadata": (twice, "the model: two entries of metadata have the key 'k', and only one of them could be kept."),
    "metadata of a graph": (lambda m: twice(m.graph),
                            "graph 'g': two entries of metadata have the key 'k', and only one of them could be kept."),
    "metadata of a node": (lambda m: twice(m.graph.node[1]), "graph 'g': n (h): two entries of metadata have the key"
                           " 'k', and only one of them could be kept."),
    "metadata of a tensor": (lambda m: twice(m.graph.initializer[0]),
                             f"{_W}: two entries of metadata have the key 'k', and only one of them could be kept."),
    "parameters": (lambda m: m.functions[0].attribute.append("k"),
                   "function 'h': two attributes have the name 'k', and only one of them could be kept."),
    "a parameter and a default": (lambda m: m.functions[0].attribute_proto.add(name="k", i=1, type=AttributeProto.INT),
        "function 'h': two attributes have the name 'k', and only one of them could be kept."),
    "attributes": (attribute(1, name="k", i=1, type=AttributeProto.INT),
                   "graph 'g': n (h): two attributes have the name 'k', and only one of them could be kept."),
    "no type": (attribute(0, name="z"), "graph 'g': a (Add): the attribute 'z' states no type."),
    "no tensor": (attribute(0, name="z", type=AttributeProto.TENSOR),
                  "graph 'g': a (Add): the attribute 'z' is of type TENSOR, but holds none."),
    "initializers": (lambda m: m.graph.initializer.add(name="w", data_type=7, dims=[1], int64_data=[1]),
                     "graph 'g': two initializers have the name 'w', and only one of them could be kept."),
    "type": (lambda m: setattr(m.graph.initializer[0], "data_type", 99), f"{_W} has the unknown element type 99."),
    "type 0": (lambda m: setattr(m.graph.initializer[0], "data_type", 0), f"{_W} has the unknown element type 0."),
    "negative": (dims(-1, 2), f"{_W} has a negative dimension."),
    "many": (dims(*[1] * 65), f"{_W} has 65 dimensions; at most 64 are supported."),
    "large": (dims(2**40, 2**40), f"{_W} has dimensions that are too large: [{2**40}, {2**40}]."),
    "location": (external, f"{_W} is external data, but names no file."),
    "offset": (lambda m: external(m, location="f", offset="-1"),
               f"{_W} has the invalid offset '-1'; expected a number of bytes."),
    "length": (lambda m: external(m, location="f", length="1e3"),
               f"{_W} has the invalid length '1e3'; expected a number of bytes."),
    "foreign digits": (lambda m: external(m, location="f", length="٣"),
                       f"{_W} has the invalid length '٣'; expected a number of bytes."),
    "huge offset": (lambda m: external(m, location="f", offset=str(2**63)),
                    f"{_W} has the invalid offset '{2**63}'; expected a number of bytes."),
    "sparse indices": (lambda m: m.graph.sparse_initializer.append(sparse(dtype=np.int32)),
                       "graph 'g': sparse tensor 's' has indices that are not int64."),
    "sparse shape": (lambda m: m.graph.sparse_initializer.append(sparse(places=((0, 1, 1), (1, 2, 1)))),
                     "graph 'g': sparse tensor 's' has indices whose shape does not fit its values."),
    "sparse count": (lambda m: m.graph.sparse_initializer.append(sparse(places=(0, 1, 2))),
                     "graph 'g': sparse tensor 's' has indices whose shape does not fit its values."),
    "sparse dimensions": (lambda m: m.graph.sparse_initializer.append(sparse((2, -3))),
                          "graph 'g': sparse tensor 's' has a negative dimension."),
    "tensor of an attribute": (attribute(
        0, name="t", type=AttributeProto.TENSOR, t=TensorProto(data_type=1, dims=[-1])),
                               "graph 'g': a (Add): tensor '' has a negative dimension."),
    "tensors of an attribute": (attribute(
        0, name="t", type=AttributeProto.TENSORS, tensors=[TensorProto(data_type=77)]),
                                "graph 'g': a (Add): tensor '' has the unknown element type 77."),
    "value and reference in a function": (lambda m: m.functions[0].node[0].attribute.add(
        name="z", i=1, type=AttributeProto.INT, ref_attr_name="k"), "function 'h': q (Neg): the attribute 'z' refers"
        " to the parameter 'k' of a function, and has a value as well: remove one of them."),
    "reference outside of functions": (attribute(0, name="z", type=AttributeProto.INT, ref_attr_name="k"),
        "graph 'g': a (Add): the attribute 'z' refers to the parameter 'k' of a function, but is in none: give it a"
        " value."),
    "reference in a default": (lambda m: m.functions[0].attribute_proto.add(
        name="z", type=AttributeProto.INT, ref_attr_name="k"), "function 'h': the attribute 'z' refers to the parameter"
        " 'k' of a function, but is in none: give it a value."),
    "reference without a type": (lambda m: m.functions[0].node[0].attribute.add(name="z", ref_attr_name="k"),
        "function 'h': q (Neg): the attribute 'z' states no type."),
    "value of another type": (attribute(0, name="z", i=1, type=AttributeProto.FLOAT),
        "graph 'g': a (Add): the attribute 'z' is of type FLOAT, but holds another value."),
    "two values": (attribute(0, name="z", i=1, f=1, type=AttributeProto.FLOAT),
        "graph 'g': a (Add): the attribute 'z' is of type FLOAT, but holds another value."),
    "no graph": (attribute(0, name="z", type=AttributeProto.GRAPH),
                 "graph 'g': a (Add): the attribute 'z' is of type GRAPH, but holds none."),
    "attribute without a name": (attribute(0, i=1, type=AttributeProto.INT),
                                 "graph 'g': a (Add): an attribute has no name."),
    "two opsets of the standard domain": (lambda m: m.opset_import.add(domain="ai.onnx", version=20),
        "the model imports two opsets of the standard domain, 21 as '' and 20 as 'ai.onnx': remove the one that its"
        " operators do not use."),
    "segment": (lambda m: m.graph.initializer[0].segment.SetInParent(),
                f"{_W} is a segment of a tensor, which is not supported: store it as a whole."),
    "input twice": (lambda m: m.graph.input.append(m.graph.input[0]),
                    "graph 'g': two inputs have the name 'x', and only one of them could be kept."),
    "second input twice": (lambda m: m.graph.input.extend([onnx.ValueInfoProto(name="z")] * 2),
                           "graph 'g': two inputs have the name 'z', and only one of them could be kept."),
    "metadata of a node with attributes": (
        lambda m: (attribute(0, name="t", i=1, type=AttributeProto.INT)(m),
                   attribute(0, name="u", i=1, type=AttributeProto.INT)(m), twice(m.graph.node[0])),
        "graph 'g': a (Add): two entries of metadata have the key 'k', and only one of them could be kept."),
    "input without a name": (lambda m: m.graph.input.add(), "graph 'g' has an input without a name."),
    "initializer without a name": (lambda m: m.graph.initializer[0].ClearField("name"),
                                   "graph 'g' has an initializer without a name."),
    "input of a function": (lambda m: m.functions[0].input.append("p"),
                            "function 'h': two inputs have the name 'p', and only one of them could be kept."),
    "output of a function": (lambda m: m.functions[0].output.append("r"),
                             "function 'h' does not define its output 'r'."),
    "result with the name of an input": (lambda m: m.graph.node[0].output.__setitem__(0, "x"),
        "graph 'g': a node gives the value 'x', which is an input or initializer: rename one."),
    "declared type": (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99),
                      "graph 'g': value 'x' has the unknown element type 99."),
    "declared dimensions": (lambda m: m.graph.input[0].type.tensor_type.shape.dim.add(dim_value=2**62),
                            f"graph 'g': value 'x' has dimensions that are too large: [2, {2**62}]."),
    "device configuration": (lambda m: m.graph.node[0].device_configurations.add(),
                             "graph 'g': a (Add): a device configuration names no configuration, or no tensor."),
    "devices": (lambda m: m.configuration.add(name="c"), "the model holds device configurations, but is of IR version"
                " 10; IR version 11 is the first with them."),
    "graph of an attribute": (attribute(0, name="t", type=AttributeProto.GRAPHS, graphs=[onnx.GraphProto(
        name="b", initializer=[TensorProto(name="v", data_type=77)])]),
        "graph 'b': tensor 'v' has the unknown element type 77."),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_protos_that_cannot_be_read_without_loss(name: str) -> None:
    change, text = _CASES[name]
    model = proto()
    require_readable(model)
    change(model)
    with pytest.raises(ModelError) as error:
        require_readable(model)
    assert str(error.value) == text


def test_what_is_at_its_limit_is_read() -> None:
    model = proto()
    dims(*[1] * 64)(model)
    external(model, location="f", offset="4096", length="8")
    require_readable(model)
    for places in (((0, 1), (1, 2)), (0, 1)):
        model = proto()
        model.graph.sparse_initializer.append(sparse(places=places))
        assert require_readable(model).sparse


def test_a_survey_notes_what_the_reader_needs() -> None:
    found = require_readable(proto())
    assert (found.sparse, found.repeats, found.untyped, found.referring) == (False, "", [], [])
    assert len(found.types) == 2
    model = proto()
    model.graph.node.append(model.graph.node[0])
    assert require_readable(model).repeats == "graph 'g': two nodes give the value 'a': rename one of them."
    model.graph.node.insert(0, onnx.helper.make_node("Neg", ["x"], ["first"]))
    assert require_readable(model).repeats == "graph 'g': two nodes give the value 'a': rename one of them."
    model = proto()
    model.functions[0].node.append(model.functions[0].node[0])
    assert require_readable(model).repeats == "function 'h': two nodes give the value 'q': rename one of them."
    model = proto()
    model.graph.node[0].attribute.add(name="z", i=3)
    (untyped,) = require_readable(model).untyped
    assert type_of_attribute(untyped) == AttributeProto.INT
    untyped.f = 1.0
    assert type_of_attribute(untyped) is None


def test_which_parts_need_a_second_look() -> None:
    model = proto()
    model.functions[0].node.append(model.functions[0].node[0])
    model.graph.node.append(model.graph.node[0])
    assert require_readable(model).repeats == "graph 'g': two nodes give the value 'a': rename one of them."
    model = proto()
    for _ in range(2):
        model.graph.node.append(onnx.helper.make_node("Dropout", ["x"], [f"d{len(model.graph.node)}", ""]))
    assert require_readable(model).repeats == ""
    model.graph.initializer.append(model.graph.initializer[0])
    assert require_readable(model).repeats == "graph 'g': two initializers have one name: rename one."
    model = proto()
    inner = onnx.GraphProto(name="b", initializer=[model.graph.initializer[0]] * 2)
    attribute(0, name="t", type=AttributeProto.GRAPH, g=inner)(model)
    with pytest.raises(ModelError, match=r"^graph 'b': two initializers have the name 'w', and only one"):
        require_readable(model)


def test_the_types_that_are_read() -> None:
    """Not those in others, nor in training information."""
    model = proto()
    sequence = onnx.helper.make_sequence_type_proto(onnx.helper.make_sequence_type_proto(model.graph.input[0].type))
    model.graph.value_info.add(name="a", type=sequence)
    attribute(0, name="t", type=AttributeProto.TYPE_PROTO, tp=sequence)(model)
    model.training_info.add().initialization.CopyFrom(model.graph)
    types = require_readable(model).types
    assert len(types) == 4
    assert types.count(sequence) == 2


def test_nodes_that_spell_out_the_standard_domain() -> None:
    model = proto()
    assert require_readable(model).written == {}
    model.graph.node[0].domain = "ai.onnx"
    assert require_readable(model).written == {"spelled-domain": "a node of domain ai.onnx: Add"}
    for holder in ("function", "branch"):
        model = proto()
        if holder == "function":
            model.functions[0].node[0].domain = "ai.onnx"
        else:
            node = onnx.helper.make_node("Neg", ["x"], ["q"], domain="ai.onnx")
            attribute(0, name="t", type=AttributeProto.GRAPH, g=onnx.GraphProto(name="b", node=[node]))(model)
        assert require_readable(model).written == dict.fromkeys(
            ("spelled-domain", "spelled-domain-inside"), "a node of domain ai.onnx: Neg"
        )


def test_where_a_flaw_is() -> None:
    cases: list[tuple[Callable[[onnx.ModelProto], Any], Site]] = [
        (lambda m: m.graph, Site("g")),
        (lambda m: m.graph.node[1], Site("g", "n", "h", "y")),
        (lambda m: m.functions[0], Site("h")),
        (lambda m: m.functions[0].node[0], Site("h", "", "Neg", "q")),
        (lambda m: m.graph.input[0], Site("g")),
    ]
    for place, site in cases:
        model, flaws = proto(), list[Flaw]()
        part = place(model)
        if isinstance(part, onnx.ValueInfoProto):
            part.type.tensor_type.elem_type = 99
        else:
            twice(part)
        with pytest.raises(ModelError):
            require_readable(model, flaws)
        assert [flaw.site for flaw in flaws] == [site]


def test_device_configurations_name_their_tensors() -> None:
    model = proto()
    model.ir_version = 11
    configuration = model.graph.node[0].device_configurations.add(configuration_id="c")
    require_readable(model)
    spec = configuration.sharding_spec.add(tensor_name="a")
    require_readable(model)
    spec.ClearField("tensor_name")
    with pytest.raises(
        ModelError, match=r"^graph 'g': a \(Add\): a device configuration names no configuration, or no"
    ):
        require_readable(model)


def test_models_without_what_gives_them_meaning() -> None:
    for field, text in (
        ("graph", "m: not an ONNX model: it has no graph."),
        ("ir_version", "m: not an ONNX model: it has no IR version."),
        ("opset_import", "m: the model imports no operator set, so its operators have no meaning."),
    ):
        model = proto()
        model.ClearField(field)
        with pytest.raises(ModelError) as error:
            from_proto(model, "m")
        assert str(error.value) == text
    model = proto()
    model.graph.name = "a/b"
    model.ir_version = 0
    with pytest.raises(ModelError, match=r"^a_b: not an ONNX model: it has no IR version\.$"):
        as_model(model)
    model.graph.name = ""
    with pytest.raises(ModelError, match=r"^the model: not an ONNX model: it has no IR version\.$"):
        as_model(model)


def test_bytes_that_are_no_model() -> None:
    assert from_bytes(proto().SerializeToString(), "m").graph.name == "g"
    with pytest.raises(ModelError, match=r"^m: not an ONNX model, or truncated\.$"):
        from_bytes(b"\xff\xff\xff", "m")
    with pytest.raises(ModelError, match=r"^m: empty, expected an ONNX model\.$"):
        from_bytes(b"", "m")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("m.onnxtxt", "<" * 101, "brackets are nested more than 100 levels deep."),
        ("m.onnxtxt", "<" * 100, "not an ONNX model, or truncated."),
        ("m.onnxtxt", "<>" * 200, "not an ONNX model, or truncated."),
        ("m.onnxtxt", '"' + "<" * 200 + '"', "not an ONNX model, or truncated."),
        ("m.onnxtxt", "#" + "<" * 200, "not an ONNX model, or truncated."),
        ("m.onnxtxt", ">" * 100 + "{" * 101, "brackets are nested more than 100 levels deep."),
        ("m.onnxtxt", f"<ir_version: {10**40}>", "the text has a number that is out of range."),
        ("m.json", "{", "not an ONNX model, or truncated."),
        ("m.textproto", "graph {", "not an ONNX model, or truncated."),
        ("m.onnx", "\xff", "not an ONNX model, or truncated."),
    ],
)
def test_files_that_are_no_model(name: str, content: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    with warnings.catch_warnings(action="error"):
        for read in (castsmith.load, read_proto, load_structure):
            with pytest.raises(ModelError) as error:
                read(path)
            assert str(error.value) == f"{path}: {text}"


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    for path, text in ((tmp_path / "absent.onnx", "no such file."), (Path("/dev/null"), "not an ordinary file.")):
        with pytest.raises(ModelError) as error:
            castsmith.load(path)
        assert str(error.value) == f"{path}: {text}"
    with pytest.raises(ModelError, match=rf"^{tmp_path}: a folder, not an ONNX file\.$"):
        castsmith.load(tmp_path)
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"^load\(\) reads a file: pass its path, not a value of type int"):
        castsmith.load(wrong)


@pytest.mark.parametrize(
    ("data_type", "fields", "text"),
    [
        (TensorProto.FLOAT, {"float_data": [1]}, "needs 2 entries in float_data for its type and shape, but holds 1."),
        (TensorProto.FLOAT, {"float_data": [1, 2], "int32_data": [1]},
         "needs 0 entries in int32_data for its type and shape, but holds 1."),
        (TensorProto.COMPLEX64, {"float_data": [1, 2]},
         "needs 4 entries in float_data for its type and shape, but holds 2."),
        (TensorProto.INT4, {"int32_data": [1, 2]},
         "needs 1 entries in int32_data for its type and shape, but holds 2."),
        (TensorProto.STRING, {"raw_data": b"ab"}, "keeps strings as raw data, which ONNX does not allow."),
        (TensorProto.STRING, {"string_data": [b"ab"]},
         "needs 2 entries in string_data for its type and shape, but holds 1."),
        (TensorProto.FLOAT, {"raw_data": bytes(8), "float_data": [1, 2]},
         "needs 0 entries in float_data for its type and shape, but holds 2."),
        *([
            (27, {"int32_data": [63, 64]}, "holds codes that FLOAT6E2M3 does not have."),
            (28, {"int32_data": [-1, 0]}, "holds codes that FLOAT6E3M2 does not have."),
            (27, {"raw_data": b"\xff\x1f"}, "holds codes that FLOAT6E2M3 does not have."),
            (27, {"raw_data": b"\xff\x0f"}, ""),
            (27, {"int32_data": [63, 0]}, ""),
        ] if hasattr(TensorProto, "FLOAT6E2M3") else []),
        (TensorProto.FLOAT, {"float_data": [1, 2]}, ""),
        (TensorProto.COMPLEX128, {"double_data": [1, 2, 3, 4]}, ""),
        (TensorProto.INT4, {"int32_data": [1]}, ""),
    ],
)  # fmt: skip
def test_tensors_with_more_or_less_data_than_they_need(data_type: int, fields: dict[str, Any], text: str) -> None:
    model = proto()
    tensor = TensorProto(name="w", data_type=data_type, dims=[2], **fields)
    model.graph.initializer[0].CopyFrom(tensor)
    if not text:
        assert isinstance(as_model(model), onnx_ir.Model)
        return
    with pytest.raises(ModelError) as error:
        as_model(model)
    assert str(error.value) == f"g: graph 'g': tensor 'w' {text}"


def _text_fields(kind: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to each field of text; none leads through a message of one kind twice."""
    for each in kind.fields:
        if each.type == FieldDescriptor.TYPE_STRING:
            yield (*above, each)
        elif each.message_type not in (None, *(a.message_type for a in above)) and len(above) < 5:
            yield from _text_fields(each.message_type, (*above, each))


def test_a_text_that_is_not_utf8_is_refused_in_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readable, "_CHECKS", {})
    ways = list(_text_fields(onnx.ModelProto.DESCRIPTOR))
    assert len(ways) > 300
    for *parents, last in ways:
        model = onnx.ModelProto()
        message: Any = model
        for each in parents:
            held = getattr(message, each.name)
            message = held if isinstance(held, Message) else held.add()
        if not isinstance(texts := getattr(message, last.name), str):
            texts.append("text")
        else:
            setattr(message, last.name, "text")
        data = model.SerializeToString()
        require_readable(model)
        with pytest.raises(ModelError, match=rf"the {last.name} b'tex.xff' is not UTF-8"):
            require_readable(onnx.ModelProto.FromString(data.replace(b"text", b"tex\xff")))


def test_a_value_outside_of_functions_counts_although_it_refers_to_a_parameter() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float16[2] y) { y = Cast <to = 10> (x) }'
    )
    model.graph.node[0].attribute[0].ref_attr_name = "k"
    onnx.checker.check_model(model, full_check=True)
    before = model.SerializeToString(deterministic=True)
    loaded = as_model(model)
    assert model.SerializeToString(deterministic=True) == before
    made = onnx_ir.to_proto(loaded)
    onnx.checker.check_model(made, full_check=True)
    assert made.graph.node[0].attribute[0].i == TensorProto.FLOAT16


def test_the_fields_of_values_and_data_are_those_of_the_format() -> None:
    others = {"name", "ref_attr_name", "doc_string", "type"}
    assert readable.VALUE_FIELDS.keys() == {field.name for field in AttributeProto.DESCRIPTOR.fields} - others
    data = {field.name for field in TensorProto.DESCRIPTOR.fields if field.name.endswith("_data")}
    assert {*readable._DATA_FIELDS} == data - {"raw_data", "external_data"}  # pyright: ignore[reportPrivateUsage]
