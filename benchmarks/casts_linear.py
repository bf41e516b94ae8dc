"""How the time of simplify-casts and place-casts grows: 10,000 nodes with 2,000 casts, then ten times that.

    python -m benchmarks.casts_linear [--repeat N]

No other tool places casts, so that the baseline is the smaller graph. The two take turns; the ratio is the median of
the turns, with the least and the greatest, and the seconds are the least. Prints Markdown.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Mapping
from functools import partial

import onnx
import onnx_ir
from onnx import TensorProto, helper

from benchmarks.graphs import cast_graph
from benchmarks.pairing import in_turns, ratios, spread
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


_PASSES = ("simplify-casts", "place-casts")


def seconds(proto: onnx.ModelProto, until: str) -> float:
    """Seconds of processor time of a pass on the result of those before; no garbage of the model is collected."""
    model = onnx_ir.from_proto(proto)
    for name in _PASSES[: _PASSES.index(until)]:
        make_pass(name, {})(model)
    gc.collect()
    gc.freeze()
    started = time.process_time()
    make_pass(until, {})(model)
    spent = time.process_time() - started
    gc.unfreeze()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    seconds(one_region(100, 20), "place-casts")
    print("| graph | pass | 10,000 nodes, s | 100,000 nodes, s | ratio |\n|---|---|---|---|---|")
    for kind, build in GRAPHS.items():
        protos = [build(size, size // 5) for size in (10_000, 100_000)]
        for name in _PASSES:
            works = {size: partial(seconds, proto, name) for size, proto in enumerate(protos)}
            small, large = in_turns(works, repeat).values()
            cells = f"{min(small):.2f} | {min(large):.2f} | {spread(ratios(large, small), 1)}"
            print(f"| {kind} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
