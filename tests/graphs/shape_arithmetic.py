"""Random graphs of shape arithmetic that run: what exporters compute from shapes, and what else small tensors allow.

Each node is evaluated when it is added, at several sizes of the symbolic dimensions: one that fails at all of them, or
divides by zero, which ends the process of a runtime, is not added. Numbers at the ends of their types are as frequent
as small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.defs
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = NDArray[Any]

SIZES = ({"N": 2, "M": 5}, {"N": 1, "M": 1}, {"N": 7, "M": 0}, {"N": 3, "M": 4})
"""The sizes of the symbolic dimensions at which a graph is compared."""

_DIMS = ("N", "M", 1, 2, 3, 4, 7)
_MOST = 300
"""Elements of a value."""

_INTEGERS = ("int64", "int64", "int64", "int32", "int32", "int8", "uint8", "int16", "uint32", "uint64", "uint16")
_FLOATS = ("float32", "float32", "float64", "float16")
_CODES = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in {*_INTEGERS, *_FLOATS, "bool"}}
_PLACES = (0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), -(2**63) + 1, 2**62)
"""Starts and ends of slices."""
_REALS = (0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.0, 2.5, -2.5, 3.0, 0.1, 1e30, float("inf"), float("nan"), 16777217.0)


@dataclass(frozen=True)
class Value:
    """A value of the graph with its content at each size; None at a size at which a node before it fails."""

    name: str
    at: tuple[Array | None, ...]

    @property
    def some(self) -> Array:
        return next(array for array in self.at if array is not None)

    @property
    def dtype(self) -> str:
        return self.some.dtype.name

    @property
    def rank(self) -> int:
        return self.some.ndim


@dataclass(frozen=True)
class ShapeGraph:
    """A model, and its inputs at each size at which every node has a defined result."""

    model: onnx.ModelProto
    feeds: tuple[dict[str, Array], ...]


@dataclass
class _Graph:
    random: Random
    opset: int
    shape: list[int | str] = field(default_factory=list[Any])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    values: list[Value] = field(default_factory=list[Value])

    # What nodes read

    def pick(self, *kinds: str, rank: int | None = None) -> Value | None:
        """A value of a type that starts like one of `kinds`, mostly a recent one."""
        found = [value for value in self.values[1:] if value.dtype.startswith(kinds or ("",))]
        found = [value for value in found if rank is None or value.rank == rank]
        if not found:
            return None
        return self.random.choice(found[-5:] if self.random.random() < 0.7 else found)

    def constant(self, content: object, dtype: str = "int64") -> Value:
        array = np.array(content, dtype)
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return Value(name, (array,) * len(SIZES))

    def number(self, dtype: str) -> Any:
        """A number of the type: small, or at one of its ends."""
        if dtype == "bool":
            return self.random.random() < 0.5
        if dtype.startswith("float"):
            number = self.random.choice(_REALS)
            return number if dtype != "float16" or not 65504 < number < float("inf") else 2048.0
        ends = np.iinfo(dtype)
        low, high = int(ends.min), int(ends.max)
        near = [0, 1, 2, 3, 4, 7, -1, -2, -3, 12, low, low + 1, high, high - 1, 2**31 - 1, 2**31, -(2**31), 1 << 20]
        return self.random.choice([number for number in near if low <= number <= high])

    def like(self, value: Value) -> Value:
        """A value of the same type: another one, or a constant that broadcasts."""
        other = self.pick(value.dtype)
        if other is not None and other.dtype == value.dtype and self.random.random() < 0.5:
            return other
        if (
            self.random.random() < 0.5
            or value.rank == 0
            or any(array is not None and array.shape != value.some.shape for array in value.at)
        ):
            return self.constant(self.number(value.dtype), value.dtype)
        return self.constant([self.number(value.dtype) for _ in range(value.some.shape[-1])], value.dtype)

    def integers(self, count: int, choices: Sequence[int], dtype: str = "int64") -> Value:
        return self.constant([self.random.choice(choices) for _ in range(count)], dtype)

    # Nodes

    def add(self, op_type: str, *inputs: Value | None, outputs: int = 1, **attributes: Any) -> list[Value]:
        """Add a node, if it runs at one of the sizes."""
        start = len(self.nodes)
        names = [f"v{start}" if outputs == 1 else f"v{start}_{index}" for index in range(outputs)]
        operands = ["" if value is None else value.name for value in inputs]
        while operands and not operands[-1]:
            operands.pop()
        node = helper.make_node(op_type, operands, names, **attributes)
        contents = self._run(node, [value for value in inputs if value is not None])
        if contents is None:
            return []
        made = [
            Value(name, tuple(None if at is None else at[index] for at in contents)) for index, name in enumerate(names)
        ]
        self.nodes.append(node)
        self.values += made
        return made

    def _run(self, node: onnx.NodeProto, inputs: Sequence[Value]) -> list[list[Array] | None] | None:
        if not _is_allowed(node, {value.name: value.dtype for value in inputs}, self.opset):
            return None
        ports = [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(filter(None, node.input))]
        ends = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "g", ports, ends)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        contents = list[list[Array] | None]()
        try:
            reference = ReferenceEvaluator(model)
        except Exception:  # it raises whatever its operators raise
            return None
        for size in range(len(SIZES)):
            feeds = {value.name: value.at[size] for value in inputs}
            contents.append(None if any(array is None for array in feeds.values()) else _answer(reference, node, feeds))
        found = [content for content in contents if content is not None]
        if not found or any(array.size > _MOST for content in found for array in content):
            return None
        return contents if len({tuple((a.dtype, a.ndim) for a in content) for content in found}) == 1 else None


_TYPES = {"float32": "float", "float64": "double"}


def _is_allowed(node: onnx.NodeProto, types: Mapping[str, str], opset: int) -> bool:
    """True if the operator of the opset takes operands of the types."""
    if not onnx.defs.has(node.op_type, opset, ""):
        return False
    formals = onnx.defs.get_schema(node.op_type, opset, "").inputs
    pairs = ((formals[min(index, len(formals) - 1)], types[name]) for index, name in enumerate(node.input) if name)
    return all(f"tensor({_TYPES.get(dtype, dtype)})" in formal.types for formal, dtype in pairs)


def _answer(reference: ReferenceEvaluator, node: onnx.NodeProto, feeds: Mapping[str, Any]) -> list[Array] | None:
    if not _defined(node, feeds):
        return None
    try:
        with np.errstate(all="ignore"):
            answer = [np.asarray(array) for array in reference.run(None, dict(feeds))]
    except Exception:  # it raises whatever its operators raise
        return None
    return answer if all(array.dtype.name in _CODES for array in answer) else None


def _defined(node: onnx.NodeProto, feeds: Mapping[str, Any]) -> bool:
    """False for a division of integers that ends a process, and for a result that is too large to compute."""
    operands = [feeds[name] for name in node.input if name]
    if node.op_type in ("Div", "Mod") and operands[1].dtype.kind in "iu":
        ends = np.iinfo(operands[1].dtype)
        return bool((operands[1] != 0).all()) and not (
            ends.min < 0 and (operands[1] == -1).any() and (operands[0] == ends.min).any()
        )
    if node.op_type in ("ConstantOfShape", "Expand", "Tile"):
        dims = operands[-1].ravel().tolist()
        return max(map(abs, dims), default=0) <= _MOST
    if node.op_type == "Range":
        start, limit, delta = (float(each) for each in operands)
        return delta != 0 and abs((limit - start) / delta) <= _MOST
    if node.op_type == "Pad":
        return max(map(abs, operands[1].ravel().tolist()), default=0) <= 20
    return True


def _steps() -> list[Callable[[_Graph], object]]:
    return [value for name, value in sorted(globals().items()) if name.startswith("add_")]


# Each of these adds one operator, if there are operands for it.


def add_shape(graph: _Graph) -> object:
    value = graph.random.choice(graph.values)
    ends: dict[str, int] = {}
    if graph.opset >= 15 and graph.random.random() < 0.3:
        ends["start"] = graph.random.choice((0, 1, -1, -2, 5))
    if graph.opset >= 15 and graph.random.random() < 0.3:
        # The reference evaluator does not clamp an end before the first dimension.
        ends["end"] = graph.random.choice((0, 1, 2, -1, -value.rank, 5))
    return graph.add("Shape", value, **ends)


def add_shape_of_input(graph: _Graph) -> object:
    return graph.add(graph.random.choice(("Shape", "Shape", "Size")), graph.values[0])


def add_gather(graph: _Graph) -> object:
    if (value := graph.pick()) is None or value.rank == 0:
        return None
    axis = graph.random.randrange(-value.rank, value.rank)
    size = max(1, value.some.shape[axis])
    index = [graph.random.randrange(-size, size) for _ in range(graph.random.randint(1, 3))]
    places = graph.constant(index if graph.random.random() < 0.5 else index[0], graph.random.choice(("int64", "int32")))
    return graph.add("Gather", value, places, axis=axis)


def add_gather_elements(graph: _Graph) -> object:
    if (value := graph.pick(rank=1)) is None or not value.some.size:
        return None
    places = graph.integers(2, range(-value.some.size, value.some.size))
    if graph.random.random() < 0.5:
        return graph.add("GatherElements", value, places, axis=graph.random.choice((0, -1)))
    return graph.add("GatherND", value, graph.constant([[place] for place in places.some.tolist()]))


def add_slice(graph: _Graph) -> object:
    if (value := graph.pick()) is None or value.rank == 0:
        return None
    count = graph.random.randint(1, value.rank)
    axes = graph.random.sample(range(value.rank), count)
    axes = [axis - value.rank if graph.random.random() < 0.3 else axis for axis in axes]
    dtype = "int64" if graph.random.random() < 0.8 else "int32"
    places = [place for place in _PLACES if dtype == "int64" or -(2**31) <= place < 2**31]
    starts, ends = (graph.integers(count, places, dtype) for _ in range(2))
    steps = graph.integers(count, (1, 1, 2, -1, -1, -2, 3, 2**31 - 1, -(2**31)), dtype)
    if graph.random.random() < 0.3 and count == 1:
        ends = graph.pick(dtype, rank=1) or ends
    given = graph.random.random()
    if given < 0.3 and axes == list(range(count)):
        return graph.add("Slice", value, starts, ends)
    if given < 0.6:
        return graph.add("Slice", value, starts, ends, graph.constant(axes, dtype))
    return graph.add("Slice", value, starts, ends, graph.constant(axes, dtype), steps)


def add_slice_of_input(graph: _Graph) -> object:
    x = graph.values[0]
    ends = graph.pick("int64", rank=1)
    if ends is None or ends.some.size > x.rank or not ends.some.size:
        return None
    starts = graph.integers(ends.some.size, _PLACES)
    return graph.add("Slice", x, *(((starts, ends), (ends, starts))[graph.random.random() < 0.3]))


def add_concat(graph: _Graph) -> object:
    value = graph.pick(rank=1)
    if value is None:
        return None
    others = [other for other in graph.values[1:] if other.dtype == value.dtype and other.rank == 1]
    parts = [graph.random.choice(others) for _ in range(graph.random.randint(1, 3))]
    if graph.random.random() < 0.5:
        parts.append(graph.constant([graph.number(value.dtype)], value.dtype))
    graph.random.shuffle(parts)
    return graph.add("Concat", *parts, axis=graph.random.choice((0, -1)))


def add_unsqueeze(graph: _Graph) -> object:
    if (value := graph.pick()) is None or value.rank > 2:
        return None
    axis = graph.random.randrange(-value.rank - 1, value.rank + 1)
    if graph.opset < 13:
        return graph.add("Unsqueeze", value, axes=[axis]) if axis >= 0 else None
    return graph.add("Unsqueeze", value, graph.constant([axis]))


def add_squeeze(graph: _Graph) -> object:
    if (value := graph.pick()) is None:
        return None
    ones = [axis for axis, size in enumerate(value.some.shape) if size == 1]
    if graph.random.random() < 0.4 or not ones:
        return graph.add("Squeeze", value)
    axis = graph.random.choice(ones) - value.rank * (graph.random.random() < 0.3)
    if graph.opset < 13:
        return graph.add("Squeeze", value, axes=[axis])
    return graph.add("Squeeze", value, graph.constant([axis]))


def add_move(graph: _Graph) -> object:
    if (value := graph.pick()) is None:
        return None
    if graph.random.random() < 0.5 and value.rank > 1:
        return graph.add("Transpose", value, perm=graph.random.sample(range(value.rank), value.rank))
    if graph.random.random() < 0.5:
        return graph.add("Flatten", value, axis=graph.random.randint(-value.rank, value.rank))
    return graph.add("Identity", value)


def add_reshape(graph: _Graph) -> object:
    if (value := graph.pick()) is None:
        return None
    wanted = graph.random.choice(
        ([-1], [1, -1], [-1, 1], [0, -1], [0], [2, -1], [-1, 2], [value.some.size], [1, 0, -1])
    )
    return graph.add("Reshape", value, graph.constant(wanted), **_allow_zero(graph))


def _allow_zero(graph: _Graph) -> dict[str, int]:
    return {"allowzero": 1} if graph.opset >= 14 and graph.random.random() < 0.3 else {}


def add_reshape_of_input(graph: _Graph) -> object:
    """A Reshape of the input to dimensions of it, some of them multiplied, replaced, cast or moved."""
    random, x = graph.random, graph.values[0]
    if random.random() < 0.3:
        wanted = graph.pick("int64", rank=1)
        return None if wanted is None else graph.add("Reshape", x, wanted, **_allow_zero(graph))
    shape = graph.add("Shape", x)[0]
    if narrow := random.random() < 0.4:
        shape = graph.add("Cast", shape, to=TensorProto.INT32)[0]
    parts: list[Value] = []
    for axis in range(x.rank):
        size = graph.add("Gather", shape, graph.constant([axis - x.rank * (random.random() < 0.3)]))[0]
        parts.append(size if random.random() < 0.7 else graph.constant([random.choice((1, 2, 3, -1, 0))], size.dtype))
    if random.random() < 0.4:
        random.shuffle(parts)
    if len(parts) > 1 and random.random() < 0.4:
        joined = graph.add(random.choice(("Mul", "Mul", "Add", "Div", "Max")), *parts[:2])
        parts[:2] = joined or parts[:2]
    wanted = graph.add("Concat", *parts, axis=0)
    if not wanted:
        return None
    if narrow:
        wanted = graph.add("Cast", wanted[0], to=TensorProto.INT64)
    if random.random() < 0.2:
        return graph.add(random.choice(("Expand", "Tile")), x, wanted[0])
    return graph.add("Reshape", x, wanted[0], **_allow_zero(graph))


def add_of_shape(graph: _Graph) -> object:
    if (wanted := graph.pick("int64", rank=1)) is None or wanted.some.size > 3:
        return None
    kind = graph.random.random()
    if kind < 0.5:
        dtype = graph.random.choice(("int64", "int32", "bool", "float32", "uint8"))
        filling = numpy_helper.from_array(np.array([graph.number(dtype)], dtype))
        return graph.add("ConstantOfShape", wanted, value=filling)
    value = graph.values[0] if kind < 0.6 else graph.pick()
    return None if value is None else graph.add("Expand" if graph.random.random() < 0.7 else "Tile", value, wanted)


def add_range(graph: _Graph) -> object:
    dtype = graph.random.choice(("int64", "int64", "int32", "float32", "int16", "float64"))
    parts = [graph.pick(dtype, rank=0) if graph.random.random() < 0.5 else None for _ in range(3)]
    small = (0, 1, 2, 3, 5, 10, -1, -2, -3) if dtype != "float32" else (0, 0.5, 1, 2.5, -1.5, 10)
    return graph.add("Range", *(part or graph.constant(graph.random.choice(small), dtype) for part in parts))


def add_arithmetic(graph: _Graph) -> object:
    if (value := graph.pick("int", "uint")) is None:
        return None
    op_type = graph.random.choice(("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Mod"))
    attributes = {"fmod": 1} if op_type == "Mod" and graph.random.random() < 0.3 else {}
    operands = [value, graph.like(value)]
    if graph.random.random() < 0.3:
        operands.reverse()
    return graph.add(op_type, *operands, **attributes)


def add_arithmetic_of_floats(graph: _Graph) -> object:
    if (value := graph.pick("float")) is None:
        return None
    op_type = graph.random.choice(("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod"))
    return graph.add(op_type, value, graph.like(value), **({"fmod": 1} if op_type == "Mod" else {}))


def add_sign(graph: _Graph) -> object:
    if (value := graph.pick()) is None or value.dtype == "bool":
        return None
    whole = ("Neg", "Abs", "Sign")
    return graph.add(
        graph.random.choice((*whole, "Floor", "Ceil", "Round", "Sqrt") if value.dtype[0] == "f" else whole), value
    )


def add_extreme(graph: _Graph) -> object:
    if (value := graph.pick("int", "uint", "float")) is None:
        return None
    operands = [value, *(graph.like(value) for _ in range(graph.random.randint(0, 2)))]
    return graph.add(graph.random.choice(("Max", "Min")), *operands)


def add_clip(graph: _Graph) -> object:
    if (value := graph.pick("int", "uint", "float")) is None:
        return None
    low, high = (
        graph.constant(graph.number(value.dtype), value.dtype) if graph.random.random() < 0.7 else None for _ in "lh"
    )
    return graph.add("Clip", value, low, high)


def add_cast(graph: _Graph) -> object:
    if (value := graph.pick()) is None:
        return None
    to = graph.random.choice((*_INTEGERS, *_FLOATS, "bool"))
    if value.dtype.startswith("float") and any(
        array is not None and not (np.abs(array) < 100).all() for array in value.at
    ):
        to = graph.random.choice((*_FLOATS, "bool"))  # the standard defines no other cast
    if value.dtype.startswith("float") and to.startswith("u"):
        to = "int64"
    return graph.add("Cast", value, to=_CODES[to])


def add_where(graph: _Graph) -> object:
    condition, value = graph.pick("bool"), graph.pick()
    if condition is None or value is None:
        return None
    return graph.add("Where", condition, value, graph.like(value))


def add_comparison(graph: _Graph) -> object:
    if (value := graph.pick("int", "float")) is None:
        return None
    op_type = graph.random.choice(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"))
    return graph.add(op_type, value, graph.like(value))


def add_logic(graph: _Graph) -> object:
    if (value := graph.pick("bool")) is None:
        return None
    if graph.random.random() < 0.3:
        return graph.add("Not", value)
    return graph.add(graph.random.choice(("And", "Or", "Xor")), value, graph.like(value))


def add_bits(graph: _Graph) -> object:
    if graph.opset >= 18 and graph.random.random() < 0.7:
        if (value := graph.pick("int", "uint")) is None:
            return None
        op_type = graph.random.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
        return graph.add(op_type, value, *([] if op_type == "BitwiseNot" else [graph.like(value)]))
    if (value := graph.pick("uint")) is None:
        return None
    direction = graph.random.choice(("LEFT", "RIGHT"))
    return graph.add("BitShift", value, graph.constant(graph.random.randrange(8), value.dtype), direction=direction)


def add_reduction(graph: _Graph) -> object:
    if (value := graph.pick("int64", "int32", "float32")) is None:
        return None
    op_type = graph.random.choice(("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"))
    keep = {"keepdims": graph.random.randrange(2)}
    of_input = graph.opset >= (13 if op_type == "ReduceSum" else 18)
    if value.rank == 0 or graph.random.random() < 0.4:
        if of_input and graph.random.random() < 0.3:
            return graph.add(op_type, value, graph.constant([]), noop_with_empty_axes=graph.random.randrange(2), **keep)
        return graph.add(op_type, value, **keep)
    axes = [axis - value.rank * (graph.random.random() < 0.3) for axis in graph.random.sample(range(value.rank), 1)]
    return (
        graph.add(op_type, value, graph.constant(axes), **keep)
        if of_input
        else graph.add(op_type, value, axes=axes, **keep)
    )


def add_running_sum(graph: _Graph) -> object:
    if (value := graph.pick("int64", "int32", "float32")) is None or value.rank == 0:
        return None
    axis = graph.constant(graph.random.randrange(-value.rank, value.rank))
    return graph.add("CumSum", value, axis, exclusive=graph.random.randrange(2), reverse=graph.random.randrange(2))


def add_places(graph: _Graph) -> object:
    if (value := graph.pick()) is None or value.rank == 0:
        return None
    kind = graph.random.randrange(4)
    if kind == 0:
        return graph.add("NonZero", value)
    if kind == 1 and value.rank > 1 and graph.opset >= 14:
        return graph.add(
            "Trilu", value, graph.constant(graph.random.choice((0, 1, -1, 2, -5))), upper=graph.random.randrange(2)
        )
    if kind == 2 and value.dtype in ("int64", "int32", "float32"):
        axis = graph.random.randrange(-value.rank, value.rank)
        op_type = graph.random.choice(("ArgMax", "ArgMin"))
        return graph.add(op_type, value, axis=axis, keepdims=graph.random.randrange(2))
    if value.dtype in ("int64", "int32", "float32"):
        axis = graph.random.randrange(-value.rank, value.rank)
        count = graph.pick("int64", rank=1) if graph.random.random() < 0.5 else None
        count = count if count is not None and count.some.size == 1 else graph.constant([graph.random.randint(0, 2)])
        return graph.add("TopK", value, count, axis=axis, largest=graph.random.randrange(2), outputs=2)
    return None


def add_scatter(graph: _Graph) -> object:
    if (value := graph.pick(rank=1)) is None or not value.some.size:
        return None
    count = graph.random.randint(1, 2)
    size = value.some.size
    places = graph.random.sample(range(size), min(count, size))
    places = [place - size * (graph.random.random() < 0.3) for place in places]
    updates = graph.constant([graph.number(value.dtype) for _ in places], value.dtype)
    if graph.random.random() < 0.5:
        return graph.add("ScatterElements", value, graph.constant(places), updates, axis=graph.random.choice((0, -1)))
    return graph.add("ScatterND", value, graph.constant([[place] for place in places]), updates)


def add_scatter_in_input(graph: _Graph) -> object:
    """ScatterElements at places that are computed."""
    x, places = graph.values[0], graph.pick("int64", "int32")
    if places is None or places.dtype not in ("int64", "int32") or places.rank != x.rank:
        return None
    updates = graph.add("Cast", places, to=TensorProto.FLOAT)
    axis = graph.random.randrange(-x.rank, x.rank)
    return graph.add("ScatterElements", x, places, updates[0], axis=axis) if updates else None


def add_pad(graph: _Graph) -> object:
    if (value := graph.pick("int64", "int32", "float32")) is None or value.rank == 0:
        return None
    pads = graph.pick("int64", rank=1) if graph.random.random() < 0.3 else None
    pads = pads or graph.integers(2 * value.rank, (0, 0, 1, 2, -1))
    filling = graph.constant(graph.number(value.dtype), value.dtype) if graph.random.random() < 0.6 else None
    return graph.add("Pad", value, pads, filling)


def add_split(graph: _Graph) -> object:
    if (value := graph.pick(rank=1)) is None or value.some.size < 2:
        return None
    if graph.opset >= 18 and graph.random.random() < 0.5:
        return graph.add("Split", value, outputs=2, num_outputs=2)
    first = graph.random.randint(0, value.some.size)
    lengths = [first, value.some.size - first]
    if graph.opset < 13:
        return graph.add("Split", value, outputs=2, split=lengths)
    return graph.add("Split", value, graph.constant(lengths), outputs=2)


def add_one_hot(graph: _Graph) -> object:
    if (places := graph.pick("int64", rank=1)) is None:
        return None
    depth = graph.constant(graph.random.randint(1, 4))
    return graph.add("OneHot", places, depth, graph.constant([0, 1]), axis=graph.random.choice((-1, 0)))


def add_choice(graph: _Graph) -> object:
    """An If whose branches give values of the graph."""
    condition, value = graph.pick("bool"), graph.pick()
    if condition is None or value is None or condition.some.size != 1:
        return None
    other = graph.like(value)
    if other.rank != value.rank:
        return None
    branches = {}
    for name, taken in (("then_branch", value), ("else_branch", other)):
        made = f"{name[0]}{len(graph.nodes)}"
        end = helper.make_tensor_value_info(made, _CODES[value.dtype], None)
        branches[name] = helper.make_graph([helper.make_node("Identity", [taken.name], [made])], name, [], [end])
    node = helper.make_node("If", [condition.name], [f"v{len(graph.nodes)}"], **branches)
    at: list[Array | None] = []
    for size in range(len(SIZES)):
        decision = condition.at[size]
        at.append(
            None if decision is None or decision.size != 1 else (value if decision.ravel()[0] else other).at[size]
        )
    if all(array is None for array in at):
        return None
    graph.nodes.append(node)
    graph.values.append(Value(f"v{len(graph.nodes) - 1}", tuple(at)))
    return None


STEPS = [*_steps(), *3 * [add_arithmetic], *2 * [add_cast], *2 * [add_comparison], add_where, add_reshape_of_input]


def shape_graph(seed: int) -> ShapeGraph:
    """Return the graph of the seed."""
    random = Random(seed)
    opset = random.choice((11, 13, 17, 18, 21, 23))
    graph = _Graph(random, opset, [random.choice(_DIMS) for _ in range(random.randint(1, 4))])
    arrays = [_input([size[dim] if isinstance(dim, str) else dim for dim in graph.shape]) for size in SIZES]
    graph.values.append(Value("x", tuple(arrays)))
    graph.add("Shape", graph.values[0])
    if random.random() < 0.5:
        graph.add("Identity", graph.constant([graph.number("int64") for _ in range(random.randint(1, 3))]))
    wanted, tries = random.randint(3, 14), 0
    while len(graph.nodes) < wanted and tries < 100:
        random.choice(STEPS)(graph)
        tries += 1
    read = {name for node in graph.nodes for name in node.input}
    ends = [value for value in graph.values[1:] if value.name not in read or random.random() < 0.15]
    outputs = [
        helper.make_tensor_value_info(f"{value.name}_out", _CODES[value.dtype], [None] * value.rank) for value in ends
    ]
    graph.nodes += [helper.make_node("Identity", [value.name], [f"{value.name}_out"]) for value in ends]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, graph.shape)
    proto = helper.make_graph(graph.nodes, "g", [x], outputs, graph.constants)
    ir_version = 8 if opset < 21 else 10
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    fed = [{"x": x} for size, x in enumerate(arrays) if all(value.at[size] is not None for value in graph.values)]
    return ShapeGraph(model, tuple(fed[:1] if all(isinstance(dim, int) for dim in graph.shape) else fed))


def _input(shape: Sequence[int]) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
