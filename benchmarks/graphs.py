"""Models of any size to time things on: chains of small operators with casts in them, and one big weight to fold.

python -m benchmarks.graphs 20000 5000 graph.onnx
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_WIDTH = 8
_UNARY = ("Relu", "Neg", "Abs", "Sigmoid")


def cast_graph(nodes: int, casts: int) -> onnx.ModelProto:
    """A chain of `nodes` nodes of which `casts` are Casts: identities, round trips, constants to fold, ones to keep.

    Every optimizer can do the work: half of the Casts are between float types, on the way or of a constant.
    """
    made: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    value, blocks = "x", casts * 5 // 6  # five blocks hold six Casts
    for index in range(blocks):
        value = _block(index, value, made, weights)
        while len(made) < nodes * (index + 1) // blocks:
            value = _node(made, _UNARY[len(made) % len(_UNARY)], value)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", _WIDTH]) for name in ("x", value)]
    graph = helper.make_graph(made, "casts", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def weight_cast(path: Path, megabytes: int, to: int) -> None:
    """Write a model of one float initializer of so many megabytes that is cast to the type `to`."""
    weight = np.random.default_rng(0).standard_normal(megabytes * 250_000, np.float32)
    node = helper.make_node("Cast", ["w"], ["y"], to=to, name="cast")
    output = helper.make_tensor_value_info("y", to, [weight.size])
    graph = helper.make_graph([node], "weight", [], [output], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def _block(index: int, value: str, made: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> str:
    """A Cast, or the two of a round trip, at the end of the chain; returns the chain's new end."""
    kind = index % 5
    if kind == 0:
        return _node(made, "Cast", value, to=TensorProto.FLOAT)
    if kind == 1:
        return _node(made, "Cast", value, to=TensorProto.DOUBLE)
    if kind == 2:
        return _node(made, "Cast", value, to=TensorProto.FLOAT)
    if kind == 3:
        array = np.arange(_WIDTH, dtype=np.float16) + np.float16(index % 7)
        weights.append(numpy_helper.from_array(array, f"w{index}"))
        return _node(made, "Add", value, _node(made, "Cast", f"w{index}", to=TensorProto.FLOAT))
    return _node(made, "Cast", _node(made, "Cast", value, to=TensorProto.FLOAT16), to=TensorProto.FLOAT)


def _node(made: list[onnx.NodeProto], op_type: str, *inputs: str, to: int | None = None) -> str:
    name = f"{op_type}_{len(made)}"
    made.append(helper.make_node(op_type, list(inputs), [f"{name}_out"], name=name))
    if to is not None:
        made[-1].attribute.append(helper.make_attribute("to", to))
    return made[-1].output[0]


if __name__ == "__main__":
    onnx.save(cast_graph(int(sys.argv[1]), int(sys.argv[2])), sys.argv[3])
