"""Models moved to opsets that write an operator otherwise, or lack it: the checker's and ONNX Runtime's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from castsmith.ir.records import Effect, RewriteResult
from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.targets.target import load_target
from tests.evaluator import evaluate
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import LEVELS, run, session

CPU = load_target("onnxruntime-cpu")
X = np.random.default_rng(0).normal(0, 2, (3, 4, 5)).astype(np.float32)


def moved(model: onnx_ir.Model, to: int) -> RewriteResult:
    result = LegalizeVersion(replace(CPU, name="old", newest_opset=to, newest_ir_version=9))(model)
    assert isinstance(result, RewriteResult)
    return result


def check(
    body: str,
    now: int,
    to: int,
    more: str = "",
    weights: Mapping[str, Any] | None = None,
    *,
    exact: bool = True,
    **feeds: Any,
) -> None:
    """The moved model is of the older opset, legal, and gives the same bits in ONNX Runtime; where an operator is
    written out, the runtime's own kernel of it, to compare with, may round its last bits otherwise."""
    model = model_of(body, now, more, **(weights or {}))
    before = onnx_ir.to_proto(model)
    result = moved(model, to)
    assert not result.records.refusals, result.records.refusals
    assert not result.records.diagnostics
    proto = onnx_ir.to_proto(model)
    assert [entry.version for entry in proto.opset_import if entry.domain == ""] == [to]
    onnx.checker.check_model(proto, full_check=True)
    assert not moved(model, to).modified
    expected = run(session(before, LEVELS[0]), feeds)
    evaluated: Any = ReferenceEvaluator(proto).run(None, feeds)
    for index, wanted in enumerate(expected):
        got = run(session(proto, LEVELS[0]), feeds)[index]
        assert got.dtype == wanted.dtype
        assert np.array_equal(got, wanted) if exact else np.allclose(got, wanted, rtol=2e-6, atol=1e-6)
        assert np.allclose(evaluated[index], wanted, rtol=1e-5, atol=1e-6)


REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
              "ReduceSumSquare")  # fmt: skip


@pytest.mark.parametrize("op", REDUCTIONS)
def test_axes_become_an_attribute(op: str):
    body = f"""agraph (float[3,4,5] x) => (float[A,B,C] y, float[D] z) {{
        y = {op} (x, axes) z = {op} <keepdims = 0> (x, both) }}"""
    check(body, 18, 17, weights={"axes": np.array([-1]), "both": np.array([0, 2])}, x=X)
    body = f"agraph (float[3,4,5] x) => (float y) {{ y = {op} <keepdims = 0, noop_with_empty_axes = 0> (x) }}"
    check(body, 18, 17, x=X)


@pytest.mark.parametrize(("count", "names"), [(2, "a, b"), (3, "a, b, c"), (4, "a, b, c, d")])
def test_a_count_of_parts_becomes_their_lengths(count: int, names: str):
    outputs = ", ".join(f"float[A{name.strip()},B,C] {name.strip()}" for name in names.split(","))
    axis = 2 if count == 3 else 1
    body = f"""agraph (float[3,4,5] x) => ({outputs}) {{
        t = Neg (x) {names} = Split <axis = {axis}, num_outputs = {count}> (t) }}"""
    check(body, 18, 17, x=X)


def test_pads_of_some_axes_become_pads_of_all():
    body = "agraph (float[3,4,5] x) => (float[A,B,C] y) { y = Pad (x, pads, value, axes) }"
    weights = {"pads": np.array([1, 2, 0, 3]), "value": np.float32(7).reshape(()), "axes": np.array([-1, 0])}
    check(body, 19, 17, weights=weights, x=X)


def test_attributes_at_their_defaults_are_left_out():
    body = """agraph (float[3,4,5] x, uint8[3] q) => (float[3] y, int64[2] s) {
        y = DequantizeLinear <axis = 1, block_size = 0> (q, scale) s = Shape <start = 1> (x) }"""
    check(body, 21, 19, weights={"scale": np.float32(0.5).reshape(())}, x=X, q=np.array([1, 2, 3], np.uint8))


@pytest.mark.parametrize(("expression", "now", "to"), [
    ("Gelu (x)", 20, 17), ('Gelu <approximate = "tanh"> (x)', 20, 17), ("Mish (x)", 18, 17),
    ("RMSNormalization <axis = -1> (x, s)", 23, 22), ("Swish (x)", 24, 22), ("Swish <alpha = 1.5> (x)", 24, 21),
])  # fmt: skip
def test_operators_that_an_older_opset_lacks_are_written_out(expression: str, now: int, to: int):
    body = f"agraph (float[3,4,5] x, float[5] s) => (float[3,4,5] y) {{ y = {expression} }}"
    check(body, now, to, exact=False, x=X, s=np.linspace(0.5, 2, 5, dtype=np.float32))


def test_in_branches_and_functions():
    body = """agraph (float[3,4,5] x, bool p) => (float[3,4,5] y) { f = local.f (x)
        y = If (p) <then_branch = yes () => (float[3,4,5] t) { t = Gelu (f) },
                    else_branch = no () => (float[3,4,5] e) { m = ReduceMean (f, axes) e = Sub (f, m) }> }"""
    more = '<domain: "local", opset_import: ["" : 20]> f (a) => (b) { c = Gelu (a) b = Gelu (c) }'
    for p in (True, False):
        check(body, 20, 17, more, {"axes": np.array([1])}, exact=False, x=X, p=np.array(p))


