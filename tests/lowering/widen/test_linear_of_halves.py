"""QuantizeLinear and DequantizeLinear of 16-bit floats, for targets of older opsets and such without kernels."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.numerics.cast.convert import cast
from castsmith.targets.target import Target, load_target
from tests.evaluator import evaluate
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("engines_here")

NUMBERS = np.random.default_rng(0).normal(0, 20, 400).astype(np.float32)


def model_of(source: str, to: int, opset: int) -> onnx_ir.Model:
    return onnx_ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["": {opset}]>
        g ({source}[400] x, {source} s) => (float[400] y, float[400] z) {{
            q = QuantizeLinear <output_dtype = {to}> (x, s) d = DequantizeLinear (q, s)
            y = Cast <to = 1> (d) z = Cast <to = 1> (q) }}""")


@pytest.mark.parametrize(
    ("target", "to"),
    [("iree", 17), ("iree", 22), ("iree", 3), ("onnxruntime-cpu", 22), ("onnxruntime-cpu", 3), ("onnx-mlir", 22)],
)
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_the_quotient_is_rounded_once_to_the_type_of_the_scale(source: str, to: int, target: str) -> None:
    before = model_of(source, to, 21)
    result = castsmith.optimize(before, target=target)
    assert not [each for each in result.diagnostics if each.severity is castsmith.Severity.ERROR]
    feeds = {"x": cast(NUMBERS, source), "s": cast(np.float32(0.3), source)}
    for old, new in zip(evaluate(before, feeds), evaluate(result.model, feeds), strict=True):
        assert old.tobytes() == new.tobytes()


@pytest.mark.parametrize(
    ("to", "blocks", "scale"),
    [(5, "", "float"), (4, "", "float"), (3, "block_size = 100,", "float[4]"), (4, "", "float16")],
)
def test_newer_forms_are_written_out_for_an_older_opset(to: int, blocks: str, scale: str) -> None:
    """Integers of 16 bits and blocks are of opset 21."""
    source = scale.removesuffix("[4]")
    before = onnx_ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 21]>
        g ({source}[400] x, {scale} s) => (float[400] y, float[400] z) {{
            q = QuantizeLinear <axis = 0, {blocks} output_dtype = {to}> (x, s)
            d = DequantizeLinear <axis = 0, {blocks.rstrip(",")}> (q, s)
            y = Cast <to = 1> (d) z = Cast <to = 1> (q) }}""".replace(", >", ">")
    )
    older = replace(load_target("onnxruntime-cpu"), name="older", newest_opset=17)
    result = castsmith.optimize(before, target=older)
    assert not [each for each in result.diagnostics if each.severity is castsmith.Severity.ERROR]
    assert result.model.opset_imports[""] <= 17
    feeds = {
        "x": cast(NUMBERS, source),
        "s": cast(np.array([0.3, 0.1, 0.7, 2], np.float32) if blocks else np.array(0.3, np.float32), source),
    }
    for old, new in zip(evaluate(before, feeds), evaluate(result.model, feeds), strict=True):
        assert old.tobytes() == new.tobytes()


@pytest.mark.parametrize(
    ("target", "source", "opset", "stays"),
    [
        ("onnxruntime-cpu", "float16", 23, True),
        ("onnxruntime-cpu", "float16", 21, False),
        ("onnxruntime-cpu", "bfloat16", 23, False),
        ("tensorrt-11", "bfloat16", 21, True),
        ("openvino-cpu", "float16", 23, False),
    ],
)
def test_kernels_that_are_right_are_used(target: str, source: str, opset: int, stays: bool) -> None:
    model = model_of(source, 3, opset)
    result = castsmith.optimize(model, target=target)
    assert stays == any(node.op_type == "QuantizeLinear" for node in result.model.graph)
    found = {each.code for each in castsmith.check(model, target=target)}
    assert stays == (not found & {"target-miscomputes-cast", "target-lacks-kernel"})


def test_tensorrt_11_keeps_its_float8() -> None:
    model = onnx_ir.from_onnx_text("""<ir_version: 10, opset_import: ["": 21]>
        g (float16[4] x, float16 s) => (float16[4] d) {
            q = QuantizeLinear <output_dtype = 17> (x, s) d = DequantizeLinear (q, s) }""")
    result = castsmith.optimize(model, target="tensorrt-11")
    assert [node.op_type for node in result.model.graph] == ["QuantizeLinear", "DequantizeLinear"]
    assert castsmith.check(result.model, target="tensorrt-11") == []


@pytest.mark.parametrize(
    ("to", "source", "attribute"),
    sampled(
        "types of quantizers without that of their scale",
        product(
            ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT8", "UINT16"],
            ["float16", "bfloat16"],
            ["", "saturate = 0,", "saturate = 1,"],
        ),
        24,
        cover=enumerate,
    ),
)
def test_a_target_that_lacks_the_type_of_the_scale_alone(to: str, source: str, attribute: str) -> None:
    """The quotient is cast to the type that the target has, and saturates as the node does."""
    before = onnx_ir.from_onnx_text(f"""<ir_version: 10, opset_import: ["": 23]>
        g ({source}[400] x, {source} s) => (float[400] y) {{
            q = QuantizeLinear <{attribute} output_dtype = {int(DataType[to])}> (x, s) y = Cast <to = 1> (q) }}""")
    lacks = frozenset({DataType[source.upper()]})
    target = Target("t", "", newest_opset=23, newest_ir_version=10, lacks=lacks, kernels={})
    result = castsmith.optimize(before, target=target, interface="wide")
    assert not [each for each in result.diagnostics if each.severity is castsmith.Severity.ERROR]
    casts = [
        node for node in result.model.graph if node.op_type == "Cast" and node.attributes["to"].value == DataType[to]
    ]
    if "FLOAT8" in to:
        stated = 0 if "0" in attribute else 1 if attribute else None
        assert [node.attributes.get_int("saturate") for node in casts] == [stated]
    numbers = cast(NUMBERS * 200, source)
    (old,) = evaluate(before, {"x": numbers, "s": cast(np.float32(0.3), source)})
    wide = {"x": cast(numbers, "float"), "s": cast(cast(np.float32(0.3), source), "float")}
    (new,) = evaluate(result.model, wide)
    assert old.tobytes() == new.tobytes()


@pytest.mark.parametrize("has_cast", [True, False])
def test_a_quotient_needs_a_cast_to_its_type(has_cast: bool) -> None:
    """The target has no QuantizeLinear of float16, and with a Cast of float8e4m3fn it is written out."""
    text = """<ir_version: 10, opset_import: ["": 23]>
        g (float16[4] x, float16 s) => (float8e4m3fn[4] y) { y = QuantizeLinear <output_dtype = 17> (x, s) }"""
    kernels = {DataType.FLOAT16: {"Cast": 1}, DataType.FLOAT8E4M3FN: {"QuantizeLinear": 19}}
    kernels[DataType.FLOAT8E4M3FN] |= {"Cast": 19} if has_cast else {}
    target = Target("t", "", newest_opset=23, newest_ir_version=10, kernels=kernels,
                    probed=frozenset({"Cast", "QuantizeLinear"}))  # fmt: skip
    result = castsmith.optimize(onnx_ir.from_onnx_text(text), target=target, passes=["widen-floats"])
    reason = "QuantizeLinear of float16 to float8e4m3fn"
    assert [each.reason for each in result.refusals] == ([] if has_cast else [reason])
    assert [(each.code, each.message) for each in result.diagnostics] == (
        [] if has_cast else [("no-kernel", f"{reason}, and t has no kernel for it")]
    )
    assert bool(result.rewrites) == has_cast
