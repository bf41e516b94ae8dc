"""Weights of 4 bits as ONNX Runtime's quantizer writes them, in standard operators, and back."""

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

import castsmith

rng = np.random.default_rng(0)
model = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["": 21]>
    two_layers (float[N, 100] x) => (float[N, 24] y) {
        hidden = MatMul (x, first)
        y = MatMul (hidden, second)
    }
""")
for name, shape in (("first", (100, 40)), ("second", (40, 24))):
    model.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(0, 1, shape).astype(np.float32), name))
quantizer = MatMulNBitsQuantizer(model, bits=4, block_size=32, is_symmetric=False)
quantizer.process()
quantized = quantizer.model.model  # pyright: ignore[reportAttributeAccessIssue]

standard = castsmith.optimize(quantized, target="tflite", passes=["lower-custom"]).model
back = castsmith.optimize(standard, target="onnxruntime-cpu", vendor="com.microsoft").model

x = rng.normal(0, 1, (3, 100)).astype(np.float32)
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # do not round the inputs to int8
outputs = []
for each in (quantized, onnx_ir.to_proto(standard), onnx_ir.to_proto(back)):
    session = onnxruntime.InferenceSession(each.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs.append(np.asarray(session.run(None, {"x": x})[0]))
    print(*(node.op_type for node in each.graph.node))
print("standard operators: the same to 1 in 100,000:", np.allclose(outputs[1], outputs[0], rtol=0, atol=1e-4))
print("and back: the same bits:", np.array_equal(outputs[2], outputs[0]))
