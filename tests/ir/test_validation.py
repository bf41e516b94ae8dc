"""Invalid models are refused in one sentence; nodes out of order are sorted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto, helper

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir import validation
from castsmith.ir.errors import ModelError
from castsmith.ir.validation import require_calls_end, require_sound
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("onnx_apart")

Node = onnx.NodeProto


def model_of(nodes: Sequence[Node], *, inputs: Sequence[str] = ("x",), opset: int = 21) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in inputs]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "g", ports, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def branch(name: str, *nodes: Node, outputs: Sequence[str]) -> onnx.GraphProto:
    ports = [helper.make_tensor_value_info(output, TensorProto.FLOAT, [2]) for output in outputs]
    return helper.make_graph(nodes, name, [], ports)


def if_node(then: onnx.GraphProto, otherwise: onnx.GraphProto) -> Node:
    return helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise, name="choice")


ONE = branch("one", helper.make_node("Neg", ["x"], ["a"]), outputs=["a"])

UNSOUND = {
    "undefined": (
        [helper.make_node("Neg", ["q"], ["y"], name="n")],
        "g: n (Neg) reads 'q', which the model does not define",
    ),
    "no output": ([helper.make_node("Neg", ["x"], ["z"])], "graph 'g' does not define its output 'y'"),
    "circle": (
        [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"]), if_node(ONE, ONE)],
        "nodes of graph 'g' form a cycle",
    ),
    "holder": (
        [if_node(branch("self", helper.make_node("Neg", ["y"], ["a"]), outputs=["a"]), ONE)],
        "nodes of graph 'g' form a cycle",
    ),
    "too few inputs": ([helper.make_node("Add", ["x"], ["y"], name="n")], "g: n (Add): Add has 1 input, expected 2"),
    "too many outputs": ([helper.make_node("Neg", ["x"], ["y", "z"])], "Neg has 2 outputs, expected 1"),
    "no operator": ([helper.make_node("", ["x"], ["y"], name="n")], "the node 'n' of graph 'g' names no operator"),
    "empty input": ([helper.make_node("Add", ["", "x"], ["y"])], "Add lacks the required input 0"),
    "no attribute": ([helper.make_node("Cast", ["x"], ["y"])], "Cast lacks the required attribute to"),
    "kind": ([helper.make_node("Cast", ["x"], ["y"], to=1.5)], "attribute to of Cast is FLOAT, expected INT"),
    "kind of a later attribute": (
        [helper.make_node("Cast", ["x"], ["y"], to=1, round_mode=1)],
        "the attribute round_mode of Cast is INT, expected STRING",
    ),
    "no type": (
        [helper.make_node("Cast", ["x"], ["y"], to=99)],
        "attribute to of Cast is 99, which is not an ONNX element type",
    ),
    "undefined type": (
        [helper.make_node("Cast", ["x"], ["y"], to=0)],
        "attribute to of Cast is 0, which is not an ONNX element type",
    ),
    "type of a precision": (
        [helper.make_node("QuantizeLinear", ["x", "x"], ["y"], precision=99)],
        "attribute precision of QuantizeLinear is 99, which is not an ONNX element type",
    ),
    "branches": (
        [if_node(ONE, branch("two", helper.make_node("Neg", ["x"], ["a"]), outputs=["a", "a"]))],
        "If has 1 output, but its else_branch returns 2",
    ),
    "in a branch": (
        [if_node(branch("deep", helper.make_node("Neg", ["q"], ["a"], name="n"), outputs=["a"]), ONE)],
        "deep: n (Neg) reads 'q', which the model does not define",
    ),
    "qonnx": (
        [helper.make_node("Quant", ["x"] * 4, ["y"], domain="qonnx.custom_op.general", signed="yes")],
        "the attribute signed of Quant is STRING, expected INT",
    ),
    "qonnx inputs": (
        [helper.make_node("BipolarQuant", ["x"] * 3, ["y"], domain="onnx.brevitas")],
        "BipolarQuant has 3 inputs, expected 2",
    ),
    "qonnx without zero point": (
        [helper.make_node("Quant", ["x", "x", "", "x"], ["y"], domain="qonnx.custom_op.general")],
        "Quant lacks the required input 2",
    ),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_what_does_not_hang_together(case: str, tmp_path: Path) -> None:
    nodes, sentence = UNSOUND[case]
    path = tmp_path / "m.onnx"
    onnx.save(model_of(nodes, inputs=("x", "c")), path)
    with pytest.raises(ModelError) as caught:
        castsmith.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("opset", "node", "sentence"),
    [
        (13, "CastLike (x)", "CastLike has 1 input, expected 2"),  # of opset 15
        (28, "Upsample <mode = 1> (x, x)", "the attribute mode of Upsample is INT, expected STRING"),  # until opset 9
        (21, "Cast (x)", "Cast lacks the required attribute to"),
        (21, "f.h (x)", "h has 1 input, expected 0"),
        (21, "f.k <to = 1> (x)", "the attribute to of Cast is FLOAT, expected INT"),
    ],
)
def test_a_node_does_not_fit_its_schema(opset: int, node: str, sentence: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : {opset}, "f" : 1]> g (float[2] x) => (y) {{ y = {node} }}
      <domain: "f", opset_import: ["" : 21]> h () => (q) {{ q = Constant <value_float = 1.0> () }}
      <domain: "f", opset_import: ["" : 21]> k <to> (p) => (q) {{ q = Cast <to: float = @to> (p) }}"""
    model = onnx.parser.parse_model(text)
    if "f.k" not in node:
        del model.functions[1]
    with pytest.raises(ModelError, match=sentence):
        castsmith.optimize(model)


