"""Blocked formats in standard QuantizeLinear and DequantizeLinear, optimized: the bits of the reference."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import onnx
import onnx.checker
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from tests.evaluator import evaluate
from tests.lowering.runtime import LEVELS, errors, run, session
from tests.sampling import sampled

FORMATS: dict[str, tuple[DataType, DataType, int, int]] = {
    "MXFP8 e4m3": (DataType.FLOAT8E4M3FN, DataType.FLOAT8E8M0, 32, 24),
    "MXFP8 e5m2": (DataType.FLOAT8E5M2, DataType.FLOAT8E8M0, 32, 24),
    "MXFP6 e2m3": (DataType.FLOAT6E2M3, DataType.FLOAT8E8M0, 32, 28),
    "MXFP6 e3m2": (DataType.FLOAT6E3M2, DataType.FLOAT8E8M0, 32, 28),
    "MXFP4": (DataType.FLOAT4E2M1, DataType.FLOAT8E8M0, 32, 24),
    "NVFP4": (DataType.FLOAT4E2M1, DataType.FLOAT8E4M3FN, 16, 24),
    "int4": (DataType.INT4, DataType.FLOAT, 16, 25),
    "uint4": (DataType.UINT4, DataType.FLOAT, 16, 25),
    "int2": (DataType.INT2, DataType.FLOAT, 16, 25),
    "uint2": (DataType.UINT2, DataType.FLOAT, 16, 25),
}
SIZES = {32: 70, 16: 40}
"""Sizes whose last block is shorter: two blocks of 32 and one of 6, two of 16 and one of 8."""


def model_of(name: str, axis: int, at_run_time: bool) -> tuple[onnx.ModelProto, np.ndarray]:
    """Return a model that uses stored weights of the format and quantizes its input to it, and that input.

    at_run_time: the scales are an input of the model and not constant.
    """
    dtype, scale_type, block, opset = FORMATS[name]
    rng, blocks = np.random.default_rng(zlib.crc32(name.encode())), -(-SIZES[block] // block)
    shape, scales = ((SIZES[block], 3), (blocks, 3)) if axis == 0 else ((3, SIZES[block]), (3, blocks))
    x = rng.normal(0, 40, shape).astype(np.float32)
    # Weights are numbers of the format, scales powers of two: every product and sum is exact in any order.
    weight = rng.integers(0, 2, shape).astype(np.float32)
    of_scales = (2.0 ** rng.integers(-3, 4, scales)).astype(np.float32)
    attributes = f"axis = {axis}, block_size = {block}, output_dtype"
    dims, sdims = ",".join(map(str, shape)), ",".join(map(str, scales))
    inputs = f"float[{dims}] x" + (f", float[{sdims}] f" if at_run_time else "")
    scale = f"s = Cast <to = {int(scale_type)}> (f)" if at_run_time else ""
    level = "t = DequantizeLinear (s, global)" if name == "NVFP4" else "t = Identity (s)"
    model = onnx.parser.parse_model(f"""<ir_version: 14, opset_import: ["": {opset}]>
        g ({inputs}) => (float[{dims}] w, float[{dims}] y) <float global = {{0.125}}> {{
            {scale} {level}
            w = DequantizeLinear <{attributes} = 1> (stored, t)
            q = QuantizeLinear <{attributes} = {int(dtype)}> (x, t)
            y = DequantizeLinear <{attributes} = 1> (q, t)
        }}""")
    tensors = {"stored": (weight, dtype), **({} if at_run_time else {"s": (of_scales, scale_type)})}
    for key, (array, kind) in tensors.items():
        tensor = onnx_ir.tensor(array.astype(kind.numpy()), name=key, dtype=kind)
        model.graph.initializer.append(onnx_ir.to_proto(tensor))
    onnx.checker.check_model(model, full_check=True)
    return model, of_scales if at_run_time else x


@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name][3] <= onnx.defs.onnx_opset_version()])
def test_every_format_gives_the_bits_of_the_reference(name: str):
    ways = itertools.product((0, 1), (False, True), ("onnxruntime-android", "onnxruntime-cpu"))
    for axis, at_run_time, target in sampled(f"blocked formats [{name}]", ways, 3, cover=enumerate):
        model, array = model_of(name, axis, at_run_time)
        feeds = {"f" if at_run_time else "x": array}
        if at_run_time:
            shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
            feeds["x"] = np.random.default_rng(1).normal(0, 40, shape).astype(np.float32)
        wanted = evaluate(onnx_ir.from_proto(model), feeds)
        assert len(np.unique(wanted[1])) > 3
        result = castsmith.optimize(model, target=target)
        assert not errors(result.model, target=target), target
        proto = onnx_ir.to_proto(result.model)
        for level in LEVELS:
            found = run(session(proto, level), feeds)
            assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted], (target, axis)
