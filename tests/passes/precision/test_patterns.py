"""Patterns of nodes: what each kind matches, modules in the metadata of exporters, and the sentences that refuse."""

from __future__ import annotations

import onnx_ir
import pytest

from castsmith.numerics.errors import OptionError
from castsmith.passes.precision.patterns import (
    Pattern,
    exact_pattern,
    parse_patterns,
    paths_of,
    require_matches,
    steps_of,
)


def node(op: str, name: str | None = None, domain: str = "", result: str = "r", **metadata: str) -> onnx_ir.Node:
    made = onnx_ir.Node(domain, op, [], name=name, num_outputs=2)
    made.outputs[0].name, made.outputs[1].name = result, f"{result}_2"
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
    ("path:*", ALL - {"gelu", "bare", "broken", "number"}),
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
    assert parse_patterns([pattern, "x"], "keep") == (pattern, Pattern("x", "", "x"))


def test_texts_of_patterns() -> None:
    assert parse_patterns("a, op:b ,c", "keep") == (
        Pattern("a", "", "a"),
        Pattern("op:b", "op", "b"),
        Pattern("c", "", "c"),
    )
    assert parse_patterns(("a", "b"), "keep") == (Pattern("a", "", "a"), Pattern("b", "", "b"))
    assert parse_patterns("other:b", "keep") == (Pattern("other:b", "", "other:b"),)
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
