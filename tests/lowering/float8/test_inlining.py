"""Functions that handle codes are inlined: in branches and loops, twice, through a caller; refused across opsets."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.targets import Target
from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import CODED_TYPES
from tests.evaluator import evaluate

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


OTHER = "function local::f imports opset {} of ai.onnx, but the model imports opset {}"


def test_a_function_of_another_opset_is_refused() -> None:
    text = f"{HEAD} {{ y = local.f (x, c, m) }} {ROUNDED.replace(': 23', ': 22')}"
    result = castsmith.optimize(onnx.parser.parse_model(text), target=LACKS, passes=["lower-float8"])
    assert [(each.rule, each.reason) for each in result.refusals] == [("inline-functions", OTHER.format(22, 23))]
    assert [each.message for each in result.diagnostics] == [
        f"the values must become codes, because t has no float8e4m3fn, but {OTHER.format(22, 23)}"
    ]
    assert len(result.model.functions) == 1


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
