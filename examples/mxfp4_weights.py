"""Weights in MXFP4: numbers of 4 bits with a scale of 8 bits for each 32, as standard operators, for a phone."""

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from onnx_ir import DataType

import castsmith

BLOCK = 32
weights = np.random.default_rng(0).normal(0, 1, (64, 3)).astype(np.float32)
blocks = np.abs(weights).reshape(-1, BLOCK, 3).max(axis=1)
scales = castsmith.cast(2.0 ** (np.floor(np.log2(blocks)) - 2), "float8e8m0")  # 2**2: the exponent of 6, the largest
spread = np.repeat(castsmith.cast(scales, "float"), BLOCK, axis=0)
stored = castsmith.cast(weights / spread, "float4e2m1")

model = onnx.parser.parse_model(f"""
    <ir_version: 12, opset_import: ["": 24]>
    mxfp4 (float[N, 64] x) => (float[N, 3] y) {{
        w = DequantizeLinear <axis = 0, block_size = {BLOCK}, output_dtype = 1> (stored, scales)
        y = MatMul (x, w)
    }}
""")
for name, array, dtype in (("stored", stored, DataType.FLOAT4E2M1), ("scales", scales, DataType.FLOAT8E8M0)):
    model.graph.initializer.append(onnx_ir.to_proto(onnx_ir.tensor(array, name=name, dtype=dtype)))
onnx.checker.check_model(model, full_check=True)

for growth in (4096, 0):  # bytes by which folding may grow the file: 4096 is the default
    result = castsmith.optimize(model, target="onnxruntime-android", max_growth=growth)
    proto = onnx_ir.to_proto(result.model)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    y = np.asarray(session.run(None, {"x": np.eye(64, dtype=np.float32)})[0])
    kinds = [node.op_type for node in result.model.graph]
    exact = np.array_equal(y, castsmith.cast(stored, "float") * spread)
    print("folded:" if growth else "lowered:", *kinds)
    print("the products of codes and scales:", exact)
