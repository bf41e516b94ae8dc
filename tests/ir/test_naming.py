"""Names that hide others, in every scope: what is renamed, and what keeps its name."""

from __future__ import annotations

import onnx
import onnx_ir
import pytest

from castsmith.ir.errors import ModelError
from castsmith.ir.naming import Namer, has_clashes, same_names, settle_names
from castsmith.ir.walks import all_nodes, held_graphs
from tests.graphs.nesting import NESTS


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


LOOP = """<ir_version: 10, opset_import: ["" : 21]>
g (int64 n, float[2] x, float[2] v) => (float[2] y) {
  [node] a = Abs (x)
  y = Loop (n, , v) <body = b (int64 i, bool c, float[2] s) => (bool co, float[2] so) {
    co = Identity (c)
    so = Add (s, a)
  }>
}"""
IF = """<ir_version: 10, opset_import: ["" : 21]>
g (bool c, float[2] x) => (float[2] y) {
  a = Abs (x)
  y = If (c) <then_branch = t () => (float[2] p) { q = Neg (a) p = Add (q, a) },
              else_branch = e () => (float[2] p) { q = Exp (a) p = Add (q, q) }>
}"""


def named(model: onnx_ir.Model, name: str) -> list[onnx_ir.Value]:
    """The values of that name, in all scopes: results of nodes, and inputs of bodies."""
    found = [value for node in all_nodes(model) for value in node.outputs]
    graphs = {value.graph for value in found if isinstance(value.graph, onnx_ir.Graph)}
    found += [value for graph in graphs for value in graph.inputs]
    return [value for value in dict.fromkeys(found) if value.name == name]


@pytest.mark.parametrize(
    ("text", "name", "hides"),
    [
        (LOOP, "s", "a"),  # an input of the body would hide what the body reads
        (LOOP, "i", "a"),
        (LOOP, "co", "a"),
        (LOOP, "so", "a"),
        (IF, "q", "a"),
        (IF, "p", "a"),
    ],
)
def test_a_value_that_hides_one_that_is_read_is_renamed(text: str, name: str, hides: str) -> None:
    model = parsed(text)
    (outer,) = named(model, hides)
    inner = named(model, name)
    for value in inner:
        value.name = hides
    assert has_clashes(model)
    assert settle_names(model)
    assert outer.name == hides
    assert all(value.name != hides for value in inner)
    assert not has_clashes(model)
    assert not settle_names(model)
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check=True)


def test_an_input_of_a_body_may_hide_what_the_body_does_not_read() -> None:
    model = parsed(LOOP.replace("so = Add (s, a)", "so = Abs (s)"))
    for value in named(model, "s"):
        value.name = "a"
    assert not settle_names(model)
    assert len(named(model, "a")) == 2


def test_equal_names_in_sibling_scopes_stay() -> None:
    model = parsed(IF)
    assert len(named(model, "q")) == len(named(model, "p")) == 2
    assert not has_clashes(model)


def test_ports_of_the_main_graph_keep_their_names() -> None:
    model = parsed(IF)
    (inner,) = named(model, "a")
    inner.name = "x"
    assert settle_names(model)
    assert [value.name for value in model.graph.inputs] == ["c", "x"]
    assert inner.name not in ("x", "a")
    inner.name = "y"
    assert has_clashes(model)
    assert settle_names(model)
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert inner.name == "y_1"
    model.graph.outputs[0].name = "x"
    with pytest.raises(ModelError, match="two inputs or outputs have the name 'x'"):
        settle_names(model)


