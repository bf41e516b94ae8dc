"""Polynomial calibration of an integer sensor code: pow with base and exponent of different types.

Exported by torch.onnx.export(dynamo=True), nothing edited by hand. The exporter has no promotion rule for pow:
  Pow(int64 code, float exponents)   is legal ONNX, but gives int64 where PyTorch gives float; declared int64 too
  Mul(that, float gain)              so this is the node that is invalid
  Pow(int32 level, int64 exponents)  is legal ONNX, but gives int32 where PyTorch gives int64; declared int32
  Add(that, int64 code)              so this is invalid (int32 + int64)
  Pow(float16 x, float exponents)    is legal ONNX, but gives float16 where PyTorch gives float; declared float16
  Add(that, float)                   so this is invalid (float16 + float)
Oracle: PyTorch eager, on values for which both readings of Pow agree (all powers are whole, or fit in float16)
and every sum is exact. So a repair that keeps Pow and casts its result gives the same bits as one that casts its base.
For other values that is not so: 4 ** 0.5 is 2 in both, 2 ** 0.5 is 1 in ONNX and 1.414 in PyTorch.
"""

from __future__ import annotations

import numpy as np
import torch
from _build import Arrays, export, run_torch, write
from torch import Tensor, nn


class Calibration(nn.Module):
    exponents: Tensor
    whole: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.coefficients = nn.Parameter(torch.tensor([-2.5, 0.75, 0.5, -0.125]))
        self.register_buffer("exponents", torch.arange(4, dtype=torch.float32))
        self.register_buffer("whole", torch.arange(3))

    def forward(self, code: Tensor, level: Tensor, x: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        powers = torch.pow(code[:, None], self.exponents)
        curve = (powers * self.coefficients).sum(-1) * gain
        steps = torch.pow(level[:, None], self.whole) + code[:, None]
        half = torch.pow(x[:, None], self.exponents) + gain[:, None]
        return curve, steps, half


def inputs() -> list[Arrays]:
    rows: list[tuple[list[int], list[int], list[float], list[float]]] = [
        ([0, 1, 2, 3, -4], [5, -6, 7, 0, 1], [0.5, -1.5, 2, 4, -0.25], [1, 2, -0.5, 4, 0.25]),
        ([100], [1000], [8], [-1]),
        ([-64, 0, 200, 7], [46340, -46340, 0, 2], [-0.0, 1, 2, np.inf], [-0.0, 1e-40, np.nan, np.inf]),
    ]
    return [
        {
            "code": np.array(code, np.int64),
            "level": np.array(level, np.int32),
            "x": np.array(x, np.float16),
            "gain": np.array(gain, np.float32),
        }
        for code, level, x, gain in rows
    ]


def main() -> None:
    cases = inputs()
    batch = torch.export.Dim("batch")
    calibration = Calibration()
    model = export(
        calibration,
        [torch.from_numpy(array) for array in cases[0].values()],
        input_names=list(cases[0]),
        output_names=["curve", "steps", "half"],
        dynamic_shapes={name: {0: batch} for name in cases[0]},
    )
    write("mixed_pow", model, run_torch(calibration, model, cases))


if __name__ == "__main__":
    main()
