"""Sparse constants, repeated nodes and value_info, read from protobuf and written back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx.reference
import onnx_ir
import pytest
from onnx import TensorProto

from castsmith.ir.errors import ModelError
from castsmith.ir.io.protos import (
    REPEATED,
    file_format,
    from_proto,
    has_sparse,
    root_cause,
    spelled_out,
    to_proto,
    without_repeats,
)

_PLACES = [[0, 1], [1, 2]]
_SHAPE = (2, 3)
_TYPES = sorted(
    each
    for each in onnx.helper.get_all_tensor_dtypes()
    if each <= TensorProto.BFLOAT16 and each != TensorProto.UNDEFINED
)


def sparse(data_type: int = TensorProto.FLOAT, *, flat: bool = False, count: int = 2, name: str = "s") -> Any:
    """Elements 1 and 2 at (0, 1) and (1, 2) of a tensor of two rows and three columns."""
    numbers: list[Any] = ["1", "2"] if data_type == TensorProto.STRING else [1, 2]
    values = onnx.helper.make_tensor(name, data_type, [count], numbers[:count])
    places = np.array(_PLACES[:count], np.int64).reshape(count, 2)
    indices = np.ravel_multi_index(tuple(places.T), _SHAPE).astype(np.int64) if flat else places
    return onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(indices, "i"), list(_SHAPE))


def dense(data_type: int, count: int = 2) -> Any:
    values = onnx.numpy_helper.to_array(sparse(data_type).values)
    array = np.full(_SHAPE, "", object) if data_type == TensorProto.STRING else np.zeros(_SHAPE, values.dtype)
    for place, value in list(zip(_PLACES, values, strict=True))[:count]:
        array[tuple(place)] = value
    return array


def of_nodes(nodes: list[Any], data_type: int = TensorProto.FLOAT, opset: int = 21, **given: Any) -> onnx.ModelProto:
    output = onnx.helper.make_tensor_value_info("y", data_type, _SHAPE)
    inputs = [onnx.helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [output], **given)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)


def constant(data_type: int, result: str, **given: Any) -> onnx.NodeProto:
    return onnx.helper.make_node("Constant", [], [result], sparse_value=sparse(data_type, **given))


def node(op_type: str, inputs: list[str], *outputs: str, **given: Any) -> onnx.NodeProto:
    return onnx.helper.make_node(op_type, inputs, list(outputs), **given)


def branch(name: str, nodes: list[Any], data_type: int, **given: Any) -> onnx.GraphProto:
    output = onnx.helper.make_tensor_value_info(f"{name}y", data_type, _SHAPE)
    return onnx.helper.make_graph(nodes, name, [], [output], **given)


def in_initializer(data_type: int, **given: Any) -> onnx.ModelProto:
    return of_nodes([node("Identity", ["s"], "y")], data_type, sparse_initializer=[sparse(data_type, **given)])


def in_constant(data_type: int, **given: Any) -> onnx.ModelProto:
    return of_nodes([constant(data_type, "s", **given), node("Identity", ["s"], "y")], data_type)


def in_branches(data_type: int, **given: Any) -> onnx.ModelProto:
    """A sparse initializer in one branch, and a constant in the other."""
    one = branch("a", [node("Identity", ["s"], "ay")], data_type, sparse_initializer=[sparse(data_type, **given)])
    other = branch("b", [constant(data_type, "by", **given)], data_type)
    return of_nodes([node("If", ["c"], "y", then_branch=one, else_branch=other)], data_type)


def in_function(data_type: int, **given: Any) -> onnx.ModelProto:
    model = of_nodes([node("f", [], "y", domain="d")], data_type)
    model.opset_import.add(domain="d", version=1)
    nodes = [constant(data_type, "s", **given), node("Identity", ["s"], "r")]
    imports = [onnx.helper.make_opsetid("", 21)]
    model.functions.append(onnx.helper.make_function("d", "f", [], ["r"], nodes, imports))
    return model


_MAKERS = {"initializer": in_initializer, "constant": in_constant, "branches": in_branches, "function": in_function}


def results(model: onnx.ModelProto) -> Iterator[Any]:
    run: Any = onnx.reference.ReferenceEvaluator(model).run
    for condition in (True, False):
        yield run(None, {"c": np.array(condition)})[0]


def require_dense(model: onnx.ModelProto, expected: Any) -> None:
    assert has_sparse(model)
    before = model.SerializeToString(deterministic=True)
    made = spelled_out(model)
    assert model.SerializeToString(deterministic=True) == before
    assert not has_sparse(made)
    onnx.checker.check_model(made, full_check=True)
    for array in results(made):
        assert array.shape == expected.shape
        if array.dtype.kind in "OU":
            assert array.tolist() == expected.tolist()
        else:
            assert (array.dtype, array.tobytes()) == (expected.dtype, expected.tobytes())
    loaded = to_proto(from_proto(model))
    assert [each.op_type for each in loaded.graph.node] == [each.op_type for each in made.graph.node]


@pytest.mark.parametrize("where", _MAKERS)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("count", [2, 1])
def test_a_sparse_constant_is_made_by_operators(where: str, flat: bool, count: int) -> None:
    model = _MAKERS[where](TensorProto.FLOAT, flat=flat, count=count)
    require_dense(model, dense(TensorProto.FLOAT, count))


@pytest.mark.parametrize("data_type", _TYPES)
@pytest.mark.parametrize("flat", [False, True])
def test_of_every_type(data_type: int, flat: bool) -> None:
    require_dense(in_constant(data_type, flat=flat), dense(data_type))


def test_the_names_of_what_makes_a_sparse_constant() -> None:
    made = spelled_out(in_initializer(TensorProto.FLOAT, flat=True)).graph
    assert [(each.op_type, *each.output) for each in made.node] == [
        ("Constant", "s/zero"), ("Constant", "s/shape"), ("Constant", "s/indices"), ("Constant", "s/values"),
        ("Constant", "s/dims"), ("Expand", "s/zeros"), ("ScatterND", "s/flat"), ("Reshape", "s"), ("Identity", "y"),
    ]  # fmt: skip
    assert [onnx.numpy_helper.to_array(made.node[at].attribute[0].t).tolist() for at in (1, 2, 4)] == [
        [6], [[1], [5]], [2, 3],
    ]  # fmt: skip
    made = spelled_out(in_constant(TensorProto.FLOAT)).graph
    assert [(each.op_type, *each.output) for each in made.node[-3:]] == [
        ("Expand", "s/zeros"), ("ScatterND", "s"), ("Identity", "y"),
    ]  # fmt: skip
    assert prod(_SHAPE) == 6


def test_models_without_sparse_constants_are_as_they_were() -> None:
    plain = of_nodes([onnx.helper.make_node("Constant", [], ["y"], value=onnx.numpy_helper.from_array(dense(1)))])
    assert not has_sparse(plain)
    assert [each.op_type for each in to_proto(from_proto(plain)).graph.node] == ["Constant"]


def test_only_a_constant_has_a_sparse_value() -> None:
    other = node("Other", [], "s", sparse_value=sparse(), domain="d")
    for nodes in ([node("Constant", [], "s")], [other]):
        model = of_nodes([*nodes, node("Identity", ["s"], "y")], TensorProto.FLOAT)
        assert not has_sparse(model)
        assert [each.op_type for each in spelled_out(model).graph.node] == [nodes[0].op_type, "Identity"]


def test_sparse_constants_need_opset_11() -> None:
    for opset in (10, 11):
        model = in_constant(TensorProto.FLOAT)
        model.opset_import[0].version = opset
        if opset == 11:
            assert len(spelled_out(model).graph.node) == 7
            model.opset_import[0].domain = "ai.onnx"
            assert len(spelled_out(model).graph.node) == 7
            continue
        with pytest.raises(ModelError, match=r"^g: sparse constants need opset 11\.$"):
            spelled_out(model)


def test_a_sparse_default_of_an_input_is_refused() -> None:
    model = in_initializer(TensorProto.FLOAT)
    model.graph.input.append(onnx.helper.make_tensor_value_info("s", TensorProto.FLOAT, _SHAPE))
    with pytest.raises(ModelError, match=r"^g: the sparse initializer 's' is the default of an input, not a constant"):
        spelled_out(model)


# Repeated nodes.

_CAST = "a = Cast <to = 10> (x)"


def parsed(nodes: str) -> onnx.ModelProto:
    text = (
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, bool c) => (float16[2] y) {{ {nodes} y = Neg (a) }}'
    )
    return onnx.parser.parse_model(text)


def names(node: onnx.NodeProto) -> None:
    node.name, node.doc_string = "other", "text"
    node.metadata_props.add(key="k", value="v")


@pytest.mark.parametrize(
    ("nodes", "kept", "change"),
    [
        (f"{_CAST} {_CAST}", 1, None),
        (f"{_CAST} {_CAST} {_CAST}", 1, None),
        (f"{_CAST} {_CAST}", 1, names),
        (f"{_CAST} a = Cast <to = 16> (x)", 2, None),
        (f"{_CAST} a = Cast <to = 10> (c)", 2, None),
        (f"{_CAST} b = Cast <to = 10> (x)", 2, None),
        ("a = RandomUniformLike <dtype = 10> (x) a = RandomUniformLike <dtype = 10> (x)", 2, None),
        ("a, m = Dropout (x) a, m = Dropout (x)", 1, None),
        ("a, m = Dropout (x) a, n = Dropout (x)", 2, None),
        ("m, a = Split <num_outputs = 2> (x) a, m = Split <num_outputs = 2> (x)", 2, None),
    ],
)  # fmt: skip
def test_repeated_nodes(nodes: str, kept: int, change: Callable[[onnx.NodeProto], None] | None) -> None:
    model = parsed(nodes)
    if change is not None:
        change(model.graph.node[1])
    count = len(model.graph.node) - 1
    found, texts = without_repeats(model)
    assert len(found.graph.node) - 1 == kept
    assert len(texts) == count - kept
    assert (found is model) is (kept == count)
    assert found.graph.node[0] == model.graph.node[0]
    assert len(model.graph.node) - 1 == count


@pytest.mark.parametrize("results", [[], [""], ["", "z"]])
def test_nodes_whose_first_result_has_no_name_are_kept(results: list[str]) -> None:
    model = parsed(_CAST)
    model.graph.node.extend(onnx.helper.make_node("n", ["x"], results, domain="f") for _ in range(2))
    assert without_repeats(model) == (model, [])


def test_repeated_nodes_everywhere_are_named() -> None:
    model = parsed(f"{_CAST} {_CAST}")
    body = onnx.parser.parse_graph("t () => (float[2] r) { r = Neg (x) r = Neg (x) }")
    model.graph.node.append(onnx.helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body))
    nodes = [onnx.helper.make_node("Abs", ["p"], ["q"])] * 2
    model.functions.append(onnx.helper.make_function("d", "f", ["p"], ["q"], nodes, [onnx.helper.make_opsetid("", 21)]))
    found, texts = without_repeats(model)
    assert [text.split("=")[1].split()[0] for text in texts] == ["Cast", "Neg", "Neg", "Abs"]
    assert [len(graph.node) for graph in (found.graph, *(each.g for each in found.graph.node[-1].attribute))] == [
        3,
        1,
        1,
    ]
    assert len(found.functions[0].node) == 1
    loaded = from_proto(model)
    assert loaded.meta[REPEATED] == texts
    assert REPEATED not in from_proto(parsed(_CAST)).meta


def test_of_initializers_of_one_name_and_type_the_last_is_read() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }""")
    for numbers in ([3.0, 4.0], [5.0, 6.0]):
        model.graph.initializer.append(onnx.helper.make_tensor("w", 1, [2], numbers))
    loaded = from_proto(model)
    tensor = loaded.graph.initializers["w"].const_value
    assert tensor is not None
    assert tensor.numpy().tolist() == [5, 6]
    assert loaded.meta[REPEATED] == ["initializer w"] * 2