@pytest.mark.parametrize("nest", NESTS)
def test_a_name_taken_twice_in_one_scope(nest: str) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) { a = Abs (x) b = Neg (a) y = Exp (b) }"""
    model = onnx_ir.from_proto(NESTS[nest](onnx.parser.parse_model(text)))
    twins = named(model, "b")
    assert twins
    for value in twins:
        value.name = "a"
    assert settle_names(model)
    assert not has_clashes(model)
    assert len(named(model, "a")) == len(twins)
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check=True)


def test_a_namer_gives_names_that_no_scope_has() -> None:
    model = parsed(LOOP)
    namer = Namer(model)
    for name in ("x", "v", "y", "a", "i", "s", "so", "c", "n"):
        assert namer.fresh(name) == f"{name}_1", name
        assert namer.fresh(name) == f"{name}_2", name
    assert [namer.fresh("new") for _ in range(3)] == ["new", "new_1", "new_2"]
    namer.release("new")
    assert namer.fresh("new") == "new"
    assert namer.fresh("node") == "node_1"
    namer.release(None)
    namer.release("never")
    assert namer.fresh("never") == "never"


def test_nodes_that_share_a_name() -> None:
    model = parsed("""<ir_version: 10, opset_import: ["" : 21, "d" : 1]> g (bool c, float[2] x) => (float[2] y) {
        [n] a = Abs (x)
        b = Abs (a)
        d = Abs (b)
        [n] k = Constant <value_float = 1.0> ()
        [n] e = Neg (d)
        [n] f = Exp (e)
        [m] y = If (c) <
            then_branch = t () => (float[2] p) { [n] q = Neg (a) [o] r = Neg (q) [o] p = Add (q, r) },
            else_branch = e () => (float[2] p) { [n] q = Exp (a) p = d.f (q) }> }
        <opset_import: ["" : 12], domain: "d"> f (x) => (y) { [o] a = Abs (x) [o] y = Abs (a) }""")
    found = [[node.outputs[0].name for node in nodes] for nodes in same_names(model)]
    assert found == [["a", "e", "f"], ["r", "p"], ["a", "y"]]


def test_a_function_without_opset_has_no_opset() -> None:
    model = parsed("""<ir_version: 10, opset_import: ["" : 21, "d" : 1]> g (float[2] x) => (float[2] y) { y = d.f (x) }
        <opset_import: ["e" : 1], domain: "d"> f (x) => (y) { y = e.op (x) }""")
    (function,) = model.functions.values()
    assert Namer(model).constant_opset(function) == 0


def test_places_for_constants() -> None:
    model = parsed("""<ir_version: 10, opset_import: ["" : 21, "d" : 1]> g (float[2] x) => (float[2] y) { y = d.f (x) }
        <opset_import: ["" : 12], domain: "d"> f (x) => (y) { y = Abs (x) }""")
    (function,) = model.functions.values()
    namer = Namer(model)
    assert namer.takes_initializers(model.graph)
    assert not namer.takes_initializers(function.graph)
    assert (namer.constant_opset(model.graph), namer.constant_opset(function)) == (21, 12)
    assert namer.constant_opset(function.graph) == 12
    for dtype, inside in ((onnx_ir.DataType.FLOAT, True), (onnx_ir.DataType.FLOAT8E4M3FN, False)):
        assert namer.takes_constant(model.graph, dtype)
        assert namer.takes_constant(function.graph, dtype) is inside
    model.ir_version = 3
    old = Namer(model)
    assert not old.takes_initializers(model.graph)
    model.ir_version = 4
    assert Namer(model).takes_initializers(model.graph)
    assert function.graph.name == "d.f"
    function.graph.name = "own"
    Namer(model)
    assert function.graph.name == "own"


def test_a_graph_takes_constants_of_types_that_its_constant_lacks() -> None:
    """As initializers; before IR version 4 by a Constant, which below opset 9 gives floats alone."""
    model = parsed('<ir_version: 8, opset_import: ["" : 8]> g (float[2] x) => (float[2] y) { y = Abs (x) }')
    assert Namer(model).takes_constant(model.graph, onnx_ir.DataType.INT8)
    model.ir_version = 3
    kinds = (onnx_ir.DataType.INT8, onnx_ir.DataType.FLOAT)
    assert [Namer(model).takes_constant(model.graph, dtype) for dtype in kinds] == [False, True]


def test_what_has_no_name_hides_nothing() -> None:
    """Omitted results are all without a name, in one scope and around it."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[3] x, int64[1] k, bool c) => (int64[1] a, int64[1] b) {
        , a = TopK (x, k) , b = TopK (x, k)
        d = If (c) <then_branch = t () => (int64[1] p) { , p = TopK (x, k) },
        else_branch = e () => (int64[1] q) { , q = TopK (x, k) }> }"""
    model = parsed(text)
    assert not has_clashes(model)
    assert not settle_names(model)
    assert [node.outputs[0].name for node in all_nodes(model) if node.op_type == "TopK"] == [""] * 4


def test_names_of_initializers_are_in_use_though_nothing_reads_them() -> None:
    model = parsed(IF)
    for scope in (model.graph, *(graph for _, graph in held_graphs(model.graph))):
        name = f"w_of_{scope.name}"
        tensor = onnx_ir.tensor([1.0], name=name)
        scope.register_initializer(onnx_ir.Value(name=name, const_value=tensor))
        assert Namer(model).fresh(name) == f"{name}_1"


@pytest.mark.parametrize(
    ("name", "names"),
    [("a", ["a_1", "q"]), ("x", ["x_1", "q"]), ("q", ["q", "q_1"]), ("b", ["b", "q"]), ("w", ["w", "q"])],
)
def test_an_initializer_of_a_branch_is_renamed_if_it_hides_what_is_read(name: str, names: list[str]) -> None:
    """It comes before the results of its graph, of which one that has its name is renamed."""
    model = parsed(IF.replace("a = Abs (x)", "b = Neg (x) a = Abs (b)").replace("p = Add (q, q)", "p = Add (q, x)"))
    scope = next(graph for _, graph in held_graphs(model.graph) if graph.name == "e")
    held = onnx_ir.Value(name=name, const_value=onnx_ir.tensor([1.0, 2.0], name=name))
    scope.register_initializer(held)
    assert settle_names(model) is (names != [name, "q"])
    assert [held.name, scope[0].outputs[0].name] == names
    assert [*scope.initializers] == names[:1]
    assert not has_clashes(model)
