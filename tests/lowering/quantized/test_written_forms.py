"""Quantizers and products as operators of vendors: each form that is written, what is left alone, what is refused."""

from __future__ import annotations

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

RNG = np.random.default_rng(0)
CPU = load_target("onnxruntime-cpu")
CODES, POINTS = RNG.integers(-8, 8, (64, 3)), RNG.integers(-8, 8, (2, 3))
SCALES = np.array([[0.5, 1, 2], [0.25, 4, 1]], np.float32)
HELD: dict[str, Any] = {
    "q": CODES.astype(ml_dtypes.int4), "z": POINTS.astype(ml_dtypes.int4), "s": SCALES,
    "qt": CODES.T.astype(ml_dtypes.int4), "st": np.ascontiguousarray(SCALES.T),
    "short": POINTS[:1].astype(ml_dtypes.int4), "st64": np.ones((64, 1), np.float32),
    "f8": CODES.astype(ml_dtypes.float8_e4m3fn), "flat": SCALES.reshape(-1), "row": SCALES[0],
    "zt": np.ascontiguousarray(POINTS.T).astype(ml_dtypes.int4),
}  # fmt: skip


def held_in(body: str) -> dict[str, Any]:
    """Return the constants that the text names."""
    names = set(body.replace(",", " ").replace("(", " ").replace(")", " ").split())
    return {name: array for name, array in HELD.items() if name in names}


W = "w = DequantizeLinear <axis = 0, block_size = 32> (q, s)"
WT = "d = DequantizeLinear <axis = 1, block_size = 32> (qt, st)"
MADE = ["MatMulNBits"]
ALONG = "the blocks lie along the outputs of the product, not along its sums"
PRODUCTS: list[tuple[str, list[str] | str]] = [
    (f"{W} y = MatMul (x, w)", MADE),
    (f"{W} y = Gemm <alpha = 1.0, beta = 1.0> (x, w)", MADE),
    (f"{W} y = Gemm (x, w, c)", ["MatMulNBits", "Add"]),
    (f"{WT} y = Gemm <transB = 1> (x, d)", MADE),
    (f"{WT} w = Transpose <perm = [1, 0]> (d) y = MatMul (x, w)", MADE),
    (f"{W} d = Transpose <perm = [1, 0]> (w) y = Gemm <transB = 1> (x, d)", MADE),
    ("w = DequantizeLinear <axis = -2, block_size = 32> (q, s, z) y = MatMul (x, w)", MADE),
    ("d = DequantizeLinear <axis = -1, block_size = 32> (qt, st, zt) y = Gemm <transB = 1> (x, d)", MADE),
    ("d = DequantizeLinear <block_size = 32> (qt, st) y = Gemm <transB = 1> (x, d)", MADE),
    # Constants behind Identity, Transpose and Reshape.
    ("zi = Identity (z) w = DequantizeLinear <axis = 0, block_size = 32> (q, s, zi) y = MatMul (x, w)", MADE),
    ("zi = Transpose <perm = [1, 0]> (zt) w = DequantizeLinear <axis = 0, block_size = 32> (q, s, zi)"
     " y = MatMul (x, w)", MADE),
    ("sh = Constant <value_ints = [2, 3]> () si = Reshape (flat, sh)"
     " w = DequantizeLinear <axis = 0, block_size = 32> (q, si) y = MatMul (x, w)", MADE),
    # Scales that are computed.
    ("t = Mul (s, two) w = DequantizeLinear <axis = 0, block_size = 32> (q, t) y = MatMul (x, w)",
     ["Mul", "Transpose", "MatMulNBits"]),
    ("t = Mul (st, two) d = DequantizeLinear <axis = 1, block_size = 32> (qt, t) y = Gemm <transB = 1> (x, d)",
     ["Mul", "MatMulNBits"]),
    ("t = Mul (st, two) v = Transpose <perm = [1, 0]> (t) w = DequantizeLinear <axis = 0, block_size = 32> (q, v)"
     " y = MatMul (x, w)", ["Mul", "MatMulNBits"]),
    # Left alone: other products, other layouts, other types.
    (f"{W} y = Gemm <alpha = 2.0> (x, w)", []), (f"{W} y = Gemm <beta = 0.5> (x, w, c)", []),
    (f"{W} t = Identity (x) y = Gemm <transA = 1> (u, w)", []), (f"{W} y = Add (w, w)", []),
    ("w = DequantizeLinear <axis = 1> (q, row) y = MatMul (x, w)", []),
    ("w = DequantizeLinear <axis = 0, block_size = 32> (f8, s) y = MatMul (x, w)", []),
    # Refused.
    ("w = DequantizeLinear <axis = 1, block_size = 3> (q, st64) y = MatMul (x, w)", ALONG),
    ("w = DequantizeLinear <axis = 0, block_size = 32> (q, s, short) y = MatMul (x, w)",
     "input 2 of DequantizeLinear has the shape [1, 3], expected [2, 3]"),
    ("w = DequantizeLinear <axis = 0, block_size = 32> (q, flat) y = MatMul (x, w)",
     "input 1 of DequantizeLinear has the shape [6], expected [2, 3]"),
    (f"{W} p = MatMul (x, w) l = Shape (q) y = Reshape (p, l)",
     "q is also used by Shape, so that it would be stored twice"),
    (f"{W} p = MatMul (x, w) l = MatMul (w, g) y = Reshape (p, m)",
     "q is also used by MatMul, so that it would be stored twice"),
    (f"{W} v = Transpose <perm = [1, 0]> (w) r = Relu (v) p = MatMul (x, w) y = Sum (p, m)",
     "q is also used by Relu, so that it would be stored twice"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "made"), PRODUCTS)
