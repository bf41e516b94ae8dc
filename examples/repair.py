"""Repair a model whose operands disagree: no runtime loads it, and after `optimize` every runtime does."""

import numpy as np
import onnx
import onnx_ir
import onnxruntime

import castsmith

mixed = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["": 21]>
    prices (int64[n] quantity, float[n] price) => (float[n] total) <float[1] tax = {1.2}> {
        net = Mul (quantity, price)
        total = Mul (net, tax)
    }
""")

try:
    onnxruntime.InferenceSession(mixed.SerializeToString(), providers=["CPUExecutionProvider"])
except Exception as error:
    print("before:", str(error).rpartition("Error: ")[2].splitlines()[0])

try:
    castsmith.optimize(mixed)
except castsmith.PromotionError as error:
    print("by default:", str(error).splitlines()[0])

result = castsmith.optimize(mixed, promotion=castsmith.PromotionRules(promote_unsafe=True))
for rewrite in result.rewrites:
    print(f"{rewrite.rule} at {rewrite.site}: {rewrite.reason}")

repaired = onnx_ir.to_proto(result.model)
onnx.checker.check_model(repaired, full_check=True)
session = onnxruntime.InferenceSession(repaired.SerializeToString(), providers=["CPUExecutionProvider"])
feeds = {"quantity": np.array([1, 2, 3]), "price": np.array([0.5, 10, 2], np.float32)}
print("after:", session.run(None, feeds)[0])
