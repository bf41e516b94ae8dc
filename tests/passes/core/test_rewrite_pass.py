"""The base of passes: opsets that are refused, records, listeners, provenance; and inputs that are rewired."""

from __future__ import annotations

import dataclasses
import pickle
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.errors import OpsetError
from castsmith.ir.records import NodeItem, Records, Rewrite, RewriteResult, Site, ValueItem, item_text
from castsmith.ir.text import node_item
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.passes.core.rewrite_pass import (
    FROM,
    PASS,
    RULE,
    Recorder,
    SessionPass,
    listening,
    note_provenance,
    recording,
    require_known_opset,
)
from castsmith.passes.core.session import Session

_TEXT = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g (float[2] x) => (float[2] y) { y = f.h (x) }
    <domain: "f", opset_import: ["" : 21]> h (p) => (q) { q = Neg (p) }"""


def model_of(text: str = _TEXT) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("opset", "text"),
    [
        (-1, r"^invalid opset -1 of the model\.$"),
        (29, r"^unsupported opset 29 of the model; the newest supported is 28\.$"),
        (0, ""),
        (onnx.defs.onnx_opset_version(), ""),
    ],
)
def test_opsets(inside: bool, opset: int, text: str) -> None:
    model = model_of()
    scope = next(iter(model.functions.values())) if inside else model.graph
    scope.opset_imports[""] = opset
    if not text:
        require_known_opset(model)
        return
    with pytest.raises(OpsetError, match=text):
        require_known_opset(model)


def test_a_model_of_other_domains_alone_imports_no_opset() -> None:
    model = model_of()
    del model.graph.opset_imports[""]
    require_known_opset(model)


def test_an_opset_that_the_installed_onnx_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 21)
    require_known_opset(model_of())
    model = model_of()
    model.graph.opset_imports[""] = 22
    text = (
        r"^unsupported opset 22 of the model: the installed onnx .* supports opsets up to 21; install a newer onnx\.$"
    )
    with pytest.raises(OpsetError, match=text):
        require_known_opset(model)


def nothing(model: onnx_ir.Model) -> RewriteResult:
    return RewriteResult(model, False, Records())


def something(model: onnx_ir.Model) -> RewriteResult:
    return RewriteResult(model, True, Records())


class Some(SessionPass):
    """A pass that does what a test asks."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self.work = work

    def rewrite(self, session: Session) -> RewriteResult:
        return self.work(session.model)


def test_a_pass_that_drops_a_declaration_says_so() -> None:
    def work(model: onnx_ir.Model) -> RewriteResult:
        model.functions.clear()
        del model.graph.opset_imports["f"]
        model.ir_version = 11
        return RewriteResult(model, False, Records())

    result = Some(work)(model_of())
    assert isinstance(result, RewriteResult)
    (rewrite,) = result.records.rewrites
    assert result.modified
    assert (rewrite.pass_name, rewrite.rule, str(rewrite.site)) == ("some", "drop-unused", "g")
    assert rewrite.reason == "no node needs the declaration any more"
    assert list(map(item_text, rewrite.removed)) == [
        "IR version 10",
        "function f.h",
        "g: f 1",
        "h: ai.onnx 21",
    ]
    assert list(map(item_text, rewrite.made)) == ["IR version 11"]


def test_a_pass_that_changes_nothing_has_no_record() -> None:
    result = Some(nothing)(model_of())
    assert isinstance(result, RewriteResult)
    assert (result.modified, result.records.rewrites) == (False, [])


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("op_type", "inputs", "opset"),
    [("Neg", 1, 13), ("ReduceMax", 2, 19), ("DFT", 3, 21), ("Neg", 2, NEWEST_OPSET), ("com.acme.Thing", 1, None)],
)
def test_operators_of_the_standard_get_the_oldest_opset_that_they_fit(
    inside: bool, op_type: str, inputs: int, opset: int | None
) -> None:
    """ReduceMax takes its axes as an input from opset 18 on, and DFT its axis from 20; Neg never has two inputs."""
    model = model_of()
    scope = next(iter(model.functions.values())) if inside else model.graph
    del scope.opset_imports[""]
    if inside:
        scope.remove(next(iter(scope)))
    domain, _, name = op_type.rpartition(".")

    def work(model: onnx_ir.Model) -> RewriteResult:
        scope.append(onnx_ir.node(name, [scope.inputs[0]] * inputs, domain=domain))
        return RewriteResult(model, True, Records())

    Some(work)(model)
    assert scope.opset_imports.get("") == opset


