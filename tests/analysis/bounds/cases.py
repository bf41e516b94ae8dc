"""Models of one operator with random attributes, shapes and ranges: the frame that `operators` fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import TensorProto

Array = np.ndarray[Any, Any]

_RANGES = (
    (-1, 1), (0, 1), (-3, 5), (-50, 50), (0.001, 2), (-1e4, 1e4), (-1e-6, 1e-6), (0, 0), (-5, -1), (2.5, 2.5),
    (-0.5, 0.25), (1, 100), (0, 100), (-100, -1e-3),
)  # fmt: skip
_EDGES: dict[int, tuple[tuple[float, float], ...]] = {
    TensorProto.FLOAT: (
        (-3.4e38, 3.4e38), (0, 3.4e38), (1e37, 3e38), (-1e30, 1e30), (1e-45, 1e-38), (-1e-40, 1e-40), (0, 1e-30),
        (1e-25, 1e-15), (1e-39, 1), (-3.4e38, -1e19), (1e18, 1e20),
    ),
    TensorProto.DOUBLE: (
        (-1.7e308, 1.7e308), (0, 1.7e308), (1e300, 1e308), (-1e200, 1e200), (5e-324, 1e-308), (-1e-310, 1e-310),
        (0, 1e-300), (1e-200, 1e-150), (1e-309, 1), (-1e39, 1e39),
    ),
    TensorProto.FLOAT16: (
        (-65504, 65504), (0, 65504), (6e-8, 6e-5), (-6e-5, 6e-5), (6e-8, 1), (-300, 300), (1e-4, 3e-3),
    ),
    TensorProto.BFLOAT16: (
        (-3.3e38, 3.3e38), (0, 3.3e38), (1e-40, 1e-38), (-1e-39, 1e-39), (1e-25, 1e-15), (1e18, 1e20),
    ),
}  # fmt: skip
"""Ranges in which results overflow, or are subnormal."""
_WHOLE = ((-5, 5), (0, 10), (1, 3), (-3, -1), (0, 0), (-100, 100), (0, 127))
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def numpy_type(dtype: int) -> np.dtype[Any]:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))


class Case:
    """A model of one operator in the making.

    Attributes:
        rng: The source of randomness.
        opset: The opset of the model.
        dtype: The element type of the operands.
        ranges: The declared ranges of inputs.
        shapes: The shape and type of each input.
        reference: False where the reference evaluator is known to be wrong.
        hidden: Values that are no outputs, as ONNX Runtime returns none of their type.
    """

    def __init__(self, rng: np.random.Generator, opset: int, dtype: int) -> None:
        self.rng, self.opset, self.dtype, self.reference = rng, opset, dtype, True
        self.ranges: dict[str, tuple[float, float]] = {}
        self.shapes: dict[str, tuple[tuple[int, ...], int]] = {}
        self.hidden: set[str] = set()
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self, rank: int, least: int = 1, most: int = 5) -> tuple[int, ...]:
        return tuple(int(each) for each in self.rng.integers(least, most, size=rank))

    def range(self, dtype: int) -> tuple[float, float]:
        """A range of numbers of the type."""
        kind = numpy_type(dtype)
        if kind.kind == "b":
            return 0, 1
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            whole = (int(limits.min), int(limits.max)) if kind.itemsize < 8 else (-(2**40), 2**40)
            low, high = self.pick(*_WHOLE, *_WHOLE, whole)
            return max(low, int(limits.min)), min(max(high, int(limits.min)), int(limits.max))
        return self.pick(*_EDGES[dtype]) if self.coin(0.35) else self.pick(*_RANGES)

    def x(self, *shape: int, low: float | None = None, high: float | None = None, dtype: int | None = None) -> str:
        """Add an operand: an input or a constant, now and then with bounds for each place, or infinities and NaN."""
        dtype = self.dtype if dtype is None else dtype
        free = low is None or high is None
        if low is None or high is None:
            low, high = self.range(dtype)
        kind = numpy_type(dtype)
        floats = kind.kind not in "biu"
        if self.coin(0.12):
            array = self.draw(shape, low, high, kind)
            if floats and free and array.size and self.coin(0.4):
                array.reshape(-1)[self.rng.integers(array.size)] = self.pick(np.nan, np.inf, -np.inf)
            return self.constant(array)
        name = self.like(*shape, low=low, high=high, dtype=dtype)
        if not (floats and free and shape):
            return name
        places = [n if self.coin(0.6) else 1 for n in shape]
        if self.coin(0.2):
            return self.node("Mul", name, self.constant(self.draw(tuple(places), -1, 1, kind)))
        if self.coin(0.15):  # the quotient by 0 is infinite, or NaN
            return self.node("Div", name, self.constant(self.rng.integers(-1, 2, places).astype(kind)))
        return name

    def like(self, *shape: int, low: float, high: float, dtype: int | None = None) -> str:
        """Add an input whose elements stay in [low, high]."""
        name = f"x{len(self.shapes)}"
        self.shapes[name] = shape, self.dtype if dtype is None else dtype
        self.ranges[name] = float(low), float(high)
        return name

    def draw(self, shape: tuple[int, ...], low: float, high: float, kind: np.dtype[Any]) -> Array:
        if kind.kind == "b":
            return self.rng.integers(0, 2, shape).astype(kind)
        with np.errstate(all="ignore"):
            if kind.kind in "iu":
                return self.rng.integers(int(low), int(high) + 1, shape).astype(kind)
            drawn = low * self.rng.random(shape) + high * self.rng.random(shape)
            return np.asarray(np.clip(drawn, low, high)).astype(kind)

    def constant(self, array: Array | np.generic) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, *shape: int, low: float = -2, high: float = 2) -> str:
        return self.constant(self.draw(shape, low, high, numpy_type(self.dtype)))

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
        """The model; the values of its nodes are outputs."""
        inputs = [
            onnx.helper.make_tensor_value_info(name, dtype, shape) for name, (shape, dtype) in self.shapes.items()
        ]
        names = [name for node in self.nodes for name in node.output if name and name not in self.hidden]
        outputs = [onnx.ValueInfoProto(name=name) for name in names]
        graph = onnx.helper.make_graph(self.nodes, "g", inputs, outputs, self.weights)
        domains = {node.domain for node in self.nodes} - {""}
        opsets = [onnx.helper.make_opsetid("", self.opset), *(onnx.helper.make_opsetid(name, 1) for name in domains)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feeds(self, count: int) -> Iterator[dict[str, Array]]:
        """Yield inputs within the declared ranges."""
        for turn in range(count):
            yield {
                name: adversarial(self.rng, shape, *self.ranges[name], numpy_type(dtype), turn)
                for name, (shape, dtype) in self.shapes.items()
            }


def adversarial(
    rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float, kind: np.dtype[Any], turn: int
) -> Array:
    """Return an array in [low, high]: random, corners, constant or almost so; zeros have either sign."""
    middle = float(np.clip(0.0, low, high))
    wide = low * rng.random(shape) + high * rng.random(shape) if turn % 2 else rng.uniform(low / 2, high / 2, shape) * 2
    match turn % 6:
        case 0:
            array = wide
        case 1:
            array = np.where(rng.random(shape) < rng.random(), low, high)
        case 2:
            array = np.full(shape, rng.choice([low, high, middle]))
        case 3:
            array = rng.choice([low, high, middle]) * (1 + rng.normal(size=shape) * 1e-7)
        case 4:
            array = np.where(rng.random(shape) < 0.5, rng.choice([low, high, middle]), wide)
        case _:
            array = middle + (wide - middle) * 10.0 ** rng.uniform(-8, 0, shape)
    if kind.kind in "biu":
        return np.asarray(np.clip(np.rint(array), low, high)).astype(kind)
    with np.errstate(all="ignore"):
        limits = float(np.float64(np.asarray(low).astype(kind))), float(np.float64(np.asarray(high).astype(kind)))
        array = np.clip(np.asarray(array).astype(kind).astype(np.float64), *limits)
    return np.asarray(np.where((array == 0) & (rng.random(shape) < 0.5), -0.0, array)).astype(kind)


Make = Callable[[Case], object]
"""Adds an operator to a case."""
