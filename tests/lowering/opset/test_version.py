"""Models move between opsets only where every node means the same; the others are named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.errors import OpsetError
from castsmith.ir.records import Rewrite, Site
from castsmith.ir.validation import require_known_opset
from castsmith.lowering.opset.obstacles import (
    is_legal,
    move_to_opset,
    node_obstacle,
    obstacle_to_opset,
    standard_nodes,
)
from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import Target, load_target, target_names
from tests.graphs.backend import array_of_case, node_cases

NOW = load_target("onnxruntime-cpu")
CPU = replace(NOW, newest_opset=26, newest_ir_version=13, dropped={})


def model_of(body: str, opset: int, ir_version: int = 14, more: str = "") -> onnx_ir.Model:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"needs an onnx that knows opset {opset}")
    text = f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "local" : 1]>\n{body}\n{more}'
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def reasons(model: onnx_ir.Model, to: int) -> list[str]:
    types = infer_element_types(model, PromotionRules()).types
    found = [(node, node_obstacle(node, now, to, types)) for node, now in standard_nodes(model)]
    return [f"{node.op_type}: {reason}" for node, reason in found if reason is not None]


MOVES = [
    (28, 26, "agraph (float[N] x) => (float[N] y) { y = Relu (x) }"),
    (28, 26, "agraph (float[N] x) => (float8e4m3fn[N] y) { y = Cast <to = 17> (x) }"),
    (28, 26, "agraph (int64[N] x, int64[N] z) => (int64[N] y) { y = Mod (x, z) }"),
    (28, 26, "agraph (float[N] x, float[N] z) => (float[N] y) { y = Mod <fmod = 1> (x, z) }"),
    (19, 26, "agraph (float[N] x) => (float8e4m3fn[N] y) { y = Cast <to = 17> (x) }"),
    (19, 26, "agraph (float[N] x) => (float8e4m3fnuz[N] y) { y = Cast <to = 18, saturate = 0> (x) }"),
    (24, 26, "agraph (float[N] x) => (float8e4m3fnuz[N] y) { y = Cast <to = 18> (x) }"),
    (14, 26, "agraph (float[A, B] x, int64[2] s) => (float[C, D] y) { y = Reshape (x, s) }"),
    (17, 26, "agraph (float[N, C, H] x) => (float[N, C, K] y) { y = MaxPool <kernel_shape = [2]> (x) }"),
    (26, 13, "agraph (float[N] x) => (float[N] y) { z = Exp (x) y = Add (z, x) }"),
    (9, 13, "agraph (float[N] x) => (int64[N] y) { y = Cast <to = 7> (x) }"),
    (10, 11, "agraph (float[1,1,2,2] x, float[4] s) => (float[A,B,C,D] y) { y = Upsample (x, s) }"),
    (12, 13, "agraph (float[N] x, float m) => (float[N] y) { y = Clip (x, , m) }"),
    (26, 28, "agraph (int64[N] x, int64[N] z) => (int64[N] y) { y = Mod (x, z) }"),
    (13, 26, "agraph (float[N] x) => (float[N] y) { y = Mod (x, x) }"),
    (9, 13, "agraph () => (int64[N] y) { y = Cast <to = 7> () }"),
    (19, 18, "agraph (float[N] x) => (float16[N] y) { y = Cast <to = 10, saturate = 1> (x) }"),
    (21, 19, "agraph (float[N] x, int64[2] p, int64[1] a) => (float[M] y) { y = Pad (x, p, , a) }"),
    (23, 22, "agraph (float s) => (uint8[N] y) { y = QuantizeLinear (unknown, s) }"),
    (23, 22, "agraph (float16[N] x, float16 s) => (uint8[N] y) { y = QuantizeLinear (x, s) }"),
    (13, 22, "agraph (int32[N] x) => (int32[N] y) { y = Dropout (x) }"),
    (
        23,
        16,
        """agraph (float[N] x, int64 n, bool c) => (float[N] y, int64 z) { y, z = Loop (n, c, x, n) <
        body = b (int64 i, bool t, float[N] p, int64 q) => (bool u, float[N] v, int64 w)
            { u = Identity (t) v = Identity (p) w = Identity (q) }> }""",
    ),
    (19, 21, "agraph (int32[N] x, float s, int32 z) => (float[N] y) { y = DequantizeLinear (x, s, z) }"),
]


@pytest.mark.parametrize(("now", "to", "body"), MOVES)
def test_moves_that_change_nothing(now: int, to: int, body: str):
    assert not reasons(model_of(body, now), to)


OBSTACLES = [
    (23, 24, "agraph (float[N] x) => (float8e4m3fnuz[N] y) { y = Cast <to = 18> (x) }", "changed in opset 24"),
    (18, 21, "agraph (float[N,4] x, float[2] s) => (float[N,4] y) { y = GroupNormalization <num_groups = 2> (x, s, s)}",
     "changed in opset 21"),
    (11, 13, "agraph (float[N] x) => (float[N] y) { y = Softmax (x) }", "changed in opset 13"),
    (13, 18, "agraph (float[N] x) => (float[M] y) { y = ReduceMean <axes = [0]> (x) }", "no attribute axes"),
    (18, 13, "agraph (float[N] x, int64[1] a) => (float[M] y) { y = ReduceMean (x, a) }", "input 1"),
    (13, 18, "agraph (float[4] x) => (float[2] y, float[2] z) { y, z = Split (x) }", "changed in opset 18"),
    (26, 25, "agraph (float[N] x) => (int32[N] y) { y = BitCast <to = 6> (x) }", "opset 25 has no BitCast"),
    (28, 26, 'agraph (int32[N] x) => (int32[N] y) { y = BitShift <direction = "LEFT"> (x, x) }',
     "does not support int32"),
    (28, 26, "agraph (float[N] x) => (float6e2m3[N] y) { y = Cast <to = 27> (x) }", "does not support float6e2m3"),
    (17, 22, "agraph (float[N, C, H] x) => (float[N, C, K] y) { y = MaxPool <kernel_shape = [2], ceil_mode = 1> (x)}",
     "right padding"),
    (10, 16, "agraph (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[A,B,C,D] y) { y = RoiAlign (x, r, i) }",
     "changed in opset 16"),
    (28, 26, "agraph (float[N] x) => (float[N] y) { y = Mod (x, x) }", "Mod of opset 26 does not support float:"),
    (9, 13, "agraph (float[N] x, float[2] v) => (float[N] y) { y = Clip <min = 0.0> (x) }",
     "Clip of opset 13 has no attribute min"),
    (9, 10, "agraph (float[N] x, float[1] s) => (float[M] y) { y = Upsample (x, s) }",
     "Upsample is deprecated in opset 10"),
    (3, 1, "agraph (float[N,B,I] x, float[D,G,I] w, float[D,G,H] r) => (float[N,D,B,H] y) { y = GRU (x, w, r) }",
     "the default of attribute direction of GRU changed by opset 1"),
    (6, 1, "agraph (float[N,C] x, float[C] s) => (float[N,C] y) { y = BatchNormalization (x, s, s, s, s) }",
     "BatchNormalization of opset 1 requires attribute consumed_inputs"),
    (9, 10, "agraph (float[4] x) => (float[M] y) { y = Slice <starts = [0], ends = [2]> (x) }",
     "Slice of opset 10 requires input 1 (starts)"),
    (12, 13, "agraph (float[4] x) => (float[1,4] y) { y = Unsqueeze <axes = [0]> (x) }",
     "Unsqueeze of opset 13 requires input 1 (axes)"),
    (18, 17, "agraph (float[4] x, int64[1] p, float v, int64[1] a) => (float[M] y) { y = Pad (x, p, v, a) }",
     "Pad of opset 13 has no input 3 (axes)"),
    (18, 15, "agraph () => (bool y) { y = OptionalHasElement () }",
     "input 0 of OptionalHasElement is not the same parameter in opset 15"),
    (23, 22, "agraph (float16[N] x, float s) => (uint8[N] y) { y = QuantizeLinear (x, s) }",
     "QuantizeLinear of opset 21 requires the same type where this node has float16 and float"),
    (12, 13, "agraph (float[4] x, int64[1] s) => (float[4] y) { y = Expand (x, s) }",
     "the changes of Expand between opset 8 and 13 were not compared"),
    (13, 12, "agraph (float[4] x, float m) => (float[4] y) { y = Clip (x, m) }",
     "the changes of Clip between opset 12 and 13 were not compared"),
    (23, 22, "agraph (uint8[N] x, float16 s) => (float[N] y) { y = DequantizeLinear <output_dtype = 1> (x, s) }",
     "DequantizeLinear of opset 21 requires the same type where this node has float16 and float"),
    (15, 14, """agraph (float16[N,C] x, float[C] s) => (float16[N,C] y)
        { y = BatchNormalization (x, unknown, s, s, s) }""",
     "BatchNormalization of opset 14 requires the same type where this node has float16 and float"),
    (23, 13, "agraph (float[N] x, float16 s) => (uint8[N] y) { y = QuantizeLinear (x, s) }",
     "QuantizeLinear of opset 13 does not support float16 as input 1"),
    (9, 13, "agraph (float[N] x) => (int64[N] y) { y = Cast <to = 7> (x, x) }",
     "input 1 of Cast is not the same parameter in opset 13"),
    (21, 19, "agraph (float[N] x) => (int64[N] y) { y = Constant <value_int = 7> (x) }",
     "input 0 of Constant is not the same parameter in opset 19"),
    (9, 13, "agraph (float[N] x, float[2] v) => (float[N] y) { y = Clip <min = 0.0, max = 1.0> (x) }",
     "Clip of opset 13 has no attribute max"),
    (19, 18, "agraph (float[N] x) => (int64[N] y) { y = Cast <to = 7, own = 1> (x) }", "has no attribute own"),
    (21, 19, "agraph (int64[2] p) => (float[M] y) { y = Pad (unknown, p) }",
     "Pad of opset 19 does not support all of its types as input 0"),
    (28, 26, "agraph () => (float[N] y) { y = Mod (unknown, unknown) }", "Mod of opset 26 does not support all of its"),
]  # fmt: skip


@pytest.mark.parametrize(("now", "to", "body", "says"), OBSTACLES)
def test_obstacles_name_the_node_and_say_why(now: int, to: int, body: str, says: str):
    found = reasons(model_of(body, now), to)
    assert len(found) == 1
    assert says in found[0]


def test_only_nodes_that_the_standard_defines_have_its_opset():
    """Not those of another domain, of a function with an operator's name, or of a function that imports no opset."""
    model = model_of(
        """agraph (float[N] x) => (float[N] y) { a = Relu (x) b = local.f (a) c = local.Cast <saturate = 0> (b)
            y = Sign <own = 1> (c) }""",
        21,
        more="""<domain: "local", opset_import: ["" : 18]> f (u) => (v) { v = Neg (u) }
            <domain: "", opset_import: ["local" : 1]> Sign <own> (u) => (v) { v = Abs (u) }""",
    )
    assert [(node.op_type, now) for node, now in standard_nodes(model)] == [("Relu", 21), ("Neg", 18)]
    before = [(node.op_type, dict(node.attributes)) for node in model.graph]
    rewrite = move_to_opset(model, 14, "p", "because")
    assert rewrite == Rewrite("p", "opset", Site("agraph"), "opset 21", "opset 14", "because")
    assert [(node.op_type, dict(node.attributes)) for node in model.graph] == before
    imports = [dict(function.opset_imports) for function in model.functions.values()]
    assert imports == [{"": 14}, {"local": 1}]


