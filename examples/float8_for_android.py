"""Lower float8 for ONNX Runtime on Android, which is built without float8: the same bits from ordinary operators."""

import numpy as np
import onnx
import onnx_ir

import castsmith

model = onnx_ir.from_onnx_text("""
    <ir_version: 10, opset_import: ["": 21]>
    through_float8 (float[4] x) => (float[4] y) {
        small = Cast <to = 17> (x)
        y = Cast <to = 1> (small)
    }
""")

result = castsmith.optimize(model, target="onnxruntime-android")
for rewrite in result.rewrites:
    print(f"{rewrite.rule} at {rewrite.site}: {rewrite.effect.value}")
print("refused:", len(result.refusals), "diagnostics:", len(result.diagnostics))

lowered = onnx_ir.to_proto(result.model)
onnx.checker.check_model(lowered, full_check=True)
kinds = {value.dtype for node in result.model.graph for value in node.outputs}
print("float8 left:", onnx_ir.DataType.FLOAT8E4M3FN in kinds)

verdict = castsmith.verify(model, result.model)
print("same bits:", verdict.same, "on", len(verdict.runs), "sets of adversarial inputs")

castsmith.save(result.model, "for_android.onnx")
x = np.array([0.3, -1.1, 465.0, 1e9], np.float32)
print("what float8e4m3fn makes of", x, "is", castsmith.cast(castsmith.cast(x, "float8e4m3fn"), "float"))
