"""optimize repeats its passes while they find something, so that a second run changes nothing."""

from __future__ import annotations

import html
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.parser import parse_model
from onnx_ir import DataType

import castsmith
from castsmith.lowering import LowerFloat8
from castsmith.lowering.net import net_rewrites
from castsmith.lowering.pipeline import _Growth, _Schedule  # pyright: ignore[reportPrivateUsage]
from castsmith.lowering.registry import REPAIR
from castsmith.numerics.errors import OptionError
from castsmith.passes import FoldConstants, SimplifyCasts
from castsmith.passes.core.session import Session
from castsmith.targets.target import load_target
from tests.evaluator import evaluate


def matmul() -> onnx.ModelProto:
    """An operator that most targets lack in bfloat16, on a constant, whose cast to float is left to fold."""
    text = '<ir_version: 10, opset_import: ["": 21]> g (bfloat16[2, 2] x) => (bfloat16[2, 2] y) { y = MatMul (x, w) }'
    model = parse_model(text)
    model.graph.initializer.append(onnx.helper.make_tensor("w", onnx.TensorProto.BFLOAT16, [2, 2], [1, 2, 3, 4]))
    return model


@pytest.mark.parametrize("target", ["onnxruntime-cpu", "onnxruntime-android", "openvino-cpu", "tensorrt-10"])
def test_casts_of_constants_that_a_lowering_makes_are_folded(target: str) -> None:
    first = castsmith.optimize(matmul(), target=target)
    folded = [
        node for node in first.model.graph if node.op_type == "Cast" and node.inputs[0] in _constants(first.model)
    ]
    assert not folded
    assert not castsmith.optimize(first.model, target=target).rewrites


def _constants(model: onnx_ir.Model) -> list[onnx_ir.Value]:
    return list(model.graph.initializers.values())


def test_what_several_runs_refuse_is_said_once() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (int32[2] x, float[2] v) => (uint32[2] y, float[2] z) {
            [n] a = Cast <to = 5> (x) [m] y = Cast <to = 12> (a) b = Cast <to = 1> (v) z = Transpose (b) }"""
    refusals = castsmith.optimize(parse_model(text)).refusals
    assert refusals
    assert len(refusals) == len(set(refusals))


def test_folding_keeps_its_limit_over_all_runs() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[8] x) => (float[8] y, float[8] z) {
            a = Cast <to = 1> (v) y = Add (x, a) b = Cast <to = 1> (w) z = Mul (y, b) }"""
    model = parse_model(text)
    for name in ("v", "w"):
        model.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT8, [8], range(8)))
    size = sum(t.nbytes for t in _held(castsmith.optimize(model, max_total_growth=30).model))
    assert size <= 16 + 30


def _held(model: onnx_ir.Model) -> list[onnx_ir.TensorProtocol]:
    return [value.const_value for value in _constants(model) if value.const_value is not None]


def test_a_clone_of_the_result_can_be_optimized_without_a_change_of_it() -> None:
    """A Constant that folding makes in a function was renamed by way of a clone, which shares its tensor."""
    text = """<ir_version: 10, opset_import: ["": 20, "local": 1]>
        g (float[2] x) => (float[2] y) { a = local.f <to = 1> (x) y = local.f <to = 1> (a) }
        <domain: "local", opset_import: ["": 20]>
        f <to> (a) => (b) { k = Constant <value = int64[2] {1, 2}> () c = Cast <to = 1> (k) d = Cast <to: int = @to> (a)
            b = Add (c, d) }"""
    folded = castsmith.optimize(parse_model(text)).model
    before = onnx_ir.to_proto(folded).SerializeToString(deterministic=True)
    castsmith.optimize(folded, passes=["lower-float8"], target="onnxruntime-cpu")
    castsmith.optimize(folded, passes=["widen-floats"], target="onnx-mlir")
    assert onnx_ir.to_proto(folded).SerializeToString(deterministic=True) == before


def test_a_summary_counts_each_kind_of_record() -> None:
    result = castsmith.optimize(matmul(), target="onnxruntime-android")
    for counts in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        records: Any = {f"{name}s": [None] * count for name, count in zip(_KINDS, counts, strict=True)}
        plural = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in zip(counts, _KINDS, strict=True)]
        assert replace(result, **records).summary() == ", ".join(plural)


