"""What is wrong with a model is a finding with its place, and the rest of the model is still read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import onnxruntime
import pytest

import castsmith
from castsmith.cli.main import main
from castsmith.ir.errors import ModelError
from castsmith.ir.records import Severity
from castsmith.lowering.check.malformed import are_passed_over, readable_model

pytestmark = pytest.mark.usefixtures("untried", "onnx_apart")

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'
FLAWED = {
    "too few inputs": ("g (float[2] x) => (float[2] y) { y = Add (x) }", "Add has 1 input, expected 2"),
    "too many outputs": ("g (float[2] x) => (float[2] y) { y, z = Relu (x) }", "Relu has 2 outputs, expected 1"),
    "too many outputs that are used": (
        "g (float[2] x) => (float[2] y, float[2] w) { y, z = Relu (x) w = Abs (z) }",
        "Relu has 2 outputs, expected 1",
    ),
    "no attribute": (
        "g (float[2] x) => (float[2] y) { y = Concat (x, x) }",
        "Concat lacks the required attribute axis",
    ),
    "another kind of attribute": (
        "g (float[2] x) => (float[2] y) { y = Concat <axis = 1.5> (x, x) }",
        "the attribute axis of Concat is FLOAT, expected INT",
    ),
    "no such type": (
        "g (float[2] x) => (float[2] y) { y = Cast <to = 99> (x) }",
        "the attribute to of Cast is 99, which is not an ONNX element type",
    ),
    "an undefined value": (
        "g (float[2] x) => (float[2] y) { y = Relu (q) }",
        "it reads 'q', which the model does not define",
    ),
}


def proto_of(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


@pytest.mark.parametrize("name", FLAWED)
@pytest.mark.parametrize("target", [None, "onnxruntime-cpu", "tensorrt-11"])
def test_a_flaw_is_an_error_at_its_place(name: str, target: str | None) -> None:
    text, message = FLAWED[name]
    every = castsmith.check(proto_of(text), target=target)
    assert not any("castsmith.malformed" in str(each) for each in every)
    found = [each for each in every if each.code == "malformed-model"]
    assert [(each.severity, each.site.output, each.message) for each in found] == [(Severity.ERROR, "y", message)]


APART, MORE, SURPLUS, RESULTS = "castsmith.malformed", "operands", "surplus", "results"
OF_LIB = '<ir_version: 10, opset_import: ["" : 20, "lib" : 1, "ai.onnx.ml" : 3]>'
BRANCHES = """g (bool c, float[2] x) => (float[2] y) { y = If (c) <
    then_branch = t () => (float[2] p) { p = Abs (x, x) }, else_branch = e () => (float[2] q) { q = Add (x) }> }"""
CALL = 'g (float[2] x) => (float[2] y) { y = lib.f (x) } <domain: "lib", opset_import: ["" : 20]> f (x) => (y) {'
READ: dict[str, list[tuple[tuple[str, int, int], set[str]]]] = {
    # A model, and of each node that is flawed its domain then, its operands and results, and the kinds of the flaw.
    "g (float[2] x) => (float[2] y) { y = Relu (x) }": [],
    "g (float[2] x) => (float[2] y) { y = Add (x) }": [((APART, 1, 1), set())],
    "g (float[2] x) => (float[2] y) { y = Relu (x, x) }": [(("", 1, 1), {MORE, SURPLUS})],
    "g (float[2] x) => (float[2] y) { y, z = Relu (x) }": [(("", 1, 1), {RESULTS, SURPLUS})],
    "g (float[2] x) => (float[2] y) { y, z = Relu (x, x) }": [(("", 1, 1), {MORE, RESULTS, SURPLUS})],
    "g (float[2] x) => (float[2] y) { y, z = Relu (x) w = Abs (z) }": [((APART, 1, 2), {RESULTS})],
    "g (float[2] x) => (float[2] y, float[2] z) { y, z = Relu (x) }": [((APART, 1, 2), {RESULTS})],
    "g (float[2] x) => (float[2] y, float[2] z) { y, z = Relu (x, x) }": [((APART, 2, 2), {RESULTS})],
    "g (float[2] x) => (float[2] y) { y = LayerNormalization (x, x, x, x) }": [(("", 3, 1), {MORE, SURPLUS})],
    f"{OF_LIB} g (float[2] x) => (float[2] y) {{ y = ai.onnx.ml.Binarizer (x, x) }}": [
        (("ai.onnx.ml", 1, 1), {MORE, SURPLUS})
    ],
    BRANCHES: [(("", 1, 1), {MORE, SURPLUS}), ((APART, 1, 1), set())],
    f"{OF_LIB} {CALL} y = Abs (x, x) }}": [(("", 1, 1), {MORE, SURPLUS})],
    f"{OF_LIB} {CALL} y = Add (x) }}": [((APART, 1, 1), set())],
}


@pytest.mark.parametrize("text", READ)
def test_a_flawed_node_loses_what_is_surplus_or_means_nothing(text: str) -> None:
    proto = onnx.parser.parse_model(text) if text.startswith("<") else proto_of(text)
    in_memory = onnx_ir.from_proto(proto)
    before = onnx_ir.to_proto(in_memory).SerializeToString()
    for model in (proto, in_memory):
        loaded, flaws = readable_model(model)
        assert loaded is not None
        of_functions = (node for function in loaded.functions.values() for node in function.all_nodes())
        nodes = {str(node.outputs[0].name): node for node in (*of_functions, *loaded.graph.all_nodes())}
        if "lib.f" in text:
            nodes["y"] = next(iter(next(iter(loaded.functions.values()))))
        flawed = [nodes[flaw.site.output] for flaw in flaws]
        forms = [(node.domain, len(node.inputs), len(node.outputs)) for node in flawed]
        assert list(zip(forms, (flaw.kinds for flaw in flaws), strict=True)) == READ[text]
        assert are_passed_over(flaws) == all(SURPLUS in kinds for _, kinds in READ[text])
        assert (loaded is in_memory) == (model is in_memory and not flaws)
    assert onnx_ir.to_proto(in_memory).SerializeToString() == before


def test_what_else_is_wrong_with_a_node_is_told_if_only_surplus_was_left_out() -> None:
    """A node whose operands are too few is read as one that means nothing, so that nothing else is said of it."""
    for node, codes in (
        ("Relu (x, x)", ["malformed-model", "output-type-mismatch"]),
        ("Add (x)", ["malformed-model"]),
    ):
        found = castsmith.check(proto_of(f"g (int64[2] x) => (float[2] y) {{ y = {node} }}"))
        assert [finding.code for finding in found] == codes, node


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_model_that_lacks_a_value_is_not_read_further(in_memory: bool) -> None:
    text, message = FLAWED["an undefined value"]
    model = onnx_ir.from_proto(proto_of(text)) if in_memory else proto_of(text)
    assert [str(each.message) for each in castsmith.check(model)] == [message]
    assert readable_model(model)[0] is None


def test_the_rest_of_the_model_is_checked_too() -> None:
    text = "g (float[2] x, int64[2] n) => (float[2] y, float[2] z) { y = Add (x) z = Add (x, n) }"
    assert [each.code for each in castsmith.check(proto_of(text))] == ["malformed-model", "mixed-operand-types"]


@pytest.mark.parametrize("target", [None, "openvino-cpu"])
def test_onnx_is_asked_about_a_model_that_means_what_it_would_without_its_flaws(target: str | None) -> None:
    for flawed, more in (("Relu (x, x)", ["invalid-model"]), ("Relu (x)", ["invalid-model"]), ("Add (x)", [])):
        text = f"g (float[2] x, float[3] v) => (float[2] y, float[2] z) {{ y = {flawed} z = Add (x, v) }}"
        found = [each.code for each in castsmith.check(proto_of(text), target=target)]
        assert found == ["malformed-model"] * (flawed != "Relu (x)") + more


def test_a_model_in_memory_is_left_as_it_is() -> None:
    model = onnx_ir.from_proto(proto_of(FLAWED["too few inputs"][0]))
    (found,) = castsmith.check(model)
    assert found.code == "malformed-model"
    assert [node.domain for node in model.graph] == [""]


def test_what_writes_models_still_refuses_it() -> None:
    with pytest.raises(ModelError, match="Add has 1 input, expected 2"):
        castsmith.optimize(proto_of(FLAWED["too few inputs"][0]))


def test_show_info_and_diff_read_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "m.onnx")
    for text, message in FLAWED.values():
        onnx.save(proto_of(text), path)
        for words in (["show", path], ["info", path], ["diff", path, path]):
            assert main(words) in (0, 1)  # an undefined value is equal to no other
            assert message in capfd.readouterr().err


def nodes_of_every_operator(*, inputs: bool, outputs: bool, attributes: bool) -> list[onnx.NodeProto]:
    """A node of each operator, with what it must have at least of what is not left out."""
    nodes: list[onnx.NodeProto] = []
    for schema in sorted(onnx.defs.get_all_schemas(), key=lambda schema: schema.name):
        if schema.domain == "":
            operands = ["x"] * max(schema.min_input, 1) if inputs else []
            results = [f"{schema.name}_{index}" for index in range(max(schema.min_output, 1))] if outputs else []
            node = onnx.helper.make_node(schema.name, operands, results)
            required = [each for each in schema.attributes.values() if each.required and each.name in _ATTRIBUTES]
            for each in required if attributes else ():
                node.attribute.append(onnx.helper.make_attribute(each.name, _ATTRIBUTES[each.name]))
            nodes.append(node)
    return nodes


_ATTRIBUTES = {"axis": 0, "axes": [0], "to": 1, "kernel_shape": [1], "perm": [0], "hidden_size": 2, "equation": "i->i"}


@pytest.mark.parametrize("lacking", ["inputs", "outputs", "attributes"])
def test_every_operator_without_its_parts(lacking: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    has = {"inputs": True, "outputs": True, "attributes": True, lacking: False}
    path, x = str(tmp_path / "m.onnx"), onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph(nodes_of_every_operator(**has), "g", [x], [x])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)], ir_version=10), path)
    checks = (["check", path], *(["check", path, "--target", name] for name in ("onnxruntime-cpu", "openvino-cpu")))
    for words in (["show", path], ["info", path], ["diff", path, path], *checks):
        assert main(words) in (0, 1)
        said = capfd.readouterr()
        assert "internal error" not in said.err, words
        # What stands in for a node that lacks something is not found fault with.
        assert words[0] != "check" or "castsmith.malformed" not in said.out, words


@pytest.mark.parametrize("operator", ["RNN", "LSTM", "GRU"])
def test_an_operator_may_have_no_results(operator: str) -> None:
    text = f"""g (float[2,1,3] x, float[1,4,3] w, float[1,4,4] r) => (float[2,1,3] y)
        {{ v = {operator} <hidden_size = 4> (x, w, r) y = Neg (x) }}"""
    model = proto_of(text)
    model.graph.node[0].output.clear()
    assert castsmith.bounds(model, ranges={"x": (-1, 1)})["y"].high == 1
    assert castsmith.convert(model, to="float16").model.graph.outputs[0].name == "y"


def test_of_constants_of_one_name_the_last_stays_as_in_onnxruntime() -> None:
    model = proto_of("g (float[1] x) => (float[1] y) { c = Constant <value = float {1.0}> () y = Add (x, c) }")
    second = onnx.NodeProto()
    second.CopyFrom(model.graph.node[0])
    second.attribute[0].t.CopyFrom(onnx.helper.make_tensor("", 1, [], [5.0]))
    model.graph.node.insert(1, second)
    repaired = castsmith.optimize(model)
    feed = {"x": np.zeros(1, np.float32)}
    results = [
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for each in (model, repaired.proto)
    ]
    assert [np.asarray(each).tolist() for each in results] == [[5.0], [5.0]]
    assert repaired.rewrites


@pytest.mark.parametrize("target", [None, "onnxruntime-cpu", "tensorrt-11"])
def test_an_attribute_of_any_other_kind_is_found(target: str | None) -> None:
    """A Cast whose `to` is no number has no type, whatever it is instead."""
    graph = onnx.helper.make_graph([], "empty", [], [])
    tensor = onnx.numpy_helper.from_array(np.zeros(1, np.float32))
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [1])
    for value in (1.5, "10", [10], [1.5], ["10"], graph, [graph], tensor, [tensor], kind, [kind]):
        text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float16[2] y) { y = Cast <to = 10> (x) }'
        proto = onnx.parser.parse_model(text)
        proto.graph.node[0].attribute[0].CopyFrom(onnx.helper.make_attribute("to", value))
        assert castsmith.check(proto, target=target)


def test_a_model_without_opset_or_of_a_newer_one_is_a_finding() -> None:
    model = proto_of("g (float[2] x) => (float[2] y) { y = Relu (x) }")

    def found(target: str | None) -> list[tuple[str, Severity]]:
        return [(each.code, each.severity) for each in castsmith.check(model, target=target)]

    model.opset_import[0].version = 99
    wrong = proto_of("g (float[2] x, int64[2] n) => (float[2] y) { y = Add (x, n) }")
    wrong.opset_import[0].version = 99
    older = "export the model at an older opset"
    for target, more, expected in (
        ("onnxruntime-cpu", [], "the model is of opset 99 and onnxruntime-cpu accepts at most 28"),
        ("openvino-cpu", ["mixed-operand-types", "target-miscomputes-cast"], "unsupported opset 99 of the model; the"
         " newest supported is 28, so it is checked as of that"),
    ):  # fmt: skip
        newer, *others = castsmith.check(wrong, target=target)
        assert (str(newer.site), newer.message, newer.help) == ("g", expected, older)
        assert [each.code for each in others] == more
    assert found("onnxruntime-cpu") == [("opset-too-new", Severity.ERROR)]
    for target in (None, "openvino-cpu", "coreml"):
        assert found(target)[0] == ("unknown-operator", Severity.WARNING)
        assert Severity.ERROR not in dict(found(target)).values()
    del model.opset_import[:]
    for target in (None, "onnxruntime-cpu", "openvino-cpu"):
        assert found(target) == [("malformed-model", Severity.ERROR)]
    model.opset_import.add(version=20)
    model.ClearField("ir_version")
    assert found("onnxruntime-cpu") == [("malformed-model", Severity.ERROR)]
    assert found("openvino-cpu") == [("malformed-model", Severity.ERROR)]  # which takes no file of two fields
    model.producer_name = "p"
    assert found("openvino-cpu") == [("malformed-model", Severity.WARNING)]