# Back to protobuf.


def test_an_initializer_has_a_value_info_if_it_had_one() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, bool c) => (float[2] y)
        <float[2] w = {1, 2}, float[2] v = {3, 4}, float[2] t> {
        t = Add (x, w) u = If (c) <then_branch = a () => (float[2] ay) <float[2] p = {1, 2}, float[2] q = {3, 4}>
        { ay = Add (p, q) }, else_branch = b () => (float[2] by) { by = Neg (v) }> y = Add (t, u) }"""
    model = onnx.parser.parse_model(text)
    inner = next(each for each in model.graph.node if each.op_type == "If").attribute[0].g
    for graph, name in ((model.graph, "v"), (inner, "q")):
        del graph.value_info[:]
        graph.value_info.append(onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("t", TensorProto.FLOAT, [2]))
    back = to_proto(from_proto(model))
    again = next(each for each in back.graph.node if each.op_type == "If").attribute[0].g
    assert sorted(each.name for each in back.graph.value_info) == ["t", "v"]
    assert [each.name for each in again.value_info] == ["q"]
    bare = onnx_ir.from_proto(model)  # not loaded here: all are written, as onnx_ir does
    assert {"v", "w"} <= {each.name for each in to_proto(bare).graph.value_info}


def test_a_tensor_is_written_under_the_name_of_its_value() -> None:
    model = from_proto(parsed("w = Constant <value = float[1] {1}> () a = Cast <to = 10> (x)"))
    tensor = onnx_ir.tensor(np.ones(2, np.float32), name="before")
    value = onnx_ir.Value(name="after", const_value=tensor)
    model.graph.initializers.add(value)
    tensor.name = "changed"
    assert [each.name for each in to_proto(model).graph.initializer] == ["after"]


def test_a_function_of_the_standard_domain_stays_valid() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }
        <domain: "", opset_import: ["" : 21]> Relu (a) => (b) { b = Neg (a) }"""
    proto = onnx.parser.parse_model(text)
    proto.functions[0].domain = ""
    onnx.checker.check_model(proto)
    onnx.checker.check_model(to_proto(from_proto(proto)))


