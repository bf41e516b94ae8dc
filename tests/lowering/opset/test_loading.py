"""Nodes of one name, and idle attributes, which ONNX Runtime does not load: reported, and mended for its targets."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.parser
import onnx_ir
import onnxruntime
import pytest

import castsmith
from castsmith.lowering.opset.loading import FitLoader
from castsmith.targets.target import load_target, target_names

HEAD = '<ir_version: 10, opset_import: ["": 21, "local": 1]> '
BRANCHES = """g (bool c, float[2] x) => (float[2] y) { a = Relu (x) y = If (c) <
    then_branch = t () => (float[2] p) { p = Neg (a) },
    else_branch = e () => (float[2] q) { s = Neg (a) q = Abs (s) }> }"""
FUNCTION = """g (float[2] x) => (float[2] y) { a = local.f (x) y = Neg (a) }
    <domain: "local", opset_import: ["": 21]> f (u) => (v) { w = Relu (u) v = Abs (w) }"""
CONSTANTS = """g (float[2] x) => (float[2] y) {
    k = Constant <value_float = 1.0> () l = Constant <value_float = 2.0> () a = Add (x, k) y = Mul (a, l) }"""
CASES: dict[str, tuple[str, list[str], int]] = {
    "main": ("g (float[2] x) => (float[2] y) { a = Relu (x) b = Neg (a) y = Abs (b) }", ["n", "m", "n"], 1),
    "without a name": ("g (float[2] x) => (float[2] y) { a = Relu (x) y = Abs (a) }", ["", ""], 0),
    "graph and branch": (BRANCHES, ["n", "i", "n", "s", "q"], 0),
    "two branches": (BRANCHES, ["a", "i", "n", "n", "q"], 0),
    "in a branch": (BRANCHES, ["a", "i", "p", "n", "n"], 1),
    "in a function": (FUNCTION, ["a", "b", "n", "n"], 1),
    "graph and function": (FUNCTION, ["a", "n", "n", "m"], 0),
    "Constants": (CONSTANTS, ["k", "k", "k", "m"], 0),
}


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)


def named(text: str, names: list[str]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEAD + text)
    every = [*nodes_of(model.graph), *(node for function in model.functions for node in function.node)]
    for node, name in zip(every, names, strict=True):
        node.name = name
    return model


def loads(model: onnx.ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # a class of the runtime's own
        if "two nodes with same node name" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize("case", CASES)
def test_what_onnxruntime_does_not_load_is_found_and_renamed(case: str) -> None:
    text, names, expected = CASES[case]
    model = named(text, names)
    onnx.checker.check_model(model, full_check=True)
    found = [each for each in castsmith.check(model, target="onnxruntime-cpu") if each.code == "same-node-names"]
    assert len(found) == expected
    assert loads(model) == (not expected)
    result = castsmith.optimize(model, target="onnxruntime-cpu")
    renamed = [(each.before, each.after) for each in result.rewrites if each.rule == "node-name"]
    assert renamed == [("n", "n_1")] * expected
    assert bool(result.rewrites) == bool(expected)
    assert castsmith.check(result.model, target="onnxruntime-cpu") == []
    assert loads(onnx_ir.to_proto(result.model))
    assert not castsmith.optimize(result.model, target="onnxruntime-cpu").rewrites


def test_a_device_of_onnxruntime_has_its_names_and_others_keep_theirs() -> None:
    text, names, _ = CASES["main"]
    model = named(text, names)
    kept = [name for name in target_names() if not load_target(name).refuses_same_names]
    assert [name for name in kept if name.startswith(("onnxruntime-", "vitis"))] == []
    assert {"openvino-cpu", "tensorrt-11", "tract"} <= set(kept)
    for name, renames in (("onnxruntime-webgpu", True), ("openvino-cpu", False)):
        result = castsmith.optimize(model, target=name)
        assert {"node-name"} & {each.rule for each in result.rewrites} == ({"node-name"} if renames else set())
        assert [each.code for each in castsmith.check(model, target=name) if each.severity.value == "error"] == (
            ["same-node-names"] if renames else []
        )


def test_a_conversion_for_onnxruntime_loads_too() -> None:
    text, names, _ = CASES["main"]
    result = castsmith.convert(named(text, names), to="float16", target="onnxruntime-cpu")
    assert result.diagnostics == []
    assert castsmith.check(result.model, target="onnxruntime-cpu") == []


@pytest.mark.parametrize(
    ("node", "to"),
    [
        ("Cast <to = 10, saturate = 0> (x)", "float16"),
        ('Cast <to = 17, round_mode = "down"> (x)', "float8e4m3fn"),
        ("CastLike <saturate = 0> (x, h)", "float16"),
    ],
)
def test_attributes_without_effect_are_found_and_removed(node: str, to: str) -> None:
    text = f"g (float[2] x, float16 h) => ({to}[2] y) {{ y = {node} }}"
    model = onnx.parser.parse_model(f'<ir_version: 11, opset_import: ["": 24]> {text}')
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    with pytest.raises(Exception, match="is only used for cast to float"):
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    assert [each.code for each in castsmith.check(model, target="onnxruntime-cpu")] == ["target-lacks-form"]
    result = castsmith.optimize(model, target="onnxruntime-cpu")
    assert "idle-attribute" in [each.rule for each in result.rewrites]
    assert castsmith.check(result.model, target="onnxruntime-cpu") == []
    assert loads(onnx_ir.to_proto(result.model))
    assert not {"saturate", "round_mode"} & set(result.model.graph[0].attributes)


def test_attributes_with_an_effect_stay() -> None:
    text = """g (float[2] x, float8e4m3fn e, float8e8m0 k) => (float8e4m3fn[2] y, float8e8m0[2] z) {
        y = CastLike <saturate = 0> (x, e) z = CastLike <round_mode = "down"> (x, k) }"""
    model = onnx_ir.from_onnx_text(f'<ir_version: 11, opset_import: ["": 24]> {text}')
    assert not FitLoader(load_target("onnxruntime-cpu"))(model).modified
    assert [{*node.attributes} for node in model.graph] == [{"saturate"}, {"round_mode"}]
