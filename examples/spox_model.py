"""A model built with spox goes in as it is; spox gives an onnx.ModelProto."""

import numpy as np
import onnx_ir
import spox
import spox.opset.ai.onnx.v21 as op

import castsmith

x = spox.argument(spox.Tensor(np.float16, ("n",)))
wide = op.cast(x, to=np.float32)
back = op.cast(wide, to=np.float16)
model = spox.build({"x": x}, {"y": op.relu(back)})

result = castsmith.optimize(model)
for rewrite in result.rewrites:
    print(f"{rewrite.rule}: {rewrite.reason}")
print("before:", [node.op_type for node in model.graph.node])
print("after:", [node.op_type for node in onnx_ir.to_proto(result.model).graph.node])
