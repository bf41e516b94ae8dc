"""Copies of models whose embeddings, or float inputs, are multiplied, as the residual streams of trained models are.

    python -m benchmarks.large_values FOLDER OUT NAME ... [--factor 1000]

A normalization gives the same result for a multiple of its operand, so that the copy computes nearly what the model
does, but squares in its normalizations exceed float16. `python -m benchmarks.convert OUT --files` then shows the tools
that lose the result.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnx.checker
from onnx import TensorProto, helper, numpy_helper


def multiply(model: onnx.ModelProto, factor: float) -> int:
    """Multiply the embeddings of the inputs by the factor, or the float inputs themselves; return how many."""
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), "castsmith_factor"))
    weights, inputs = {each.name for each in graph.initializer}, {each.name for each in graph.input}
    embedded = [x for x in graph.node if x.op_type == "Gather" and x.input[0] in weights and x.input[1] in inputs]
    for node in embedded:
        name = node.output[0]
        node.output[0] = f"{name}_small"
        place = list(graph.node).index(node) + 1
        graph.node.insert(place, helper.make_node("Mul", [node.output[0], "castsmith_factor"], [name]))
    if embedded:
        return len(embedded)
    floats = [each.name for each in graph.input if each.type.tensor_type.elem_type == TensorProto.FLOAT]
    for name in floats:
        for node in graph.node:
            node.input[:] = [f"{name}_large" if each == name else each for each in node.input]
        graph.node.insert(0, helper.make_node("Mul", [name, "castsmith_factor"], [f"{name}_large"]))
    return len(floats)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="+", help="the models, without .onnx")
    parser.add_argument("--factor", type=float, default=1000.0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        model = onnx.load(arguments.folder / f"{name}.onnx")
        count = multiply(model, arguments.factor)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, arguments.out / f"{name}.onnx")
        print(f"{name}: {count} multiplied by {arguments.factor:g}")


if __name__ == "__main__":
    main()
