"""A network quantized with Brevitas, for a runtime that knows no QONNX: Quant and Trunc become standard operators."""

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import torch
from brevitas.export import export_qonnx
from brevitas.nn import QuantConv2d, QuantIdentity, QuantReLU, TruncAvgPool2d

import castsmith


class Network(torch.nn.Module):
    """A convolution with weights of 4 bits and activations of 8 and 4."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            QuantIdentity(bit_width=8, return_quant_tensor=True),
            QuantConv2d(1, 2, 3, weight_bit_width=4, bias=False),
            QuantReLU(bit_width=4, return_quant_tensor=True),
            TruncAvgPool2d(2, bit_width=3, return_quant_tensor=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


torch.manual_seed(0)
network, x = Network().eval(), torch.randn(1, 1, 6, 6)
model = export_qonnx(network, args=x, verbose=False)
print("exported:", [node.op_type for node in model.graph.node])

result = castsmith.optimize(model, target="onnxruntime-cpu")
for rewrite in result.rewrites:
    print(f"{rewrite.rule} at {rewrite.site}: {rewrite.effect.value}")
print("domains:", sorted({node.domain or "ai.onnx" for node in result.model.graph}))

standard = onnx_ir.to_proto(result.model)
onnx.checker.check_model(standard, full_check=True)
session = onnxruntime.InferenceSession(standard.SerializeToString(), providers=["CPUExecutionProvider"])
y = np.asarray(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
print(y[0, 0])
print("the same as Brevitas:", torch.equal(torch.from_numpy(y), network(x)))
