"""Running a sequence, or a whole model, in ONNX Runtime at both ends of its optimization levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir
import onnxruntime
from onnx_ir import DataType

import castsmith
from castsmith.lowering.builder import Builder
from castsmith.lowering.check.run import findings
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import Target, as_target

Array = npt.NDArray[Any]
LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)
_TRANSPORT = {16: np.uint16, 8: np.uint8}


def errors(model: onnx_ir.Model, target: str | Target) -> list[castsmith.Diagnostic]:
    """Return what `check` finds wrong, without what the data of the target leave open.

    Ways out are not tried, and onnx is not asked, for which `check` starts a process.
    """
    all_found = findings(model, PromotionRules(), as_target(target))
    return [finding for finding in all_found if finding.code != "target-unknown"]


def session(model: onnx.ModelProto, level: Any = LEVELS[1]) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def run(opened: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> list[Array]:
    """Run with arrays of any element type, ml_dtypes included, in and out."""
    values = {name: _ort_value(array) for name, array in feeds.items()}
    outputs = opened.run_with_ort_values([output.name for output in opened.get_outputs()], values)
    return [_array(value) for value in outputs]


def _ort_value(array: Array) -> onnxruntime.OrtValue:
    dtype = DataType.from_numpy(array.dtype)
    if array.dtype.kind != "V" and array.dtype.isbuiltin < 2:  # 2: a type of ml_dtypes
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(array))
    plain = np.ascontiguousarray(array).view(_TRANSPORT[dtype.bitwidth])
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(plain, int(dtype))


def _array(value: onnxruntime.OrtValue) -> Array:
    """The bits of an output: types that numpy lacks come out as ml_dtypes arrays."""
    dtype = DataType(value.element_type())
    numpy = dtype.numpy()
    if numpy.kind != "V" and numpy.isbuiltin == 1:
        return value.numpy()
    size = int(np.prod(value.shape(), dtype=np.int64))
    import ctypes

    raw = (ctypes.c_char * (size * numpy.itemsize)).from_address(value.data_ptr())
    return np.frombuffer(bytes(raw), numpy).reshape(value.shape())


def sequence_model(
    write: Callable[[Builder, onnx_ir.Value], onnx_ir.Value],
    source: DataType,
    opset: int,
    *,
    flat_look_up: bool = True,
    doubles: bool = False,
    shape: Sequence[str | int] = ("N",),
) -> onnx.ModelProto:
    """A model of one input x of any length and one output y, which `write` makes of it."""
    constants: list[onnx_ir.Value] = []

    def home(name: str, array: Array) -> onnx_ir.Value:
        tensor = onnx_ir.tensor(array, name=f"{name}_{len(constants)}")
        shape, kind = onnx_ir.Shape(array.shape), onnx_ir.TensorType(tensor.dtype)
        constants.append(onnx_ir.Value(name=tensor.name, shape=shape, type=kind, const_value=tensor))
        return constants[-1]

    x = onnx_ir.val("x", source, shape)
    build = Builder(home, flat_look_up=flat_look_up, doubles=doubles)
    y = write(build, x)
    y.name = "y"
    graph = onnx_ir.Graph(
        [x], [y], nodes=build.nodes, initializers=constants, opset_imports={"": opset}, name="sequence"
    )
    return onnx_ir.to_proto(onnx_ir.Model(graph, ir_version=13 if opset > 24 else 10))
