"""How long insert-promote-types and resolve-promote-types take on graphs of which every tenth node is mixed.

    python benchmarks/promotion.py [NODES ...]

The time has to grow with the size of the graph and no faster: the last column is microseconds a node.
"""

from __future__ import annotations

import sys
import time

import onnx_ir
from onnx_ir import DataType

from castsmith.passes.promote.insert import InsertPromoteTypes
from castsmith.passes.promote.resolve import ResolvePromoteTypes

SIZES = (10_000, 50_000, 100_000)
MIXED = 10


def graph_of(nodes: int) -> onnx_ir.Model:
    """A chain of Add, Mul and Relu on floats, into which every tenth node brings an int32."""
    shape = onnx_ir.Shape([4])
    x, n = (
        onnx_ir.Value(name=name, shape=shape, type=onnx_ir.TensorType(dtype))
        for name, dtype in (("x", DataType.FLOAT), ("n", DataType.INT32))
    )
    made: list[onnx_ir.Node] = []
    value = x
    for index in range(nodes):
        other = n if index % MIXED == 0 else x
        operator = ("Add", "Mul", "Relu")[index % 3] if other is x else "Add"
        inputs = [value] if operator == "Relu" else [value, other]
        node = onnx_ir.node(operator, inputs, name=f"node_{index}")
        value = node.outputs[0]
        value.name, value.dtype, value.shape = f"v{index}", DataType.FLOAT, shape
        made.append(node)
    graph = onnx_ir.Graph([x, n], [value], nodes=made, opset_imports={"": 21}, name="chain")
    return onnx_ir.Model(graph, ir_version=10)


def main(sizes: list[int]) -> None:
    print(f"{'nodes':>8} {'mixed':>7} {'insert s':>9} {'resolve s':>10} {'us/node':>8}")
    for size in sizes:
        model = graph_of(size)
        start = time.perf_counter()
        inserted = InsertPromoteTypes(promote_unsafe=True).call(model)
        middle = time.perf_counter()
        resolved = ResolvePromoteTypes().call(model)
        end = time.perf_counter()
        assert len(inserted.records.rewrites) == len(resolved.records.rewrites) == -(-size // MIXED)
        per_node = (end - start) / size * 1e6
        row = f"{size:8} {len(inserted.records.rewrites):7} {middle - start:9.2f} {end - middle:10.2f} {per_node:8.1f}"
        print(row)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or list(SIZES))
