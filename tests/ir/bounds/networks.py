"""Random networks for the soundness of bounds, and inputs that go for the ends of the declared ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import TensorProto

Array = np.ndarray[Any, Any]

_UNARY = ("Relu", "Tanh", "Sigmoid", "Erf", "Gelu", "HardSwish", "Softplus", "Softsign", "Elu", "Abs", "Neg", "Mish")
_REDUCED = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceSumSquare")
_WIDTH = 6


class Network:
    """A chain of random operators on values of shape [2, 3, width], all of them outputs."""

    def __init__(self, seed: int, without: tuple[str, ...] = ()) -> None:
        self.unary = [op_type for op_type in _UNARY if op_type not in without]
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.values = ["x"]
        low, high = [(-1, 1), (0, 1), (-3, 5), (-50, 50)][self.rng.integers(4)]
        self.ranges = {"x": (float(low), float(high))}

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        array = (self.rng.normal(size=shape) * self.rng.choice([0.1, 1.0, 3.0])).astype(np.float32)
        self.weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def pick(self) -> str:
        return self.values[int(self.rng.integers(max(0, len(self.values) - 4), len(self.values)))]

    def grow(self) -> None:
        """Add one layer whose result has the shape of the input."""
        x, kind = self.pick(), int(self.rng.integers(12))
        width = _WIDTH
        match kind:
            case 0 | 1:
                y = self.node(str(self.rng.choice(self.unary)), x)
            case 2:
                y = self.node("Add", self.node("MatMul", x, self.weight(width, width)), self.weight(width))
            case 3:
                y = self.node("LayerNormalization", x, self.weight(width), self.weight(width))
            case 4:
                reduced = str(self.rng.choice(_REDUCED))
                y = self.node(str(self.rng.choice(["Add", "Sub", "Mul"])), x, self.node(reduced, x, self.integers(-1)))
            case 5:
                y = self.node(str(self.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])), x, self.pick())
            case 6:
                y = self.attention(x)
            case 7:
                y = self.node("Conv", x, self.weight(3, 3, 3), self.weight(3), pads=[1, 1])
            case 8:
                halves = [
                    self.node("Slice", x, self.integers(a), self.integers(b), self.integers(2))
                    for a, b in ((0, 2), (2, width))
                ]
                y = self.node("Concat", *reversed(halves), axis=2)
            case 9:
                y = self.root_mean_square(x)
            case 10:
                flat = self.node("Reshape", x, self.integers(6, width))
                product = self.node("Gemm", flat, self.weight(width, width), self.weight(width), transB=1)
                y = self.node("Reshape", product, self.integers(2, 3, width))
            case _:
                y = self.node("Clip", self.node("Exp", self.node("Min", x, self.weight(1))), self.weight(), "")
        self.values.append(y)

    def attention(self, x: str) -> str:
        q, k, v = (self.node("MatMul", x, self.weight(_WIDTH, _WIDTH)) for _ in range(3))
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 2, 1]))
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), v)

    def root_mean_square(self, x: str) -> str:
        mean = self.node("ReduceMean", self.node("Mul", x, x), self.integers(-1))
        epsilon = self.node("Abs", self.weight(1))
        return self.node("Div", x, self.node("Sqrt", self.node("Add", mean, self.node("Max", epsilon, self.small()))))

    def small(self) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.array([1e-5], np.float32), name))
        return name

    def model(self, layers: int) -> onnx.ModelProto:
        for _ in range(layers):
            self.grow()
        x = onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, _WIDTH])
        outputs = [onnx.helper.make_tensor_value_info(each.output[0], TensorProto.FLOAT, None) for each in self.nodes]
        graph = onnx.helper.make_graph(self.nodes, "g", [x], outputs, self.weights)
        opsets = [onnx.helper.make_opsetid("", 22)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def adversarial(low: float, high: float, shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[Array]:
    """Arrays in [low, high]: random ones, corners, constant ones, almost constant ones, and one large element."""
    yield rng.uniform(low, high, shape).astype(np.float32)
    yield np.where(rng.random(shape) < 0.5, low, high).astype(np.float32)
    yield np.full(shape, high, np.float32)
    near = np.full(shape, low, np.float32)
    yield np.clip(near + rng.normal(size=shape).astype(np.float32) * np.float32(1e-6), low, high).astype(np.float32)
    one = np.zeros(shape) + np.clip(0.0, low, high)
    one.reshape(-1)[int(rng.integers(one.size))] = high
    yield one.astype(np.float32)
