"""A QONNX model, cleaned up by qonnx and made standard operators by castsmith: the same bits in any runtime."""

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from qonnx.core import onnx_exec
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.util.cleanup import cleanup_model

import castsmith

model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 13, "qonnx.custom_op.general": 2]>
    block (float[2, 4] x) => (float[2, 4] y) <
        float s = {0.125}, float t = {0.5}, float zero = {0}, float eight = {8}, float four = {4}
    > {
        q = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, zero, eight)
        y = qonnx.custom_op.general.Trunc <signed = 1, narrow = 0, rounding_mode = "FLOOR"> (q, s, zero, eight, t, four)
    }
""")
clean = cleanup_model(ModelWrapper(model))

result = castsmith.optimize(clean.model, target="onnxruntime-cpu")
for rewrite in result.rewrites:
    print(f"{rewrite.rule} at {rewrite.site}: {rewrite.effect.value}")
print("domains:", sorted({node.domain or "ai.onnx" for node in result.model.graph}))

standard = onnx_ir.to_proto(result.model)
onnx.checker.check_model(standard, full_check=True)
x = np.array([[0.3, -1.2, 0.0625, 99], [0.1875, 7.6, -0.0, np.inf]], np.float32)
expected = onnx_exec.execute_onnx(clean, {"global_in": x})["global_out"]
session = onnxruntime.InferenceSession(standard.SerializeToString(), providers=["CPUExecutionProvider"])
y = np.asarray(session.run(None, {"global_in": x})[0])
print(y)
print("the same bits as qonnx:", y.tobytes() == expected.tobytes())
