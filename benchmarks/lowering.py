"""How fast lowered casts run in ONNX Runtime, as ratios to its own kernels: above 1 means faster. Prints Markdown.

    python -m benchmarks.lowering [--elements N] [--runs N] [--threads N]

All take turns: processor time in one thread, elapsed time in more. A ratio is the median of the turns, with the ends of
the middle half of them, since one run takes milliseconds.
"there and back" is rounded in place if the encoding supports that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from onnx_ir import DataType

from benchmarks.pairing import in_turns, middle, ratios, spread
from castsmith.lowering.builder import Builder
from castsmith.lowering.encodings.choose import NEEDS_BITCAST, Encoding, decode, encode
from castsmith.lowering.encodings.ladder import round_in_place
from castsmith.lowering.encodings.table import round_by_table
from castsmith.lowering.formats import NarrowPolicy
from castsmith.numerics.types import FLOAT8_TYPES, type_name

Write = Callable[[Builder, onnx_ir.Value], onnx_ir.Value]
POLICY = NarrowPolicy(True, 26)
ROUNDERS = {Encoding.TABLE: round_by_table, Encoding.LADDER: round_in_place}


def model_of(write: Write, source: DataType, opset: int) -> onnx.ModelProto:
    """A model of one input and one output, which `write` makes of it."""
    constants: list[onnx_ir.Value] = []

    def home(name: str, array: Any) -> onnx_ir.Value:
        tensor = onnx_ir.tensor(array, name=f"{name}_{len(constants)}")
        shape, kind = onnx_ir.Shape(array.shape), onnx_ir.TensorType(tensor.dtype)
        constants.append(onnx_ir.Value(name=tensor.name, shape=shape, type=kind, const_value=tensor))
        return constants[-1]

    x, build = onnx_ir.val("x", source, ["N"]), Builder(home, flat_look_up=True)
    y = write(build, x)
    y.name = "y"
    graph = onnx_ir.Graph([x], [y], nodes=build.nodes, initializers=constants, opset_imports={"": opset}, name="timed")
    return onnx_ir.to_proto(onnx_ir.Model(graph, ir_version=13 if opset > 24 else 10))


def runner(model: onnx.ModelProto, x: Any, threads: int) -> Callable[[], float]:
    """Runs the model once, input and output bound beforehand, and gives the seconds that took."""
    clock = time.process_time if threads == 1 else time.perf_counter
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    opened = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    binding = opened.io_binding()
    value = (
        onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x, model.graph.input[0].type.tensor_type.elem_type)
        if x.dtype == np.uint8
        else onnxruntime.OrtValue.ortvalue_from_numpy(x)
    )
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y")

    def once() -> float:
        began = clock()
        opened.run_with_iobinding(binding)
        return clock() - began

    once()
    return once


def native(to: DataType, *types: DataType) -> Write:
    def write(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
        for dtype in (to, *types):
            x = build.cast(x, dtype)
        return x

    return write


def measured(to: DataType, given: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each conversion in each turn, so that a slow moment is slow for all."""
    x = np.random.default_rng(0).normal(0, 10, given.elements).astype(np.float32)
    codes = np.random.default_rng(0).integers(0, 256, given.elements).astype(np.uint8)
    writes: dict[str, tuple[Write, DataType, int]] = {
        "native encode": (native(to), DataType.FLOAT, 26),
        "native decode": (native(DataType.FLOAT), to, 26),
        "native both": (native(to, DataType.FLOAT), DataType.FLOAT, 26),
        "decode": (lambda b, v: decode(b, v, to, DataType.FLOAT), DataType.UINT8, 26),
    }
    for s in Encoding:
        opset = 26 if s in NEEDS_BITCAST else 24
        writes[f"{s.value} encode"] = (lambda b, v, s=s: encode(b, v, to, POLICY, s), DataType.FLOAT, opset)
        writes[f"{s.value} both"] = (
            lambda b, v, s=s: decode(b, encode(b, v, to, POLICY, s), to, DataType.FLOAT), DataType.FLOAT, opset,
        )  # fmt: skip
    for s, rounded in ROUNDERS.items():
        writes[f"{s.value} in place"] = (lambda b, v, r=rounded: r(b, v, to, POLICY), DataType.FLOAT, 26)
    runners = {
        name: runner(model_of(write, source, opset), x if source == DataType.FLOAT else codes, given.threads)
        for name, (write, source, opset) in writes.items()
    }
    return in_turns(runners, given.runs)


def faster(native: list[float], ours: list[float]) -> str:
    return spread(middle(ratios(native, ours)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--elements", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    names = [s.value for s in Encoding]
    heads = [
        "type",
        "native encode, ns",
        "decode",
        *(f"{s} encode" for s in names),
        *(f"{s} there and back" for s in names),
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for to in FLOAT8_TYPES:
        took = measured(to, given)
        cells = [type_name(to), f"{min(took['native encode']) / given.elements * 1e9:.1f}"]
        cells.append(faster(took["native decode"], took["decode"]))
        cells += [faster(took["native encode"], took[f"{s} encode"]) for s in names]
        cells += [faster(took["native both"], took.get(f"{s} in place", took[f"{s} both"])) for s in names]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
