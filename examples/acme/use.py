"""With castsmith-acme installed, all that it adds is there by name."""

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
shown = ("drop-probes", "insert-promote-types", "lower-custom")
for rewrite in (*clean.rewrites, *result.rewrites):
    if rewrite.pass_name in shown:
        print(f"{rewrite.pass_name}, {rewrite.site.op}: {rewrite.reason}")
print("passes:", ", ".join(dict.fromkeys(each.pass_name for each in result.rewrites)))
print("domains:", sorted(result.model.opset_imports))