def test_the_other_name_of_the_standard_domain_and_operators_that_an_opset_lacks():
    model = model_of("agraph (float[N] x) => (float[N] y) { y = BitCast <to = 1> (x) z = Shape <start = 0> (y) }", 26)
    model.opset_imports["ai.onnx"] = model.opset_imports.pop("")
    assert move_to_opset(model, 13, "p", "").before == "opset 26"
    assert model.opset_imports == {"ai.onnx": 13, "local": 1}
    assert [list(node.attributes) for node in model.graph] == [["to"], []]


def test_the_first_node_that_cannot_move_is_told():
    model = model_of("agraph (float[N] x) => (int32[N] y) { a = Relu (x) y = BitCast <to = 6> (a) z = Det (y) }", 26)
    types = infer_element_types(model, PromotionRules()).types
    assert obstacle_to_opset(model, 28, types) is None
    found = obstacle_to_opset(model, 25, types)
    assert found is not None
    assert (found.site.op, found.reason) == ("BitCast", "opset 25 has no BitCast")


@pytest.mark.parametrize(
    ("now", "to", "body", "legal"),
    [
        (19, 18, "float[N] x) => (float16[N] y) { y = Cast <to = 10, saturate = 1> (x) }", True),
        (19, 18, "float[N] x) => (float16[N] y) { y = Cast <to = 10, saturate = 0> (x) }", False),
        (19, 18, "float[N] x) => (float8e4m3fn[N] y) { y = Cast <to = 17> (x) }", False),
        (12, 11, "int32[N] x, int32 m) => (int32[N] y) { y = Clip (x, , m) }", False),
        (12, 11, "float[N] x, float m) => (float[N] y) { y = Clip (x, , m) }", True),
        (12, 11, "int32[N] x) => (int32[N] y) { a = Identity (x) y = Clip (a) }", False),
        (12, 11, "int32[N] x) => (float[N] y) { y = Clip (unknown) }", True),
        (18, 17, "float[4] x, int64[1] p, float v, int64[1] a) => (float[M] y) { y = Pad (x, p, v, a) }", False),
        (18, 17, "seq(float[N]) s, int64 i) => (float[N] y) { y = SequenceAt (s, i) }", True),
        (13, 12, "bfloat16[N] x, int64[1] s) => (int64[M] y) { y = Shape (x) }", False),
    ],
)
def test_a_node_is_legal_where_its_attributes_and_types_exist(now: int, to: int, body: str, legal: bool):
    model = model_of(f"agraph ({body}", now)
    types = infer_element_types(model, PromotionRules()).types
    assert is_legal(model.graph[-1], now, to, types) == legal


