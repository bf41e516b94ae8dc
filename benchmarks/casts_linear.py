"""How the time of simplify-casts and place-casts grows: 10,000 nodes with 2,000 casts, then ten times that.

python benchmarks/casts_linear.py
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

import onnx
import onnx_ir
from onnx import TensorProto, helper

from benchmarks.graphs import cast_graph
from castsmith.lowering.registry import make_pass


def many_regions(nodes: int, casts: int) -> onnx.ModelProto:
    """A chain of moves cut by computing operators, with two casts in each piece between."""
    return _chain(nodes, casts, compute_every=10)


def one_region(nodes: int, casts: int) -> onnx.ModelProto:
    """A chain of nothing but moves and casts."""
    return _chain(nodes, casts, compute_every=0)


GRAPHS: Mapping[str, Callable[[int, int], onnx.ModelProto]] = {
    "computing": cast_graph,
    "many regions": many_regions,
    "one region": one_region,
}


def _chain(nodes: int, casts: int, compute_every: int) -> onnx.ModelProto:
    made: list[onnx.NodeProto] = []
    value, half = "x", False
    for index in range(nodes):
        name = f"v{index}"
        if index % (nodes // casts) == 2:
            half = not half
            to = TensorProto.FLOAT16 if half else TensorProto.FLOAT
            made.append(helper.make_node("Cast", [value], [name], to=to))
        elif compute_every and index % compute_every == 0:
            made.append(helper.make_node("Neg", [value], [name]))
        else:
            made.append(helper.make_node("Transpose", [value], [name], perm=[1, 0]))
        value = name
    ends = TensorProto.FLOAT, TensorProto.FLOAT16 if half else TensorProto.FLOAT
    ports = [
        helper.make_tensor_value_info(name, dtype, ["N", "N"]) for name, dtype in zip(("x", value), ends, strict=True)
    ]
    graph = helper.make_graph(made, "chain", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def seconds(name: str, model: onnx_ir.Model) -> float:
    """Seconds of processor time; the model was there before, so the garbage collector leaves it alone."""
    gc.collect()
    gc.freeze()
    started = time.process_time()
    make_pass(name, {})(model)
    return time.process_time() - started


def main() -> None:
    seconds("place-casts", onnx_ir.from_proto(one_region(100, 20)))
    print(f"{'graph':14}{'pass':16}{'10k nodes':>12}{'100k nodes':>12}{'times':>8}")
    for kind, build in GRAPHS.items():
        small, large = (onnx_ir.from_proto(build(size, size // 5)) for size in (10_000, 100_000))
        for name in ("simplify-casts", "place-casts"):
            first, second = seconds(name, small), seconds(name, large)
            print(f"{kind:14}{name:16}{first:11.2f}s{second:11.2f}s{second / first:8.1f}", flush=True)


if __name__ == "__main__":
    main()
