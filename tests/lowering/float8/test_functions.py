"""emit_functions: one node for one node, and the same bits; functions that handle codes are inlined."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.walks import all_nodes
from castsmith.lowering.float8.functions import DOMAIN, Functions
from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import CODED_TYPES
from castsmith.targets.target import Target
from tests.evaluator import evaluate
from tests.lowering.float8.test_lower import ANDROID, X, lower, model_of
from tests.lowering.runtime import LEVELS, run, session

BODY = """agraph (float[N] x, float[M] z, float s, bool b) => (float[N] y, float8e4m3fn[N] c, float[M] d, float[N] i) {
    c = Cast <to = 17> (x) y = Cast <to = 1> (c) e = Cast <to = 17> (z) d = Cast <to = 1> (e)
    i = If (b) <then_branch = t () => (float[N] p) { f = QuantizeLinear (x, s, zero) p = DequantizeLinear (f, s) },
                else_branch = g () => (float[N] q) { q = Identity (x) }> }"""


@pytest.mark.parametrize(("sequence", "functions"), [("bitcast", 4), ("table", 4), ("ladder", 4)])
def test_a_call_for_each_node_and_a_function_for_each_sequence(sequence: str, functions: int):
    feeds = {"x": X, "z": X[2:], "s": np.array(0.37, np.float32), "b": np.array(True)}
    outputs: list[list[bytes]] = []
    for emit in (False, True):
        model = model_of(BODY, 21, zero=cast(np.float32(0), "float8e4m3fn"))
        lower(model, sequence=sequence, emit_functions=emit)
        LegalizeVersion(ANDROID)(model)
        proto = onnx_ir.to_proto(model)
        onnx.checker.check_model(proto, full_check=True)
        outputs += [[array.tobytes() for array in run(session(proto, level), feeds)] for level in LEVELS]
        if emit:
            assert len(model.functions) <= functions
            assert len(model.graph) <= 5
            assert any(node.domain == DOMAIN for node in model.graph)
            assert not lower(model, sequence=sequence).modified
    assert outputs[0] == outputs[1] == outputs[2] == outputs[3]


def test_equal_sequences_share_a_function():
    body = """agraph (float[N] x, float[M] z) => (float8e5m2[N] a, float8e5m2[M] b) {
        a = Cast <to = 19> (x) b = Cast <to = 19> (z) }"""
    model = model_of(body)
    lower(model, emit_functions=True)
    assert [name for _, name, _ in model.functions] == ["Cast_float_to_float8e5m2"]
    assert [node.op_type for node in model.graph] == ["Cast_float_to_float8e5m2"] * 2


@pytest.mark.parametrize("sequence", ["ladder", "table"])
def test_a_quotient_that_is_encoded_and_rounded(sequence: str):
    body = """agraph (float[N] x, float s) => (float8e4m3fn[N] q, float[N] y) {
        q = QuantizeLinear <output_dtype = 17> (x, s) y = DequantizeLinear (q, s) }"""
    model, s = model_of(body, 21), np.array(0.37, np.float32)
    lower(model, sequence=sequence, emit_functions=True)
    LegalizeVersion(ANDROID)(model)
    codes = cast(X / s, "float8e4m3fn")
    q, y = run(session(onnx_ir.to_proto(model)), {"x": X, "s": s})
    assert q.tolist() == codes.view(np.uint8).tolist()
    assert y.tobytes() == (cast(codes, "float") * s).tobytes()


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnxruntime-android"])
def test_a_function_without_a_call_goes_at_the_first_run(target: str) -> None:
    """Inlining once left it there with a record, and so recorded it again at each run."""
    text = """<ir_version: 9, opset_import: ["": 20, "local": 1]>
        g (float[3] x) => (float[3] y) { y = Relu (x) }
        <domain: "local", opset_import: ["": 20]>
        f <to> (a) => (b) { b = Cast <to: int = @to> (a) }"""
    first = castsmith.optimize(onnx.parser.parse_model(text), target=target)
    assert [rewrite.rule for rewrite in first.rewrites] == ["inline-functions"]
    assert not first.model.functions
    assert not castsmith.optimize(first.model, target=target).rewrites


CALLED_BY_ANOTHER = """<ir_version: 9, opset_import: ["": 19, "local": 1]>
    g (float16[3] x) => (float16[3] y) { y = local.g (x) }
    <domain: "local", opset_import: ["": 19]>
    f <to> (a) => (b) { c = Neg (a) b = Cast <to: int = @to> (c) }
    <domain: "local", opset_import: ["": 19, "local": 1]>
    g (a) => (b) { c = local.f <to: int = 1> (a) b = Cast <to = 10> (c) }"""


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnxruntime-android", "tensorrt-10"])
def test_no_function_that_is_still_called_is_removed(target: str) -> None:
    """f is inlined, as its type depends on the call, and so is g, which calls it."""
    result = castsmith.optimize(onnx.parser.parse_model(CALLED_BY_ANOTHER), target=target)
    called = {node.op_identifier() for node in all_nodes(result.model) if node.domain == "local"}
    assert called <= set(result.model.functions)
    session(onnx_ir.to_proto(result.model))


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnxruntime-android"])
def test_calls_that_double_with_each_level_are_not_inlined(target: str) -> None:
    levels = [
        f"""<domain: "local", opset_import: ["": 19, "local": 1]>
        f{n} <to> (a) => (b) {{ c = local.f{n - 1} <to: int = @to> (a) b = local.f{n - 1} <to: int = @to> (c) }}"""
        for n in range(1, 40)
    ]
    text = f"""<ir_version: 9, opset_import: ["": 19, "local": 1]>
        g (float16[3] x) => (float16[3] y) {{ y = local.f39 <to: int = 10> (x) }}
        <domain: "local", opset_import: ["": 19]>
        f0 <to> (a) => (b) {{ b = Cast <to: int = @to> (a) }} {" ".join(levels)}"""
    result = castsmith.optimize(onnx.parser.parse_model(text), target=target, passes=["widen-floats"])
    assert "inline-functions" in {refusal.rule for refusal in result.refusals}


def test_findings_in_a_function_have_the_same_place_before_and_after_a_save(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["": 10, "local": 1]>
        h (double[3] x) => (double[3] y) { y = local.g (x) }
        <domain: "local", opset_import: ["": 10]> g (a) => (b) { b = Erf (a) }"""
    result = castsmith.optimize(onnx.parser.parse_model(text), target="onnxruntime-cpu")
    castsmith.save(result.model, tmp_path / "m.onnx")
    told = {(each.code, each.site) for each in result.diagnostics}
    found = castsmith.check(tmp_path / "m.onnx", target="onnxruntime-cpu")
    assert [each.site.graph for each in found if each.code == "target-lacks-kernel"] == ["local.g"]
    assert {(each.code, each.site) for each in found if each.severity is castsmith.Severity.ERROR} <= told


