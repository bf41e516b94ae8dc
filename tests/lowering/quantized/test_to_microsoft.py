"""QuantizeLinear and DequantizeLinear as operators of vendors: by opset, layout and type, and the text of refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx.defs
import onnx_ir
import pytest

import castsmith
from castsmith.targets.target import load_target
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import run, session

CPU = load_target("onnxruntime-cpu")
ONE, FOUR = np.array(0.5, np.float32), np.array([0.5, 0.25, 2, 1], np.float32)
HELD: dict[str, Any] = {
    "s": ONE, "s1": ONE.reshape(1), "s4": FOUR, "s44": np.ones((2, 4), np.float32), "h": ONE.astype(np.float16),
    "z8": np.array(3, np.uint8), "z84": np.array([1, 2, 3, 4], np.uint8), "i8": np.array([-1, 2, -3, 4], np.int8),
    "z16": np.array([5, 6, 7, 8], np.uint16), "q4": np.arange(-8, 8).reshape(4, 4).astype(ml_dtypes.int4),
    "f8": np.ones((4, 4), ml_dtypes.float8_e4m3fn), "z4": np.zeros((), ml_dtypes.int4),
    "z17": np.array(1, ml_dtypes.float8_e4m3fn),
}  # fmt: skip
FLOAT_ALONE = "rounds other types than float in another place"
Row = tuple[int, int, str, list[str] | str]
ROWS: list[Row] = [
    # uint8 with an axis needs opset 13, without one 10; other types 21.
    (13, 12, "q = QuantizeLinear <axis = 0> (x, s4, z84) y = Cast <to = 1> (q)", ["axis", "uint8 needs 13"]),
    (13, 12, "q = QuantizeLinear <axis = 1> (x, s4, i8) y = Cast <to = 1> (q)", ["axis", "int8 needs 13"]),
    (13, 12, "q = QuantizeLinear (x, s, z8) y = Cast <to = 1> (q)", []),
    (13, 12, "q = QuantizeLinear (x, s1, z8) y = Cast <to = 1> (q)", []),
    (13, 13, "q = QuantizeLinear <axis = 0> (x, s4, z84) y = Cast <to = 1> (q)", []),
    (13, 9, "q = QuantizeLinear (x, s, z8) y = DequantizeLinear (q, s, z8)",
     ["", "uint8 needs 10", "", "uint8 needs 10"]),
    (21, 20, "q = QuantizeLinear <axis = 0> (x, s4, z16) y = DequantizeLinear <axis = 0> (q, s4, z16)",
     ["axis", "uint16 needs 21", "axis", "uint16 needs 21"]),
    (21, 21, "q = QuantizeLinear <axis = 0> (x, s4, z16) y = DequantizeLinear <axis = 0> (q, s4, z16)", []),
    (21, 17, "q = QuantizeLinear <output_dtype = 5> (x, s4) y = Cast <to = 1> (q)", ["axis", "int16 needs 21"]),
    (21, 17, "d = DequantizeLinear (q4, s, z4) y = Add (x, d)", ["", "int4 needs 21"]),
    (21, 17, "q = QuantizeLinear <output_dtype = 5> (x, s44) y = Cast <to = 1> (q)",
     "the rank of the scale s44 is unknown, or above 1"),
    (21, 17, "q = QuantizeLinear <axis = 0, block_size = 2, output_dtype = 5> (x, s44) y = Cast <to = 1> (q)",
     "com.microsoft.QuantizeLinear has no blocks"),
    (21, 17, "t = Relu (n) q = QuantizeLinear <output_dtype = 5> (x, n) y = Cast <to = 1> (q)",
     "the number of scales in n is unknown"),
    (21, 17, "q = QuantizeLinear <output_dtype = 4> (x, h) y = Cast <to = 1> (q)",
     f"com.microsoft.QuantizeLinear {FLOAT_ALONE}"),
    (23, 17, "q = QuantizeLinear <output_dtype = 5, precision = 10> (x, s) y = Cast <to = 1> (q)",
     f"com.microsoft.QuantizeLinear {FLOAT_ALONE}"),
    (23, 17, "q = QuantizeLinear <output_dtype = 5, precision = 1> (x, s) y = Cast <to = 1> (q)",
     ["", "int16 needs 21"]),
    (23, 17, "d = DequantizeLinear <output_dtype = 10> (q4, s) y = Cast <to = 1> (d)",
     f"com.microsoft.DequantizeLinear {FLOAT_ALONE}"),
    (23, 17, "d = DequantizeLinear <output_dtype = 1> (q4, s) y = Add (x, d)", ["", "int4 needs 21"]),
    (21, 17, "d = DequantizeLinear (q4, h) y = Cast <to = 1> (d)", f"com.microsoft.DequantizeLinear {FLOAT_ALONE}"),
    (21, 17, "d = DequantizeLinear (f8, s) y = Add (x, d)", []),
]  # fmt: skip


def held_in(body: str) -> dict[str, Any]:
    names = set(body.replace(",", " ").replace("(", " ").replace(")", " ").split())
    return {name: array for name, array in HELD.items() if name in names}


@pytest.mark.parametrize(("opset", "newest", "body", "made"), ROWS)
def test_quantizers_for_targets_of_older_opsets(opset: int, newest: int, body: str, made: list[str] | str) -> None:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"the installed onnx has no opset {opset}")
    model = model_of(f"g (float[4,4] x, float[n] n) => (float[4,4] y) {{ {body} }}", opset, **held_in(body))
    before = onnx_ir.to_proto(model)
    target = replace(CPU, name="old", newest_opset=newest)
    result = castsmith.optimize(model, target=target, vendor="com.microsoft", passes=["use-vendor"])
    if isinstance(made, str):
        assert [each.reason for each in result.refusals] == [made]
        assert not result.rewrites
        return
    assert not result.refusals
    found = [text for each in result.model.graph if each.domain for text in ["".join(each.attributes)]]
    assert found == made[::2]
    reasons = [each.reason for each in result.rewrites]
    assert reasons == [f"old takes opset {newest}; {text}, or this" for text in made[1::2]]
    feeds = {"x": np.linspace(-70, 9000, 16, dtype=np.float32).reshape(4, 4), "n": FOUR}
    proto = onnx_ir.to_proto(result.model)
    wanted, got = (run(session(each), feeds)[0] for each in (before, proto))
    assert got.tobytes() == wanted.tobytes()


TRT: list[tuple[int, str, list[str] | str]] = [
    (21, "q = QuantizeLinear <output_dtype = 17> (x, s) y = DequantizeLinear (q, s)",
     ["TRT_FP8QuantizeLinear", "TRT_FP8DequantizeLinear"]),
    (21, "q = QuantizeLinear <output_dtype = 17, axis = 0> (x, s4) y = DequantizeLinear <axis = 0> (q, s4)",
     ["TRT_FP8QuantizeLinear axis=0", "TRT_FP8DequantizeLinear axis=0"]),
    (21, "q = QuantizeLinear <output_dtype = 17> (x, s1) y = DequantizeLinear (q, s1)",
     ["TRT_FP8QuantizeLinear axis=1", "TRT_FP8DequantizeLinear axis=1"]),
    (21, "d = DequantizeLinear <axis = 0, block_size = 2> (q4, s44) y = Add (x, d)",
     ["TRT_INT4DequantizeLinear axis=0 block_size=2", "Add"]),
    (21, "d = DequantizeLinear (q4, s, z4) y = Add (x, d)", ["TRT_INT4DequantizeLinear", "Add"]),
    (21, "q = QuantizeLinear (x, s, z8) y = DequantizeLinear (q, s, z8)", ["QuantizeLinear", "DequantizeLinear"]),
    (23, "q = QuantizeLinear <output_dtype = 17, precision = 1> (x, s) y = DequantizeLinear (q, s)",
     ["TRT_FP8QuantizeLinear", "TRT_FP8DequantizeLinear"]),
    (23, "q = QuantizeLinear <output_dtype = 17, precision = 10> (x, s) y = Cast <to = 1> (q)",
     "TensorRT has no attribute precision"),
    (21, "q = QuantizeLinear <output_dtype = 17> (x, s, z17) y = Cast <to = 1> (q)",
     "TensorRT supports only zero points that are constant zeros"),
    (21, "h2 = Cast <to = 10> (x) q = QuantizeLinear <output_dtype = 17> (h2, s) y = Cast <to = 1> (q)",
     "trt has no QuantizeLinear whose scales have a different type from the numbers"),
    (23, "h2 = Cast <to = 10> (x) q = QuantizeLinear <output_dtype = 17, precision = 1> (h2, s) y = Cast <to = 1> (q)",
     "trt has no QuantizeLinear whose scales have a different type from the numbers"),
    (23, "d = DequantizeLinear <output_dtype = 10> (f8, s) y = Cast <to = 1> (d)",
     "trt has no DequantizeLinear whose scales have a different type from the numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "body", "made"), TRT)
def test_quantizers_for_tensorrt(opset: int, body: str, made: list[str] | str) -> None:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"the installed onnx has no opset {opset}")
    held = held_in(body)
    model = model_of(f"g (float[4,4] x) => (float[4,4] y) {{ {body} }}", opset, **held)
    result = castsmith.optimize(model, target="tensorrt-11", vendor="trt", passes=["use-vendor"])
    if isinstance(made, str):
        assert [each.reason for each in result.refusals] == [made]
        return
    assert not result.refusals
    assert [
        " ".join(
            [each.op_type, *sorted(f"{key}={value.value}" for key, value in each.attributes.items() if each.domain)]
        )
        for each in result.model.graph
    ] == made
