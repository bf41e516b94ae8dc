"""How the time of `optimize` grows with the graph: ten times the nodes, in every shape that could be quadratic.

    python -m benchmarks.linear [--nodes N] [--repeat N]

Prints, for each shape, the processor seconds to read, optimize and write a model of N nodes and of 10 N, and the ratio:
the median of several turns, with the least and the greatest. The baseline is the smaller graph; `graph_speed` has the
ratios to other tools.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import castsmith
from benchmarks.graphs import cast_graph
from benchmarks.pairing import in_turns, ratios, spread

_F32, _F16, _F64, _I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT64


def consumers(nodes: int) -> onnx.ModelProto:
    """One value that all nodes read: casts of it to two types, and operators."""
    made = [_cast("x", f"c{i}", (_F16, _F64)[i % 2]) if i % 2 else _node("Neg", "x", f"c{i}") for i in range(nodes - 1)]
    kept = [_node("Shape", f"c{i}", f"s{i}") for i in range(1, nodes - 1, 2)]
    return _model([*made, *kept], ["c0"])


def shared_constant(nodes: int) -> onnx.ModelProto:
    """One constant that every second node casts: folded once."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 2):
        made += [_cast("w", f"c{i}", _F32), _node("Add", _previous(made), f"c{i}", f"a{i}")]
    return _model(made, [made[-1].output[0]], [numpy_helper.from_array(np.ones(4, np.float16), "w")])


def constants(nodes: int) -> onnx.ModelProto:
    """As many initializers as nodes, half of them cast."""
    made, weights = list[onnx.NodeProto](), list[onnx.TensorProto]()
    for i in range(nodes // 2):
        weights.append(numpy_helper.from_array(np.full(4, i % 9, np.float16), f"w{i}"))
        made += [_cast(f"w{i}", f"c{i}", _F32), _node("Add", _previous(made), f"c{i}", f"a{i}")]
    return _model(made, [made[-1].output[0]], weights)


def chain_of_casts(nodes: int) -> onnx.ModelProto:
    """One chain of exact casts and nothing else, of which two are left."""
    made = list[onnx.NodeProto]()
    for i in range(nodes):
        made.append(_cast(_previous(made), f"c{i}", (_F64, _F32)[i % 2] if i < nodes - 1 else _F16))
    return _model(made, [made[-1].output[0]], dtype=_F16)


def one_region(nodes: int) -> onnx.ModelProto:
    """A chain of moves and casts: one problem of placing."""
    made = list[onnx.NodeProto]()
    for i in range(nodes):
        value = _previous(made)
        if i % 4:
            made.append(_node("Transpose", value, f"t{i}", perm=[0]))
        else:
            made.append(_cast(value, f"t{i}", (_F16, _F32)[i // 4 % 2]))
    return _model([*made, _cast(_previous(made), "end", _F32)], ["end"])


def mixed(nodes: int) -> onnx.ModelProto:
    """Every second node has operands of two types: two conversions each."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 2):
        made += [_cast(_previous(made), f"n{i}", _F16), _node("Add", f"n{i}", "x", f"a{i}")]
    return _model(made, [made[-1].output[0]])


def branches(nodes: int) -> onnx.ModelProto:
    """Many small subgraphs that capture an outer value."""
    made = list[onnx.NodeProto]()
    for i in range(nodes // 6):
        value = _previous(made)
        arms = [
            helper.make_graph(
                [_cast(value, f"{side}c{i}", _F64), _cast(f"{side}c{i}", f"{side}{i}", _F32)],
                f"{side}_{i}",
                [],
                [helper.make_tensor_value_info(f"{side}{i}", _F32, [4])],
            )
            for side in ("then", "else")
        ]
        made += [_node("If", "b", f"i{i}", then_branch=arms[0], else_branch=arms[1]), _node("Neg", f"i{i}", f"n{i}")]
    return _model(made, [made[-1].output[0]])


def functions(nodes: int) -> onnx.ModelProto:
    """Many calls of one function, and of functions of their own."""
    made, bodies = list[onnx.NodeProto](), list[onnx.FunctionProto]()
    opset = [helper.make_opsetid("", 21)]
    for i in range(nodes // 4):
        name = f"f{i}" if i % 2 else "shared"
        if i < 1 or i % 2:
            body = [_cast("a", "d", _F64), _cast("d", "e", _F32), _node("Neg", "e", "r")]
            bodies.append(helper.make_function("own", name, ["a"], ["r"], body, opset))
        made.append(helper.make_node(name, [_previous(made)], [f"r{i}"], f"r{i}", domain="own"))
    return _model(made, [made[-1].output[0]], functions=bodies)


def wide(nodes: int) -> onnx.ModelProto:
    """One Concat of as many casts as there are nodes."""
    made = [_cast("x", f"c{i}", (_F16, _F64, _I64)[i % 3]) for i in range(nodes // 2)]
    back = [_cast(f"c{i}", f"d{i}", _F32) for i in range(nodes // 2)]
    joined = helper.make_node("Concat", [node.output[0] for node in back], ["y"], "joined", axis=0)
    return _model([*made, *back, joined], ["y"], shape=[4 * (nodes // 2)])


SHAPES: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "chain": lambda nodes: cast_graph(nodes, nodes // 4),
    "consumers of one value": consumers,
    "casts of one constant": shared_constant,
    "constants": constants,
    "one chain of casts": chain_of_casts,
    "one region of moves": one_region,
    "mixed operands": mixed,
    "branches": branches,
    "functions": functions,
    "one Concat": wide,
}


def _cast(value: str, result: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [value], [result], result, to=to)


def _node(op_type: str, *names: str, **attributes: Any) -> onnx.NodeProto:
    *inputs, output = names
    return helper.make_node(op_type, inputs, [output], output, **attributes)


def _previous(made: list[onnx.NodeProto]) -> str:
    return made[-1].output[0] if made else "x"


def _model(
    nodes: list[onnx.NodeProto],
    outputs: list[str],
    weights: list[onnx.TensorProto] | None = None,
    *,
    functions: list[onnx.FunctionProto] | None = None,
    dtype: int = _F32,
    shape: list[int] | None = None,
) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info("x", _F32, [4]), helper.make_tensor_value_info("b", TensorProto.BOOL, [])]
    results = [helper.make_tensor_value_info(name, dtype, shape or [4]) for name in outputs]
    graph = helper.make_graph(nodes, "g", ports, results, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions or [])


def _seconds(path: Path) -> float:
    start = time.process_time()
    result = castsmith.optimize(path, promotion=castsmith.PromotionRules(promote_unsafe=True))
    castsmith.save(result.model, path.with_name("out.onnx"))
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    nodes: int = arguments.nodes
    gc.disable()
    print(f"| graph | {nodes} nodes, s | {10 * nodes} nodes, s | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        paths = {count: Path(folder) / f"model_{count}.onnx" for count in (nodes, 10 * nodes)}
        for name, make in SHAPES.items():
            for count, path in paths.items():
                onnx.save(make(count), path)
            _seconds(paths[nodes])  # what the first run alone takes
            works = {count: partial(_seconds, path) for count, path in paths.items()}
            small, large = in_turns(works, arguments.repeat).values()
            print(f"| {name} | {min(small):.2f} | {min(large):.2f} | {spread(ratios(large, small), 1)} |", flush=True)


if __name__ == "__main__":
    main()
