"""Patterns of nodes: what each kind matches, modules in the metadata of exporters, and the sentences that refuse."""

from __future__ import annotations

import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.walks import all_nodes
from castsmith.numerics.errors import OptionError
from castsmith.passes.precision.patterns import (
    Asked,
    Pattern,
    exact_pattern,
    parse_patterns,
    paths_of,
    require_matches,
    steps_of,
)
from tests.sampling import check_all


def node(op: str, name: str | None = None, domain: str = "", result: str = "r", **metadata: str) -> onnx_ir.Node:
    made = onnx_ir.Node(domain, op, [], name=name, num_outputs=2)
    made.outputs[0].name, made.outputs[1].name = result, f"{result}_2" if result else ""
    made.metadata_props.update({key.replace("__", "."): text for key, text in metadata.items()})
    return made


NODES = {
    "attn": node("MatMul", "/encoder/layer.0/attn/MatMul", result="a"),
    "norm": node("Softmax", "/encoder/layer.1/norm/Softmax", result="b"),
    "gelu": node("Gelu", "gelu_1", "com.microsoft", result="c"),
    "bare": node("Add", None, result="sum"),
    "torch": node(
        "Relu", "n5", result="d", pkg__torch__onnx__name_scopes="['', 'decoder', 'decoder.mlp', 'decoder.mlp.act']"
    ),
    "one": node("Relu", "n6", result="e", pkg__torch__onnx__name_scopes="['head']"),
    "space": node("Relu", "n7", result="f", namespace="Model: x/Block_2: y/: z"),
    "later": node("Relu", "n8", result="g", pkg__torch__onnx__namespace="tail: T/conv: C"),
    "broken": node("Relu", "n9", result="h", pkg__torch__onnx__name_scopes="[oops"),
    "empty": node("Identity", None, result=""),
    "tuple": node("Relu", "n11", result="j", pkg__torch__onnx__name_scopes="['a', 'b'], 'c'"),
    "number": node("Relu", "n10", result="i", pkg__torch__onnx__name_scopes="[]"),
}
ALL = set(NODES)

MATCHED: list[tuple[str, set[str]]] = [
    ("MatMul", {"attn"}),
    ("op:MatMul", {"attn"}),
    ("name:MatMul", set()),
    ("path:MatMul", set()),
    ("*MatMul", {"attn"}),
    ("op:Soft*", {"norm"}),
    ("op:soft*", set()),
    ("Gelu", {"gelu"}),
    ("com.microsoft.Gelu", {"gelu"}),
    ("com.microsoft::Gelu", {"gelu"}),
    ("com.microsoft.*", {"gelu"}),
    ("gelu_?", {"gelu"}),
    ("gelu_[2-9]", set()),
    ("sum", {"bare"}),
    ("sum_2", {"bare"}),
    ("name:sum", {"bare"}),
    ("a", set()),  # a named node is not known by its result
    ("encoder", {"attn", "norm"}),
    ("/encoder/", {"attn", "norm"}),
    ("encoder.layer.0", {"attn"}),
    ("encoder/layer/0", {"attn"}),
    ("encoder.layer.?.norm", {"norm"}),
    ("layer", set()),  # a path begins at its start
    ("path:encoder.layer.*", {"attn", "norm"}),
    ("encoder.layer.0.attn.MatMul", set()),
    ("decoder.mlp", {"torch"}),
    ("decoder.mlp.act", set()),
    ("head", {"one"}),
    ("Model.Block_2", {"space"}),
    ("Model.Block_2.z", set()),
    ("tail.conv", {"later"}),
    ("n9", {"broken"}),
    ("*", ALL),
    ("op:*", ALL),
    ("path:*", ALL - {"gelu", "bare", "broken", "number", "empty", "tuple"}),
    ("name:*", ALL - {"empty"}),
    ("name:encoder", set()),
    ("op:encoder", set()),
    ("path:gelu_1", set()),
]


def test_what_patterns_match() -> None:
    for text, expected in MATCHED:
        (pattern,) = parse_patterns(text, "keep")
        assert {key for key, each in NODES.items() if pattern.matches(each)} == expected, text


def test_patterns_of_results() -> None:
    pattern = exact_pattern(["b", "a"], "measured")
    assert (pattern.text, pattern.why, pattern.kind) == ("a, b", "measured", "")
    assert {key for key, each in NODES.items() if pattern.matches(each)} == {"attn", "norm"}
    assert not pattern.matches(onnx_ir.Node("", "Add", [], num_outputs=0))
    softmax = exact_pattern(["a", "b"], "measured", "Softmax")
    assert {key for key, each in NODES.items() if softmax.matches(each)} == {"norm"}
    assert parse_patterns([pattern, "x"], "keep") == (pattern, Pattern("x", "", "x"))


