"""Random valid graphs whose shape arithmetic meets operands that do not fit, or declared shapes that are wrong.

A runtime loads most of them, since it cannot infer the shapes, and runs those in which only a declaration is wrong.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.helper import make_tensor_value_info

INT64 = TensorProto.INT64


class _Builder:
    """A graph in the making; its values have `rows` rows and `columns` columns, except where one is wrong."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rows, self.columns = self.random.choice([2, 3, 4]), self.random.choice([2, 3, 6])
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"n{len(self.nodes)}", **attributes))
        return name

    def constant(self, values: object, dtype: str = "int64") -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(onnx.numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def _size(self, index: int) -> str:
        """One dimension, computed."""
        size, kind = (self.rows, self.columns)[index], self.random.randrange(4)
        if kind == 0:
            return self.node("Cast", [self.constant([size], "int32")], to=INT64)
        if kind == 1:
            return self.node("Mul", [self.constant([1]), self.constant([size])])
        shape = self.node("Shape", ["x"])
        picked = self.node("Gather", [shape, self.constant([index])])
        return picked if kind == 2 else self.node("Div", [self.node("Add", [picked, picked]), self.constant([2])])

    def computed(self, *, wrong: bool) -> str:
        """A value whose shape is computed, and may be `wrong` by a row or column."""
        sizes = [self._size(0), self._size(1)]
        if wrong:
            index = self.random.randrange(2)
            sizes[index] = self.node("Add", [sizes[index], self.constant([1])])
        shape, kind = self.node("Concat", sizes, axis=0), self.random.randrange(3)
        if kind == 0 and not wrong:
            return self.node("Reshape", ["x", shape])
        if kind == 1:
            return self.node("Expand", [self.constant(np.float32(3), "float32"), shape])
        return self.node("ConstantOfShape", [shape])

    def opaque(self) -> str:
        """A value whose shape depends on data."""
        kind = self.random.randrange(3)
        if kind == 0:
            return self.node("Compress", ["x", self.constant([True] * self.rows, "bool")], axis=0)
        if kind == 1:
            kept = self.constant([True] * (self.rows * self.columns), "bool")
            return self.node("Reshape", [self.node("Compress", ["x", kept]), "size"])
        name = f"e{len(self.nodes)}"
        branches = [
            helper.make_graph([node], "b", [], [onnx.ValueInfoProto(name=node.output[0])])
            for node in (
                helper.make_node("Identity", ["x"], [name]),
                helper.make_node("Reshape", ["x", "size"], [name]),
            )
        ]
        for branch in branches:
            branch.output[0].CopyFrom(make_tensor_value_info(name, TensorProto.FLOAT, None))
        return self.node("If", ["c"], then_branch=branches[0], else_branch=branches[1])

    def joined(self, values: list[str]) -> str:
        """An operator on two of the values; its result joins them if it has their shape."""
        a, b = self.random.choice(values), self.random.choice(values)
        kind = self.random.choice(["Add", "Sum", "Where", "Concat", "Gemm", "MatMul"])
        if kind == "Concat":
            return self.node(kind, [a, b], axis=self.random.randrange(2))
        if kind == "Gemm":
            return self.node(kind, [a, b], transB=1)
        if kind == "MatMul":
            return self.node(kind, [a, self.node("Transpose", [b], perm=[1, 0])])
        values.append(self.node(kind, ["c", a, b] if kind == "Where" else [a, b]))
        return values[-1]

    def wrong_shape(self) -> list[int]:
        """A shape that may be declared: another size, another rank, a size of 1, or the right one."""
        rows, columns = self.rows, self.columns
        shapes = [[rows + 1, columns], [rows, columns + 5], [rows, columns, 1], [rows], [1, columns], [rows, columns]]
        return self.random.choice(shapes)


def contradictory(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model, and inputs on which it runs where no operand is of a wrong shape."""
    builder = _Builder(seed)
    random, rows, columns = builder.random, builder.rows, builder.columns
    wrong = random.random() < 0.3
    values = [builder.computed(wrong=wrong), builder.opaque()]
    values += [builder.computed(wrong=False) if random.random() < 0.6 else builder.opaque() for _ in range(2)]
    outputs = list(dict.fromkeys(builder.joined(values) for _ in range(random.randint(1, 3))))
    inner = [value for value in values if value not in outputs]
    declared = [
        make_tensor_value_info(value, TensorProto.FLOAT, builder.wrong_shape())
        for value in random.sample(inner, random.randint(0, min(3, len(inner))))
    ]
    ports = [
        make_tensor_value_info(value, TensorProto.FLOAT, random.choice([None, None, builder.wrong_shape()]))
        for value in outputs
    ]
    dims = [random.choice([rows, rows, "N"]), random.choice([columns, columns, "M"])]
    inputs = [
        make_tensor_value_info("x", TensorProto.FLOAT, dims),
        make_tensor_value_info("size", INT64, [2]),
        make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(builder.nodes, "g", inputs, ports, builder.initializers, value_info=declared)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    return model, {"x": x, "size": np.array([rows, columns]), "c": np.array(bool(seed % 2))}