@pytest.mark.parametrize(
    ("node", "declared", "sentence"),
    [
        ("Cast <to = 10> (x)", "seq(float16[2])", "'y' is declared a sequence, but Cast makes a tensor"),
        ("Add (x, x)", "optional(float[2])", "'y' is declared an optional value, but Add makes a tensor"),
        ("Identity (x)", "seq(float[2])", ""),
        ("SequenceConstruct (x)", "seq(float[2])", ""),
        ("f.h (x)", "optional(float[2])", ""),
    ],
)
def test_a_tensor_that_is_declared_a_sequence_or_an_optional_value(node: str, declared: str, sentence: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g (float[2] x) => ({declared} y) {{ y = {node} }}
      <domain: "f", opset_import: ["" : 21]> h (p) => (q) {{ q = Optional (p) }}"""
    model = onnx.parser.parse_model(text)
    if sentence:
        with pytest.raises(ModelError, match=sentence):
            castsmith.optimize(model)
    else:
        castsmith.optimize(model)


def test_two_inputs_of_one_name() -> None:
    with pytest.raises(ModelError, match="graph 'g': two inputs have the name 'x', and only one of them could be kept"):
        castsmith.optimize(model_of([helper.make_node("Neg", ["x"], ["y"])], inputs=("x", "x")))


def test_a_loop_that_passes_on_less_than_its_body_takes() -> None:
    body = branch("body", helper.make_node("Identity", ["c"], ["go"]), outputs=["go"])
    node = helper.make_node("Loop", ["", "c", "x"], ["y"], body=body)
    with pytest.raises(
        ModelError, match="the body of Loop has 0 inputs and 1 outputs, expected 3 inputs and 2 outputs"
    ):
        castsmith.optimize(model_of([node], inputs=("x", "c")))


def test_functions_that_call_each_other() -> None:
    model = model_of([helper.make_node("F", ["x"], ["y"], domain="d")])
    opset = [helper.make_opsetid("d", 1)]
    for name, called in (("F", "G"), ("G", "F")):
        model.functions.append(
            helper.make_function("d", name, ["a"], ["b"], [helper.make_node(called, ["a"], ["b"], domain="d")], opset)
        )
    model.opset_import.extend(opset)
    with pytest.raises(ModelError, match=r"function d::[FG] calls itself"):
        castsmith.optimize(model)


def test_a_function_that_calls_itself_in_a_branch() -> None:
    model = model_of([helper.make_node("F", ["x"], ["y"], domain="d")])
    opset = [helper.make_opsetid("d", 1), helper.make_opsetid("", 21)]
    calls = branch("calls", helper.make_node("F", ["a"], ["p"], domain="d"), outputs=["p"])
    ends = branch("ends", helper.make_node("Neg", ["a"], ["q"]), outputs=["q"])
    body = [
        helper.make_node("ReduceMax", ["a"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=9),
        helper.make_node("If", ["c"], ["b"], then_branch=ends, else_branch=calls),
    ]
    model.functions.append(helper.make_function("d", "F", ["a"], ["b"], body, opset))
    model.opset_import.extend(opset[:1])
    with pytest.raises(ModelError, match="function d::F calls itself"):
        castsmith.optimize(model)


def test_a_call_with_more_outputs_than_its_function() -> None:
    model = model_of([helper.make_node("F", ["x"], ["y", "z"], domain="d")])
    opset = [helper.make_opsetid("d", 1), helper.make_opsetid("", 21)]
    body = [helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(helper.make_function("d", "F", ["a"], ["b"], body, opset))
    model.opset_import.extend(opset[:1])
    with pytest.raises(ModelError, match="F has 2 outputs, expected at most 1"):
        castsmith.optimize(model)


def out_of_order() -> onnx.ModelProto:
    return model_of([helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Abs", ["x"], ["a"])])


def test_nodes_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(out_of_order(), path)
    assert [node.op_type for node in castsmith.load(path).graph] == ["Abs", "Neg"]


def test_a_model_in_memory_is_not_reordered_behind_its_owner() -> None:
    model = onnx_ir.from_proto(out_of_order())
    with pytest.raises(ModelError, match=r"out of order; its sort\(\)"):
        castsmith.optimize(model)
    model.graph.sort()
    assert not castsmith.optimize(model).rewrites


@pytest.mark.parametrize("field", ["float_data", "int32_data", "string_data"])
def test_typed_data_that_does_not_fit_its_shape(field: str, tmp_path: Path) -> None:
    """onnx_ir reads a tensor without data as zeros: a file cut short would be a model with other weights."""
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])])
    weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2])
    getattr(weight, field).extend([b"1" if field == "string_data" else 1])
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    with pytest.raises(ModelError, match="tensor 'w' needs"):
        castsmith.load(path)
    weight.ClearField(field)
    weight.float_data.extend([1, 2])
    onnx.save(model, path)
    loaded = castsmith.load(path).graph.initializers["w"].const_value
    assert loaded is not None
    np.testing.assert_array_equal(loaded.numpy(), np.array([1, 2], np.float32))


@pytest.mark.parametrize(
    "dtype", [TensorProto.COMPLEX64, TensorProto.INT4, TensorProto.UINT2, TensorProto.FLOAT16, TensorProto.STRING]
)
def test_typed_data_of_other_widths(dtype: int) -> None:
    tensor = onnx.TensorProto(name="w", data_type=dtype, dims=[3], string_data=[b"a"] * 3)
    if dtype != TensorProto.STRING:
        tensor = helper.make_tensor("w", dtype, [3], [1] * 3)
    model = model_of([helper.make_node("Neg", ["x"], ["y"])])
    model.graph.initializer.append(tensor)
    castsmith.optimize(model)
    tensor.dims[0] = 5
    model.graph.initializer[0].CopyFrom(tensor)
    with pytest.raises(ModelError, match="tensor 'w' needs"):
        castsmith.optimize(model)


@pytest.mark.parametrize("place", ["node", "graph"])
def test_names_that_are_no_text(place: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = model_of([helper.make_node("Neg", ["x"], ["y"])])
    held = model.graph.node[0] if place == "node" else model.graph
    held.name = "name_of_bytes"
    path.write_bytes(model.SerializeToString().replace(b"name_of_bytes", b"name_of_\xff\xfe\xfd\xfc\xfb"))
    with pytest.raises(ModelError, match="is not UTF-8"):
        castsmith.load(path)


@pytest.mark.parametrize("part", ["node", "operator", "domain", "result"])
def test_names_of_bytes_in_a_model_in_memory(part: str) -> None:
    model = onnx_ir.from_proto(model_of([helper.make_node("Neg", ["x"], ["y"])]))
    node, name = model.graph[0], cast(str, b"\xff")
    if part == "node":
        node.name = name
    elif part == "operator":
        node.op_type = name
    elif part == "domain":
        node.domain = name
    else:
        node.outputs[0].name = name
    with pytest.raises(ModelError, match=r"^m: the name of a (node|value), .*b'.xff'.* is not UTF-8\.$"):
        require_sound(model, "m")


@pytest.mark.parametrize(("name", "valid"), [("INT32", True), ("int32", True), ("whole", False), ("UNDEFINED", False)])
def test_cast_of_opset_1_names_its_type(name: str, valid: bool) -> None:
    text = f'<ir_version: 4, opset_import: ["": 1]> g (float[2] x) => (int32[2] y) {{ y = Cast <to = "{name}"> (x) }}'
    model = onnx_ir.from_onnx_text(text)
    if not valid:
        with pytest.raises(ModelError, match=f"the attribute to of Cast is {name!r}, which is not an ONNX"):
            castsmith.optimize(model)
        with pytest.raises(ModelError, match=f"the attribute to of Cast is {name!r}, which is not an ONNX"):
            infer_element_types(model, castsmith.PromotionRules())
    else:
        castsmith.optimize(model)


def _nested_graphs(depth: int) -> onnx_ir.Model:
    """Ifs in one another, made in memory."""
    x = onnx_ir.Value(name="x", type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT), shape=onnx_ir.Shape([2]))
    c = onnx_ir.Value(name="c", type=onnx_ir.TensorType(onnx_ir.DataType.BOOL), shape=onnx_ir.Shape([]))
    node = onnx_ir.node("Relu", [x])
    for level in range(depth):
        other = onnx_ir.node("Relu", [x])
        node.outputs[0].name, other.outputs[0].name = f"t{level}", f"e{level}"
        branches = {
            "then_branch": onnx_ir.Graph([], node.outputs, nodes=[node], name=f"then{level}"),
            "else_branch": onnx_ir.Graph([], other.outputs, nodes=[other], name=f"else{level}"),
        }
        node = onnx_ir.node("If", [c], branches)
    node.outputs[0].name = "y"
    return onnx_ir.Model(
        onnx_ir.Graph([x, c], node.outputs, nodes=[node], name="g", opset_imports={"": 21}), ir_version=10
    )


def _nested_calls(depth: int, *, ring: bool) -> onnx_ir.Model:
    """Functions that call one another, made in memory; the first calls the last where they are a ring."""
    functions = list[onnx_ir.Function]()
    imports = {"": 21, "f": 1}
    for level in range(depth):
        v = onnx_ir.Value(name="v")
        ends = level == 0 and not ring
        node = onnx_ir.node("Relu", [v]) if ends else onnx_ir.node(f"f{(level - 1) % depth}", [v], domain="f")
        node.outputs[0].name = "w"
        graph = onnx_ir.Graph([v], node.outputs, nodes=[node], name=f"f{level}", opset_imports=dict(imports))
        functions.append(onnx_ir.Function("f", f"f{level}", "", graph=graph, attributes=[]))
    x = onnx_ir.Value(name="x", type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT), shape=onnx_ir.Shape([2]))
    node = onnx_ir.node(f"f{depth - 1}", [x], domain="f")
    node.outputs[0].name = "y"
    main = onnx_ir.Graph([x], node.outputs, nodes=[node], name="g", opset_imports=imports)
    return onnx_ir.Model(main, ir_version=10, functions=functions)


def _nested_type(depth: int) -> onnx_ir.Model:
    nested: onnx_ir.TypeProtocol = onnx_ir.TensorType(onnx_ir.DataType.FLOAT)
    for _ in range(depth):
        nested = onnx_ir.SequenceType(nested)
    node = onnx_ir.node("Identity", [onnx_ir.Value(name="x", type=nested)])
    node.outputs[0].name = "y"
    graph = onnx_ir.Graph(
        [value for value in node.inputs if value], node.outputs, nodes=[node], name="g", opset_imports={"": 21}
    )
    return onnx_ir.Model(graph, ir_version=10)


@pytest.mark.parametrize("within", ["g", "f"])
def test_two_inputs_of_one_name_made_in_memory(within: str) -> None:
    model = onnx_ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 21, "d": 1]>
        g (float[2] a, float[2] b) => (float[2] y) { y = d.f (a, b) }
        <domain: "d", opset_import: ["": 21]> f (a, b) => (c) { c = Add (a, b) }""")
    (scope,) = (scope for scope in (model.graph, *model.functions.values()) if scope.name == within)
    scope.inputs[1].name = "a"
    with pytest.raises(ModelError, match=f"graph '{within}' has two inputs of the name 'a'"):
        castsmith.optimize(model)


