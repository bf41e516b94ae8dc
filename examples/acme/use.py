"""With castsmith-acme installed, its target, preset, pass and lowering are there by name."""

import onnx_ir

import castsmith

model = onnx_ir.from_onnx_text("""
    <ir_version: 10, opset_import: ["": 21, "com.example": 1]>
    g (float16[4] x, int64[4] n) => (float16[4] y) <float scale = {0.5}> {
        sum = Add (x, n)
        seen = com.example.Probe (sum)
        small = com.example.ScaledFloat8Cast (seen, scale)
        y = Cast <to = 10> (small)
    }
""")
clean = castsmith.optimize(model, passes=["drop-probes"])
result = castsmith.optimize(clean.model, target="acme-npu", promotion="acme")
for rewrite in (*clean.rewrites, *result.rewrites):
    print(f"{rewrite.pass_name} at {rewrite.site}: {rewrite.reason}")
print("operators:", sorted({node.op_type for node in result.model.graph}))
print("domains:", sorted(result.model.opset_imports))
