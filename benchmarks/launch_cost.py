"""What the launch of a node costs in ONNX Runtime, in bytes that a node moves in that time.

    python -m benchmarks.launch_cost [--repeat N]        needs onnxruntime

Chains of Casts between int32 and int64 with a Neg behind each, and chains of Transposes, of growing size run on one
thread without optimization. The time of a node is a line over the bytes that it reads and writes: where it starts is
the launch, how it rises is the byte. The ratio is `LAUNCH_BYTES` in `passes/place/problem.py`. Castsmith itself is not
measured, so that there is no peer: the launch is compared with the byte, the sizes in turns, N times. Prints Markdown.
"""

# onnxruntime is not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime

from benchmarks.pairing import in_turns, spread, timed

_NODES = 200
_SIZES = (1, 16, 256, 1024, 4096, 16384, 65536)
_RUNS = 30


def chain_of_casts(size: int) -> tuple[onnx.ModelProto, int]:
    """The model, and the bytes that a node reads and writes. ONNX Runtime joins Casts in a row, so a Neg parts them."""
    steps = [
        ("Cast", {"to": onnx.TensorProto.INT64}),
        ("Neg", {}),
        ("Cast", {"to": onnx.TensorProto.INT32}),
        ("Neg", {}),
    ]
    nodes = [
        onnx.helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], **attributes)
        for i, (op, attributes) in zip(range(_NODES), steps * _NODES, strict=False)
    ]
    return _model(nodes, onnx.TensorProto.INT32, [size]), (12 + 16 + 12 + 8) * size // 4


def chain_of_transposes(size: int) -> tuple[onnx.ModelProto, int]:
    """The model, and the bytes that a node reads and writes."""
    nodes = [onnx.helper.make_node("Transpose", [f"v{i}"], [f"v{i + 1}"], perm=[1, 0]) for i in range(_NODES)]
    return _model(nodes, onnx.TensorProto.INT32, [2, max(size // 2, 2)]), 8 * max(size, 4)


def _model(nodes: list[onnx.NodeProto], dtype: int, shape: list[int]) -> onnx.ModelProto:
    first = onnx.helper.make_tensor_value_info("v0", dtype, shape)
    last = onnx.helper.make_tensor_value_info(f"v{_NODES}", dtype, None)
    graph = onnx.helper.make_graph(nodes, "chain", [first], [last])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)


def runner(model: onnx.ModelProto) -> Callable[[], float]:
    """Return what gives the least time of a node."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    feed = {"v0": np.ones(shape, np.int32)}
    once = timed(lambda: session.run(None, feed), time.perf_counter)
    return lambda: min(once() for _ in range(_RUNS)) / _NODES


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    print("| operator | launch, us | GB/s | launch in bytes |\n|---|---|---|---|")
    for name, make in (("Cast", chain_of_casts), ("Transpose", chain_of_transposes)):
        chains = {moved: runner(model) for model, moved in map(make, _SIZES)}
        times = in_turns(chains, repeat)
        lines = [np.polyfit(list(times), turn, 1, w=1 / np.array(turn)) for turn in zip(*times.values(), strict=True)]
        launches = [launch / rise for rise, launch in lines]
        cells = f"{min(launch for _, launch in lines) * 1e6:.2f} | {max(1 / rise for rise, _ in lines) / 1e9:.1f}"
        print(f"| {name} | {cells} | {spread(launches, 0)} |", flush=True)


if __name__ == "__main__":
    main()