LACKS = Target("t", "", newest_opset=25, newest_ir_version=12, lacks=frozenset(CODED_TYPES))
HEAD = '<ir_version: 10, opset_import: ["" : 23, "local" : 1]> g (float[4] x, bool c, int64 m) => (float[4] y)'
ROUNDED = """<domain: "local", opset_import: ["" : 23]> f (a, c, m) => (b) { b = If (c) <
    then_branch = t () => (z) {
        k = Constant <value = float {2.5}> () q = Mul (a, k) [n] e = Cast <to = 17> (q) z = Cast <to = 1> (e) },
    else_branch = e () => (z) { z = Loop (m, , a) <body = bd (int64 i, bool g, s) => (g2, s2) {
        g2 = Identity (g) [n] e = Cast <to = 17> (s) d = Cast <to = 1> (e) s2 = Add (d, a) }> }> }"""
CALLER = '<domain: "local", opset_import: ["" : 23, "local" : 1]> h (a, c, m) => (b) { b = local.f (a, c, m) }'
CALLS = {
    "twice": (f"{HEAD} {{ a = local.f (x, c, m) y = local.f (a, c, m) }} {ROUNDED}", "local.f"),
    "through a caller": (f"{HEAD} {{ y = local.h (x, c, m) }} {CALLER} {ROUNDED}", "local.f, local.h"),
    "in branches": (
        f"""{HEAD} {{ y = If (c) <then_branch = t () => (float[4] p) {{ p = local.f (x, c, m) }},
            else_branch = e () => (float[4] q) {{ q = local.f (x, c, m) }}> }} {ROUNDED}""",
        "local.f",
    ),
}


