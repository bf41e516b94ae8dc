"""The processor time of `castsmith optimize` for graphs of many shapes, as ratios to ONNX Runtime's and to onnx's.

    python -m benchmarks.graph_speed [--repeat N] [--only SHAPE]
    python -m benchmarks.graph_speed --growth [--only SHAPE]
    python -m benchmarks.graph_speed --write SHAPE graph.onnx

For each shape whole processes take turns, N times: `castsmith optimize`, an ONNX Runtime session at basic level that
writes its model, a load and save with onnx, and one with onnx-ir, which reads and writes models for Castsmith: the
floor of its time. Prints the median and the spread of the ratios of the runs of one turn, and the same for the start: a
model of eight nodes. With `--growth` it prints the times of Castsmith alone, for each graph and for one of ten times as
many nodes, in turns: nothing is compared with itself elsewhere, so that the baseline is the smaller graph.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.graphs import cast_graph
from benchmarks.pairing import in_turns, ratios, spread
from benchmarks.peers import TOOLS, run

_F16, _F32, _F64 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE
_WIDTH = 8
_TOOLS = ("castsmith", "ONNX Runtime, basic level", "onnx, load and save only")
_ONNX_IR = """import gc, sys, castsmith
gc.disable()
import onnx_ir
onnx_ir.save(onnx_ir.load(sys.argv[1]), sys.argv[2])"""
"""Without sympy, which castsmith keeps onnx-ir from importing, and without garbage collection, as in the command."""
_FLOOR = "onnx-ir, load and save only"


class _Graph:
    """Nodes and weights of a graph under construction."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op_type: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        """Add a node; return the name of its first output."""
        name = f"{self.name}_{op_type}_{len(self.nodes)}"
        made = [f"{name}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), made, name, domain=domain, **attributes))
        return made[0]

    def cast(self, value: str, to: int) -> str:
        return self.node("Cast", value, to=to)

    def weight(self, *shape: int, dtype: type[np.generic] = np.float32) -> str:
        """Add an initializer; return its name."""
        name = f"{self.name}_w{len(self.weights)}"
        array = ((np.arange(int(np.prod(shape))) + len(self.weights)) % 7).reshape(shape).astype(dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def model(
        self, result: str, width: int = _WIDTH, functions: list[onnx.FunctionProto] | None = None
    ) -> onnx.ModelProto:
        """Return the model of the graph, from `x` to `result`."""
        ports = [helper.make_tensor_value_info(name, _F32, ["N", width]) for name in ("x", result)]
        graph = helper.make_graph(self.nodes, self.name, ports[:1], ports[1:], self.weights)
        opsets = [helper.make_opsetid("", 21), *([helper.make_opsetid("own", 1)] if functions else [])]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions or [])

    def branch(self, result: str) -> onnx.GraphProto:
        """Return the graph as a branch of If."""
        return helper.make_graph(
            self.nodes, self.name, [], [helper.make_tensor_value_info(result, _F32, ["N", _WIDTH])], self.weights
        )


def constants(blocks: int = 1667) -> onnx.ModelProto:
    """A chain of blocks of 12 nodes: the Cast of a constant, a round trip through float16, and arithmetic."""
    graph, value = _Graph(), "x"
    for _ in range(blocks):
        constant = graph.cast(graph.weight(_WIDTH, dtype=np.float16), _F32)
        value = graph.cast(graph.cast(graph.node("Mul", value, constant), _F16), _F32)
        value = graph.node("Relu", graph.node("Add", value, constant))
        for op_type in ("Mul", "Add", "Sub"):
            value = graph.node(op_type, value, constant)
        for op_type in ("Abs", "Identity", "Tanh"):
            value = graph.node(op_type, value)
    return graph.model(value)


def deep_chain(nodes: int = 20_000) -> onnx.ModelProto:
    """One chain of unary operators, every eighth pair of which is an exact round trip."""
    graph, value = _Graph(), "x"
    while len(graph.nodes) < nodes:
        for op_type in ("Neg", "Abs", "Sigmoid", "Exp", "Tanh", "Relu"):
            value = graph.node(op_type, value)
        value = graph.cast(graph.cast(value, _F64), _F32)
    return graph.model(value)


def fan_out(readers: int = 5_000) -> onnx.ModelProto:
    """One value with many readers: casts to two types and operators behind them, all added up in the end."""
    graph, ends = _Graph(), list[str]()
    for index in range(readers):
        there = graph.cast("x", (_F64, _F16)[index % 2])
        ends.append(graph.node("Neg", graph.cast(there, _F32)))
    return graph.model(graph.node("Sum", *ends))


def transformer(blocks: int = 100, width: int = 16) -> onnx.ModelProto:
    """Blocks of attention and a feed-forward part, with a layer normalization in single operators, as exported."""
    graph, value = _Graph(), "x"
    for _ in range(blocks):
        normal = _normalized(graph, value, width)
        query, key, other = (
            graph.node("Add", graph.node("MatMul", normal, graph.weight(width, width)), graph.weight(width))
            for _ in range(3)
        )
        scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[1, 0]))
        scale = graph.cast(graph.weight(1, dtype=np.float16), _F32)
        weights = graph.node("Softmax", graph.cast(graph.cast(graph.node("Mul", scores, scale), _F64), _F32), axis=-1)
        mixed = graph.node("MatMul", graph.node("MatMul", weights, other), graph.weight(width, width))
        value = graph.node("Add", value, graph.node("Add", mixed, graph.weight(width)))
        inner = graph.node("MatMul", _normalized(graph, value, width), graph.weight(width, 4 * width))
        inner = graph.node("Add", inner, graph.weight(4 * width))
        active = graph.node("Mul", inner, graph.node("Sigmoid", graph.cast(graph.cast(inner, _F16), _F32)))
        outer = graph.node("Add", graph.node("MatMul", active, graph.weight(4 * width, width)), graph.weight(width))
        value = graph.node("Add", value, outer)
    return graph.model(value, width)


def _normalized(graph: _Graph, value: str, width: int) -> str:
    axes = graph.node("Constant", value_ints=[-1])
    centred = graph.node("Sub", value, graph.node("ReduceMean", value, axes))
    power = graph.cast(graph.node("Constant", value_float=2.0), _F32)
    variance = graph.node("ReduceMean", graph.node("Pow", centred, power), axes)
    spread = graph.node("Sqrt", graph.node("Add", variance, graph.node("Constant", value_float=1e-5)))
    scaled = graph.node("Mul", graph.node("Div", centred, spread), graph.weight(width))
    return graph.node("Add", scaled, graph.weight(width))


def calls(times: int = 1_000) -> onnx.ModelProto:
    """One function that is called many times, with casts inside and around."""
    body = _Graph("body")
    end = body.node("Sigmoid", body.cast(body.cast(body.node("Neg", "a"), _F64), _F32))
    end = body.node("Add", body.node("Mul", end, "a"), "a")
    function = helper.make_function("own", "gate", ["a"], [end], body.nodes, [helper.make_opsetid("", 21)])
    graph, value = _Graph(), "x"
    for _ in range(times):
        value = graph.node("gate", graph.cast(graph.cast(value, _F64), _F32), domain="own")
    return graph.model(value, functions=[function])


def control_flow(times: int = 400) -> onnx.ModelProto:
    """Ifs within Ifs, which read values and cast constants from around them."""
    graph, value = _Graph(), "x"
    graph.weights.append(numpy_helper.from_array(np.array(True), "flag"))
    for index in range(times):
        flag = graph.node("Greater", graph.node("ReduceSum", value, keepdims=0), graph.weight())
        arms = list[onnx.GraphProto]()
        for side in ("then", "else"):
            arm = _Graph(f"{side}{index}")
            leaves = list[onnx.GraphProto]()
            for inner in ("then", "else"):
                leaf = _Graph(f"{side}{index}{inner}")
                constant = leaf.cast(leaf.weight(_WIDTH, dtype=np.float16), _F32)
                through = leaf.cast(leaf.cast(leaf.node("Add", value, constant), _F64), _F32)
                leaves.append(leaf.branch(leaf.node("Tanh", through)))
            there = arm.node("If", flag, then_branch=leaves[0], else_branch=leaves[1])
            arms.append(arm.branch(arm.node("Neg", arm.cast(arm.cast(there, _F16), _F32))))
        value = graph.node("If", flag, then_branch=arms[0], else_branch=arms[1])
    return graph.model(value)


SHAPES: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "start": lambda _: deep_chain(1),
    "casts of constants": lambda times: constants(1667 * times),
    "chain of casts": lambda times: cast_graph(20_000 * times, 5_000 * times),
    "deep chain": lambda times: deep_chain(20_000 * times),
    "fan-out": lambda times: fan_out(5_000 * times),
    "transformer": lambda times: transformer(100 * times),
    "calls": lambda times: calls(1_000 * times),
    "control flow": lambda times: control_flow(400 * times),
}
"""The graphs, as large as a number times the usual size."""


def _seconds(command: list[str], result: Path) -> Callable[[], float]:
    """Return what runs the command once, and returns its processor time. It has to write `result`."""

    def once() -> float:
        result.unlink(missing_ok=True)
        spent = run([sys.executable, *command], 600).processor
        if not result.exists():
            raise SystemExit(f"nothing was written by {command}")
        return spent

    return once


def _growth(name: str, folder: Path, repeat: int) -> str:
    """Return a row of the processor time for the graph and for one ten times as large."""
    sources, result = {times: folder / f"graph_{times}.onnx" for times in (1, 10)}, folder / "result.onnx"
    for times, source in sources.items():
        onnx.save(SHAPES[name](times), source)
    works = {times: _seconds(TOOLS[_TOOLS[0]](f"{path}", f"{result}"), result) for times, path in sources.items()}
    small, large = in_turns(works, repeat).values()
    nodes = _count(onnx.load(sources[10]).graph)
    return f"| {name} | {nodes} | {min(small):.2f} | {min(large):.2f} | {spread(ratios(large, small), 1)} |"


def _row(name: str, folder: Path, repeat: int) -> str:
    source, result = folder / "graph.onnx", folder / "result.onnx"
    onnx.save(SHAPES[name](1), source)
    nodes = _count(onnx.load(source).graph)
    files = str(source), str(result)
    commands = {tool: TOOLS[tool](*files) for tool in _TOOLS} | {_FLOOR: ["-c", _ONNX_IR, *files]}
    times = in_turns({tool: _seconds(command, result) for tool, command in commands.items()}, repeat)
    ours, runtime, onnx_alone, floor = times.values()
    pairs = (ours, runtime), (ours, onnx_alone), (floor, runtime), (floor, onnx_alone)
    cells = " | ".join(spread(ratios(*pair)) for pair in pairs)
    seconds = " | ".join(f"{min(each):.2f}" for each in times.values())
    return f"| {name} | {nodes} | {cells} | {seconds} |"


def _count(graph: onnx.GraphProto) -> int:
    held = sum(_count(attribute.g) for node in graph.node for attribute in node.attribute if attribute.HasField("g"))
    return len(graph.node) + held


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", choices=SHAPES, metavar="SHAPE", help=f"one of {', '.join(SHAPES)}")
    parser.add_argument("--growth", action="store_true", help="time each graph and one ten times as large instead")
    parser.add_argument("--write", nargs=2, metavar=("SHAPE", "FILE"), help="write the graph, and measure nothing")
    arguments = parser.parse_args()
    if arguments.write:
        onnx.save(SHAPES[arguments.write[0]](1), arguments.write[1])
        return
    names = [name for name in SHAPES if arguments.only in (None, name) and not (arguments.growth and name == "start")]
    titles = "graph | nodes | to ONNX Runtime | to onnx | onnx-ir to ONNX Runtime | onnx-ir to onnx | castsmith, s"
    titles += " | ONNX Runtime, s | onnx, s | onnx-ir, s"
    if arguments.growth:
        titles = "graph | nodes | with a tenth of the nodes, s | s | ratio"
    print(f"| {titles} |\n|---{titles.count('|') * '|---'}|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print((_growth if arguments.growth else _row)(name, Path(folder), arguments.repeat), flush=True)


if __name__ == "__main__":
    main()
