"""An array program traced by ndonnx: uint16 goes through int32, as ONNX Runtime has no Min and Max of it."""

import ndonnx as ndx
import onnx_ir

import castsmith

x = ndx.argument(shape=("n",), dtype=ndx.uint16)
low = ndx.argument(shape=("n",), dtype=ndx.uint16)
clipped = ndx.maximum(ndx.minimum(x, low), low)
model = ndx.build({"x": x, "low": low}, {"clipped": clipped})

result = castsmith.optimize(model)
for rewrite in result.rewrites:
    print(f"{rewrite.rule}: {rewrite.reason}")
print("before:", [node.op_type for node in model.graph.node])
print("after:", [node.op_type for node in onnx_ir.to_proto(result.model).graph.node])
