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
from castsmith.ir.targets import load_target
from castsmith.lowering.opset.version import LegalizeVersion
from tests.evaluator import evaluate
from tests.lowering.float8.test_float8 import model_of
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


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize(("theta", "size"), [((1, 2, 3), [1, 1, 4, 5]), ((3, 2, 3), [3, 2, 2, 3]),
                                              ((1, 3, 4), [1, 1, 2, 3, 4])])  # fmt: skip
def test_a_definition_with_branches_is_written_out(theta: tuple[int, ...], size: list[int], aligned: int) -> None:
    """That of AffineGrid, which squeezes a batch of 1 too, and then fails; here it names the axis."""
    dims = ",".join("KLMNO"[: len(size)])
    node = f"y = AffineGrid <align_corners = {aligned}> (x, s)"
    model = model_of(f"g (float[A,B,C] x, int64[{len(size)}] s) => (float[{dims}] y) {{ {node} }}", 20)
    before = onnx_ir.to_proto(model)
    assert not moved(model, 17).records.refusals
    proto, feeds = onnx_ir.to_proto(model), {"x": X.reshape(-1)[: np.prod(theta)].reshape(theta), "s": np.array(size)}
    onnx.checker.check_model(proto, full_check=True)
    (wanted,), (got,) = run(session(before, LEVELS[0]), feeds), run(session(proto, LEVELS[0]), feeds)
    assert got.shape == wanted.shape
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-6)


ROWS = np.random.default_rng(1).normal(0, 2, (2, 3, 4, 2)).astype(np.float32)


@pytest.mark.parametrize(("body", "now", "to", "weights"), [
    ("y = TensorScatter (x, u, w)", 24, 17, {}),
    ("y = TensorScatter <axis = 1, mode = \"circular\"> (x, u, w)", 24, 13, {}),
    ("y = TensorScatter (x, u)", 24, 22, {}),
    ("y = DFT (x)", 20, 17, {}),
    ("y = DFT <inverse = 1> (x, , axis)", 20, 17, {"axis": np.array(1)}),
    ("y = DFT (x, , k)", 20, 19, {}),
    ("y = DFT (x, ten, back)", 20, 17, {"ten": np.array(10)}),
    ("y = CumProd (x, k)", 26, 25, {}),
    ("y = CumProd <exclusive = 1, reverse = 1> (x, back)", 26, 14, {}),
    ("y = Resize <axes = [1, 2]> (x, , scales)", 18, 13, {"scales": np.array([1.0, 2.0], np.float32)}),
    ('y = Resize <axes = [2], mode = "linear"> (x, , , sizes)', 19, 14, {"sizes": np.array([7])}),
    ("y = Pad (x, pads, , axes)", 19, 17, {"axes": np.array([-1, 1])}),
])  # fmt: skip
def test_operators_of_newer_opsets_in_the_form_of_older_ones(
    body: str, now: int, to: int, weights: dict[str, np.ndarray]
) -> None:
    """Operands that are not constant are computed; ranks and lengths are open where that does not matter."""
    shape = "[2,3,4,2]" if "Tensor" in body or "DFT" in body else "[A,B,C,D]"
    text = f"""agraph (float{shape} x, float[2,3,2,2] u, int64[2] w, int64[4] pads, int64 k, int64 back)
            => (float[E,F,G,H] y) {{ {body} }}"""
    axis = 1 if "axis" in body else 2
    update = ROWS.take(range(2), axis=axis) if axis == 2 else ROWS.take(range(2), axis=1)
    text = text if axis == 2 else text.replace("float[2,3,2,2] u", "float[2,2,4,2] u")
    feeds = {"x": ROWS, "u": update + 1, "w": np.array([1, 2 if "circular" in body else 0]), "pads": np.arange(4),
             "k": np.array(1), "back": np.array(-2)}  # fmt: skip
    if "TensorScatter" in body and "w)" not in body:
        feeds["w"] = np.array([0, 0])
    model = model_of(text, now, "", **weights)
    before = onnx_ir.to_proto(model)
    result = moved(model, to)
    assert not result.records.refusals, result.records.refusals
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    evaluated: Any = ReferenceEvaluator(before).run(None, feeds)
    again: Any = ReferenceEvaluator(proto).run(None, feeds)
    assert evaluated[0].tobytes() == again[0].tobytes()
    (new,) = run(session(proto, LEVELS[0]), feeds)
    if now < 24:
        (old,) = run(session(before, LEVELS[0]), feeds)
        assert old.tobytes() == new.tobytes()
    else:
        assert new.tobytes() == again[0].tobytes()


@pytest.mark.parametrize("length", [5, 6])
def test_parts_of_an_axis_of_unknown_length(length: int) -> None:
    body = "agraph (float[A,4] x) => (float[B,4] y, float[C,4] z) { y, z = Split <num_outputs = 2> (x) }"
    check(body, 18, 17, x=np.arange(length * 4, dtype=np.float32).reshape(length, 4))


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


