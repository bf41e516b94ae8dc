"""A PyTorch module that keeps its weights in float8: they stay a byte each where the runtime has no float8."""

import torch

import castsmith


class Linear8(torch.nn.Module):
    """A layer whose weight is float8 with one scale."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.linspace(-400, 400, 64 * 64).reshape(64, 64).to(torch.float8_e4m3fn)
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.scale = torch.nn.Parameter(torch.tensor(0.125), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight.to(torch.float32) * self.scale)


module, x = Linear8().eval(), torch.ones(2, 64)
# optimize=False: the exporter's own optimizer would unfold small float8 weights to four bytes each.
program = torch.onnx.export(module, (x,), dynamo=True, optimize=False, verbose=False)
assert program is not None
weights = {name: f"{value.dtype} {value.shape}" for name, value in program.model.graph.initializers.items()}
print("exported:", weights)

result = castsmith.optimize(program.model, target="onnxruntime-android")
for rewrite in result.rewrites:
    print(f"{rewrite.rule} at {rewrite.site}: {rewrite.reason}")
for refusal in result.refusals:
    print(f"left as it is, {refusal.rule} at {refusal.site}: {refusal.reason}")
weights = {name: f"{value.dtype} {value.shape}" for name, value in result.model.graph.initializers.items()}
print("now:", weights)

program.model = result.model  # the program goes on as before: it can be called and saved
(y,) = program(x)
print("the same bits as PyTorch:", torch.equal(y, module(x)))
program.save("linear8.onnx")
