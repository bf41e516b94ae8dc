"""optimize repeats its passes while they find something, so that a second run changes nothing."""

from __future__ import annotations

import html
from itertools import product

import onnx
import onnx_ir
import pytest
from onnx.parser import parse_model

import castsmith
from castsmith.lowering.net import net_rewrites


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
    net, _, every = shown.partition("<details>")
    composed = net_rewrites(result.rewrites, result.model)
    assert net.count("<tr>") == 1 + len(composed) < every.count("<tr>") == 1 + len(result.rewrites)
    texts = (text for each in (*composed, *result.rewrites) for text in (each.rule, each.before, each.after))
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
