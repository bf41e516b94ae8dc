"""What Castsmith changes as a step of other tools: the error, the casts, and the nodes that stay in float.

python benchmarks/architectures.py FOLDER NAME ...                 # the exports
python benchmarks/in_other_tools.py autocast FOLDER NAME ...       # needs castsmith[autocast]
python benchmarks/in_other_tools.py float16 FOLDER NAME ...        # needs onnxruntime

`autocast`: NVIDIA's AutoCast alone, which looks at values on inputs between -1 and 1, and with BoundsRule, which is
told the ranges of inputs and gets one more set of them. `float16`: the step of the export script of Ultralytics (and,
but for operators that a user blocks, of transformers.js), and the line of Castsmith in its place.

The error is that of a runtime which rounds each value to float16, on three sets of inputs.
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import castsmith
from castsmith.ir.io.loading import as_model
from castsmith.lowering.accuracy import measure, reference

Inputs = dict[str, np.ndarray[Any, Any]]
Steps = tuple[Callable[[Path, Inputs], onnx.ModelProto], Callable[[Path, Inputs], onnx.ModelProto]]
_RANGES = {"samples": (-32768.0, 32767.0), "images": (0.0, 1.0)}
_SETS = 3


def _inputs(model: onnx.ModelProto, seed: int) -> Inputs:
    generator, inputs = np.random.default_rng(seed), Inputs()
    for value in model.graph.input:
        shape = [dimension.dim_value or 1 for dimension in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            low, high = _RANGES.get(value.name, (-6.0, 6.0))
            draws = generator.normal((low + high) / 2, (high - low) / 12, shape)
            inputs[value.name] = draws.clip(low, high).astype(np.float32)
        else:
            inputs[value.name] = np.ones(shape, np.int64) if "mask" in value.name else generator.integers(3, 99, shape)
    return inputs


def _cells(before: Any, converted: onnx.ModelProto) -> str:
    onnx.checker.check_model(converted, full_check=True)
    graph = onnx.shape_inference.infer_shapes(converted).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
    nodes = [node for node in converted.graph.node if node.op_type not in ("Cast", "Constant")]
    kept = sum(any(types.get(name) == onnx.TensorProto.FLOAT for name in node.output) for node in nodes)
    error = measure(before, as_model(converted)).worst
    return f"{error:.2g} | {sum(node.op_type == 'Cast' for node in converted.graph.node)} | {kept}"


def _autocast() -> Steps:
    from modelopt.onnx.autocast import convert_to_mixed_precision

    from castsmith.integrations.autocast import BoundsRule

    def alone(path: Path, _: Inputs) -> onnx.ModelProto:
        return convert_to_mixed_precision(str(path), keep_io_types=True)

    def ruled(path: Path, inputs: Inputs) -> onnx.ModelProto:
        floats = [name for name, array in inputs.items() if array.dtype == np.float32]
        rule = BoundsRule(path, ranges={name: _RANGES.get(name, (-6.0, 6.0)) for name in floats}, inputs=[inputs])
        return convert_to_mixed_precision(str(path), keep_io_types=True, data_max=float("inf"), custom_rule=rule)

    return alone, ruled


def _float16() -> Steps:
    from onnxruntime.transformers import float16

    def today(path: Path, _: Inputs) -> onnx.ModelProto:
        return float16.convert_float_to_float16(onnx.load(path), keep_io_types=True)

    def replaced(path: Path, _: Inputs) -> onnx.ModelProto:
        return castsmith.convert(onnx.load(path), to="float16").proto

    return today, replaced


def main() -> None:
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    logging.disable(logging.WARNING)
    steps = {"autocast": _autocast, "float16": _float16}[sys.argv[1]]()
    for path in (Path(sys.argv[2]) / f"{name}.onnx" for name in sys.argv[3:]):
        model = onnx.load(path)
        before = reference(castsmith.load(path), [_inputs(model, seed) for seed in range(_SETS)])
        cells = []
        for step in steps:
            try:
                cells.append(_cells(before, step(path, _inputs(model, _SETS))))
            except Exception as error:  # another library's; the other step is still of use
                cells.append(f"{type(error).__name__}: {str(error).splitlines()[0]} | |")
        print(f"| {path.stem} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