def test_levels_of_calls_and_subgraphs_are_counted() -> None:
    """Each call is one level, and each subgraph around it."""
    model = _nested_calls(150, ring=False)
    with pytest.raises(ModelError, match="function f::f149 leads 150 levels deep"):
        castsmith.check(model)


_IN_A_BRANCH = (
    "{0} = If (k) <then_branch = t () => (q{0}) {{ {1} }}, else_branch = e () => (r{0}) {{ r{0} = Neg (v) }}>"
)
CALLS = {
    "no call": ("w = Relu (v)", 1),
    "a call": ("w = f.a (v)", 2),
    "the shallow one first": ("s = f.a (v) w = f.b (s)", 3),
    "the deep one first": ("s = f.b (v) w = f.a (s)", 3),
    "in a branch": (_IN_A_BRANCH.format("w", "qw = f.a (v)"), 3),
    "in a branch and not": (f"s = f.a (v) {_IN_A_BRANCH.format('w', 'qw = f.a (s)')}", 3),
    "in a branch of a branch": (_IN_A_BRANCH.format("w", _IN_A_BRANCH.format("qw", "qqw = f.b (v)")), 5),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_deepest_call_counts(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, levels = CALLS[case]
    head, functions = '<domain: "f", opset_import: ["": 21, "f": 1]>', {"a": "w = Abs (v)", "b": "w = f.a (v)"}
    texts = [f"{head} {name} (v) => (w) {{ {text} }}" for name, text in functions.items()]
    model = onnx_ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["": 21, "f": 1]>
        g (float[2] x) => (float[2] y) {{ y = f.c (x) }} {" ".join(texts)}
        {head} c (v) => (w) {{ k = Constant <value = bool {{1}}> () {body} }}""")
    monkeypatch.setattr(validation, "_LEVELS", levels)
    require_calls_end(model, "m")
    monkeypatch.setattr(validation, "_LEVELS", levels - 1)
    with pytest.raises(ModelError, match=f"^m: the call of function f::c leads {levels} levels deep"):
        require_calls_end(model, "m")


def _in_a_branch(model: onnx_ir.Model) -> onnx_ir.Model:
    """The model, with its only node in a branch of an If."""
    (call,) = model.graph
    model.graph.outputs.clear()
    model.graph.remove(call)
    other = onnx_ir.node("Relu", [model.graph.inputs[0]])
    other.outputs[0].name = "e"
    condition = onnx_ir.Value(name="c", type=onnx_ir.TensorType(onnx_ir.DataType.BOOL), shape=onnx_ir.Shape([]))
    branches = {
        "then_branch": onnx_ir.Graph([], call.outputs, nodes=[call], name="t"),
        "else_branch": onnx_ir.Graph([], other.outputs, nodes=[other], name="e"),
    }
    model.graph.inputs.append(condition)
    model.graph.append(onnx_ir.node("If", [condition], branches))
    return model


def test_how_deep_models_may_nest() -> None:
    """Graphs and types 33 levels, calls and the subgraphs around them 100."""
    for model, told in (
        (_nested_graphs(33), ""),
        (_nested_graphs(34), "m: graphs are nested deeper than the 33 levels of a model file."),
        (_nested_type(33), ""),
        (_nested_type(34), "m: the type of 'x' is nested deeper than 33 levels."),
        (_nested_calls(100, ring=False), ""),
        (_nested_calls(101, ring=False), "m: the call of function f::f100 leads 101 levels deep into calls"),
        (_in_a_branch(_nested_calls(99, ring=False)), ""),
        (_in_a_branch(_nested_calls(100, ring=False)), "m: the call of function f::f99 leads 101 levels deep into"),
    ):
        if not told:
            require_sound(model, "m")
            continue
        with pytest.raises(ModelError) as raised:
            require_sound(model, "m")
        assert str(raised.value).startswith(told)


NESTED: dict[str, tuple[Callable[[int], onnx_ir.Model], str]] = {
    "graphs": (_nested_graphs, "graphs are nested deeper than"),
    "calls": (lambda depth: _nested_calls(depth, ring=False), "levels deep into calls"),
    "ring": (lambda depth: _nested_calls(depth, ring=True), "calls itself"),
    "types": (_nested_type, "the type of 'x' is nested deeper than"),
}
ENTRIES: dict[str, Callable[[onnx_ir.Model], object]] = {
    "optimize": castsmith.optimize,
    "in place": lambda model: castsmith.optimize(model, in_place=True),
    "check": castsmith.check,
    "diff": lambda model: castsmith.diff(model, model),
    "verify": lambda model: castsmith.verify(model, model),
}


@pytest.mark.parametrize(
    ("kind", "entry"), sampled("deep models in memory", itertools.product(NESTED, ENTRIES), 8, cover=enumerate)
)
def test_models_in_memory_that_nest_too_deep(kind: str, entry: str) -> None:
    make, says = NESTED[kind]
    for depth in (150, 3_000):
        with pytest.raises(ModelError, match=says):
            ENTRIES[entry](make(depth))