@pytest.mark.parametrize("where", CALLS)
def test_a_function_is_inlined_at_each_call_with_names_of_its_own(where: str) -> None:
    text, names = CALLS[where]
    before = onnx_ir.from_proto(onnx.parser.parse_model(text))
    result = castsmith.optimize(onnx.parser.parse_model(text), target=LACKS, passes=["lower-float8"])
    (inlined,) = (each for each in result.rewrites if each.rule == "inline-functions")
    assert inlined.before == names
    assert not result.model.functions
    nodes = list(all_nodes(result.model))
    for made in ([node.name for node in nodes], [value.name for node in nodes for value in node.outputs]):
        assert len(made) == len(set(made))
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    for chosen in (True, False):
        feeds = {"x": np.array([1.1, -0.0, 33, 500], np.float32), "c": np.array(chosen), "m": np.array(2)}
        found, expected = evaluate(result.model, feeds), evaluate(before, feeds)
        assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]


def test_a_function_without_codes_stays() -> None:
    text = f'{HEAD} {{ y = local.h (x) }} <domain: "local", opset_import: ["" : 23]> h (a) => (b) {{ b = Relu (a) }}'
    result = castsmith.optimize(onnx.parser.parse_model(text), target=LACKS, passes=["lower-float8"])
    assert (result.rewrites, len(result.model.functions)) == ([], 1)


def test_a_function_with_codes_of_another_type_than_is_lowered_stays() -> None:
    function = '<domain: "local", opset_import: ["" : 23]> h (a) => (b) { e = Cast <to = 17> (a) b = CastLike (e, a) }'
    text = f"{HEAD} {{ z = local.h (x) e = Cast <to = 19> (z) y = Cast <to = 1> (e) }} {function}"
    lacks = frozenset({onnx_ir.DataType.FLOAT8E5M2})
    target = replace(castsmith.load_target("onnxruntime-cpu"), lacks=lacks)
    result = castsmith.optimize(onnx.parser.parse_model(text), target=target, passes=["lower-float8"])
    assert [rewrite.rule for rewrite in result.rewrites][:2] == ["round-in-place", "lower-Cast"]
    assert len(result.model.functions) == 1


OTHER = "function local::f imports opset {} of ai.onnx, but the model imports opset {}"


def test_a_function_of_another_opset_is_refused() -> None:
    text = f"{HEAD} {{ y = local.f (x, c, m) }} {ROUNDED.replace(': 23', ': 22')}"
    result = castsmith.optimize(onnx.parser.parse_model(text), target=LACKS, passes=["lower-float8"])
    assert [(each.rule, each.reason) for each in result.refusals] == [("inline-functions", OTHER.format(22, 23))]
    assert [each.message for each in result.diagnostics] == [
        f"the values must become codes, because t has no float8e4m3fn, but {OTHER.format(22, 23)}"
    ]
    assert len(result.model.functions) == 1


def test_of_several_types_in_a_function_that_is_refused_the_first_is_told() -> None:
    """The function computes with the types 17 and 19."""
    function = ROUNDED.replace(": 23", ": 22").replace("e = Cast <to = 17> (s)", "e = Cast <to = 19> (s)")
    text = f"{HEAD} {{ y = local.f (x, c, m) }} {function}"
    result = castsmith.optimize(onnx.parser.parse_model(text), target=LACKS, passes=["lower-float8"])
    assert [each.code for each in result.diagnostics] == ["float8-not-lowered"]


