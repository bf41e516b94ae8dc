"""What a session knows of a model after a rewrite is what a new session finds, whatever the rewrite was."""

from __future__ import annotations

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.errors import OrderError
from castsmith.ir.records import Diagnostic, Records, Refusal, Rewrite, Severity, Site
from castsmith.ir.walks import all_nodes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewriting import Replacement, apply_replacement
from castsmith.passes.core.session import Session
from tests.sampling import check_all

RULES = PromotionRules(promote_unsafe=True)
TEXT = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float[2] x, float16[2] h, bool c) => (y, z, s, t)
{ a = Neg (x) y = Abs (a) b = local.twice (x) z = Abs (b) s = local.size (x)
t = local.size (x) }
<opset_import: ["": 21], domain: "local"> twice (p) => (q) { q = Add (p, p) }
<opset_import: ["": 21], domain: "local"> size (p) => (q) { r = Neg (p) q = Size (r) }"""


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
        "an operand of one of two calls": ("size", Replacement("rule", "Reason.", inputs={0: h})),
    }


def known(session: Session) -> list[object]:
    """Return the types of all values, the types of each function's calls, and the scopes with imports."""
    inference, nodes = session.inference(RULES), list(all_nodes(session.model))
    types = [(value.name, inference.type_of(value)) for node in nodes for value in node.outputs]
    return [types, inference.signatures, session.imports, session.nodes]


def session_of(text: str = TEXT) -> Session:
    return Session(onnx_ir.from_proto(onnx.parser.parse_model(text)))


def require_known(name: str) -> None:
    session = session_of()
    types = session.follow(RULES).types
    known(session)
    op_type, replacement = rewrites(*session.model.graph.inputs)[name]
    node = next(node for node in session.nodes if node.op_type == op_type)
    apply_replacement(session, "pass", node, replacement, session.namer(), types)
    assert known(session) == known(Session(session.model))


def test_a_rewrite_leaves_no_outdated_fact() -> None:
    check_all(require_known, [(name,) for name in rewrites(*onnx_ir.from_onnx_text(TEXT).graph.inputs)])


TORCH = PromotionRules(promote_unsafe=True, pytorch_scalar_promotion=True)
MIXED = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float16[2] h, float s) => (y) { a = Neg (h) y = Add (a, s) }"""
SEVERAL = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float[2] x, float16[2] h) => (y, z) { y = local.neg (x) z = local.neg (h) }
<opset_import: ["": 21], domain: "local"> neg (p) => (q) { q = Neg (p) }"""


def test_types_are_kept_for_all_rules_that_give_the_same() -> None:
    session = session_of()
    types = session.inference(RULES)
    assert session.inference(RULES) is session.inference(PromotionRules()) is types
    assert session.inference(TORCH) is not types
    for text in (MIXED, SEVERAL):  # what must be converted depends on the rules, and a function has no types of its own
        session = session_of(text)
        assert session.inference(RULES) is not session.inference(RULES)
    session = session_of(MIXED)
    result = session.model.graph.outputs[0]
    assert [session.inference(rules).type_of(result) for rules in (RULES, TORCH, RULES)] == [
        DataType.FLOAT,
        DataType.FLOAT16,
        DataType.FLOAT,
    ]


def facts(session: Session) -> list[object]:
    return [session.inference(RULES), session.survey, session.imports]


def test_the_end_of_a_pass_drops_what_may_be_outdated() -> None:
    session = session_of()
    before = facts(session)
    session.end_of_pass(modified=False)
    assert all(old is new for old, new in zip(before, facts(session), strict=True))
    session.end_of_pass(modified=True)
    assert not any(old is new for old, new in zip(before, facts(session), strict=True))


def test_types_that_were_followed_stay_without_those_of_removed_nodes() -> None:
    session = session_of()
    types = session.follow(RULES)
    (neg, *_), x = session.nodes, session.model.graph.inputs[0]
    removed = neg.outputs[0]
    assert removed in types.types
    apply_replacement(session, "pass", neg, instead(onnx_ir.node("Abs", [x])), session.namer(), types.types)
    assert removed not in types.types
    survey = session.survey
    types.types[removed] = DataType.FLOAT  # as a pass may leave it
    session.end_of_pass(modified=True)
    assert session.inference(RULES) is types
    assert removed not in types.types
    assert session.survey is not survey
    session.end_of_pass(modified=True)  # this pass did not follow them
    assert session.inference(RULES) is not types


def test_followed_types_that_depend_on_the_rules_are_not_kept() -> None:
    session = session_of(SEVERAL)
    types = session.follow(RULES)
    session.end_of_pass(modified=False)
    assert session.inference(RULES) is not types


def test_another_model_replaces_the_model() -> None:
    session, other = session_of(), session_of(MIXED).model
    model, before = session.model, facts(session)
    session.require_order()
    session.changed()
    assert session.model is model
    assert not session.in_order
    assert not any(old is new for old, new in zip(before, facts(session), strict=True))
    session.changed(other)
    assert session.model is other


def test_the_order_is_required_until_it_is_known() -> None:
    session = session_of()
    session.require_order()
    nodes = list(session.model.graph)
    session.model.graph.remove(nodes)
    session.model.graph.extend(reversed(nodes))
    session.require_order()  # known since the first time
    session.changed()
    with pytest.raises(OrderError):
        session.require_order()


def test_a_refusal_of_an_earlier_pass_is_recorded_once() -> None:
    session, site = session_of(), Site("g", "a")
    refusal, other = (Refusal("pass", "rule", site, reason) for reason in ("One.", "Two."))
    finding, another = (Diagnostic("code", Severity.NOTE, site, message) for message in ("One.", "Two."))
    rewrite = Rewrite("pass", "rule", site, "a", "b", reason="Reason.")
    session.record(Records([rewrite], [refusal], [finding]))
    session.record(Records([rewrite], [other, refusal], [another, finding]))
    session.record(Records([], [refusal, refusal], [finding, finding]))
    assert session.records.rewrites == [rewrite, rewrite]
    assert session.records.refusals == [refusal, other, refusal]
    assert session.records.diagnostics == [finding, another, finding]
