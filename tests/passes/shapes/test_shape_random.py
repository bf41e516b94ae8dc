"""Random arithmetic on shapes, with Reshape, Expand and Slice by its results: the same at all sizes that run before."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper

from castsmith.passes import FoldShapes
from tests.evaluator import evaluate
from tests.sampling import sampled

DIMS = ["N", "M", 1, 2, 3, 4, 6]
TYPES = {"int64": TensorProto.INT64, "int32": TensorProto.INT32}


class Builder:
    """Values that hold shape arithmetic: vectors and scalars, by element type."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        rank = self.random.randint(1, 4)
        self.shape = [self.random.choice(DIMS) for _ in range(rank)]
        self.vectors: list[tuple[str, str, int]] = []  # name, type, length
        self.scalars: list[tuple[str, str]] = []

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, values: object, dtype: str = "int64") -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(onnx.numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def step(self) -> None:
        """Add one operation on what is there."""
        random = self.random
        name, dtype, length = random.choice(self.vectors)
        kind = random.randrange(9)
        if kind == 0:
            other = "int32" if dtype == "int64" else "int64"
            self.vectors.append((self.node("Cast", [name], to=TYPES[other]), other, length))
        elif kind == 1 and length > 0:
            picked = self.constant(random.randrange(-length, length))
            self.scalars.append((self.node("Gather", [name, picked]), dtype))
        elif kind == 2 and length > 1:
            start, end = self.constant([random.randrange(length)]), self.constant([random.choice([length, -1, 99])])
            made = self.node("Slice", [name, start, end])
            self.vectors.append((self.node("Concat", [made, self.constant([2], dtype)], axis=0), dtype, -1))
        elif kind == 3 and self.scalars:
            scalar, of = random.choice(self.scalars)
            self.vectors.append((self.node("Unsqueeze", [scalar, self.constant([0])]), of, 1))
        elif kind == 4:
            op = random.choice(["Add", "Mul", "Sub", "Div", "Mod", "Max", "Min"])
            number = self.constant(random.choice([1, 2, 3, 7]), dtype)
            self.vectors.append((self.node(op, [name, number]), dtype, length))
        elif kind == 5:
            alike = [each for each in self.vectors if each[1] == dtype]
            others = random.choices(alike, k=2)
            total = sum(each[2] for each in others) if all(each[2] >= 0 for each in others) else -1
            self.vectors.append((self.node("Concat", [each[0] for each in others], axis=0), dtype, total))
        elif kind == 6:
            op = random.choice(["ReduceProd", "ReduceSum", "ReduceMax"])
            self.scalars.append((self.node(op, [name], keepdims=0), dtype))
        elif kind == 7:
            same = self.node("Equal", [name, self.constant(random.choice([-1, 0, 2]), dtype)])
            self.vectors.append((self.node("Where", [same, self.constant(1, dtype), name]), dtype, length))
        elif kind == 8 and self.scalars:
            scalar, of = random.choice(self.scalars)
            self.scalars.append((self.node("Mul", [scalar, self.constant(2, of)]), of))

    def target(self) -> str:
        """A vector for a Reshape: dimensions of the input, some of them multiplied or left open."""
        random, parts = self.random, []
        whole = self.node("Shape", ["x"])
        narrow = random.random() < 0.5
        whole = self.node("Cast", [whole], to=TensorProto.INT32) if narrow else whole
        dtype = "int32" if narrow else "int64"
        for index in range(len(self.shape)):
            picked = self.node("Gather", [whole, self.constant([index])])
            parts.append(picked if random.random() < 0.7 else self.constant([random.choice([1, 2, 3, -1])], dtype))
        if random.random() < 0.5:
            random.shuffle(parts)
        if len(parts) > 1 and random.random() < 0.4:
            parts[:2] = [self.node("Mul", parts[:2])]
        made = self.node("Concat", parts, axis=0)
        return self.node("Cast", [made], to=TensorProto.INT64) if narrow else made


def model_of(seed: int, opset: int = 18) -> onnx.ModelProto:
    builder = Builder(seed)
    builder.vectors.append((builder.node("Shape", ["x"]), "int64", len(builder.shape)))
    for _ in range(builder.random.randint(3, 12)):
        builder.step()
    outputs = [name for name, *_ in (*builder.vectors[-2:], *builder.scalars[-1:])]
    outputs += [builder.node("Reshape", ["x", builder.target()], allowzero=builder.random.randrange(2))]
    outputs += [builder.node("Expand", [builder.node("Identity", ["x"]), builder.node("Shape", ["x"])])]
    result = [builder.node("Identity", [name]) for name in dict.fromkeys(outputs)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, builder.shape)
    ports = [onnx.ValueInfoProto(name=name) for name in result]
    graph = helper.make_graph(builder.nodes, "g", [x], ports, builder.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize("first", sampled("random shapes", range(0, 60, 10), 2))
def test_the_same_at_all_sizes(first: int) -> None:
    changed = 0
    for seed in range(first, first + 10):
        proto = model_of(seed)
        after = onnx_ir.from_proto(proto)
        changed += FoldShapes()(after).modified
        dims = [each.dim_value or each.dim_param for each in proto.graph.input[0].type.tensor_type.shape.dim]
        for n, m in ((0, 3), (1, 1), (2, 5), (3, 0), (6, 2)):
            shape = [each if isinstance(each, int) else {"N": n, "M": m}[each] for each in dims]
            feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
            with np.errstate(all="ignore"):
                try:
                    expected = evaluate(onnx_ir.from_proto(proto), feeds)
                except Exception:  # the sizes do not fit the graph, whatever that raises
                    continue
                found = evaluate(after, feeds)
            for old, new in zip(expected, found, strict=True):
                assert old.dtype == new.dtype, seed
                np.testing.assert_array_equal(old, new, strict=True, err_msg=f"seed {seed}, {shape}")
    assert changed
