"""The process in which engines run: a file of its own, started as a script, that imports nothing of Castsmith.

It reads requests from its input and writes the answers to its output, each a pickle preceded by its length: `prepare` a
model under a key, `run` it on arrays, or `forget` some keys. Before each stand the seconds of the processor that it may
take; the operating system ends the process after those. Every Python error is an answer. Each answer holds the seconds
of the processor since the one before. The requesting side (`castsmith.verification.evaluate.engines`) notices if the
process ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import IO, Any

Run = Callable[[Mapping[str, Any]], Sequence[Any]]

_LENGTH = struct.Struct("<Q")
_FREE, _TIMES, _EACH, _ALIGNMENT = 4 << 30, 8, 2 << 20, 64
"""The memory limit of engines: a number of bytes, a multiple of the size of their inputs, and bytes for each model."""


def send(stream: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Return the next message. Raises EOFError if the other end is closed."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the input ends."""
    prepared: dict[int, Run] = {}
    sizes: dict[int, int] = {}
    counted = time.process_time()
    while True:
        try:
            seconds, request, *words = receive(requests)
        except EOFError:
            return
        limit_seconds(seconds)
        size = sum(map(_size, words))
        if request == "prepare":
            sizes[words[0]] = size
        elif request == "forget":
            sizes = {key: number for key, number in sizes.items() if key not in words[0]}
        _limit_memory(_TIMES * (sum(sizes.values()) + size) + _EACH * len(sizes))
        try:
            result = _answer(prepared, request, *words)
            words.clear()
            counted, used = time.process_time(), time.process_time() - counted
            send(answers, (True, result, used))
        except Exception as error:  # each engine raises classes of its own, ONNX Runtime one for each status code
            text = " ".join((str(error) or type(error).__name__).split())[:200]
            counted, used = time.process_time(), time.process_time() - counted
            send(answers, (False, text, used))
        limit_seconds(0.0)


TIMED = hasattr(signal, "setitimer")
"""True if the operating system counts processor time for the process, and can end it for that (not on Windows)."""


def limit_seconds(seconds: float) -> None:
    """End this process by SIGPROF after so many more seconds of the processor; 0 removes the limit."""
    if TIMED:
        signal.setitimer(signal.ITIMER_PROF, seconds)


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


def _answer(prepared: dict[int, Run], request: str, *words: Any) -> Any:
    if request == "prepare":
        key, kind, model, fixed = words
        prepared[key] = _KINDS[kind](model, {name: _aligned(array) for name, array in fixed.items()})
        return None
    if request == "run":
        key, feeds = words
        return list(prepared[key]({name: _aligned(array) for name, array in feeds.items()}))
    for key in words[0]:
        prepared.pop(key, None)
    return None


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

if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of engines is not an answer
    serve(sys.stdin.buffer, channel)
