"""OpenVINO as an engine: one operator at a time where it computes in the type that it is given, and models whole.

Its CPU plugin computes int64 in int32 and double in float (2**40 goes in and 0 comes out of Identity), so what has such
results, or such numbers among its operands, is left to the reference implementation. Constants stay constants, since
many of its operators want them so. Measured on OpenVINO 2026.4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

from castsmith.ir.verify_promotion import Array

_BELIEVED = ("float32", "float16", "int32", "int8", "uint8", "bool")
_INT32 = np.iinfo(np.int32)


def openvino() -> Any | None:
    """The module; None where it is not installed."""
    try:
        return import_module("openvino")
    except ImportError:
        return None


def believed(operands: Sequence[Array | None]) -> bool:
    """Whether OpenVINO computes on the operands in their own types."""
    return all(array is None or array.dtype.name in _BELIEVED or _indices(array) for array in operands)


def alone_in_openvino(
    model: onnx.ModelProto, operands: Sequence[Array | None], constant: Sequence[bool]
) -> Callable[[Mapping[str, Array]], Sequence[Any]]:
    """A function that runs a model of one operator, whose inputs are `i0`, `i1` ... by the places of the operands.

    Raises what OpenVINO raises, and ValueError where it would compute in a narrower type than that of a result.
    """
    fixed = {f"i{i}": a for i, a in enumerate(operands) if a is not None and constant[i]}
    model = onnx.ModelProto.FromString(model.SerializeToString())
    left = [value for value in model.graph.input if value.name not in fixed]
    del model.graph.input[:]
    model.graph.input.extend(left)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in fixed.items())
    ranks = {f"i{i}": a.ndim for i, a in enumerate(operands) if a is not None and not constant[i]}
    compiled = _compiled(model.SerializeToString(), ranks)
    narrow = [port.element_type.get_type_name() for port in compiled.outputs]
    if {"i64", "u64", "f64", "u32"} & set(narrow):
        raise ValueError("a result would be computed in a narrower type.")
    return lambda feeds: _run(compiled, {name: feeds[name] for name in ranks})


def whole_in_openvino(model: bytes) -> Callable[[Mapping[str, Array]], Sequence[Any]]:
    """A function that runs a model on its inputs by name. Raises what OpenVINO raises."""
    compiled = _compiled(model, {})
    names = [port.get_any_name() for port in compiled.inputs]
    return lambda feeds: _run(compiled, {name: feeds[name] for name in names if name in feeds})


def _indices(array: Array) -> bool:
    """Whether the integers are such as fit in int32, as sizes and axes do."""
    if array.dtype != np.int64:
        return False
    return not array.size or (int(array.min()) >= _INT32.min and int(array.max()) <= _INT32.max)


@cache
def _core() -> Any:
    module = openvino()
    assert module is not None
    return module.Core()


def _compiled(model: bytes, ranks: Mapping[str, int]) -> Any:
    module = openvino()
    assert module is not None
    read = _core().read_model(model)
    if ranks:
        read.reshape({name: module.PartialShape([-1] * rank) for name, rank in ranks.items()})
    return _core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"})


def _run(compiled: Any, feeds: Mapping[str, Array]) -> Sequence[Any]:
    results = compiled({name: np.ascontiguousarray(array) for name, array in feeds.items()})
    return [np.array(results[index]) for index in range(len(compiled.outputs))]