def test_nodes_in_subgraphs_and_functions_count():
    body = """agraph (bool c, float[N] x) => (float8e4m3fnuz[N] y) {
        y = If (c) <then_branch = t () => (float8e4m3fnuz[N] a) { a = Cast <to = 18> (x) },
                    else_branch = e () => (float8e4m3fnuz[N] b) { b = local.f (x) }> }"""
    function = '<domain: "local", opset_import: ["" : 23]> f (u) => (v) { v = Cast <to = 18> (u) }'
    assert len(reasons(model_of(body, 23, more=function), 26)) == 2


@pytest.mark.parametrize(("attributes", "moves"), [("to = 10", True), ("to = 10, saturate = 0", True),
                                                   ("to = 17, saturate = 0", False)])  # fmt: skip
def test_a_cast_in_a_branch_moves_with_the_model(attributes: str, moves: bool):
    """Cast has `saturate` from opset 19 on, which has no effect on float16; and float8."""
    result = "float16" if moves else "float8e4m3fn"
    body = f"""agraph (bool c, float[N] x, {result}[N] z) => ({result}[N] y) {{
        y = If (c) <then_branch = t () => ({result}[N] a) {{ a = Cast <{attributes}> (x) }},
                    else_branch = e () => ({result}[N] b) {{ s = Shape (z) b = Reshape (z, s) }}> }}"""
    model = model_of(body, 19, ir_version=9)
    records = LegalizeVersion(replace(CPU, newest_opset=18))(model).records
    assert model.opset_imports[""] == (18 if moves else 19)
    assert {refusal.site.graph for refusal in records.refusals} == (set() if moves else {"agraph", "t", "e"})
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check=True)


