"""After onnxconverter-common has made a model float16: the casts that it left around a Slice are not needed."""

import onnx
from onnxconverter_common import float16

import castsmith

model = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["": 17]>
    g (float[8, 64] x) => (float[1, 64] y) <int64[1] start = {7}, int64[1] end = {8}, int64[1] axis = {0}> {
        a = Exp (x)
        last = Slice (a, start, end, axis)
        y = Relu (last)
    }
""")
half = float16.convert_float_to_float16(model, keep_io_types=True, op_block_list=["Slice"])
result = castsmith.optimize(half)
for rewrite in result.rewrites:
    print(f"{rewrite.rule}: {rewrite.reason}")
print("before:", [node.op_type for node in half.graph.node])
print("after:", [node.op_type for node in result.model.graph])
