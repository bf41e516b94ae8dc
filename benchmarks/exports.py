"""Exports that compute with shapes and types: windows, masks, positions, resizing, with dynamic dimensions.

python benchmarks/exports.py FOLDER      needs torch and onnxscript

Each model is exported twice, with the exporter's own optimization and without.
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.export import Dim


class Windows(nn.Module):
    """Attention within windows of an image that is rolled, as in Swin."""

    def __init__(self, width: int = 16, window: int = 4) -> None:
        super().__init__()
        self.window, self.qkv = window, nn.Linear(width, 3 * width)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2))
        place = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        offset = place[:, :, None] - place[:, None, :] + window - 1
        self.register_buffer("index", offset[0] * (2 * window - 1) + offset[1])

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        size = self.window
        x = torch.roll(x, (-size // 2, -size // 2), (1, 2))
        x = x.view(batch, height // size, size, width // size, size, channels)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, channels)
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = q @ k.transpose(1, 2) / channels**0.5 + self.bias[self.index.view(-1)].view(size * size, -1)
        return weights.softmax(-1) @ v


class Masked(nn.Module):
    """Positions, and a mask made from lengths and from the order of the tokens."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, width), nn.Embedding(64, width)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places)
        padding = places[None, :] < lengths[:, None]
        order = places[None, :] <= places[:, None]
        mask = (padding[:, None, :] & order[None]).to(x.dtype)
        scores = x @ x.transpose(1, 2) + (1 - mask) * torch.finfo(x.dtype).min
        return scores.softmax(-1) @ x


class Resized(nn.Module):
    """Convolutions at half the size, brought to the size of the input by numbers computed from its shape."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        small = functional.relu(self.down(x))
        return self.up(functional.interpolate(small, size=(height, width), mode="nearest")) + x


class Pooled(nn.Module):
    """A mean over as many elements as there are, in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x.float()).to(torch.float16)
        total = x.sum(1) / torch.tensor(x.shape[1]).to(torch.float16)
        return self.head(total.float()).half()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    batch, length = Dim("batch", min=2, max=64), Dim("length", min=2, max=64)
    cases = {
        "windows": (Windows(), (torch.randn(2, 16, 16, 16),), ({0: batch},)),
        "windows_fixed": (Windows(), (torch.randn(2, 16, 16, 16),), None),
        "masked": (Masked(), (torch.randint(0, 50, (2, 9)), torch.tensor([9, 5])), ({0: batch, 1: length}, {0: batch})),
        "masked_fixed": (Masked(), (torch.randint(0, 50, (2, 9)), torch.tensor([9, 5])), None),
        "resized": (Resized(), (torch.randn(2, 3, 16, 16),), ({0: batch},)),
        "pooled": (Pooled(), (torch.randn(2, 7, 16).half(),), ({0: batch, 1: length},)),
    }
    for name, (model, inputs, shapes) in cases.items():
        for optimize in (True, False):
            path = folder / f"{name}{'' if optimize else '_as_is'}.onnx"
            torch.onnx.export(
                model.eval(), inputs, path, dynamo=True, dynamic_shapes=shapes, optimize=optimize, external_data=False
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