def test_a_new_model_becomes_one_that_onnxruntime_takes():
    model = model_of("agraph (float[N] x) => (float[N] y) { y = Relu (x) }", 28)
    result = LegalizeVersion(CPU)(model)
    assert (model.opset_imports[""], model.ir_version) == (26, 13)
    assert [rewrite.rule for rewrite in result.records.rewrites] == ["opset", "ir-version"]
    assert not LegalizeVersion(CPU)(model).modified


def test_an_obstacle_is_a_refusal_and_an_error_and_the_model_stays():
    body = "agraph (float[N] x) => (float[N] y) { y = Mod (x, x) }"
    model = model_of(body, 28)
    records = LegalizeVersion(CPU)(model).records
    assert model.opset_imports[""] == 28
    assert [refusal.site.op for refusal in records.refusals] == ["Mod"]
    assert [diagnostic.code for diagnostic in records.diagnostics] == ["opset-too-new"]


@pytest.mark.parametrize(("body", "to"), [("y = RoiAlign (x, r, i)", 21), ("y = Relu (x)", 28)])
def test_a_model_moves_to_an_opset_at_which_onnxruntime_has_its_operators(body: str, to: int):
    model = model_of(f"agraph (float[1,1,2,2] x, float[1,4] r, int64[1] i) => (float[A,B,C,D] y) {{ {body} }}", 28)
    made = optimize(model, target=NOW).model
    assert made.opset_imports[""] == to
    proto = onnx_ir.to_proto(made).SerializeToString()
    onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])


