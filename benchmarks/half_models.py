"""Half-precision models to count casts in: PyTorch autocast exports, and conversions by onnxconverter-common.

python benchmarks/half_models.py FOLDER      needs torch and onnxscript; onnxconverter-common for the conversions
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """A transformer block with a causal mask. Its heads and softmax are made float, as models write it that were not
    written for autocast, under which the products go back to half."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.norm, self.after = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(batch, length, 3, self.heads, width // self.heads).unbind(2)
        q, k, v = (part.float().transpose(1, 2) for part in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = scores.float().masked_fill(~mask, -1e4).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.after(x))


class Residual(nn.Module):
    """A small ResNet with residuals in float. Where it halves the image, the shortcut takes every second pixel and pads
    the channels with zeros ("option A" of the ResNet paper)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        sizes = ((width, 2 * width, 2), *[(2 * width, 2 * width, 1)] * 3)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, stride=stride) for a, b, stride in sizes)
        self.head = nn.Linear(2 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        for first, second in zip(self.convs[::2], self.convs[1::2], strict=True):
            shortcut = x.float()
            if first.stride == (2, 2):
                more = (first.out_channels - first.in_channels) // 2
                shortcut = nn.functional.pad(shortcut[:, :, ::2, ::2], (0, 0, 0, 0, more, more))
            x = (shortcut + second(first(x).relu()).float()).relu()
        return self.head(x.mean((2, 3))).float().softmax(-1)


class UNet(nn.Module):
    """Down, up to the nearest pixel, and a skip between that is joined in float."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.larger, self.up = nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x).relu()
        middle = self.larger(self.middle(nn.functional.max_pool2d(skip, 2)).relu())
        return self.up(torch.cat([skip.float(), middle.float()], 1)).float().sigmoid()


def export(folder: Path) -> None:
    """Write each model as float, under autocast to both half types, and converted."""
    torch.manual_seed(0)
    image = torch.randn(1, 3, 16, 16)
    models = {
        "transformer": (Attention(), torch.randn(2, 8, 32)),
        "resnet": (Residual(), image),
        "unet": (UNet(), image),
    }
    for name, (model, example) in models.items():
        for kind, dtype in (("float", None), ("float16", torch.float16), ("bfloat16", torch.bfloat16)):
            path = folder / f"{name}_{kind}.onnx"
            with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                program = torch.onnx.export(model.eval(), (example,), dynamo=True, optimize=False, opset_version=23)
            assert program is not None
            program.save(path, external_data=False)
            print(path, flush=True)


def convert(folder: Path) -> None:
    """Convert the float models with onnxconverter-common, with and without operators kept in float."""
    from onnxconverter_common import float16

    blocked = [*float16.DEFAULT_OP_BLOCK_LIST, "Softmax", "LayerNormalization", "ReduceMean", "Sigmoid"]
    for path in sorted(folder.glob("*_float.onnx")):
        for kind, blocks in (("converted", None), ("mixed", blocked)):
            model = onnx.shape_inference.infer_shapes(onnx.load(path))
            half = float16.convert_float_to_float16(model, keep_io_types=True, op_block_list=blocks)
            onnx.save(half, folder / path.name.replace("_float", f"_{kind}"))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) < 3 or sys.argv[2] == "export":
        export(target)
    if len(sys.argv) < 3 or sys.argv[2] == "convert":
        convert(target)
