"""Models of one operator with random attributes, shapes and ranges: the frame that `operators` fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import TensorProto

Array = np.ndarray[Any, Any]

RANGES = (
    (-1, 1), (0, 1), (-3, 5), (-50, 50), (0.001, 2), (-1e4, 1e4), (-1e-6, 1e-6), (0, 0), (-5, -1), (2.5, 2.5),
    (-1e30, 1e30), (0, 3e38), (-0.5, 0.25), (1, 100), (-1e-40, 1e-40),
)  # fmt: skip
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


class Case:
    """A model of one operator in the making.

    Attributes:
        rng: The source of randomness.
        opset: The opset of the model.
        dtype: The element type of floating-point operands.
        ranges: The declared ranges of inputs.
        shapes: The shape and type of each input.
        reference: False where the reference evaluator is known to be wrong.
    """

    def __init__(self, rng: np.random.Generator, opset: int) -> None:
        self.rng, self.opset, self.reference = rng, opset, True
        self.dtype = int(rng.choice(FLOATS))
        self.ranges: dict[str, tuple[float, float]] = {}
        self.shapes: dict[str, tuple[tuple[int, ...], int]] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self, rank: int, least: int = 1, most: int = 5) -> tuple[int, ...]:
        return tuple(int(each) for each in self.rng.integers(least, most, size=rank))

    def x(self, *shape: int, low: float | None = None, high: float | None = None, dtype: int | None = None) -> str:
        """Add an input, or now and then a constant, or an input scaled along an axis so that its bounds differ."""
        dtype = self.dtype if dtype is None else dtype
        if low is None or high is None:
            given = self.pick(*RANGES)
            most = 60000.0 if dtype == TensorProto.FLOAT16 else np.inf
            low, high = max(float(given[0]), -most), min(float(given[1]), most)
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
        if self.coin(0.15):
            return self.constant(self.draw(shape, low, high, kind))
        name = f"x{len(self.shapes)}"
        self.shapes[name] = shape, dtype
        self.ranges[name] = float(low), float(high)
        if kind.kind == "f" and shape and self.coin(0.4) and abs(low) < 1e20 and abs(high) < 1e20:
            axis = int(self.rng.integers(len(shape)))
            scale = self.rng.uniform(-1, 1, [n if i == axis else 1 for i, n in enumerate(shape)])
            low, high = max(abs(low), abs(high)) * -1, max(abs(low), abs(high))
            return self.node("Mul", name, self.constant(scale.astype(kind)))
        return name

    def like(self, *shape: int, low: float, high: float) -> str:
        """Add an input whose values stay in [low, high]."""
        name = f"x{len(self.shapes)}"
        self.shapes[name], self.ranges[name] = (shape, self.dtype), (float(low), float(high))
        return name

    def draw(self, shape: tuple[int, ...], low: float, high: float, kind: np.dtype[Any]) -> Array:
        if kind.kind == "b":
            return self.rng.integers(0, 2, shape).astype(kind)
        with np.errstate(over="ignore"):
            if kind.kind in "iu":
                return self.rng.integers(int(low), int(high) + 1, shape).astype(kind)
            return np.clip(low + (high - low) * self.rng.random(shape), low, high).astype(kind)

    def constant(self, array: Array | np.generic) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, *shape: int, low: float = -2, high: float = 2) -> str:
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(self.dtype))
        return self.constant(self.draw(shape, low, high, kind))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: int) -> str:
        return self.constant(np.array(value, np.int64))

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, of the given `domain` and with `count` outputs, and return the first of them."""
        domain, count = attributes.pop("domain", ""), attributes.pop("count", 1)
        number = len(self.nodes)
        outputs = [f"v{number}" + "_" * i for i in range(count)]
        self.nodes.append(onnx.helper.make_node(op_type, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def model(self) -> onnx.ModelProto:
        inputs = [
            onnx.helper.make_tensor_value_info(name, dtype, shape) for name, (shape, dtype) in self.shapes.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for node in self.nodes for name in node.output if name]
        graph = onnx.helper.make_graph(self.nodes, "g", inputs, outputs, self.weights)
        domains = {node.domain for node in self.nodes} - {""}
        versions = {"ai.onnx.ml": 3, "com.microsoft": 1}
        opsets = [onnx.helper.make_opsetid("", self.opset)]
        opsets += [onnx.helper.make_opsetid(name, versions[name]) for name in sorted(domains)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


Make = Callable[[Case], object]
"""Adds an operator to a case."""
