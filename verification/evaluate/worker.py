"""Engines in the other process, whose script imports nothing of Castsmith.

The requests are to `prepare` a model under a key, to `run` it on arrays, or to `forget` some keys. `channel` reads
them, and `castsmith.verification.evaluate.engines` makes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

Run = Callable[[Mapping[str, Any]], Sequence[Any]]

_FREE, _TIMES, _EACH, _ALIGNMENT = 4 << 30, 8, 2 << 20, 64
"""The memory limit of engines: a number of bytes, a multiple of the size of their inputs, and bytes for each model."""


def answerer() -> Callable[..., object]:
    """Return the function that answers requests, as `channel` calls it: it holds the models that are prepared."""
    prepared: dict[int, Run] = {}
    sizes: dict[int, int] = {}

    def answer(request: str, *words: Any) -> object:
        size = sum(map(_size, words))
        if request == "prepare":
            sizes[words[0]] = size
        elif request == "forget":
            for key in words[0]:
                prepared.pop(key, None)
                sizes.pop(key, None)
        _limit_memory(_TIMES * (sum(sizes.values()) + size) + _EACH * len(sizes))
        if request == "prepare":
            key, kind, model, fixed = words
            prepared[key] = _KINDS[kind](model, {name: _aligned(array) for name, array in fixed.items()})
        if request == "run":
            key, feeds = words
            return list(prepared[key]({name: _aligned(array) for name, array in feeds.items()}))
        return None

    return answer


def _size(word: Any) -> int:
    """Return the bytes of a model, or of arrays by name."""
    if isinstance(word, bytes):
        return len(word)
    return sum(getattr(array, "nbytes", 0) for array in word.values()) if hasattr(word, "values") else 0


def _limit_memory(size: int) -> None:
    """Limit the memory of this process to `size` bytes more than it may take for nothing.

    An engine that reads a small model, such as one that doubles a constant shape forty times, may request all memory.
    """
    if sys.platform == "linux":
        resource = import_module("resource")
        most = _FREE + size
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def _aligned(array: Any) -> Any:
    """Return the array at an address that is a multiple of 64: sums of ONNX Runtime depend on the address."""
    numpy = import_module("numpy")
    if not isinstance(array, numpy.ndarray) or array.dtype.hasobject or not array.nbytes:
        return array
    buffer = numpy.empty(array.nbytes + _ALIGNMENT, numpy.uint8)
    start = -buffer.__array_interface__["data"][0] % _ALIGNMENT
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _onnxruntime(model: bytes, fixed: Mapping[str, Any], *, optimized: bool = False) -> Run:
    """Return an ONNX Runtime session of one thread, with as little optimization as possible by default."""
    module = import_module("onnxruntime")
    options = module.SessionOptions()
    level = module.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest run, for each of many operators
    options.log_severity_level = 4
    session = module.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    return lambda feeds: session.run(None, {n: a for n, a in {**fixed, **feeds}.items() if n in names})


def _onnxruntime_optimized(model: bytes, fixed: Mapping[str, Any]) -> Run:
    return _onnxruntime(model, fixed, optimized=True)


def _reference(model: bytes, fixed: Mapping[str, Any]) -> Run:
    numpy, evaluator = import_module("numpy"), import_module("onnx.reference").ReferenceEvaluator
    built = evaluator(import_module("onnx").ModelProto.FromString(model))

    def run(feeds: Mapping[str, Any]) -> Sequence[Any]:
        with numpy.errstate(all="ignore"):
            return built.run(None, {**fixed, **feeds})

    return run


def _qonnx(model: bytes, fixed: Mapping[str, Any]) -> Run:
    """Return an operator of QONNX, computed by the package qonnx."""
    numpy, proto = import_module("numpy"), import_module("onnx").ModelProto.FromString(model)
    execute = import_module("qonnx.core.onnx_exec").execute_onnx
    wrapped = import_module("qonnx.core.modelwrapper").ModelWrapper(proto)
    names = [value.name for value in proto.graph.output]

    def run(feeds: Mapping[str, Any]) -> Sequence[Any]:
        with numpy.errstate(all="ignore"):
            results = execute(wrapped, {name: numpy.array(array) for name, array in {**fixed, **feeds}.items()})
        return [results[name] for name in names]

    return run


def _openvino(model: bytes, fixed: Mapping[str, Any], ranks: Mapping[str, int] | None = None) -> Run:
    """Return a model in OpenVINO, whose operators require constants. Refuses results of types that it narrows.

    Its CPU plugin computes int64 in int32 and double in float (measured on OpenVINO 2026.4.1).
    """
    onnx, numpy, openvino = import_module("onnx"), import_module("numpy"), import_module("openvino")
    proto = onnx.ModelProto.FromString(model)
    free_inputs = [value for value in proto.graph.input if value.name not in fixed]
    del proto.graph.input[:]
    proto.graph.input.extend(free_inputs)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in fixed.items())
    core = openvino.Core()
    network = core.read_model(proto.SerializeToString())
    if ranks is not None:
        network.reshape({name: openvino.PartialShape([-1] * rank) for name, rank in ranks.items()})
    compiled = core.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"})
    if ranks is not None and {"i64", "u64", "f64", "u32"} & {p.element_type.get_type_name() for p in compiled.outputs}:
        raise ValueError("a result would be computed in a narrower type.")
    names = [port.get_any_name() for port in compiled.inputs]

    def run(feeds: Mapping[str, Any]) -> Sequence[Any]:
        results = compiled({name: numpy.asarray(feeds[name], order="C") for name in names if name in feeds})
        return [numpy.array(results[index]) for index in range(len(compiled.outputs))]

    return run


def _openvino_alone(model: bytes, fixed: Mapping[str, Any]) -> Run:
    proto = import_module("onnx").ModelProto.FromString(model)
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in proto.graph.input if v.name not in fixed}
    return _openvino(model, fixed, ranks)


_KINDS: dict[str, Callable[[bytes, Mapping[str, Any]], Run]] = {
    "onnxruntime": _onnxruntime,
    "onnxruntime optimized": _onnxruntime_optimized,
    "openvino": _openvino_alone,
    "openvino whole": _openvino,
    "reference": _reference,
    "qonnx": _qonnx,
}