def test_an_opset_that_a_model_imports_stays() -> None:
    model = model_of(_TEXT.replace('"" : 21', '"" : 12'))
    Some(something)(model)
    assert [scope.opset_imports[""] for scope in (model.graph, *model.functions.values())] == [12, 12]


class Conditioned(Some):
    """A pass that says when it looks at its conditions."""

    def requires(self, model: onnx_ir.Model) -> None:
        self.work(model, "requires")

    def ensures(self, model: onnx_ir.Model) -> None:
        self.work(model, "ensures")


@pytest.mark.parametrize("in_session", [False, True])
def test_conditions_are_looked_at_before_and_after(in_session: bool) -> None:
    calls: list[tuple[onnx_ir.Model, str]] = []

    def work(model: onnx_ir.Model, what: str = "work") -> RewriteResult:
        calls.append((model, what))
        return nothing(model)

    step, model = Conditioned(work), model_of()
    step.run(Session(model)) if in_session else step(model)
    assert calls == [(model, "requires"), (model, "work"), (model, "ensures")]


def test_the_names_and_casts_of_a_changed_model_are_as_its_opset_reads_them() -> None:
    """A branch may not shadow a value that it reads, and Cast of opset 5 names its type by text."""
    text = """<ir_version: 3, opset_import: ["" : 5]> g (float[2] x, bool c) => (float[2] y) { a = Neg (x)
        y = If (c) <then_branch = t () => (float[2] p) { b = Neg (x) p = Sub (b, a) },
                    else_branch = e () => (float[2] q) { d = Cast <to = "FLOAT"> (x) q = Sub (d, a) }> }"""

    def work(model: onnx_ir.Model, changed: bool) -> RewriteResult:
        for name in ("then_branch", "else_branch"):
            node = list(model.graph)[1].attributes[name].as_graph()[0]
            node.outputs[0].name = "a"
            if node.op_type == "Cast":
                node.attributes.add(onnx_ir.AttrInt64("to", 1))
        return RewriteResult(model, changed, Records())

    for changed in (True, False):
        result = Some(partial(work, changed=changed))(model_of(text))
        graph = list(result.model.graph)[1].attributes["else_branch"].as_graph()
        assert (graph[0].outputs[0].name != "a") is changed
        assert (graph[0].attributes["to"].value == "FLOAT") is changed


def test_a_session_is_told_what_a_pass_changed() -> None:
    session = Session(model_of())
    survey = session.survey
    Some(nothing).run(session)
    assert session.survey is survey
    Some(something).run(session)
    assert session.survey is not survey


def test_a_pass_returns_a_result_with_records() -> None:
    def work(model: onnx_ir.Model) -> Any:
        return onnx_ir.passes.PassResult(model, False)

    text = r"^the pass Some returned a PassResult, expected a castsmith\.RewriteResult\.$"
    for run in (lambda: Some(work)(model_of()), lambda: Some(work).run(Session(model_of()))):
        with pytest.raises(TypeError, match=text):
            run()


