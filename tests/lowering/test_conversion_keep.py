"""Nodes that hold others: to keep a function, If, Loop, Scan or SequenceMap keeps all that is inside, at any depth."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.parser
import onnx_ir
from onnx_ir import DataType

from castsmith import convert
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.walks import graphs_in
from castsmith.numerics.promotion.rules import PromotionRules
from tests.sampling import check_all

_WEIGHTS = ", ".join(["0.5"] * 16)
_BODY = "u = MatMul(v, w) t = Add(u, w)"
_SQUARE = "float[4,4]"


def _if(inner: str) -> str:
    return f"""r = If(c)<then_branch = yes () => ({_SQUARE} t) {{ {inner} }},
        else_branch = no () => ({_SQUARE} m) {{ m = Neg(v) }}>"""


HOLDERS = {
    "If": "v = Identity(a) " + _if(_BODY),
    "Loop": f"""r = Loop(n, "", a)<body = b (int64 i, bool k, {_SQUARE} v) => (bool g, {_SQUARE} t)
        {{ g = Identity(k) {_BODY} }}>""",
    "Scan": """z, r = Scan(a, a)<num_scan_inputs = 1, body = b (float[4,4] v, float[4] row) =>
        (float[4,4] t, float[4] s) { u = MatMul(v, w) t = Add(u, row) s = Neg(row) }>""",
    "SequenceMap": f"""q = SequenceConstruct(a)
        p = SequenceMap(q)<body = b ({_SQUARE} v) => ({_SQUARE} t) {{ {_BODY} }}> r = SequenceAt(p, n)""",
    "F": "r = own.F(a)",
    "G": "r = own.G(a)",
    "nested": f"""v = Identity(a) r = Loop(n, "", v)<body = b (int64 i, bool k, {_SQUARE} v1) => (bool g, {_SQUARE} t1)
        {{ g = Identity(k) t1 = If(c)<then_branch = yes () => ({_SQUARE} t) {{ t = own.G(v1) }},
        else_branch = no () => ({_SQUARE} n1) {{ n1 = Neg(v1) }}> }}>""",
}
_FUNCTIONS = f"""
<domain: "own", opset_import: ["": 17, "own": 1]> F (v) => (t)
{{ w = Constant<value = {_SQUARE} {{{_WEIGHTS}}}>() {_BODY} }}
<domain: "own", opset_import: ["": 17, "own": 1]> G (v) => (t) {{ o = Abs(v) t = own.F(o) }}
"""


def model(holder: str, *, twice: bool = False) -> onnx.ModelProto:
    """Return a model that would be converted as a whole."""
    again = "r2 = own.F(a) r3 = Add(r, r2) y = MatMul(r3, w)" if twice else "y = MatMul(r, w)"
    text = f"""<ir_version: 8, opset_import: ["": 17, "own": 1]> g ({_SQUARE} x, bool c, int64 n) => ({_SQUARE} y)
    <{_SQUARE} w = {{{_WEIGHTS}}}> {{ a = MatMul(x, w) {HOLDERS[holder]} {again} }} {_FUNCTIONS}"""
    proto = onnx.parser.parse_model(text)
    for node in proto.graph.node:
        if node.op_type in (holder, "Loop") and node.output[0] != "r2":
            node.name = "the holder"
    onnx.checker.check_model(proto, full_check=True)
    return proto


def inside(whole: onnx_ir.Model, node: onnx_ir.Node) -> Iterator[onnx_ir.Node]:
    """Yield the node and all nodes in its subgraphs and functions."""
    yield node
    function = whole.functions.get(node.op_identifier())
    graphs = [graph for attribute in node.attributes.values() for graph in graphs_in(attribute)]
    for graph in (*graphs, *([] if function is None else [function.graph])):
        for inner in graph:
            yield from inside(whole, inner)


def require_kept(holder: str, keep: str, twice: bool) -> None:
    result = convert(model(holder, twice=twice), to="float16", keep=keep)
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    types = infer_element_types(result.model, PromotionRules())
    (node,) = (node for node in result.model.graph if node.name == "the holder")
    for kept in inside(result.model, node):
        values = [value for value in (*kept.inputs, *kept.outputs) if value is not None]
        halves = [value.name for value in values if types.type_of(value) == DataType.FLOAT16]
        assert not halves, (kept.op_type, halves)
    assert "as requested by" in result.precisions["the holder"][1]
    products = [node for node in result.model.graph if node.op_type == "MatMul"]
    assert {types.type_of(node.outputs[0]) for node in products} == {DataType.FLOAT16}
    plain = infer_element_types(convert(model(holder), to="float16").model, PromotionRules())
    assert any(value.name in ("t", "u") and dtype == DataType.FLOAT16 for value, dtype in plain.types.items())


def test_all_that_a_kept_node_holds_is_kept() -> None:
    kinds = {"nested": "Loop"}
    patterns = [
        (holder, pattern) for holder in HOLDERS for pattern in (kinds.get(holder, holder), "the holder", "the h*")
    ]
    check_all(require_kept, ((holder, pattern, False) for holder, pattern in patterns))
    # The body of a function belongs to all of its calls: one that is not kept calls it in float too.
    check_all(require_kept, ((holder, "name:the holder", True) for holder in ("F", "G")))


def test_a_function_inside_of_what_is_kept_is_kept() -> None:
    result = convert(model("nested"), to="float16", keep="own.G")
    assert result.precisions["u"][0] == result.precisions["o"][0] == DataType.FLOAT
    assert result.precisions["a"][0] == result.precisions["y"][0] == DataType.FLOAT16


def test_lower_reaches_inside_as_well() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, bool c) => (float[4] y) {
        a = Relu(x) y = If(c)<then_branch = yes () => (float[4] p) { p = Exp(a) },
        else_branch = no () => (float[4] q) { z = Constant<value = int64 {0}>() q = CumSum(a, z) }> }"""
    proto = onnx.parser.parse_model(text)
    kept = convert(proto, to="float16")
    lowered = convert(proto, to="float16", lower="If")
    assert [kept.precisions[name][0] for name in "pq"] == [DataType.FLOAT] * 2
    assert [lowered.precisions[name][0] for name in "pq"] == [DataType.FLOAT16] * 2
