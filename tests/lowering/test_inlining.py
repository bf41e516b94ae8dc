"""Calls replaced by the nodes of their functions: what a node gets of its call, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.io.loading import from_proto
from castsmith.ir.naming import Namer
from castsmith.ir.records import Records
from castsmith.ir.walks import all_nodes, graphs_of
from castsmith.lowering import inlining
from castsmith.lowering.inlining import inline_functions, inline_or_refuse, obstacle_to_inlining, with_callers
from castsmith.passes.core.session import Session
from tests.evaluator import evaluate
from tests.sampling import check_all

Array = np.ndarray[Any, Any]
SQUARE = '<domain: "own", opset_import: ["": 17]> F (p) => (q) { q = Mul (p, p) }'
SCALED = (
    '<domain: "own", opset_import: ["": 17]> F <k, m: float = 3.0> (p, s) => (q, r) {'
    " a = Constant <value_float: float = @k> () b = Constant <value_float: float = @m> () c = Mul (p, a) q = Add (c, b)"
    " r = Neg (p) }"
)
OUTER = (
    '<domain: "own", opset_import: ["": 17, "own": 1]> G (p) => (q) { a = own.F (p) q = Add (a, p) }'
    ' <domain: "own", opset_import: ["": 17]> H (p) => (q) { q = Neg (p) }'
)
BRANCH = (
    '<domain: "own", opset_import: ["": 17]> F (p, c) => (q) { z = Neg (p) q = If (c) <then_branch = t () =>'
    " (float[N] e) { d = Abs (p) e = Add (d, z) }, else_branch = f () => (float[N] g) { g = Relu (p) }> }"
)
PASSING = '<domain: "own", opset_import: ["": 17]> F (p) => (p, q) { q = Neg (p) }'
OPTIONAL = '<domain: "own", opset_import: ["": 17]> F (p, lo, hi) => (q) { q = Clip (p, lo, hi) }'


def model_of(body: str, functions: str, imports: str = '"": 17, "own": 1') -> onnx_ir.Model:
    text = f"<ir_version: 9, opset_import: [{imports}]> g (float[N] x, float[N] z, bool c) => (float[N] y) {{ {body} }}"
    return from_proto(onnx.parser.parse_model(f"{text} {functions}"))


FEEDS: Mapping[str, Array] = {
    "x": np.array([1, -2, 3], np.float32),
    "z": np.array([5, 6, -7], np.float32),
    "c": np.array(True),
}
X, Z = FEEDS["x"], FEEDS["z"]
ROWS: list[tuple[str, str, Array, str]] = [
    # calls, functions, the result, the operators of the main graph
    ("a = own.F (x) y = own.F (a)", SQUARE, X**4, "Mul Mul"),
    ("a, b = own.F <k = 2.0> (x, z) y = Add (a, b)", SCALED, X * 2 + 3 - X, "Constant Constant Mul Add Neg Add"),
    ("y = own.F <k = 2.0, m = -1.0> (x, z)", SCALED, X * 2 - 1, "Constant Constant Mul Add Neg"),
    ("a = own.G (x) b = own.F (a) y = own.H (b)", f"{SQUARE} {OUTER}", -((X**2 + X) ** 2), "Mul Add Mul H"),
    ("a = own.F (x, c) b = own.F (z, c) y = Add (a, b)", BRANCH, np.abs(X) - X + np.abs(Z) - Z, "Neg If Neg If Add"),
    ("a, b = own.F (x) y = Mul (a, b)", PASSING, -(X**2), "Neg Mul"),
    ("k = Constant <value_float = 2.0> () y = own.F (x, , k)", OPTIONAL, np.minimum(X, 2), "Constant Clip"),
    ("k = Constant <value_float = 2.0> () y = own.F (x, k)", OPTIONAL, np.maximum(X, 2), "Constant Clip"),
    ("y = If (c) <then_branch = t () => (float[N] r) { r = own.F (x) }, else_branch = e () => (float[N] s)"
     " { s = own.F (z) }>", SQUARE, X**2, "If"),
]  # fmt: skip


def require_inlined(body: str, functions: str, expected: Array, operators: str) -> None:
    model = model_of(body, functions)
    before = [value.name for value in model.graph.outputs]
    (name,) = [name for name in model.functions if name[1] == "F"]
    inline_functions(Session(model), {name}, "pass")
    assert " ".join(node.op_type for node in model.graph) == operators
    assert [function.name for function in model.functions.values()] == (["H"] if "H" in operators else [])
    assert [value.name for value in model.graph.outputs] == before
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check=True)
    names = [value.name for node in all_nodes(model) for value in node.outputs if value.name]
    assert len(names) == len(set(names))
    assert evaluate(model, FEEDS)[0].tolist() == expected.tolist()


def test_the_nodes_of_a_function_compute_what_its_calls_do() -> None:
    check_all(require_inlined, ROWS)


def test_the_record_and_the_imports() -> None:
    function = '<domain: "own", opset_import: ["": 17, "com.microsoft": 1]> F (p) => (q) { q = com.microsoft.Gelu (p) }'
    model = model_of("y = own.F (x)", function)
    rewrite = inline_functions(Session(model), set(model.functions), "pass", "because")
    assert (rewrite.pass_name, rewrite.rule, str(rewrite.site)) == ("pass", "inline-functions", "g")
    assert (rewrite.before, rewrite.after, rewrite.reason) == ("own.F", "its nodes, at each call", "because")
    assert model.opset_imports["com.microsoft"] == 1
    model = model_of("y = own.F (x)", SQUARE)
    assert inline_functions(Session(model), set(model.functions), "pass").reason == inlining.BY_CALL


def test_a_node_has_the_metadata_of_its_call_below_its_own() -> None:
    model = model_of("y = own.F (x)", SQUARE)
    (call,), (inner,) = model.graph, next(iter(model.functions.values()))
    call.metadata_props.update({"namespace": "enc", "more": "of the call"})
    inner.metadata_props["namespace"] = "own"
    inline_functions(Session(model), set(model.functions), "pass")
    (node,) = model.graph
    assert {name: node.metadata_props[name] for name in ("namespace", "more")} == {
        "namespace": "own",
        "more": "of the call",
    }


def test_the_callers_of_a_function_are_inlined_with_it() -> None:
    model = model_of("a = own.G (x) b = own.F (a) y = own.H (b)", f"{SQUARE} {OUTER}")
    names = {name[1]: name for name in model.functions}
    for function, callers in (("F", "FG"), ("G", "G"), ("H", "H")):
        assert {name[1] for name in with_callers(model, {names[function]})} == set(callers)


@pytest.mark.parametrize("most", [3, 4])
def test_a_model_grows_up_to_a_limit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls of two nodes each are four; the two calls and the nodes of the function are four now."""
    function = '<domain: "own", opset_import: ["": 17]> F (p) => (q) { a = Neg (p) q = Abs (a) }'
    model = model_of("a = own.F (x) y = own.F (a)", function)
    said = None if most == 4 else "inlining own::F at each call would turn the 4 nodes of the model into more than 3"
    for few, growth, inlined in ((most, 0, 1000), (0, most / 4, 1000), (100, 100, most)):
        monkeypatch.setattr(inlining, "_FEW_NODES", few)
        monkeypatch.setattr(inlining, "_GROWTH", growth)
        monkeypatch.setattr(inlining, "MOST_INLINED", inlined)
        found = obstacle_to_inlining(model, set(model.functions))
        assert found == (said if said is None or growth != most / 4 else said.replace("than 3", "than 3.0"))