_KINDS = ("rewrite", "refusal", "diagnostic")


def test_a_notebook_shows_each_record_with_every_name_escaped() -> None:
    model = matmul()
    model.graph.name = "<script>"
    result = castsmith.optimize(model, target="onnxruntime-android", verify="reference")
    shown = result._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert result.verdict is not None
    assert result.summary().startswith(f"{len(result.rewrites)} rewrite")
    assert result.summary().endswith(f"verified: {result.verdict.summary()}")
    assert html.escape(result.summary()) in shown
    assert "<script>" not in shown
    net, _, every = shown.partition("<details><summary>every rewrite")
    composed = net_rewrites(result.rewrites, result.model)
    assert net.count("<tr>") == 1 + len(composed) < every.count("<tr>") == 1 + len(result.rewrites)
    texts = (
        text for rewrite in (*composed, *result.rewrites) for text in (rewrite.rule, rewrite.before, rewrite.after)
    )
    assert all(html.escape(text).replace("\n", "<br>") in shown for text in texts)
    nothing = castsmith.optimize(result.model)
    assert nothing._repr_html_() == "<p><b>0 rewrites, 0 refusals, 0 diagnostics</b></p>"  # pyright: ignore[reportPrivateUsage]


_STEPS = ("Transpose", "Cast <to = 1>", "Cast <to = 10>", "Cast <to = 11>")


@pytest.mark.parametrize("used", ["y = MatMul (v2, v2)", "y = MatMul (v2, w)", "k = Relu (v2) y = MatMul (k, v2)"])
@pytest.mark.parametrize("steps", list(product(_STEPS, repeat=2)), ids=" ".join)
def test_a_second_run_leaves_casts_between_transposes_and_a_matmul(steps: tuple[str, ...], used: str) -> None:
    """place-casts and widen-floats do not undo each other where the target breaks Transpose, Cast, MatMul."""
    types = {"Cast <to = 1>": "float", "Cast <to = 10>": "float16", "Cast <to = 11>": "double"}
    last = next((types[step] for step in reversed(steps) if step in types), "float16")
    nodes = " ".join(f"v{index + 1} = {step} (v{index})" for index, step in enumerate(steps))
    model = parse_model(
        f'<ir_version: 7, opset_import: ["": 12]> g (float16[N, N] v0, {last}[N, N] w) => ({last}[N, N] y) '
        f"{{ {nodes} {used} }}"
    )
    first = castsmith.optimize(model, target="onnxruntime-cpu")
    assert castsmith.optimize(first.model, target="onnxruntime-cpu").rewrites == []


IDLE = '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
FIRST = ["insert-promote-types", "resolve-promote-types"]
FOLDING = ["fold-shapes", "fold-constants", "simplify-casts", "place-casts"]
LOWERING = [
    *("lower-trunc", "lower-quant", "lower-casts", "lower-float8"),
    *("widen-floats", "lower-operators", "legalize-version"),
]
RUNS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, [*FIRST, *FOLDING]),
    ({"target": "onnxruntime-cpu"}, [*FIRST, "lower-custom", *FOLDING, *LOWERING]),
    ({"narrow": "int64"}, [*FIRST, *FOLDING, "narrow-types"]),
    ({"target": "openvino-cpu", "narrow": ["int64"]}, [*FIRST, "lower-custom", *FOLDING, "narrow-types", *LOWERING]),
    ({"until": "fold-shapes"}, [*FIRST, "fold-shapes"]),
    ({"passes": ["place-casts", " fold-shapes{} ", "place-casts"]}, ["place-casts", "fold-shapes", "place-casts"]),
    ({"passes": ["fold-constants", "simplify-casts{}", "place-casts"], "until": "simplify-casts"}, FOLDING[1:3]),
    ({"passes": [SimplifyCasts(), FoldConstants(), LowerFloat8(load_target("iree"))], "until": "fold-constants"},
     ["simplify-casts", "fold-constants"]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "names"), RUNS, ids=range(len(RUNS)))
