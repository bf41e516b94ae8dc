"""A transformer block (attention, MLP, two layer norms) whose weights, activations and key/value cache are float8.

Exported by torch.onnx.export(dynamo=True) with symbolic batch and sequence. Weights are float8e4m3fn and float8e5m2
initializers read through Cast; what enters a linear layer goes through float8e4m3fn and back, and keys and values
through float8e5m2 and back, around power-of-two scales.
What is wrong with it: it is legal and ONNX Runtime runs it, but most other runtimes have no float8 Cast.
The exporter writes no `saturate`, so ONNX saturates (default 1) where PyTorch's float8_e5m2 overflows to infinity: the
oracle is therefore ONNX Runtime running this very model, with optimisation off and one thread, and not PyTorch.
Products with weights are exact in any order of summation (asserted below), so they are the same however a runtime packs
the weights. Norms, softmax, Gelu and the two products inside attention are rounded, and their last bits belong to the
machine: compare a rewritten model with this one in one runtime.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from _build import Arrays, ExactSums, export, run_ort, run_torch, write
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

WIDTH, HEADS = 96, 2
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def through(x: Tensor, dtype: torch.dtype, scale: float, clamp: bool = False) -> Tensor:
    """x as read back from `dtype`, stored times `scale`; `clamp` makes float8e5m2 saturate in PyTorch as in ONNX."""
    x = x * scale
    if clamp:
        x = x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    return x.to(dtype).to(torch.float32) * (1 / scale)


class Float8Linear(nn.Module):
    """y = x W' + b, with W stored in float8 and of few bits, and x passed through float8e4m3fn."""

    def __init__(self, inputs: int, outputs: int, dtype: torch.dtype, scale: float) -> None:
        super().__init__()
        weight = (torch.randn(outputs, inputs) * (2 / math.sqrt(inputs)) * 16).round() / 16
        self.weight = nn.Parameter(weight.to(dtype), requires_grad=False)
        self.bias = nn.Parameter(torch.randn(outputs) / 8)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        x = through(x, E4M3, self.scale)
        return functional.linear(x, self.weight.to(torch.float32)) + self.bias


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        for norm in (self.norm1, self.norm2):
            nn.init.uniform_(norm.weight, 0.5, 2)
            nn.init.uniform_(norm.bias, -0.5, 0.5)
        self.qkv = Float8Linear(WIDTH, 3 * WIDTH, E4M3, 64)
        self.out = Float8Linear(WIDTH, WIDTH, E5M2, 16)
        self.up = Float8Linear(WIDTH, 4 * WIDTH, E4M3, 64)
        self.down = Float8Linear(4 * WIDTH, WIDTH, E5M2, 16)
        self.clamp = False

    def forward(self, x: Tensor) -> Tensor:
        batch, sequence, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, sequence, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        k, v = through(k, E5M2, 2.0**14, self.clamp), through(v, E5M2, 2.0**14, self.clamp)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width // HEADS), -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def inputs() -> list[Arrays]:
    rng = np.random.default_rng(8)
    plain = rng.standard_normal((2, 5, WIDTH), dtype=np.float32)
    zeros = np.zeros((1, 2, WIDTH), np.float32)
    zeros[:, :, 1::2] = -0.0
    outliers = rng.standard_normal((1, 4, WIDTH), dtype=np.float32)
    outliers[0, 0, 3], outliers[0, 1, 5], outliers[0, 2, 7] = 1e4, -3e18, 1e-40
    outliers[0, 3] *= np.float32(1e-41)
    lost = rng.standard_normal((3, 2, WIDTH), dtype=np.float32)
    lost[0, 0, 0], lost[1, 1, 1] = np.nan, np.inf
    return [{"x": case} for case in (plain, zeros, outliers, lost)]


def main() -> None:
    torch.manual_seed(0)
    block, cases = Block(), inputs()
    symbols = {0: Dim("batch"), 1: Dim("sequence")}
    example = (torch.randn(2, 5, WIDTH),)
    model = export(block, example, input_names=["x"], output_names=["y"], dynamic_shapes=(symbols,))
    block.clamp = True
    with ExactSums():
        run_torch(block, model, cases)
    write("float8_transformer", model, run_ort(model, cases))


if __name__ == "__main__":
    main()