def test_an_operator_that_is_too_new_for_a_kernel_is_an_error_where_it_cannot_move():
    body = """agraph (float[1,1,2,2] x, float[1,4] r, int64[1] i) => (float[A,B,C,D] y, int32[A,B,C,D] z) {
        y = RoiAlign (x, r, i) z = BitCast <to = 6> (y) }"""
    result = optimize(model_of(body, 26), target=NOW)
    assert [each.code for each in result.diagnostics] == ["target-lacks-kernel"]
    assert [each.site.op for each in result.refusals] == ["BitCast"]


def test_an_ir_version_that_the_content_needs_is_kept():
    body = "agraph (float[N] x) => (float8e4m3fn[N] y) { y = Cast <to = 17> (x) }"
    old = Target("old", "knows no float8", newest_opset=28, newest_ir_version=8)
    model = model_of(body, 19, 9)
    records = LegalizeVersion(old)(model).records
    assert model.ir_version == 9
    assert [diagnostic.code for diagnostic in records.diagnostics] == ["ir-version-too-new"]


@pytest.mark.parametrize("where", ["main", "function"])
def test_an_unsupported_opset_is_an_error(where: str):
    body, function = "agraph (float[N] x) => (float[N] y) { y = Relu (x) }", "f (u) => (v) { v = Relu (u) }"
    model = model_of(body, 26, more=f'<domain: "local", opset_import: ["" : 26]> {function}')
    LegalizeVersion(CPU)(model)
    scope = model.graph if where == "main" else next(iter(model.functions.values()))
    scope.opset_imports[""] = 99
    with pytest.raises(OpsetError, match="unsupported opset 99 of the model; the newest supported is 28"):
        LegalizeVersion(CPU)(model)
    assert scope.opset_imports[""] == 99


def test_an_opset_that_the_installed_onnx_lacks_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 25)
    with pytest.raises(
        OpsetError, match=r"the installed onnx [0-9.a-z]+ supports opsets up to 25; install a newer onnx"
    ):
        require_known_opset(onnx_ir.from_onnx_text('<ir_version: 10, opset_import: ["": 26]> g () => () {}'))


def written_out(*, sample: int = 0) -> dict[str, str]:
    """Return the outcome of each one-node test of an operator defined by a function, for each target.

    The outcome is "" if the result is valid and gives the expected numbers. sample: only every n-th case.
    """
    targets = {target.newest_opset: target for target in map(load_target, target_names())}
    outcomes = dict[str, str]()
    cases = [(n, case, case.model) for n, case in sorted(node_cases("").items()) if _has_function(case.model)]
    for name, case, proto in cases[:: sample or 1]:
        for newest, target in targets.items():
            model = onnx_ir.from_proto(proto or onnx.ModelProto())
            model.ir_version = min(model.ir_version, 13)
            result = LegalizeVersion(target)(model)
            if result.modified and not result.records.refusals and "bernoulli" not in name:
                outcomes[f"{name} at {newest}"] = _difference(onnx_ir.to_proto(model), case)
    return outcomes


def _has_function(model: onnx.ModelProto | None) -> bool:
    if model is None or len(model.graph.node) != 1:
        return False
    node = model.graph.node[0]
    opset = next((each.version for each in model.opset_import if not each.domain), 0)
    if not onnx.defs.has(node.op_type, opset, node.domain):
        return False
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    return any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))


def _difference(proto: onnx.ModelProto, case: TestCase) -> str:
    onnx.checker.check_model(proto, full_check=True)
    assert case.data_sets is not None
    inputs, outputs = case.data_sets[0]
    feeds = {info.name: array_of_case(array) for info, array in zip(proto.graph.input, inputs, strict=True)}
    for got, wanted in zip(ReferenceEvaluator(proto).run(None, feeds), map(array_of_case, outputs), strict=True):
        got = np.asarray(got)
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return f"{got.dtype}{got.shape} and not {wanted.dtype}{wanted.shape}"
        if not np.allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=1e-2, atol=1e-2, equal_nan=True):
            return "other numbers"
    return ""


def test_operators_are_written_out_as_valid_models_that_compute_the_same():
    # The test data of these operators is not exact: exp, tanh and sums, in whatever order.
    outcomes = written_out(sample=15)
    assert len(outcomes) > 30
    assert not {name: text for name, text in outcomes.items() if text}