def test_the_passes_that_run_are_announced_in_order(options: dict[str, Any], names: list[str]) -> None:
    """An instance of a pass has its name too; passes that change nothing run once, unless named twice."""
    told = list[str]()
    assert castsmith.optimize(parse_model(IDLE), progress=told.append, **options).rewrites == []
    assert told == names


def test_an_unknown_last_pass_is_told() -> None:
    with pytest.raises(OptionError) as error:
        castsmith.optimize(parse_model(IDLE), until="simplify-cast")
    assert str(error.value) == "unknown pass 'simplify-cast' for until; did you mean 'simplify-casts'?"
    with pytest.raises(OptionError) as error:
        castsmith.optimize(parse_model(IDLE), passes=["place-casts", "fold-shapes"], until="zzz")
    assert str(error.value) == "unknown pass 'zzz' for until; expected place-casts, fold-shapes."


def test_an_error_that_a_pass_reports_is_told_once_and_others_too() -> None:
    text = """<ir_version: 8, opset_import: ["": 18, "qonnx.custom_op.general": 1]>
        g (uint8[2] u, bool[2] b, float[2] x) => (bool[2] y, float8e4m3fn[2] z, float[2] t) <float s = {0.5}> {
            y = And (u, b) z = Cast <to = 17> (x) t = qonnx.custom_op.general.Trunc (x, s) }"""
    findings = castsmith.optimize(parse_model(text)).diagnostics
    assert [(finding.code, finding.site.op, finding.severity.value) for finding in findings] == [
        ("type-not-allowed", "And", "error"),
        ("type-not-allowed", "Cast", "error"),
        ("trunc-malformed", "Trunc", "error"),
    ]
    partly = castsmith.optimize(parse_model(text), until="place-casts").diagnostics
    assert [(error.code, error.site.op) for error in partly] == [("type-not-allowed", "And")]


def test_a_verification_accepts_inputs_that_were_given_another_type_and_reports_an_idle_run() -> None:
    """float16 inputs of a target without float16 become float: the same numbers."""
    text = '<ir_version: 8, opset_import: ["": 18]> g (float16[2] x) => (float16[2] y) { y = Neg (x) }'
    options: dict[str, Any] = {"target": replace(load_target("iree"), lacks=frozenset({DataType.FLOAT16}))}
    options |= {"verify": "reference", "verify_inputs": [("one", {"x": np.array([1, -2.5], np.float16)})]}
    result = castsmith.optimize(parse_model(text), **options, interface="wide")
    assert [value.dtype for value in (*result.model.graph.inputs, *result.model.graph.outputs)] == [DataType.FLOAT] * 2
    assert result.verdict is not None
    assert result.verdict.mismatch is None
    options["verify_inputs"] = [("one", {"x": np.ones(2, np.float32)})]
    options["target"] = None
    idle = castsmith.optimize(parse_model(IDLE), **options)
    assert idle.rewrites == []
    assert idle.verdict is not None
    assert idle.verdict.equal
    assert castsmith.optimize(parse_model(IDLE)).verdict is None


