"""lower-custom: what users and packages register stands in for operators of their domains, with records, everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.lowering import LowerCustom, Lowering, NodeBuilder, Replacement, load_target
from castsmith.lowering.registry import PIPELINE
from castsmith.numerics.extensions import ExtensionError
from castsmith.passes import RewritePass
from tests.packaging.installed import install

ANDROID = load_target("onnxruntime-android")
TWICE = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x) => (float[4] y) { y = com.example.Twice (x) }"""
UNTYPED = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x, int16[4] n) => (float[4] y) { a = com.example.Twice (x)  y = Add (a, n) }"""
EVERYWHERE = """<ir_version: 10, opset_import: ["": 21, "com.example": 1, "local": 1]>
g (float[4] x, bool c) => (float[4] y) {
    a = local.f (x)
    y = If (c) <
        then_branch = yes () => (float[4] p) { p = com.example.Twice (a) },
        else_branch = no () => (float[4] q) { q = Identity (a) }>
}
<domain: "local", opset_import: ["": 21, "com.example": 1]>
f (v) => (w) { w = com.example.Twice (v) }"""
DEFINED = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x) => (float[4] y) { y = com.example.Twice (x) }
<domain: "com.example", opset_import: ["": 21]>
Twice (v) => (w) { w = Add (v, v) }"""


def twice(node: onnx_ir.Node, build: NodeBuilder) -> Replacement | castsmith.Refusal | None:
    (x,) = node.inputs
    assert x is not None
    assert build.target is ANDROID
    assert build.known(x) is None
    if x.dtype != DataType.FLOAT:
        return build.refuse(f"{x.dtype} is not float", witness="none")
    return build.replace(build.op("Mul", x, 2), reason="x * 2")


