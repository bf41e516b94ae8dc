"""Output of `insert-promote-types`: functions that run anywhere, names kept, errors with origins, one body a call."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.walks import all_nodes
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.promote.insert import InsertPromoteTypes

UNSAFE = PromotionRules(promote_unsafe=True)
TWO_CALLS = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (int32[N] x, float[N] y, double[N] w) => (float[N] p, double[N] q) { p = local.f (x, y)
 q = local.f (y, w) }
<domain: "local", opset_import: ["" : 21]> f (a, b) => (c) { c = Add (a, b) }"""


def repaired(text: str, rules: PromotionRules, until: str | None = "insert-promote-types") -> onnx.ModelProto:
    return onnx_ir.to_proto(optimize(onnx.parser.parse_model(text), promotion=rules, until=until).model)


def test_a_function_called_with_two_sets_of_types_becomes_two() -> None:
    model = repaired(TWO_CALLS, UNSAFE)
    onnx.checker.check_model(model, full_check=True)
    assert {function.name for function in model.functions if function.domain == "local"} == {"f", "f_float_double"}
    assert [node.op_type for node in model.graph.node] == ["f", "f_float_double"]


@pytest.mark.parametrize("ir_version", [3, 8, 10])
def test_the_functions_leave_with_the_nodes(ir_version: int) -> None:
    text = f"""<ir_version: {ir_version}, opset_import: ["" : 9]>
    g (int64[N] x, float[N] y) => (float[N] z) {{ [keep] z = Add (x, y) }}"""
    emitted = repaired(text, UNSAFE)
    assert emitted.ir_version == max(ir_version, 8)
    assert len(emitted.functions) == 1
    resolved = repaired(text, UNSAFE, until="resolve-promote-types")
    assert (resolved.ir_version, len(resolved.functions)) == (ir_version, 0)
    assert [o.domain for o in resolved.opset_import] == [""]
    assert [node.name for node in resolved.graph.node][-1] == "keep"
    later = onnx_ir.to_proto(optimize(emitted, promotion=UNSAFE, until="resolve-promote-types").model)
    assert list(later.graph.node) == list(resolved.graph.node)
    assert (later.ir_version, len(later.metadata_props)) == (ir_version, 0)  # also if a file lay between the two


IN_A_FUNCTION = """<ir_version: 10, opset_import: ["" : 21, "local" : 1{0}]>
g (int32[N] x, float[N] y) => (float[N] p) {{ p = local.f (x, y) }}
<domain: "local", opset_import: ["" : 21, "castsmith" : 1]> f (a, b) => (c) {{ {1} }}"""
PROMOTES, PROMOTED, PLAIN = (
    "c = Add (a, b)",
    "d, e = castsmith.ConvertPromoteTypes <promote_unsafe = 1> (a, b) c = Add (d, e)",
    "d = Cast <to = 1> (a) c = Add (d, b)",
)


@pytest.mark.parametrize(
    ("imported", "body", "version"),
    [
        ("", PROMOTES, 1),
        (', "castsmith" : 1', PROMOTES, 1),
        (', "castsmith" : 2', PROMOTES, 2),
        ("", PROMOTED, 1),
        ("", PLAIN, None),
    ],
)
def test_the_model_imports_what_its_functions_need(imported: str, body: str, version: int | None) -> None:
    model = onnx_ir.from_onnx_text(IN_A_FUNCTION.format(imported, body))
    (function,) = model.functions.values()
    if body is PROMOTES:
        del function.opset_imports["castsmith"]
    result = InsertPromoteTypes(promote_unsafe=True)(model)
    assert model.graph.opset_imports.get("castsmith") == version
    assert function.opset_imports["castsmith"] == 1
    assert bool(result.records.rewrites) == result.modified == (body is not PLAIN)


BRANCH = "c = If (k) <then_branch = t () => (d) { d = Add (a, b) }, else_branch = e () => (h) { h = Add (b, b) }>"


@pytest.mark.parametrize("body", ["c = Add (a, b)", BRANCH])
@pytest.mark.parametrize("in_function", [False, True])
def test_only_calls_outside_of_functions_have_an_overload(body: str, in_function: bool) -> None:
    """Runtimes that inline a function do not find a function with an overload in it."""
    inputs, head = "int32[N] a, float[N] b, bool k", '<ir_version: 10, opset_import: ["" : 21, "local" : 1]>'
    functions = f' <domain: "local", opset_import: ["" : 21]> f (a, b, k) => (c) {{ {body} }}'
    functions += ' <domain: "local", opset_import: ["" : 21]> other (a) => (c) { c = Neg (a) }'
    nodes = "c = local.f (a, b, k)" if in_function else body
    model = onnx_ir.from_onnx_text(f"{head} g ({inputs}) => (c) {{ x = local.other (b) {nodes} }}" + functions)
    InsertPromoteTypes(promote_unsafe=True)(model)
    calls = [node for node in all_nodes(model) if node.domain == "castsmith"]
    assert [(node.op_type, node.overload) for node in calls] == [
        ("ConvertPromoteTypes_int32_float_float", "") if in_function else ("ConvertPromoteTypes", "int32_float_float")
    ]
    importing = [each.name for each in model.functions.values() if "castsmith" in each.opset_imports]
    assert importing == ["f"] * in_function


def test_the_graph_of_a_copied_function_has_its_name() -> None:
    model = onnx_ir.from_onnx_text(TWO_CALLS)
    InsertPromoteTypes(promote_unsafe=True)(model)
    named = {function.name: function.graph.name for function in model.functions.values() if function.domain == "local"}
    assert named["f_float_double"] == "local.f_float_double"


def test_a_refusal_names_node_operands_origins_rule_and_option() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (int64[N] x) => (float[N] z) <float[1] w = {1}> { [neg] n = Neg (x)
     [sum] z = Add (n, w) }"""
    with pytest.raises(PromotionError) as caught:
        repaired(text, PromotionRules())
    assert "g: sum (Add)" in str(caught.value)
    assert "n (int64, made by neg (Neg)) and w (float, an initializer)" in str(caught.value)
    assert "`promote_unsafe` allows it" in str(caught.value)
    assert "[rule precision]" in str(caught.value)
    assert (caught.value.rule, caught.value.option) == ("precision", "promote_unsafe")


def test_a_type_that_nothing_holds_is_reported_with_the_opset_that_takes_it() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (bool c, bfloat16[N] x) => (bfloat16[N] z) { z = If (c) <then_branch = t () => (a) { a = Identity (x) },
     else_branch = e () => (b) { b = Neg (x) }> }"""
    (finding,) = optimize(onnx.parser.parse_model(text)).diagnostics
    assert finding.code == "type-not-allowed"
    assert "If of opset 13 does not pass on bfloat16 (opset 16 allows it)" in finding.message


def test_an_unknown_preset_is_a_promotion_error() -> None:
    with pytest.raises(PromotionError, match="unknown promotion preset"):
        optimize(onnx.parser.parse_model(TWO_CALLS), promotion="theano")


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic_of_a_number_says_one_way_out(op: str) -> None:
    text = f'<ir_version: 10, opset_import: ["": 21]> g (bool[2] x, int32[2] y) => (bool[2] o) {{ o = {op} (x, y) }}'
    (found, *_) = optimize(onnx_ir.from_onnx_text(text)).diagnostics
    assert "no opset does" in found.message
    assert found.help == "cast the operand in the model"
