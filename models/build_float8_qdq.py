"""A small convolutional network quantised to float8e4m3fn by ONNX Runtime's own quantiser.

Exported by torch.onnx.export(dynamo=True), then onnxruntime.quantization.quantize_static: QDQ format, per channel,
"distribution" calibration on fixed random images. That gives QuantizeLinear and DequantizeLinear on activations (per
tensor) and DequantizeLinear on float8 weights (per axis), all with float8 zero points.
What is wrong with it: it is legal, but ONNX Runtime itself refuses it from the extended optimisation level up, its
default: there it fuses QLinearConv, and then finds that QLinearConv has no float8. Each bias goes through a Cast from
float to float. The quantiser's default would also drop the Relu nodes (right for uint8, wrong for float8), hence
QDQKeepRemovableActivations.
Oracle: ONNX Runtime with optimisation off and one thread. Sums are rounded, so the last bits belong to the machine:
compare a rewritten model with this one in one runtime.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from _build import Arrays, export, run_ort, write
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from torch import nn

SHAPE = (3, 12, 12)


class Images(CalibrationDataReader):
    """Eight batches of four random images."""

    def __init__(self) -> None:
        rng = np.random.default_rng(14)
        self.batches = iter([{"image": rng.standard_normal((4, *SHAPE), dtype=np.float32)} for _ in range(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.batches, None)


def quantised(model: onnx.ModelProto) -> onnx.ModelProto:
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantised.onnx"
        quantize_static(
            model,
            path,
            Images(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QFLOAT8E4M3FN,
            weight_type=QuantType.QFLOAT8E4M3FN,
            calibrate_method=CalibrationMethod.Distribution,
            extra_options={"QDQKeepRemovableActivations": True},
        )
        return onnx.load(path)


def inputs() -> list[Arrays]:
    rng = np.random.default_rng(15)
    plain = rng.standard_normal((3, *SHAPE))
    zeros = np.where(rng.random((1, *SHAPE)) < 0.5, -0.0, 0.0)
    large = plain[:1] * np.array([1e3, 1e30, 1e-40]).reshape(3, 1, 1)
    lost = plain[:2].copy()
    lost[0, 0, 0, 0], lost[0, 1, 1, 1], lost[1, 2, 6, 6] = np.inf, -np.inf, np.nan
    return [{"image": case.astype(np.float32)} for case in (plain, zeros, large, lost)]


def main() -> None:
    torch.manual_seed(2)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10)
    )
    batch = {0: torch.export.Dim("batch")}
    exported = export(
        network, [torch.randn(2, *SHAPE)], input_names=["image"], output_names=["logits"], dynamic_shapes=(batch,)
    )
    model = quantised(exported)
    write("float8_qdq", model, run_ort(model, inputs()))


if __name__ == "__main__":
    main()