class Heard(Recorder):
    """A listener that keeps what it is told."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.name, self.calls = name, calls

    def begins(self, model: onnx_ir.Model) -> None:
        self.calls.append((self.name, "begins", model))

    def ended(self, model: onnx_ir.Model, records: Records) -> None:
        self.calls.append((self.name, "ended", model, len(records.rewrites)))


def test_all_who_listen_are_told() -> None:
    def work(model: onnx_ir.Model) -> RewriteResult:
        records = Records(rewrites=[Rewrite("some", "rule", Site("g"), "a", "b", reason="why")])
        return RewriteResult(model, True, records)

    calls: list[tuple[Any, ...]] = []
    model = model_of()
    with listening(Heard("outer", calls)):
        with listening(Heard("inner", calls)), recording() as first, recording() as second:
            Some(work)(model)
            Some(work)(model)
        with recording() as third:
            Some(work)(model)
    Some(work)(model)
    turn = [
        ("inner", "begins", model),
        ("outer", "begins", model),
        ("outer", "ended", model, 1),
        ("inner", "ended", model, 1),
    ]
    last = [call for call in turn if call[0] == "outer"]
    assert calls == [*turn, *turn, *last]
    assert [len(records.rewrites) for records in (first, second, third)] == [2, 2, 1]


def test_a_block_that_fails_listens_no_more() -> None:
    calls: list[tuple[Any, ...]] = []
    with pytest.raises(KeyError), listening(Heard("a", calls)):
        raise KeyError
    Some(nothing)(model_of())
    assert calls == []


def item(*names: str) -> NodeItem:
    return NodeItem("Neg", outputs=tuple(ValueItem(name) for name in names))


def test_nodes_keep_the_rewrite_that_made_them() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y)
        { a = Neg (x) b = Abs (a) c = Exp (b) y = Tanh (c) }"""
    makes = Rewrite("p", "makes", Site("g", "makes"), made=[item("a"), item("c")])
    takes = Rewrite("p", "takes", Site("g", "takes"), removed=[item("b", "a")], made=[item("z")])
    model = model_of(text)
    nodes = list(model.graph)
    old = {nodes[2]}
    note_provenance(model, nodes, old, [makes, takes])
    metadata = [dict(node.metadata_props) for node in nodes]
    assert metadata == [
        {RULE: "makes", PASS: "p", FROM: str(makes.site)},
        {RULE: "takes", PASS: "p", FROM: str(takes.site)},
        {},
        {},
    ]
    assert old == set(nodes)
    note_provenance(model, nodes, old, [takes])
    assert [dict(node.metadata_props) for node in nodes] == metadata
    older = model_of(text.replace("ir_version: 10", "ir_version: 9"))
    note_provenance(older, older.graph, set(), [makes])
    assert not any(node.metadata_props for node in older.graph)


def test_an_item_that_is_read_late_is_as_one_that_was_made_at_once() -> None:
    """Its fields are those of the node when it was recorded, whatever became of the node since."""
    x = onnx_ir.Value(name="x", shape=onnx_ir.Shape(["N", 4]), type=onnx_ir.TensorType(onnx_ir.DataType.INT64))
    one = onnx_ir.Value(name="one", const_value=onnx_ir.tensor(np.ones((1, 1), np.float32)))
    node = onnx_ir.node("Cast", [x, one], {"to": 1}, name="n")
    node.outputs[0].name = "y"
    late, read = node_item(node, {node.outputs[0]: onnx_ir.DataType.FLOAT}), "y = Cast <to = float> (x, one {1.0})"
    x.name, node.outputs[0].name, node.name, node.op_type = "a", "b", "c", "Neg"
    x.dtype, x.shape, one.const_value = onnx_ir.DataType.BOOL, None, None
    node.attributes.clear()
    inputs = (ValueItem("x", "int64", "[N, 4]"), ValueItem("one", "?", content="1.0"))
    made = NodeItem("Cast", inputs, (ValueItem("y", "float"),), (("to", "float"),), name="n")
    assert (hash(late), repr(late)) == (hash(made), repr(made))
    assert late == made
    assert item_text(late) == f"{read}  # (int64[N, 4], ?) -> float"
    assert pickle.loads(pickle.dumps(late)) == dataclasses.replace(late) == made
    assert not hasattr(late, "missing")
