"""Random networks for the soundness of bounds: chains of operators on values of shape [batch, 3, 6]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import TensorProto

Array = np.ndarray[Any, Any]

UNARY = (
    "Relu", "Tanh", "Sigmoid", "Erf", "Gelu", "HardSwish", "Softplus", "Softsign", "Elu", "Abs", "Neg", "Mish",
    "LeakyRelu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "Atan", "Sin", "Cos", "Floor", "Ceil", "Round",
    "Sign", "Shrink",
)  # fmt: skip
_REDUCED = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")
WIDTH, HEIGHT = 6, 3


class Network:
    """A chain of random operators on values of shape [batch, 3, 6], all of them outputs.

    Attributes:
        nodes: The nodes; each has one output.
        ranges: The declared range of the input `x`.
        layers: Functions that add a layer to a value and return the result, by name.
    """

    def __init__(self, seed: int, without: tuple[str, ...] = ()) -> None:
        self.unary = [op_type for op_type in UNARY if op_type not in without]
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.values = ["x"]
        low, high = [(-1, 1), (0, 1), (-3, 5), (-50, 50), (-0.001, 0.002), (100, 101)][self.rng.integers(6)]
        self.ranges = {"x": (float(low), float(high))}
        self.layers: dict[str, Callable[[str], str]] = {
            "one operand": lambda x: self.node(str(self.rng.choice(self.unary)), x),
            "two operands": self.two,
            "reduction": self.reduction,
            "dense": lambda x: self.node("Add", self.node("MatMul", x, self.weight(6, 6)), self.weight(6)),
            "weights first": lambda x: self.node("MatMul", self.weight(3, 3), x),
            "gemm": self.gemm,
            "einsum": lambda x: self.node("Einsum", x, self.weight(6, 6), equation="bij,jk->bik"),
            "attention": self.attention,
            "convolution": lambda x: self.node("Conv", x, self.weight(3, 3, 3), self.weight(3), pads=[1, 1]),
            "depthwise": lambda x: self.node("Conv", x, self.weight(3, 1, 3), pads=[2, 0], group=3),
            "transposed convolution": self.transposed,
            "pool": self.pool,
            "resize": self.resize,
            "layer norm": lambda x: self.node("LayerNormalization", x, self.weight(6), self.weight(6)),
            "channel norm": self.channel_norm,
            "batch norm": self.batch_norm,
            "root mean square": self.root_mean_square,
            "norm": lambda x: self.node("LpNormalization", x, axis=int(self.rng.choice([1, 2])), p=self.one_or_two()),
            "halves": self.halves,
            "exponential": lambda x: self.clipped(self.node("Exp", self.node("Min", x, self.weight(1)))),
            "softmax": lambda x: self.node(
                str(self.rng.choice(["Softmax", "LogSoftmax"])), x, axis=int(self.rng.choice([1, 2]))
            ),
            "where": self.where,
            "power": self.power,
            "sums": lambda x: self.node("CumSum", x, self.constant(np.int64(self.one_or_two())), reverse=1),
            "order": lambda x: self.outputs("TopK", 2, x, self.integers(6), axis=2)[0],
            "quantized": self.quantized,
            "half": lambda x: self.node("Cast", self.node("Cast", self.clipped(x), to=10), to=1),
            "quotient": lambda x: self.node("Div", x, self.node("Add", self.node("Abs", self.pick()), self.small())),
            "gate": lambda x: self.node("Mul", x, self.node("Sigmoid", x)),
            "recurrent": self.recurrent,
            "grid": self.grid,
        }

    def weight(self, *shape: int) -> str:
        return self.constant((self.rng.normal(size=shape) * self.rng.choice([0.1, 1.0, 3.0])).astype(np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def small(self) -> str:
        return self.constant(np.array([1e-5], np.float32))

    def constant(self, array: Array | np.generic) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.outputs(op_type, 1, *inputs, **attributes)[0]

    def outputs(self, op_type: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"v{len(self.nodes)}{'abcd'[i] if i else ''}" for i in range(count)]
        self.nodes.append(onnx.helper.make_node(op_type, inputs, names, **attributes))
        return names

    def pick(self) -> str:
        return self.values[int(self.rng.integers(max(0, len(self.values) - 4), len(self.values)))]

    def one_or_two(self) -> int:
        return int(self.rng.integers(1, 3))

    def grow(self) -> None:
        """Add one layer whose result has the shape of the input."""
        layer = str(self.rng.choice(list(self.layers)))
        self.values.append(self.layers[layer](self.pick()))

    # Layers.

    def two(self, x: str) -> str:
        return self.node(str(self.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum"])), x, self.pick())

    def reduction(self, x: str) -> str:
        reduced = self.node(str(self.rng.choice(_REDUCED)), x, self.integers(int(self.rng.choice([1, 2, -1]))))
        return self.node(str(self.rng.choice(["Add", "Sub", "Mul"])), x, reduced)

    def gemm(self, x: str) -> str:
        flat = self.node("Reshape", x, self.integers(-1, 6))
        options = {"transB": 1, "alpha": float(self.rng.normal()), "beta": float(self.rng.normal())}
        product = self.node("Gemm", flat, self.weight(6, 6), self.weight(6), **options)
        return self.node("Reshape", product, self.integers(-1, 3, 6))

    def attention(self, x: str) -> str:
        q, k, v = (self.node("MatMul", x, self.weight(6, 6)) for _ in range(3))
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 2, 1]))
        return self.node("MatMul", self.node("Softmax", scores, axis=-1), v)

    def transposed(self, x: str) -> str:
        weight = self.weight(3, 3, int(self.rng.integers(2, 5)))
        longer = self.node("ConvTranspose", x, weight, self.weight(3), strides=[self.one_or_two()])
        return self.node("Slice", longer, self.integers(0), self.integers(6), self.integers(2))

    def pool(self, x: str) -> str:
        options: dict[str, Any] = {"kernel_shape": [3], "pads": [1, 1]}
        kind = str(self.rng.choice(["MaxPool", "AveragePool"]))
        if kind == "AveragePool":
            options["count_include_pad"] = int(self.rng.integers(2))
        return self.node(kind, x, **options)

    def resize(self, x: str) -> str:
        mode = str(self.rng.choice(["nearest", "linear", "cubic"]))
        image = self.node("Unsqueeze", x, self.integers(1))
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        larger = self.node("Resize", image, "", scales, mode=mode)
        part = self.node("Slice", larger, self.integers(1, 2), self.integers(4, 8), self.integers(2, 3))
        return self.node("Squeeze", part, self.integers(1))

    def channel_norm(self, x: str) -> str:
        if self.rng.random() < 0.5:
            return self.node("InstanceNormalization", x, self.weight(3), self.weight(3))
        return self.node("GroupNormalization", x, self.weight(3), self.weight(3), num_groups=1)

    def batch_norm(self, x: str) -> str:
        variance = self.constant(np.abs(self.rng.normal(size=3)).astype(np.float32))
        return self.node("BatchNormalization", x, self.weight(3), self.weight(3), self.weight(3), variance)

    def root_mean_square(self, x: str) -> str:
        mean = self.node("ReduceMean", self.node("Mul", x, x), self.integers(-1))
        epsilon = self.node("Abs", self.weight(1))
        return self.node("Div", x, self.node("Sqrt", self.node("Add", mean, self.node("Max", epsilon, self.small()))))

    def halves(self, x: str) -> str:
        halves = [
            self.node("Slice", x, self.integers(a), self.integers(b), self.integers(2)) for a, b in ((0, 2), (2, 6))
        ]
        return self.node("Concat", *reversed(halves), axis=2)

    def clipped(self, x: str) -> str:
        return self.node("Clip", x, self.constant(np.float32(-2000)), self.constant(np.float32(3000)))

    def where(self, x: str) -> str:
        other = self.pick()
        condition = self.node(str(self.rng.choice(["Less", "Greater", "LessOrEqual"])), x, other)
        return self.node("Where", condition, x, str(self.rng.choice([other, self.pick()])))

    def power(self, x: str) -> str:
        base = self.node("Abs", x) if (exponent := float(self.rng.choice([2, 3, 0.5, 1.7]))) not in (2, 3) else x
        return self.node("Pow", base, self.constant(np.array(exponent, np.float32)))

    def quantized(self, x: str) -> str:
        scale, zero = self.constant(np.float32(self.rng.choice([0.01, 0.5]))), self.constant(np.int8(7))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", x, scale, zero), scale, zero)

    def recurrent(self, x: str) -> str:
        kind = str(self.rng.choice(["LSTM", "GRU", "RNN"]))
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
        sequence = self.node("Transpose", x, perm=[1, 0, 2])
        result = self.node(kind, sequence, self.weight(1, 6 * gates, 6), self.weight(1, 6 * gates, 6), hidden_size=6)
        return self.node("Transpose", self.node("Squeeze", result, self.integers(1)), perm=[1, 0, 2])

    def grid(self, x: str) -> str:
        image = self.node("Reshape", x, self.integers(1, -1, 3, 6))
        places = self.constant(self.rng.uniform(-1.2, 1.2, (1, 3, 6, 2)).astype(np.float32))
        options = {"mode": str(self.rng.choice(["linear", "nearest", "cubic"]))}
        options["padding_mode"] = str(self.rng.choice(["zeros", "border", "reflection"]))
        return self.node("Reshape", self.node("GridSample", image, places, **options), self.integers(-1, 3, 6))

    def model(self, layers: int, batch: int | str = 2, leaves: bool = False) -> onnx.ModelProto:
        """Return the network, grown to this many layers.

        Args:
            layers: The number of layers.
            batch: The first dimension.
            leaves: True for a model whose outputs are only the values that no node reads, so that a runtime may fuse.
        """
        while len(self.values) <= layers:
            self.grow()
        used = {name for node in self.nodes for name in node.input}
        names = [name for node in self.nodes for name in node.output if not leaves or name not in used]
        x = onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, HEIGHT, WIDTH])
        outputs = [onnx.ValueInfoProto(name=name) for name in names]
        graph = onnx.helper.make_graph(self.nodes, "g", [x], outputs, self.weights)
        opsets = [onnx.helper.make_opsetid("", 22)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