@pytest.mark.parametrize("outputs", ["y", "y, k, w", "y, _k, _w, p"])
def test_attention_has_the_outputs_that_it_had(outputs: str):
    types = ", ".join(f"float[2,3,N,M] {name}" for name in outputs.split(", ") if name[0] != "_")
    past = ", past_k, past_v" if "k" in outputs else ""
    body = f"""agraph (float[2,3,8,16] q, float[2,3,4,16] past_k, float[2,3,4,16] past_v) => ({types}) {{
        {outputs} = Attention (q, q, q,{past}) }}""".replace("(q, q, q,)", "(q, q, q)").replace("q, past", "q, , past")
    model = model_of(body.replace("_k, _w", ", "), 23)
    result = LegalizeVersion(load_target("tensorrt-10"))(model)
    assert [rewrite.rule for rewrite in result.records.rewrites] == ["write-out-operator", "opset"]
    model.ir_version = 10
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check=True)


WRITTEN_OUT = {
    "Attention": (23, "agraph (float[2,3,8,16] q) => (float[2,3,8,16] y) { y = Attention (q, q, q) }"),
    "RMSNormalization": (23, "agraph (float[2,16] x, float[16] s) => (float[2,16] y) { y = RMSNormalization (x, s) }"),
    "RMSNormalization of two axes": (
        23,
        "agraph (float[2,3,4] x, float[3,4] s) => (float[2,3,4] y) { y = RMSNormalization <axis = -2> (x, s) }",
    ),
    "RMSNormalization from the second axis on": (
        23,
        "agraph (float[2,3,4] x, float[3,4] s) => (float[2,3,4] y) { y = RMSNormalization <axis = 1> (x, s) }",
    ),
    "RMSNormalization of all axes of an operand without a declared shape": (
        23,
        "agraph (float[2,4] x, float[2,4] s) => (float[2,4] y) { a = Relu (x) y = RMSNormalization <axis = 0> (a, s) }",
    ),
    "RotaryEmbedding": (
        23,
        "agraph (float[2,3,8,16] x, float[9,8] c, float[9,8] s, int64[2,8] p) => (float[2,3,8,16] y)"
        " { y = RotaryEmbedding (x, c, s, p) }",
    ),
    "RotaryEmbedding of pairs, in part": (
        23,
        "agraph (float[2,3,8,16] x, float[2,8,4] c, float[2,8,4] s) => (float[2,3,8,16] y)"
        " { y = RotaryEmbedding <interleaved = 1, rotary_embedding_dim = 8> (x, c, s) }",
    ),
    "RotaryEmbedding of three dimensions": (
        23,
        "agraph (float[2,8,48] x, float[9,8] c, float[9,8] s, int64[2,8] p) => (float[2,8,48] y)"
        " { y = RotaryEmbedding <num_heads = 3> (x, c, s, p) }",
    ),
    "GroupNormalization": (
        21,
        "agraph (float[2,4,8] x, float[4] s) => (float[2,4,8] y) { y = GroupNormalization <num_groups = 2> (x, s, s) }",
    ),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_is_written_out_computes_the_same(name: str):
    opset, body = WRITTEN_OUT[name]
    model = model_of(body, opset, 10)
    feeds = dict[str, np.ndarray]()
    for value in model.graph.inputs:
        shape = () if value.shape is None else value.shape.numpy()
        numbers = np.linspace(-1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        feeds[value.name or ""] = numbers if value.dtype == onnx_ir.DataType.FLOAT else np.abs(numbers).astype(np.int64)
    (expected,) = map(np.asarray, ReferenceEvaluator(onnx_ir.to_proto(model)).run(None, feeds))
    result = LegalizeVersion(load_target("tensorrt-10"))(model)
    assert not result.records.refusals
    assert model.opset_imports[""] == 20
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    # The order of sums is the evaluator's: close, where another axis would be far off.
    (found,) = map(np.asarray, ReferenceEvaluator(proto).run(None, feeds))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_an_operator_whose_definition_does_not_fit_says_so():
    body = """agraph (float x, int64[N] shape, float s) => (float y) {
        a = Expand (x, shape) y = RMSNormalization <axis = 0> (a, s) }"""
    records = LegalizeVersion(load_target("iree"))(model_of(body, 23)).records
    assert "opset 17 has no RMSNormalization, and its definition in the standard cannot" in str(records.refusals)


def test_an_unknown_operator_keeps_the_opset():
    result = LegalizeVersion(load_target("tensorrt-10"))(
        model_of("agraph (float[4] x) => (float[4] y) { y = Foo (x) }", 21)
    )
    assert [refusal.reason for refusal in result.records.refusals] == ["opset 21 has no Foo"]


if __name__ == "__main__":
    found = written_out()
    print(len(found), "models;", {name: text for name, text in found.items() if text} or "no difference")
