"""How fast lowered casts run in ONNX Runtime, as ratios to its own kernels: 4M floats, median of several runs.

python -m benchmarks.lowering [--elements N] [--runs N] [--threads N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
from onnx_ir import DataType

from castsmith.lowering.builder import Builder
from castsmith.lowering.codes import Policy
from castsmith.lowering.sequences import NEEDS_BITCAST, Sequence, decode, encode
from castsmith.lowering.sequences_round import round_in_place
from castsmith.lowering.sequences_table import round_by_table
from castsmith.lowering.sequences_ufp import round_by_ufp
from castsmith.numerics.types import FLOAT8_TYPES, type_name

Write = Callable[[Builder, onnx_ir.Value], onnx_ir.Value]
POLICY = Policy(True, 26)


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


def seconds(model: onnx.ModelProto, x: Any, runs: int, threads: int) -> float:
    """The median time of one run, input and output bound beforehand."""
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
    taken: list[float] = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        opened.run_with_iobinding(binding)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def native(to: DataType, *types: DataType) -> Write:
    def write(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
        for dtype in (to, *types):
            x = build.cast(x, dtype)
        return x

    return write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--elements", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    x = np.random.default_rng(0).normal(0, 10, given.elements).astype(np.float32)
    codes = np.random.default_rng(0).integers(0, 256, given.elements).astype(np.uint8)

    def timed(write: Write, source: DataType, opset: int) -> float:
        return seconds(
            model_of(write, source, opset), codes if source != DataType.FLOAT else x, given.runs, given.threads
        )

    print(
        f"{given.elements} elements, {given.threads} threads; a ratio above 1 is faster than ONNX Runtime's own kernels"
    )
    for to in FLOAT8_TYPES:
        there = timed(native(to), DataType.FLOAT, 26)
        back = timed(native(DataType.FLOAT), to, 26)
        both = timed(native(to, DataType.FLOAT), DataType.FLOAT, 26)
        ours = timed(lambda b, v, t=to: decode(b, v, t, DataType.FLOAT), DataType.UINT8, 26)
        print(
            f"{type_name(to):15} decode {back / ours:5.2f}  (native {there * 1e3:.1f} ms there, {back * 1e3:.1f} back)"
        )
        for sequence in Sequence:
            opset = 26 if sequence in NEEDS_BITCAST else 24
            one = timed(lambda b, v, t=to, s=sequence: encode(b, v, t, POLICY, s), DataType.FLOAT, opset)
            two = timed(
                lambda b, v, t=to, s=sequence: decode(b, encode(b, v, t, POLICY, s), t, DataType.FLOAT),
                DataType.FLOAT, opset,
            )  # fmt: skip
            print(f"  {sequence.value:12} encode {there / one:5.2f}  there and back {both / two:5.2f}", flush=True)
        for name, rounded in (("table", round_by_table), ("ufp", round_by_ufp), ("ladder", round_in_place)):
            place = timed(lambda b, v, t=to, r=rounded: r(b, v, t, POLICY), DataType.FLOAT, 26)
            print(f"  {name:12} in place      there and back {both / place:5.2f}", flush=True)


if __name__ == "__main__":
    main()
