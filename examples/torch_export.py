"""From PyTorch to a file that a runtime takes: export, optimize, save."""

import torch

import castsmith


class Head(torch.nn.Module):
    """Passes what it is given through float8."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn).to(torch.float32) @ self.weight


program = torch.onnx.export(Head().eval(), (torch.ones(2, 4),), dynamo=True, verbose=False)
assert program is not None
result = castsmith.optimize(program.model, target="onnxruntime-android")
castsmith.save(result.model, "head.onnx")

for rewrite in result.rewrites:
    print(f"{rewrite.rule}: {rewrite.reason}")
print("operators:", sorted({node.op_type for node in castsmith.load("head.onnx").graph}))