def test_texts_of_patterns() -> None:
    assert parse_patterns("a, op:b ,c", "keep") == (
        Pattern("a", "", "a"),
        Pattern("op:b", "op", "b"),
        Pattern("c", "", "c"),
    )
    assert parse_patterns(("a", "b"), "keep") == (Pattern("a", "", "a"), Pattern("b", "", "b"))
    assert parse_patterns("other:b", "keep") == (Pattern("other:b", "", "other:b"),)
    assert parse_patterns("op, name", "keep") == (Pattern("op", "", "op"), Pattern("name", "", "name"))
    assert parse_patterns("op::b", "keep") == (Pattern("op::b", "", "op::b"),)
    assert parse_patterns([], "keep") == ()
    for given, message in (
        ([3], "invalid value 3 for `keep=`; expected names, operators or paths as text."),
        ("a,,b", "invalid value 'a,,b' for `keep=`; a pattern is empty."),
        ("op:", "invalid value 'op:' for `keep=`; a pattern is empty."),
        ("", "invalid value '' for `keep=`; a pattern is empty."),
    ):
        with pytest.raises(OptionError) as refused:
            parse_patterns(given, "keep")  # pyright: ignore[reportArgumentType]
        assert str(refused.value) == message


ASKED: list[tuple[str, dict[str, str]]] = [
    # patterns, and the pattern by which each node is selected, by its result
    ("MatMul", {"a": "MatMul"}),
    ("op:If", dict.fromkeys("bpq", "op:If")),
    ("Relu", {"p": "Relu", "m": "Relu"}),
    ("op:f", dict.fromkeys("dmnst", "op:f")),
    ("op:g", {"n": "op:g", "e": "op:g", "s": "op:g", "t": "op:g"}),
    ("op:Loop", {"s": "op:Loop", "t": "op:Loop"}),
    ("op:If, Relu", {"b": "op:If", "p": "op:If", "q": "op:If", "m": "Relu"}),
    ("Relu, op:f", {"p": "Relu", "d": "op:f", "m": "Relu", "n": "op:f", "s": "op:f", "t": "op:f"}),
    ("Mat*, MatMul", {"a": "Mat*"}),
]


def of_calls() -> onnx_ir.Model:
    return onnx_ir.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[2,2] x, bool c, int64 n) => (float[2,2] e) {'
            " a = MatMul (x, x) b = If (c) <then_branch = u () => (float[2,2] p) { p = Relu (a) }, else_branch = v ()"
            " => (float[2,2] q) { q = Neg (a) }> d = own.f (b) e = own.g (d) }"
            ' <domain: "own", opset_import: ["": 17, "own": 1]> f (x) => (n) { m = Relu (x) n = own.g (m) }'
            ' <domain: "own", opset_import: ["": 17]> g (x) => (s) { s = Loop ("", "", x) <body = w (int64 i, bool k,'
            " float[2,2] o) => (bool k, float[2,2] t) { t = Neg (o) }> }"
        )
    )


def require_asked(text: str, expected: dict[str, str]) -> None:
    model = of_calls()
    asked = Asked(parse_patterns(text, "keep"), "as requested by", list(all_nodes(model)))
    found = {node.outputs[0].name: why for node, why in asked.with_all_inside(model).items()}
    assert found == {name: f"as requested by {pattern}" for name, pattern in expected.items()}


def test_what_is_inside_of_selected_nodes_is_selected_too() -> None:
    check_all(require_asked, ASKED)


def test_nodes_are_selected_by_the_operators_that_they_had_and_copies_by_their_own() -> None:
    model = of_calls()
    asked = Asked([exact_pattern(["d"], "measured", "f"), *parse_patterns("Tanh", "keep")], "kept,", list(model.graph))
    call = next(node for node in model.graph if node.op_type == "f")
    call.op_type = "f_float"
    new = onnx_ir.Node("", "Tanh", [call.outputs[0]], num_outputs=1)
    model.graph.append(new)
    assert asked.with_all_inside(model) == {call: "measured", new: "kept, Tanh"}


def test_a_pattern_that_matches_nothing() -> None:
    nodes = list(NODES.values())
    require_matches(parse_patterns("MatMul, head", "keep"), nodes, "keep")
    for text, end in (
        ("MatMull", "did you mean 'MatMul'?"),
        ("decoder.ml", "did you mean 'decoder.mlp'?"),
        ("zzzzzz", "give a node name, an operator, or a module path"),
    ):
        with pytest.raises(OptionError) as refused:
            require_matches(parse_patterns(text, "lower"), nodes, "lower")
        assert str(refused.value).startswith(f"`lower=` {text!r} matches no node; {end}"), str(refused.value)


def test_paths() -> None:
    assert steps_of("/encoder/layer.0/") == steps_of("encoder.layer.0") == ("encoder", "layer", "0")
    assert list(paths_of(NODES["attn"])) == [("encoder", "layer", "0", "attn")]
    assert list(paths_of(NODES["torch"])) == [("decoder", "mlp")]
    assert list(paths_of(NODES["space"])) == [("Model", "Block_2")]
    assert list(paths_of(NODES["broken"])) == list(paths_of(NODES["number"])) == list(paths_of(NODES["bare"])) == []