QUANT = """<ir_version: 10, opset_import: ["" : {}, "qonnx.custom_op.general" : 1, "local" : 1]>
    g (float[2] x) => (float[2] y) <float s = {{0.5}}, float z = {{0}}, float b = {{4}}> {{ y = local.f (x, s, z, b) }}
    <domain: "local", opset_import: ["" : 21, "qonnx.custom_op.general" : 1]> f (x, s, z, b) => (y) {{
        y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b) }}"""


@pytest.mark.parametrize("opset", [21, 20])
def test_a_quantizer_whose_parameters_are_those_of_a_function(opset: int) -> None:
    result = castsmith.optimize(onnx.parser.parse_model(QUANT.format(opset)), target=LACKS, passes=["lower-quant"])
    if opset == 21:
        assert result.refusals == []
        assert [each.rule for each in result.rewrites] == ["inline-functions", "lower-quant"]
        assert not result.model.functions
        assert "qonnx.custom_op.general" not in result.model.opset_imports
    else:
        assert [(each.rule, each.reason) for each in result.refusals] == [
            ("inline-functions", OTHER.format(21, 20)),
            ("lower-quant", "bitwidth must be one constant number"),
        ]


def test_placeholders_of_quantizers_are_removed_once_nothing_calls_them() -> None:
    """Exporters add functions without nodes; one of another name, or with nodes, stays."""
    domain = '<domain: "qonnx.custom_op.general", opset_import: ["" : 21]>'
    text = f"""{
        QUANT.format(21)
        .partition("<domain")[0]
        .replace("local.f", 'qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND">')
    }
        {domain} Quant <signed, narrow, rounding_mode> (x, s, z, b) => (x) {{ }}
        {domain} Trunc (x) => (x) {{ }} {domain} Other (x) => (x) {{ }}
        {domain} BipolarQuant (x) => (y) {{ y = Identity (x) }}"""
    result = castsmith.optimize(onnx.parser.parse_model(text), target=LACKS, passes=["lower-quant"])
    assert [name for _, name, _ in result.model.functions] == ["Other", "BipolarQuant"]


def test_placeholders_of_other_domains_and_of_what_is_still_called_stay() -> None:
    """A function that passes its operand on is inlined, a placeholder never; an import without use goes."""
    imports, domain = (
        '"qonnx.custom_op.general": 1, "own": 1, "onnx.brevitas": 1',
        '<domain: "{}", opset_import: ["": 21{}]>',
    )
    text = f"""<ir_version: 10, opset_import: ["": 21, {imports}]>
        g (float[4] x, float t) => (float[4] y, float[4] z) <float s = {{1}}, float b = {{4}}> {{
            y = own.F (x, t) z = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (x, s, t, b, b)
        }}
        {domain.format("own", ', "onnx.brevitas": 1')} F (a, s) => (c) {{ c = onnx.brevitas.BipolarQuant (a, s) }}
        {domain.format("onnx.brevitas", "")} BipolarQuant (x, s) => (x) {{ }}
        {domain.format("qonnx.custom_op.general", "")} Trunc (x, s, z, i, o) => (x) {{ }}
        {domain.format("own", "")} Quant (x) => (x) {{ }}"""
    result = castsmith.optimize(onnx.parser.parse_model(text), target=LACKS, passes=["lower-quant"])
    assert [name[:2] for name in result.model.functions] == [("qonnx.custom_op.general", "Trunc"), ("own", "Quant")]
    assert "Where" in [node.op_type for node in result.model.graph]
    assert "onnx.brevitas" not in result.model.graph.opset_imports


@pytest.mark.parametrize(("before", "after"), [(7, 8), (8, 8), (9, 9)])
def test_functions_need_ir_version_8(before: int, after: int) -> None:
    text = "g (float[2] x) => (uint8[2] y) { a = Neg (x) y = Cast <to = 2> (a) }"
    model = onnx_ir.from_proto(onnx.parser.parse_model(f'<ir_version: {before}, opset_import: ["" : 21]> {text}'))
    nodes = tuple(model.graph)
    Functions(model, 21).wrap("f", nodes, nodes[-1].outputs[0])
    assert model.ir_version == after
