"""Convolution, average pool, Trunc: two QONNX models, qonnx_trunc (Trunc version 2) and qonnx_trunc_v1 (version 1).

Built with onnx.helper and qonnx's qonnx_make_model, laid out as Brevitas exports a TruncAvgPool2d: version 2 as from
Brevitas 0.12 (domain qonnx.custom_op.general, 6 inputs, average then Trunc at an output scale), version 1 as up to 0.11
(domain onnx.brevitas, 5 inputs, average times k*k then Trunc as a right shift). There are no Quant nodes.
  on a constant       the convolution's weights go through a Trunc, in version 2 with one scale for each output channel
  on the dynamic path one Trunc after each pool; in version 2 the last is unsigned and has a zero point
What is wrong with it: no runtime but qonnx has Trunc, and qonnx has no lowering for it.
Oracle: qonnx.core.onnx_exec. All scales are powers of two and all values few-bit, so every sum is exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
from _build import Arrays, write
from onnx import helper, numpy_helper
from qonnx.core import onnx_exec
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.infer_shapes import InferShapes
from qonnx.util.basic import qonnx_make_model

Parameters = Mapping[str, float | np.ndarray]

IMAGE, FEATURES, OUTPUT = (2, 3, 10, 10), (2, 8, 4, 4), (2, 8)


def weights() -> np.ndarray:
    """Random multiples of 1/64 of at most 8 bits."""
    return (np.random.default_rng(12).integers(-128, 128, (8, 3, 3, 3)) / 64).astype(np.float32)


class Network:
    """Nodes and their constants, named as they are added; one output each, named after the node."""

    def __init__(self, domain: str, version: int) -> None:
        self.domain, self.version = domain, version
        self.nodes: list[onnx.NodeProto] = []
        self.constants = [numpy_helper.from_array(weights(), "weight")]

    def constant(self, name: str, value: float | np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes))
        return output

    def trunc(self, x: str, output: str, mode: str, parameters: Parameters, **flags: int) -> str:
        inputs = [x, *(self.constant(f"{output}_{key}", value) for key, value in parameters.items())]
        return self.add("Trunc", inputs, output, domain=self.domain, rounding_mode=mode, **flags)

    def model(self, name: str) -> onnx.ModelProto:
        values = {"image": IMAGE, "features": FEATURES, "y": OUTPUT}
        image, *outputs = (
            helper.make_tensor_value_info(key, onnx.TensorProto.FLOAT, shape) for key, shape in values.items()
        )
        graph = helper.make_graph(self.nodes, name, [image], outputs, self.constants)
        imports = [helper.make_opsetid("", 13), helper.make_opsetid(self.domain, self.version)]
        model = qonnx_make_model(graph, opset_imports=imports, producer_name="castsmith-models", ir_version=8)
        return ModelWrapper(model).transform(InferShapes()).model


def version_2() -> onnx.ModelProto:
    net = Network("qonnx.custom_op.general", 2)
    steps = np.where(np.arange(8) % 2, 1 / 64, 1 / 32).reshape(8, 1, 1, 1)
    narrow: Parameters = {"scale": steps, "zero_point": 0, "bits": 8, "out_scale": steps * 8, "out_bits": 5}
    middle: Parameters = {"scale": 1 / 512, "zero_point": 0, "bits": 16, "out_scale": 1 / 16, "out_bits": 8}
    last: Parameters = {"scale": 1 / 256, "zero_point": 72, "bits": 12, "out_scale": 1 / 16, "out_bits": 6}
    weight = net.trunc("weight", "short_weight", "ROUND", narrow, signed=1, narrow=1)
    x = net.add("Conv", ["image", weight], "conv", kernel_shape=[3, 3])
    x = net.add("AveragePool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = net.trunc(x, "features", "FLOOR", middle, signed=1, narrow=0)
    x = net.add("GlobalAveragePool", [x], "mean")
    x = net.trunc(x, "short_mean", "HALF_UP", last, signed=0, narrow=0)
    net.add("Flatten", [x], "y", axis=1)
    return net.model("qonnx_trunc")


def version_1() -> onnx.ModelProto:
    net = Network("onnx.brevitas", 1)
    narrow: Parameters = {"scale": 1 / 64, "zero_point": 0, "bits": 8, "out_bits": 6}
    middle: Parameters = {"scale": 1 / 1024, "zero_point": 0, "bits": 14, "out_bits": 12}
    last: Parameters = {"scale": 1 / 1024, "zero_point": 0, "bits": 16, "out_bits": 12}
    weight = net.trunc("weight", "short_weight", "ROUND", narrow)
    x = net.add("Conv", ["image", weight], "conv", kernel_shape=[3, 3])
    x = net.add("AveragePool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Mul", [x, net.constant("pool_size", 4)], "sum")
    x = net.trunc(x, "features", "FLOOR", middle)
    x = net.add("GlobalAveragePool", [x], "mean")
    x = net.add("Mul", [x, net.constant("mean_size", 16)], "total")
    x = net.trunc(x, "short_total", "HALF_DOWN", last)
    net.add("Flatten", [x], "y", axis=1)
    return net.model("qonnx_trunc_v1")


def inputs() -> list[Arrays]:
    rng = np.random.default_rng(13)
    plain = rng.integers(-32, 32, IMAGE) / 16
    zeros = np.where(rng.random(IMAGE) < 0.5, -0.0, 0.0)
    large = plain * 64
    lost = plain.copy()
    lost[0, 0, 0, 0], lost[0, 1, 9, 9], lost[0, 2, 0, 9] = np.nan, np.inf, -np.inf
    lost[1] = 0
    lost[1, :, ::3, ::3] = -1 / 16
    return [{"image": case.astype(np.float32)} for case in (plain, zeros, large, lost)]


def main() -> None:
    # onnx 1.23 would give qonnx's one-node models IR version 14, which ONNX Runtime 1.31 refuses.
    onnx_exec.qonnx_make_model = partial(qonnx_make_model, ir_version=8)
    for name, model in {"qonnx_trunc": version_2(), "qonnx_trunc_v1": version_1()}.items():
        with np.errstate(invalid="ignore"):
            write(name, model, [(case, onnx_exec.execute_onnx(ModelWrapper(model), dict(case))) for case in inputs()])


if __name__ == "__main__":
    main()