def test_what_subgraphs_define_keeps_its_name_where_it_is_free() -> None:
    model = onnx_ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 21]> g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] u) <float[2] w = {1, 2}> { u = Abs (w) },
        else_branch = e () => (float[2] v) { v = Neg (x) }> }"""
    )
    namer = Namer(onnx_ir.Model(onnx_ir.Graph([onnx_ir.Value(name="x")], [], nodes=[]), ir_version=10))
    inlining.name_inside(model.graph, namer)
    (branch,) = (graph for node in model.graph for graph in graphs_of(node) if graph.name == "t")
    assert [value.name for value in branch.initializers.values()] == ["w"]


def test_what_cannot_be_inlined_is_refused() -> None:
    other = SQUARE.replace('"": 17', '"": 16')
    for body, functions, is_done in (("y = own.F (x)", other, False), ("y = own.F (x)", SQUARE, True)):
        model, records = model_of(body, functions), Records()
        assert inline_or_refuse(Session(model), set(model.functions), "pass", records, "why") is is_done
        assert [rewrite.reason for rewrite in records.rewrites] == ["why"] * is_done
        refused = [(refusal.pass_name, refusal.rule, str(refusal.site), refusal.reason) for refusal in records.refusals]
        said = "function own::F imports opset 16 of ai.onnx, but the model imports opset 17"
        assert refused == [("pass", "inline-functions", "g", said)] * (not is_done)
    model, records = model_of("y = Neg (x)", SQUARE), Records()
    assert inline_or_refuse(Session(model), set(), "pass", records)
    assert (records.rewrites, records.refusals) == ([], [])