@pytest.mark.parametrize(("body", "now", "to"), [
    ("agraph (float x, int64[N] k, int64[M] s) => (float y) { z = Expand (x, s) y = ReduceMax (z, k) }", 18, 17),
    ("agraph (float[A,B] x) => (float[A,B] y) { y = ReduceMax <noop_with_empty_axes = 1> (x) }", 18, 17),
    ("""agraph (float[N] x, int64[M] i, float[M] u) => (float[N] y) {
        y = ScatterElements <reduction = "max"> (x, i, u) }""",
     18, 17),
    ('agraph (float[A,B] x, int64[N] p) => (float[C,D] y) { y = Pad <mode = "wrap"> (x, p) }', 19, 18),
    ("agraph (float[A,B] x, int64[N] k) => (float[C,D] y) { y = ReduceMax (x, k) }", 18, 13),
    ("agraph (float[A,4] x) => (float[B,4] y, float[C,4] z) { y, z = Split <num_outputs = 2> (x) }", 18, 17),
    ("agraph (float[A] x) => (int32[A] y) { y = BitCast <to = 6> (x) }", 26, 25),
])  # fmt: skip
def test_what_has_no_other_form_is_refused(body: str, now: int, to: int):
    model = model_of(body, now)
    before = onnx_ir.to_proto(model).SerializeToString()
    result = moved(model, to)
    assert [diagnostic.code for diagnostic in result.records.diagnostics] == ["opset-too-new"]
    assert result.records.refusals
    model.ir_version = 10
    assert onnx_ir.to_proto(model).graph.SerializeToString() in before


def test_what_is_written_out_says_so_and_each_time_anew():
    model = model_of("g (float[3] x) => (float[3] y) { h = Gelu (x) y = Gelu (h) }", 20)
    result = moved(model, 18)
    effects = [rewrite.effect for rewrite in result.records.rewrites if rewrite.rule == "write-out-operator"]
    assert effects == [Effect.AS_DEFINED] * 2
    names = [value.name for node in model.graph for value in node.outputs]
    assert len(names) == len(set(names))
    assert "Erf" in result.records.rewrites[0].after


def test_infinity_saturates_to_fnuz_as_newer_opsets_say() -> None:
    body = """agraph (float[4] x) => (float[4] y, float[4] z)
        { q = Cast <to = 18> (x) r = CastLike (x, like) y = Cast <to = 1> (q) z = Cast <to = 1> (r) }"""
    weights = {"like": np.zeros(1, onnx.helper.tensor_dtype_to_np_dtype(20))}
    model = model_of(body, 24, "", **weights)
    before = onnx_ir.to_proto(model)
    assert not moved(model, 19).records.refusals
    feeds = {"x": np.array([np.inf, -np.inf, np.nan, -1.5], np.float32)}
    for old, new in zip(evaluate(onnx_ir.from_proto(before), feeds), evaluate(model, feeds), strict=True):
        assert old.tobytes() == new.tobytes()


@pytest.mark.parametrize("attributes", ["", "precision = 1,"])
def test_quantization_of_two_types_and_a_stated_result(attributes: str) -> None:
    body = f"""agraph (float[3,4,5] x, float16[4] s) => (float[3,4,5] y)
        {{ q = QuantizeLinear <{attributes} output_dtype = 3> (x, s) y = Cast <to = 1> (q) }}"""
    model = model_of(body, 23)
    feeds = {"x": X * 20, "s": np.array([0.3, 0.7, 1.1, 0.1], np.float16)}
    before = evaluate(model, feeds)
    assert not moved(model, 19).records.refusals
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check=True)
    assert before[0].tobytes() == evaluate(model, feeds)[0].tobytes()


@pytest.mark.parametrize("node", ["Cast <to = 10, saturate = 0> (x)", "CastLike <saturate = 0> (x, like)",
                                  "Cast <to = 10, round_mode = \"down\"> (x)"])  # fmt: skip
def test_saturation_and_rounding_of_other_types_are_left_out(node: str) -> None:
    model = model_of(
        f"agraph (float[3,4,5] x) => (float16[3,4,5] y) {{ y = {node} }}", 24, like=np.zeros(1, np.float16)
    )
    assert not moved(model, 17).records.refusals
    (found,) = run(session(onnx_ir.to_proto(model)), {"x": X})
    assert found.tobytes() == X.astype(np.float16).tobytes()


def test_quantizing_to_integers_saturates_always() -> None:
    body = "agraph (float[3,4,5] x) => (uint8[3,4,5] y) { y = QuantizeLinear <saturate = 0> (x, s, z) }"
    check(body, 19, 13, weights={"s": np.float32(0.25).reshape(()), "z": np.array(3, np.uint8)}, x=X)
    model = model_of(body.replace("uint8", "float8e4m3fn"), 19, "", s=np.ones((), np.float32),
                     z=np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(17)))  # fmt: skip
    assert moved(model, 18).records.refusals