@pytest.mark.parametrize(("body", "now"), [
    ("y = Resize <keep_aspect_ratio_policy = \"not_larger\"> (x, , , n)", 18),
    ("y = Resize <mode = \"linear\", antialias = 1> (x, , , n)", 18),
    ("y = Resize <axes = [2], mode = \"linear\", antialias = 1> (x, , , less)", 18),
    ("y = Resize <axes = [2, 3], keep_aspect_ratio_policy = \"not_larger\"> (x, , , less)", 18),
    ("y = Resize <coordinate_transformation_mode = \"half_pixel_symmetric\"> (x, , odd)", 19),
])  # fmt: skip
def test_features_that_an_older_opset_lacks_stay(body: str, now: int) -> None:
    weights = {"less": np.array([3, 2][: 1 if "[2]" in body else 2]), "odd": np.array([1, 1, 2.3, 1], np.float32)}
    text = f"agraph (float[2,3,4,2] x, int64[4] n) => (float[A,B,C,D] y) {{ {body} }}"
    assert moved(model_of(text, now, "", **weights), 17).records.refusals


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp"])
@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("none", [0, 1])
def test_axes_that_are_computed(op: str, keeps: int, none: int) -> None:
    """The same elements are reduced, in the same order; without axes, all or none."""
    body = f"""agraph (float[3,4,5] x, int64[N] k) => ({"float[A,B,C]" if keeps else "float[A]"} y) {{
        z = {op} <keepdims = {keeps}, noop_with_empty_axes = {none}> (x, k) {
        "y = Identity (z)" if keeps else "flat = Constant <value_ints = [-1]> () y = Reshape (z, flat)"
    } }}"""
    for axes in ([-1], [0, 2], [1, 0], [2, 0, 1], []):
        model = model_of(body, 18)
        before = onnx_ir.to_proto(model)
        assert not moved(model, 17 if keeps else 13).records.refusals
        proto, feeds = onnx_ir.to_proto(model), {"x": X, "k": np.array(axes, np.int64)}
        onnx.checker.check_model(proto, full_check=True)
        wanted: Any = ReferenceEvaluator(before).run(None, feeds)
        if not axes and none and op != "ReduceMax":
            continue  # the evaluator leaves out the root or the logarithm too
        got: Any = ReferenceEvaluator(proto).run(None, feeds)
        (computed,) = run(session(proto, LEVELS[0]), feeds)
        assert got[0].tobytes() == wanted[0].tobytes()
        assert computed.shape == wanted[0].shape
        assert np.allclose(computed, wanted[0], rtol=1e-5)


def test_bool_is_reduced_as_uint8() -> None:
    body = "agraph (bool[3,4,5] x, int64[N] k) => (bool[A,B,C] y, bool[3] z) { y = ReduceMax (x, k) z = ReduceMin"
    model = model_of(body + " <keepdims = 0> (x, both) }", 20, "", both=np.array([1, 2]))
    before, feeds = onnx_ir.to_proto(model), {"x": X > -2, "k": np.array([1])}
    assert not moved(model, 17).records.refusals
    assert {node.op_type for node in model.graph} >= {"ReduceMax", "ReduceMin", "Cast"}
    wanted, got = (run(session(proto, LEVELS[0]), feeds) for proto in (before, onnx_ir.to_proto(model)))
    assert [array.tobytes() for array in got] == [array.tobytes() for array in wanted]


RESIZED = [
    ('keep_aspect_ratio_policy = "not_larger", axes = [1, 2]', "sizes", [8, 11]),
    ('keep_aspect_ratio_policy = "not_smaller", axes = [1, 2]', "sizes", [8, 3]),
    ('keep_aspect_ratio_policy = "not_larger", axes = [2, 1]', "sizes", [9, 5]),
    ('antialias = 1, axes = [2], mode = "linear"', "sizes", [7]),
    ('coordinate_transformation_mode = "half_pixel_symmetric", mode = "linear"', "scales", [1.0, 1.5, 2.0]),
    ('coordinate_transformation_mode = "half_pixel_symmetric", mode = "linear"', "sizes", [3, 7, 6]),
]


@pytest.mark.parametrize(("attributes", "what", "numbers"), RESIZED)
def test_resizing_that_an_older_opset_states_otherwise(attributes: str, what: str, numbers: list[float]) -> None:
    """The reference evaluator gives the same bits; ONNX Runtime, which rounds some coordinates twice, close numbers."""
    operands = "x, , n" if what == "scales" else "x, , , n"
    text = f"agraph (float[3,4,5] x) => (float[A,B,C] y) {{ y = Resize <{attributes}> ({operands}) }}"
    weights = {"n": np.array(numbers, np.float32 if what == "scales" else np.int64)}
    check(text, 19, 13, weights=weights, exact="policy" in attributes, x=X)
    model = model_of(text, 19, "", **weights)
    before: Any = ReferenceEvaluator(onnx_ir.to_proto(model)).run(None, {"x": X})
    moved(model, 13)
    after: Any = ReferenceEvaluator(onnx_ir.to_proto(model)).run(None, {"x": X})
    assert before[0].tobytes() == after[0].tobytes()


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
