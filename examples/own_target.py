"""A target of your own is a JSON file; `target=` takes its path as well as a name."""

from pathlib import Path

import onnx_ir

import castsmith

Path("tiny-runtime.json").write_text("""{
    "name": "tiny-runtime",
    "description": "A runtime of our own for a small device",
    "evidence": "its manual: opset 18, no float8, no double",
    "newest_opset": 18,
    "newest_ir_version": 9,
    "types": ["bool", "int8", "uint8", "int32", "int64", "float16", "float"],
    "kernels": []
}""")
tiny = castsmith.load_target("tiny-runtime.json")

model = onnx_ir.from_onnx_text("""
    <ir_version: 10, opset_import: ["": 19]>
    g (float[4] x) => (float[4] y) { small = Cast <to = 17> (x)  back = Cast <to = 1> (small)  y = Relu (back) }
""")
result = castsmith.optimize(model, target=tiny)
print(tiny.name, "has float8e4m3fn:", onnx_ir.DataType.FLOAT8E4M3FN in tiny.types)
for rewrite in result.rewrites:
    print(f"{rewrite.rule} at {rewrite.site}: {rewrite.reason}")
print("opset", result.model.opset_imports[""], "IR version", result.model.ir_version)