@pytest.mark.parametrize(("budget", "folded"), [(23, 0), (24, 1), (47, 1), (48, 2)])
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_budget_holds_for_all_runs_of_a_pass_exactly(budget: int, folded: int, rounds: int) -> None:
    """Each of two constants grows from 8 bytes to 32, and each is its own for the file."""
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[8] x) => (float[8] y, float[8] z) {
        a = Cast <to = 1> (v) y = Add (x, a) b = Cast <to = 1> (w) z = Mul (y, b) }"""
    model = parse_model(text)
    for name, first in (("v", 0), ("w", 1)):
        model.graph.initializer.append(onnx.helper.make_tensor(name, 3, [8], range(first, first + 8)))
    result = castsmith.optimize(model, max_total_growth=budget, passes=["fold-constants"] * rounds)
    assert sum(node.op_type == "Cast" for node in result.model.graph) == 2 - folded


@pytest.mark.parametrize("axis", [0, -1])
def test_the_reference_engine_reads_tables_of_any_length(axis: int) -> None:
    """The reference implementation of ONNX refuses a GatherElements of more than 64 elements along the axis."""
    codes = """<ir_version: 9, opset_import: ["": 19]> g (float8e4m3fn[2] x, float[2] v) => (float[2] y) {
        c = Cast <to = 1> (x) y = Mul (c, v) }"""
    sets = [("one", {"x": np.array([1.5, -448], DataType.FLOAT8E4M3FN.numpy()), "v": np.array([2, 3], np.float32)})]
    result = castsmith.optimize(
        parse_model(codes), target="onnxruntime-android", verify="reference", verify_inputs=sets
    )
    assert "GatherElements" in {node.op_type for node in result.model.graph}
    assert result.verdict is not None
    assert result.verdict.mismatch is None
    shape, index = ("100,2", "3,2") if axis == 0 else ("2,100", "2,3")
    text = f"""<ir_version: 9, opset_import: ["": 19]> g (float[{shape}] x, int32[{index}] i) => (float[{index}] y) {{
        y = GatherElements <axis = {axis}> (x, i) }}"""
    x, i = np.arange(200, dtype=np.float32), np.array([99, -1, 0, 1, 2, 70], np.int32)
    x, i = (array.reshape([int(dim) for dim in dims.split(",")]) for array, dims in ((x, shape), (i, index)))
    (y,) = evaluate(onnx_ir.from_onnx_text(text), {"x": x, "i": i})
    assert y.tolist() == np.take_along_axis(x, i.astype(np.int64), axis).tolist()


@pytest.mark.parametrize("emit_functions", [False, True])
def test_operators_of_the_standard_are_imported_where_a_model_had_none(emit_functions: bool) -> None:
    text = """<ir_version: 8, opset_import: ["com.microsoft" : 1]> g (float16[2,4] x, float16[4] w) => (float16[2,4] y)
        { y = com.microsoft.SkipLayerNormalization (x, x, w) }"""
    model = parse_model(text)
    for target in ("onnxruntime-cpu", "onnxruntime-android", "openvino-cpu"):
        result = castsmith.optimize(model, target=target, interface="wide", emit_functions=emit_functions)
        onnx.checker.check_model(result.proto, full_check=True)
    onnx.checker.check_model(castsmith.convert(model, to="float").proto, full_check=True)


def test_a_verification_runs_on_the_sizes_that_are_given() -> None:
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[N] x, float[3] z) => (float[N] y) {
        a = Cast <to = 1> (x) y = Add (a, z) }"""
    found = [
        castsmith.optimize(parse_model(text), verify="reference", verify_dims=dims).verdict
        for dims in ({"N": 3}, {"N": 4})
    ]
    assert [bool(verdict is not None and verdict.runs) for verdict in found] == [True, False]


@pytest.mark.parametrize(("by_default", "follow"), [(True, [*REPAIR, "fold-constants"]), (False, ["fold-constants"])])
def test_what_follows_a_custom_operator_is_repaired_where_no_passes_are_named(
    by_default: bool, follow: list[str]
) -> None:
    schedule = _Schedule(["lower-custom", "fold-constants"], (), by_default)
    assert schedule.next() == "lower-custom"
    schedule.ended("lower-custom", modified=True)
    assert schedule.remaining == follow


def test_passes_that_always_change_something_run_in_8_rounds() -> None:
    schedule, runs = _Schedule(["a", "b"], ("a", "b"), by_default=True), list[object]()
    while len(runs) < 99 and (name := schedule.next()) is not None:
        runs.append(name)
        schedule.ended(str(name), modified=True)
    assert runs == ["a", "b"] * 8
    assert schedule.unsettled


@pytest.mark.parametrize(("floats", "left"), [(0, 20), (4, 20), (6, 12), (9, 0), (99, 0)])
def test_a_file_that_shrinks_may_not_grow_by_more_for_that(floats: int, left: int) -> None:
    """The constant has 4 floats before."""
    model = onnx_ir.from_onnx_text('<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) { y = Neg (x) }')

    def hold(count: int) -> None:
        model.graph.initializers.clear()
        tensor = onnx_ir.tensor(np.zeros(count, np.float32), name="w")
        model.graph.initializers["w"] = onnx_ir.Value(name="w", const_value=tensor)

    hold(4)
    growth = _Growth(Session(model), 20)
    growth.before("fold-constants")
    hold(floats)
    growth.after("fold-constants")
    assert growth.allowance == left
