"""A small residual network that stores weights and activations in float16 and float8, and computes in float32.

Exported by torch.onnx.export(dynamo=True, optimize=False): with its optimiser on, the exporter folds casts of small
weights. What is wrong with it: it is legal and runs, but most of its casts are in the way:
  weights      float16 -> float, and float8e4m3fn -> float16 -> float (a chain that is exact)
  activations  float -> float16 -> float between layers (these round: they must stay), once twice in a row (idempotent)
  float -> float identity casts, and float16 -> float -> float16 -> float
  layout operators (pixel unshuffle, flip, concat, flatten) on float16 between two casts
Oracle: PyTorch eager, which ONNX Runtime equals bit for bit: weights and inputs have so few bits that every product and
every partial sum is exact in float32 (asserted below), and so is each batch norm (variance + eps is 1 or 4).
"""

from __future__ import annotations

import numpy as np
import torch
from _build import Arrays, ExactSums, export, run_ort, run_torch, write
from proof import first_difference
from torch import Tensor, nn
from torch.nn import functional

HALF, FULL, TINY = torch.float16, torch.float32, torch.float8_e4m3fn
EPSILON = 2.0**-10


def few_bits(*shape: int, step: float, most: int) -> Tensor:
    """Random multiples of `step`, of at most `most` steps either way."""
    return torch.randint(-most, most + 1, shape) * step


def stored(x: Tensor) -> Tensor:
    """What is left of x after a stay in float16 memory."""
    return x.to(HALF).to(FULL)


class Convolution(nn.Module):
    """A convolution whose weight is stored in float16 or float8, with the batch norm behind it stored in float16."""

    def __init__(self, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        sparse = few_bits(outputs, inputs, 3, 3, step=0.5, most=2) * (torch.rand(outputs, inputs, 3, 3) < 0.1)
        self.weight = nn.Parameter(sparse.to(dtype), requires_grad=False)
        self.norm = nn.BatchNorm2d(outputs, eps=EPSILON)
        self.norm.weight.data = 0.5 * torch.randint(1, 3, (outputs,)).float()
        self.norm.bias.data = few_bits(outputs, step=0.25, most=8) + 96 * (torch.arange(outputs) % 8 == 5)
        self.norm.running_mean = few_bits(outputs, step=0.25, most=4)
        self.norm.running_var = 4.0 ** torch.randint(0, 2, (outputs,)) - EPSILON

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.to(HALF).to(FULL)
        return self.norm(functional.conv2d(x, weight, padding=1))


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolution(12, 16, HALF)
        self.first = Convolution(32, 32, TINY)
        self.second = Convolution(32, 32, HALF)
        head = few_bits(10, 512, step=0.5, most=1) * (torch.rand(10, 512) < 0.04)
        self.head = nn.Parameter(head.to(TINY), requires_grad=False)
        self.bias = nn.Parameter(few_bits(10, step=0.25, most=8).to(HALF), requires_grad=False)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.pixel_unshuffle(image.to(HALF), 2)
        x = functional.relu(self.stem(x.to(FULL)))
        x = functional.max_pool2d(x, 2).to(HALF)
        x = torch.cat([x, x.flip(1)], dim=1).to(FULL).to(FULL, copy=True)
        y = functional.relu(self.first(stored(x)))
        y = self.second(stored(stored(y)))
        x = functional.relu(stored(x) + y)
        features = functional.avg_pool2d(x, 2).to(HALF).flatten(1)
        logits = functional.linear(features.to(FULL), self.head.to(HALF).to(FULL)) + self.bias.to(FULL)
        return logits.to(FULL, copy=True), features


def inputs() -> list[Arrays]:
    rng = np.random.default_rng(11)
    plain = rng.integers(-16, 17, (2, 3, 32, 32)) / 8
    zeros = np.zeros((1, 3, 32, 32))
    zeros[:, :, ::2] = -0.0
    ties = rng.choice([1 + 2**-11, -2 - 2**-10, 16 + 48 * 2**-11, 0.5], (1, 3, 32, 32), p=[0.4, 0.4, 0.05, 0.15])
    edges = rng.choice([0, 1e-40, -2.9e-8, 1.0001, -2049, 0.25], (1, 3, 32, 32), p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    return [{"image": case.astype(np.float32)} for case in (plain, zeros, ties, edges)]


def main() -> None:
    torch.manual_seed(1)
    network = ConvNet().eval()
    cases = inputs()
    model = export(
        network,
        [torch.from_numpy(cases[0]["image"])],
        input_names=["image"],
        output_names=["logits", "features"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        optimize=False,
    )
    with ExactSums():
        results = run_torch(network, model, cases)
    for (_, torchs), (_, runtimes) in zip(results, run_ort(model, cases), strict=True):
        assert not first_difference(dict(runtimes), dict(torchs))
    write("convnet", model, results)


if __name__ == "__main__":
    main()