def test_products_with_quantized_weights(body: str, made: list[str] | str) -> None:
    inputs = "float[2,64] x, float[64,2] u, float[3] c, float two, float[3,1] g, int64[2] m"
    model = model_of(f"g ({inputs}) => (float[a,b] y) {{ {body} }}", 21, **held_in(body))
    before = onnx_ir.to_proto(model)
    result = castsmith.optimize(model, target=CPU, vendor="com.microsoft", passes=["use-vendor"])
    assert [each.reason for each in result.refusals] == ([made] if isinstance(made, str) else [])
    after = onnx_ir.to_proto(result.model)
    if not made or isinstance(made, str):
        assert not result.rewrites
        return
    names = [each.op_type for each in after.graph.node]
    assert [name for name in names if name not in ("Identity", "Constant", "Reshape")] == made
    feeds = {
        "x": RNG.integers(0, 2, (2, 64)).astype(np.float32), "c": np.array([1, 2, 3], np.float32),
        "two": np.array(2, np.float32), "u": np.zeros((64, 2), np.float32), "g": np.zeros((3, 1), np.float32),
        "m": np.array([2, 3]),
    }  # fmt: skip
    wanted, got = (run(session(proto), feeds)[0] for proto in (before, after))
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("opset", "output", "body", "reason"),
    [
        (23, "y", "w = DequantizeLinear <axis = 0, block_size = 32, output_dtype = 1> (q, h) y = MatMul (x, w)",
         "MatMulNBits has no input of float with scales of float16"),
        (21, "w", f"{W} y = MatMul (x, w)",
         "q is also used by the outputs of a graph, so that it would be stored twice"),
        (21, "y", "y = local.f <b = 32> (x, q, s)",
         "block_size of DequantizeLinear is a parameter of the enclosing function"),
    ],
)  # fmt: skip
def test_products_whose_weights_are_kept(opset: int, output: str, body: str, reason: str) -> None:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"the installed onnx has no opset {opset}")
    function = """<domain: "local", opset_import: ["" : 21]> f <b> (x, q, s) => (y)
        { w = DequantizeLinear <axis = 0, block_size: int = @b> (q, s) y = MatMul (x, w) }"""
    held = {**held_in(body), **({"h": SCALES.astype(np.float16)} if "h)" in body else {})}
    more = function if "local" in body else ""
    model = model_of(f"g (float[2,64] x) => (float[a,b] {output}) {{ {body} }}", opset, more, **held)
    result = castsmith.optimize(model, target=CPU, vendor="com.microsoft", passes=["use-vendor"])
    assert {each.reason for each in result.refusals} == {reason}
    assert not result.rewrites
