"""One node in ONNX Runtime, alone in a session that optimizes nothing, on arrays of every element type."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import helper
from onnx_ir import DataType

from castsmith.numerics.types import element_type, parse_type

LAST_OPSET = 26
"""The newest opset that the installed version takes."""


def run_node(op: str, arrays: list[np.ndarray], output: str, opset: int, **attributes: Any) -> np.ndarray:
    """The output, of element type `output`, of `op` on `arrays`, which become initializers.

    Bit for bit: float8 and types below 8 bits cannot be returned as numpy arrays, so that the memory is read.
    """
    names = [f"i{n}" for n in range(len(arrays))]
    tensors = [_tensor(name, array) for name, array in zip(names, arrays, strict=True)]
    to = parse_type(output)
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "one",
        [],
        [helper.make_tensor_value_info("y", to.value, None)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 + (opset > 22))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    value = session.run_with_ort_values(["y"], {})[0]
    if to is DataType.STRING:
        return value.numpy()
    return _read(value, to)


def _tensor(name: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        return helper.make_tensor(name, DataType.STRING.value, array.shape, [s.encode() for s in array.reshape(-1)])
    dtype = DataType.from_numpy(array.dtype)
    bits, codes = element_type(dtype).bits, np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(-1)
    if 1 < bits < 8:
        codes = _packed(codes, bits)
    return helper.make_tensor(name, dtype.value, array.shape, codes.tobytes(), raw=True)


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Several codes a byte, the first in the lowest bits."""
    codes = np.append(codes & (2**bits - 1), np.zeros(-codes.size % (8 // bits), np.uint8)).reshape(-1, 8 // bits)
    return (codes << np.arange(0, 8, bits, dtype=np.uint8)).sum(1, dtype=np.uint8)


def _read(value: Any, to: DataType) -> np.ndarray:
    shape, bits = tuple(value.shape()), element_type(to).bits
    size, width = int(np.prod(shape)), to.numpy().itemsize
    stored = -(-size * bits // 8) if 1 < bits < 8 else size * width
    memory = np.frombuffer(ctypes.string_at(value.data_ptr(), stored), np.uint8)
    if 1 < bits < 8:
        memory = (memory[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)).reshape(-1)[:size]
    return memory.copy().view(to.numpy()).reshape(shape)