CHAIN = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float[4] x, int16[4] n, int64 m, bool go) => (float[4] y) {
    a = com.example.Twice (x)
    b = Relu (a)
    c = com.example.Twice (b)
    d = Add (c, n)
    e = com.example.Twice (d)
    y = Loop (m, go, e) <body = body (int64 i, bool on, float[4] s) => (bool still, float[4] t) {
        still = Identity (on)
        u = Abs (s)
        t = com.example.Twice (u)
    }>
}"""
SEVERAL = """<ir_version: 10, opset_import: ["": 21, "com.example": 1, "local": 1]>
g (float[4] x, double[4] z) => (float[4] y, double[4] w) { y = local.f (x)  w = local.f (z) }
<domain: "local", opset_import: ["": 21, "com.example": 1]>
f (v) => (r) { r = com.example.Twice (v) }"""


def double_or_float(node: onnx_ir.Node, build: NodeBuilder) -> Replacement:
    assert node.inputs[0] is not None
    return build.replace(build.op("Mul", node.inputs[0], 2), reason="x * 2")


def nothing(node: onnx_ir.Node, build: NodeBuilder) -> None:
    del node, build


def lowered(text: str, lowerings: Mapping[str, Lowering]) -> castsmith.Result:
    result = castsmith.optimize(onnx_ir.from_onnx_text(text), target=ANDROID, lowerings=lowerings)
    if not result.refusals and lowerings["com.example.Twice"] is not nothing:
        onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    return result


def test_the_nodes_stand_in_with_a_record() -> None:
    result = lowered(TWICE, {"com.example.Twice": twice})
    (rewrite,) = result.rewrites
    assert (rewrite.pass_name, rewrite.rule, rewrite.reason) == ("lower-custom", "lower-custom", "x * 2")
    assert (
        rewrite.after == "float[] y_constant = {2.0}\ny = Mul (x, y_constant {2.0})  # (float[4], float[]) -> float[4]"
    )
    assert rewrite.effect is castsmith.Effect.BIT_EXACT
    (node,) = result.model.graph
    assert (node.op_type, node.outputs[0].name, dict(result.model.opset_imports)) == ("Mul", "y", {"": 21})
    assert node.metadata_props["castsmith.rule"] == "lower-custom"


def test_what_had_no_type_before_is_promoted_after() -> None:
    result = lowered(UNTYPED, {"com.example.Twice": twice})
    assert [node.op_type for node in result.model.graph] == ["Mul", "Cast", "Add"]
    stopped = castsmith.optimize(
        onnx_ir.from_onnx_text(UNTYPED), target=ANDROID, lowerings={"com.example.Twice": twice}, until="lower-custom"
    )
    assert [node.op_type for node in stopped.model.graph] == ["Mul", "Add"]


def test_inside_functions_and_branches() -> None:
    result = lowered(EVERYWHERE, {"com.example.Twice": twice})
    assert sorted(rewrite.site.graph for rewrite in result.rewrites) == ["local.f", "yes"]
    assert "com.example" not in {node.domain for node in result.model.graph.all_nodes()}
    assert all("com.example" not in f.opset_imports for f in result.model.functions.values())


def test_what_one_gives_is_known_to_the_next() -> None:
    result = lowered(CHAIN, {"com.example.Twice": twice})
    assert (len(result.rewrites), result.refusals) == (6, [])
    assert [node.op_type for node in result.model.graph] == ["Mul", "Relu", "Mul", "Cast", "Add", "Mul", "Loop"]


def test_an_operand_of_the_type_that_is_inferred_keeps_what_else_is_declared() -> None:
    model = onnx_ir.from_onnx_text(TWICE)
    model.graph.inputs[0].type = onnx_ir.TensorType(DataType.FLOAT, denotation="IMAGE")
    (x,) = castsmith.optimize(model, target=ANDROID, lowerings={"com.example.Twice": twice}).model.graph.inputs
    assert x.type is not None
    assert x.type.denotation == "IMAGE"


def test_a_function_called_with_several_types_is_refused() -> None:
    result = castsmith.optimize(
        onnx_ir.from_onnx_text(SEVERAL), target=ANDROID, lowerings={"com.example.Twice": double_or_float}
    )
    (refusal,) = result.refusals
    assert refusal.reason == "the enclosing function is called with operands of several types"
    assert not result.rewrites


@pytest.mark.parametrize("main", ["", '"": 20, '])
def test_a_scope_that_imports_no_standard_operators_comes_to(main: str) -> None:
    text = f"""<ir_version: 10, opset_import: [{main}"com.example": 1, "local": 1]>
        g (float[4] x) => (float[4] y) {{ a = com.example.Twice (x)  y = local.f (a) }}
        <domain: "local", opset_import: ["com.example": 1]> f (v) => (w) {{ w = com.example.Twice (v) }}"""
    result = lowered(text, {"com.example.Twice": twice})
    (function,) = result.model.functions.values()
    assert len(result.rewrites) == 2
    assert function.opset_imports[""] == result.model.opset_imports[""] == (20 if main else 21)
    kept = onnx_ir.from_onnx_text(text)
    LowerCustom(ANDROID, {"com.example.Twice": nothing})(kept)
    assert [("" in scope.opset_imports) for scope in (kept.graph, *kept.functions.values())] == [bool(main), False]


def test_nodes_written_in_vain_leave_no_trace() -> None:
    def in_vain(node: onnx_ir.Node, build: NodeBuilder) -> castsmith.Refusal:
        assert node.inputs[0] is not None
        build.op("Neg", node.inputs[0])
        return build.refuse("it is not worth it")

    model = onnx_ir.from_onnx_text(TWICE)
    assert LowerCustom(ANDROID, {"com.example.Twice": in_vain})(model).records.refusals
    assert len(model.graph.inputs[0].uses()) == 1


def test_a_function_of_the_model_has_a_meaning_already() -> None:
    assert lowered(DEFINED, {"com.example.Twice": twice}).rewrites == []


def test_a_refusal_and_nothing_leave_the_node() -> None:
    result = lowered(TWICE.replace("float[4]", "double[4]"), {"com.example.Twice": twice})
    (refusal,) = result.refusals
    assert (refusal.pass_name, refusal.rule, refusal.witness) == ("lower-custom", "lower-custom", "none")
    assert refusal.reason == "DOUBLE is not float"
    for kept in (result, lowered(TWICE, {"com.example.Twice": nothing})):
        assert (kept.rewrites, kept.model.opset_imports["com.example"]) == ([], 1)


def test_without_the_operator_or_the_lowering_nothing_happens() -> None:
    assert lowered(TWICE.replace("com.example.Twice", "Relu"), {"com.example.Twice": twice}).rewrites == []
    assert castsmith.optimize(onnx_ir.from_onnx_text(TWICE), target=ANDROID).rewrites == []


def test_lowerings_without_a_target() -> None:
    with pytest.raises(castsmith.OptionError, match="lowering passes need a target"):
        castsmith.optimize(onnx_ir.from_onnx_text(TWICE), lowerings={"com.example.Twice": twice})


def test_an_error_of_a_function_that_the_caller_gave_is_the_callers() -> None:
    def broken(node: onnx_ir.Node, build: NodeBuilder) -> None:
        build.op("Div", 1 // len(node.outputs[1:]))

    with pytest.raises(ZeroDivisionError):
        LowerCustom(ANDROID, {"com.example.Twice": broken})(onnx_ir.from_onnx_text(TWICE))


def raises(node: onnx_ir.Node, build: NodeBuilder) -> None:
    raise KeyError(f"scale {build.opset} {node.op_type}")


def gives_text(node: onnx_ir.Node, build: NodeBuilder) -> str:
    return f"{node.op_type} {build.opset}"


OF_PACKAGES: dict[str, str] = {
    "double_or_float": "",
    "nothing": "",
    "raises": "failed at g: y (Twice): KeyError: 'scale 21 Twice'.",
    "gives_text": "returned a str for g: y (Twice); expected a replacement, refusal or None.",
    "TWICE": "it is not a function.",
}


@pytest.mark.parametrize("name", OF_PACKAGES)
def test_a_lowering_of_a_package(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the caller gives takes precedence; that of an operator which the model lacks is not imported."""
    where = f"{__name__}:{name}"
    named = {"com.example.Twice": where, "com.example.Other": "nowhere:none"}
    install(monkeypatch, tmp_path, "acme-tools", {"castsmith.lowerings": named})
    if OF_PACKAGES[name]:
        with pytest.raises(ExtensionError) as error:
            castsmith.optimize(onnx_ir.from_onnx_text(TWICE), target=ANDROID)
        assert str(error.value).endswith(OF_PACKAGES[name])
        assert (
            f"the entry point com.example.Twice = {where} of castsmith.lowerings in the package acme-tools 1.0"
            in str(error.value)
        )
    else:
        result = castsmith.optimize(onnx_ir.from_onnx_text(TWICE), target=ANDROID).model.graph
        assert [node.op_type for node in result] == ["Twice" if name == "nothing" else "Mul"]
    assert lowered(TWICE, {"com.example.Twice": twice}).rewrites
    install(
        monkeypatch,
        tmp_path / "second",
        "acme-more",
        {"castsmith.lowerings": {"com.example.Twice": f"{__name__}:nothing"}},
    )
    with pytest.raises(ExtensionError, match="is added twice: uninstall one of the packages that add it"):
        castsmith.optimize(onnx_ir.from_onnx_text(CHAIN), target=ANDROID)


class Seen(RewritePass):
    """A pass that is given as itself and says where it stood."""

    def call(self, model: onnx_ir.Model) -> castsmith.RewriteResult:
        site = castsmith.Site("", "", ", ".join(node.op_type for node in model.graph))
        note = castsmith.Diagnostic("seen", castsmith.Severity.NOTE, site, "")
        return castsmith.RewriteResult(model, False, castsmith.Records(diagnostics=[note]))


def test_passes_may_be_given_as_themselves() -> None:
    steps = ["lower-custom", Seen(), LowerCustom(ANDROID, {"com.example.Twice": twice}), Seen()]
    result = castsmith.optimize(onnx_ir.from_onnx_text(TWICE), target=ANDROID, passes=steps)
    assert [note.site.op for note in result.diagnostics] == ["Twice", "Mul"]
    until = castsmith.optimize(onnx_ir.from_onnx_text(TWICE), target=ANDROID, passes=steps, until="Seen")
    assert len(until.diagnostics) == 1


def test_the_pass_stands_between_promotion_and_folding() -> None:
    at = PIPELINE.index("lower-custom")
    assert PIPELINE[at - 1 : at + 2] == ("resolve-promote-types", "lower-custom", "fold-shapes")
