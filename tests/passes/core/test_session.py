"""What a session knows of a model after a rewrite is what a new session finds, whatever the rewrite was."""

from __future__ import annotations

import onnx.parser
import onnx_ir

from castsmith.ir.walks import all_nodes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewriting import Replacement, apply_replacement
from castsmith.passes.core.session import Session
from tests.sampling import check_all

RULES = PromotionRules(promote_unsafe=True)
TEXT = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float[2] x, float16[2] h, bool c) => (y, z) { a = Neg (x) y = Abs (a) b = local.twice (x) z = Abs (b) }
<opset_import: ["": 21], domain: "local"> twice (p) => (q) { q = Add (p, p) }"""


def branch(name: str, operand: onnx_ir.Value) -> onnx_ir.Graph:
    node = onnx_ir.node("Abs", [operand], outputs=[onnx_ir.Value(name=name)])
    return onnx_ir.Graph([], node.outputs, nodes=[node], name=name, opset_imports={"": 21})


def choice(x: onnx_ir.Value, c: onnx_ir.Value) -> onnx_ir.Node:
    return onnx_ir.node("If", [c], {"then_branch": branch("t", x), "else_branch": branch("e", x)})


def instead(node: onnx_ir.Node) -> Replacement:
    return Replacement("rule", "Reason.", (node,), outputs=tuple(node.outputs))


def rewrites(x: onnx_ir.Value, h: onnx_ir.Value, c: onnx_ir.Value) -> dict[str, tuple[str, Replacement]]:
    """Return rewrites of each kind: the operator of the node, and what replaces it."""
    return {
        "the same type": ("Neg", instead(onnx_ir.node("Abs", [x]))),
        "another type": ("Neg", instead(onnx_ir.node("Abs", [h]))),
        "a subgraph": ("Neg", instead(choice(x, c))),
        "a subgraph of another type": ("Neg", instead(choice(h, c))),
        "a call": ("Neg", instead(onnx_ir.node("twice", [x], domain="local"))),
        "a call of another type": ("Neg", instead(onnx_ir.node("twice", [h], domain="local"))),
        "an operand": ("Neg", Replacement("rule", "Reason.", inputs={0: h})),
        "an operand of a call": ("twice", Replacement("rule", "Reason.", inputs={0: h})),
    }


def known(session: Session) -> list[object]:
    """Return the types of all values, the types of each function's calls, and the scopes with imports."""
    inference, nodes = session.inference(RULES), list(all_nodes(session.model))
    types = [(value.name, inference.type_of(value)) for node in nodes for value in node.outputs]
    return [types, inference.signatures, session.imports, session.nodes]


def require_known(name: str) -> None:
    session = Session(onnx_ir.from_proto(onnx.parser.parse_model(TEXT)))
    types = session.follow(RULES).types
    known(session)
    op_type, replacement = rewrites(*session.model.graph.inputs)[name]
    node = next(node for node in session.nodes if node.op_type == op_type)
    apply_replacement(session, "pass", node, replacement, session.namer(), types)
    assert known(session) == known(Session(session.model))


def test_a_rewrite_leaves_no_outdated_fact() -> None:
    check_all(require_known, [(name,) for name in rewrites(*onnx_ir.from_onnx_text(TEXT).graph.inputs)])