def test_metadata_of_tensors_are_written_once() -> None:
    tensor = onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")
    for key in ("b", "a"):
        tensor.metadata_props.add(key=key, value=f"{key}{key}")
    model = parsed("a = Cast <to = 10> (x)")
    model.graph.initializer.append(tensor)
    model.graph.node.append(onnx.helper.make_node("Constant", [], ["k"], value=tensor))  # pyright: ignore[reportArgumentType]
    model.graph.node.append(onnx.helper.make_node("n", [], ["l"], domain="d", tensors=[tensor, tensor]))
    model.opset_import.add(domain="d", version=1)
    back = to_proto(from_proto(model)).graph
    found = [back.initializer[0], back.node[-2].attribute[0].t, *back.node[-1].attribute[0].tensors]
    assert len(found) == 4
    for each in found:
        assert [(entry.key, entry.value) for entry in each.metadata_props] == [("b", "bb"), ("a", "aa")]


def test_a_text_that_is_not_utf8_is_not_written() -> None:
    model = from_proto(parsed("a = Cast <to = 10> (x)"))
    model.graph.name = "\udc80"
    with pytest.raises(ModelError, match=r"^the model cannot be written \(.*surrogates not allowed.*\)\.$"):
        to_proto(model)


def test_the_innermost_cause_of_an_error() -> None:
    inner = ValueError("first\nsecond")
    outer = RuntimeError("outer")
    outer.__cause__ = inner
    assert root_cause(outer) == "first"
    assert root_cause(RuntimeError("alone")) == "alone"
    assert root_cause(KeyError()) == "KeyError"


def test_the_suffix_names_the_format() -> None:
    suffixes = (".onnx", ".onnxtxt", ".textproto", ".json", ".onnxjson", ".bin", "")
    assert [file_format(Path(f"m{suffix}")) for suffix in suffixes] == [
        "protobuf", "onnxtxt", "textproto", "json", "json", "protobuf", "protobuf",
    ]  # fmt: skip
