"""The engines, in another process (`castsmith.verification.evaluate.channel`).

The file imports numpy, ml_dtypes and the engine, nothing of this program, so that it runs in any environment. A vector
has `op`, `attributes`, `inputs` and `output`, each with type and shape, inputs with the bytes of their elements, and
`model`, a model as `MODELS` says.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = Any
Job = Mapping[str, Any]
Engine = Callable[[Job, Sequence[Array]], Array]

_NUMPY = {"float": "float32", "double": "float64", "string": "object"}
_ML_DTYPES = {
    **{name: name for name in ("bfloat16", "int2", "uint2", "int4", "uint4")},
    "float4e2m1": "float4_e2m1fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}
_PACKED = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4e2m1": 4}
"""Bits of the types of which several elements share a byte in a runtime's memory."""


def _module(name: str) -> Any:
    """Import a package of an engine: only in this process, and only that of the one engine."""
    return import_module(name)


class RefusalError(Exception):
    """The engine has no such conversion."""


class BrokenError(RefusalError):
    """The engine left its output empty; what it does next in the same process is not to be trusted."""


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of an element type."""
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[name])) if name in _ML_DTYPES else np.dtype(_NUMPY.get(name, name))


def read(entry: Mapping[str, Any]) -> Array:
    """Return the elements of an input in its shape."""
    if entry["type"] == "string":
        return np.array(json.loads(entry["content"]), object).reshape(entry["shape"])
    return np.frombuffer(entry["content"], dtype_of(entry["type"])).reshape(entry["shape"])


def raw(array: Array) -> bytes:
    """Return the bytes of a result: one element a byte or more, or a JSON array of strings."""
    if array.dtype.kind in "OUST":
        texts = [text.decode(errors="replace") if isinstance(text, bytes) else str(text) for text in array.reshape(-1)]
        return json.dumps(texts).encode()
    return np.ascontiguousarray(array).tobytes()


def pack(array: Array, bits: int) -> bytes:
    """Return the codes with several in a byte, the first in the low bits."""
    per_byte = 8 // bits
    codes = np.ascontiguousarray(array).view(np.uint8).reshape(-1) & (2**bits - 1)
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    return np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1).astype(np.uint8).tobytes()


def unpack(content: bytes, name: str, count: int) -> Array:
    """Return `count` elements of a type of which several share a byte; integers keep their sign."""
    bits = _PACKED[name]
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    codes = ((np.frombuffer(content, np.uint8)[:, None] >> shifts) & (2**bits - 1)).reshape(-1)[:count]
    if name.startswith("int"):
        return ((codes.astype(np.int8) ^ (1 << bits - 1)) - (1 << bits - 1)).astype(dtype_of(name))
    return (
        codes.astype(np.uint8).view(dtype_of(name)) if name not in ("uint2", "uint4") else codes.astype(dtype_of(name))
    )


# Engines that run models.


def onnxruntime_engine(level: str) -> Engine:
    """ONNX Runtime on the CPU at one level of optimization."""
    onnxruntime = _module("onnxruntime")

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    options.intra_op_num_threads = 1
    options.log_severity_level = 4

    def convert(job: Job, _inputs: Sequence[Array]) -> Array:
        session = onnxruntime.InferenceSession(job["model"], options, ["CPUExecutionProvider"])
        value = session.run_with_ort_values(None, {})[0]
        name, count = job["output"]["type"], int(np.prod(value.shape(), dtype=np.int64))
        if name not in _ML_DTYPES:
            return value.numpy()
        size = -(-count * _PACKED[name] // 8) if name in _PACKED else count * dtype_of(name).itemsize
        content = bytes((ctypes.c_char * size).from_address(value.data_ptr()))
        return unpack(content, name, count) if name in _PACKED else np.frombuffer(content, dtype_of(name))

    return convert


def reference_engine() -> Engine:
    """The reference implementation of ONNX."""
    onnx = _module("onnx")
    onnx_reference = _module("onnx.reference")

    def convert(job: Job, _inputs: Sequence[Array]) -> Array:
        evaluator = onnx_reference.ReferenceEvaluator(onnx.load_from_string(job["model"]))
        return np.asarray(evaluator.run(None, {})[0])

    return convert


def openvino_engine() -> Engine:
    """OpenVINO on the CPU, the inputs given at run time."""
    openvino = _module("openvino")

    core = openvino.Core()
    types = {"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "boolean"}
    types |= {name: name.replace("uint", "u").replace("int", "i") for name in ("int4", "uint4", "int8", "uint8")}
    types |= {name: name.replace("uint", "u").replace("int", "i") for name in ("int16", "uint16", "int32", "uint32")}
    types |= {"int64": "i64", "uint64": "u64", "uint2": "u2", "float4e2m1": "f4e2m1", "float8e8m0": "f8e8m0"}
    types |= {"float8e4m3fn": "f8e4m3", "float8e5m2": "f8e5m2", "string": "string"}
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

    def convert(job: Job, inputs: Sequence[Array]) -> Array:
        lacking = next((entry["type"] for entry in (*job["inputs"], job["output"]) if entry["type"] not in types), None)
        if lacking is not None:
            raise RefusalError(f"OpenVINO has no type {lacking}")
        model = core.read_model(job["model"])
        request = core.compile_model(model, "CPU", settings).create_infer_request()
        memory: list[Array] = []  # a tensor does not keep the array whose memory it shares
        for index, (entry, array) in enumerate(zip(job["inputs"], inputs, strict=True)):
            request.set_input_tensor(index, _openvino_tensor(openvino, types[entry["type"]], array, memory))
        request.infer()
        tensor = request.get_output_tensor(0)
        name, count = job["output"]["type"], int(np.prod(tensor.shape, dtype=np.int64))
        type_name_ = tensor.element_type.get_type_name()
        if count != np.prod(job["output"]["shape"], dtype=np.int64):
            raise BrokenError(f"the output has {count} elements")
        if type_name_ != types[name]:
            raise RefusalError(f"the output is {type_name_}, not {types[name]}")
        if name == "string":
            return np.asarray(tensor.str_data, object)
        content = np.ascontiguousarray(tensor.data).tobytes()
        return unpack(content, name, count) if name in _PACKED else np.frombuffer(content, dtype_of(name))

    return convert


def _openvino_tensor(openvino: Any, name: str, array: Array, memory: list[Array]) -> Any:
    """Return a tensor of the type `name` of OpenVINO; what it points to is added to `memory`."""
    if name == "string":
        return openvino.Tensor(np.asarray(array, np.str_))
    packed = {"u4": 4, "i4": 4, "u2": 2, "f4e2m1": 4}
    content = pack(array, packed[name]) if name in packed else np.ascontiguousarray(array).tobytes()
    memory.append(np.frombuffer(bytearray(content), np.uint8))
    return openvino.Tensor(memory[-1], openvino.Shape(array.shape), getattr(openvino.Type, name))


def tract_engine() -> Engine:
    """tract, the inputs given at run time."""
    tract = _module("tract")

    def convert(job: Job, inputs: Sequence[Array]) -> Array:
        _plain_only(job)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            path.write_bytes(job["model"])
            model = tract.onnx().load(str(path)).into_model().into_runnable()
        return np.asarray(model.run(list(inputs))[0].to_numpy())

    return convert


def onnx2torch_engine() -> Engine:
    """onnx2torch: the model as a module of PyTorch."""
    onnx = _module("onnx")
    onnx2torch = _module("onnx2torch")
    torch = _module("torch")

    to, back = _torch_views(torch)

    def convert(job: Job, inputs: Sequence[Array]) -> Array:
        module = onnx2torch.convert(onnx.load_from_string(job["model"]))
        return back(module(*(to(entry["type"], array) for entry, array in zip(job["inputs"], inputs, strict=True))))

    return convert


def _plain_only(job: Job) -> None:
    for entry in (*job["inputs"], job["output"]):
        if entry["type"] in _ML_DTYPES or entry["type"] == "string":
            raise RefusalError(f"the Python interface has no type {entry['type']}")


# Libraries of arrays: they have casts, without ONNX's attributes.


def _cast_only(convert: Callable[[Array, str, str], Array]) -> Engine:
    """Return an engine for Cast alone: `convert` takes the array and the names of both types.

    It has no attribute `saturate`; which setting it implements is judged by its results.
    """

    def run(job: Job, inputs: Sequence[Array]) -> Array:
        target, attributes = job["output"]["type"], job["attributes"]
        if job["op"] != "Cast":
            raise RefusalError(f"the library has no {job['op']}")
        if target == "float8e8m0" and attributes.get("round_mode", "up") != "nearest":
            raise RefusalError("the library rounds to float8e8m0 to nearest only")
        return convert(inputs[0], job["inputs"][0]["type"], target)

    return run


def ml_dtypes_engine() -> Engine:
    """Numpy with ml_dtypes: `astype`."""

    def convert(array: Array, _source: str, target: str) -> Array:
        return array.astype(np.str_ if target == "string" else dtype_of(target))

    return _cast_only(convert)


def torch_engine() -> Engine:
    """PyTorch on the CPU: `Tensor.to`."""
    torch = _module("torch")

    to, back = _torch_views(torch)
    return _cast_only(lambda array, source, target: back(to(source, array).to(_torch_type(torch, target))))


def _torch_type(torch: Any, name: str) -> Any:
    dtype = _ML_DTYPES.get(name, _NUMPY.get(name, name))
    if name in ("string", "int2", "uint2", "int4", "uint4", "float4e2m1") or not hasattr(torch, dtype):
        raise RefusalError(f"PyTorch does not convert {name}")
    return getattr(torch, dtype)


def _torch_views(torch: Any) -> tuple[Callable[[str, Array], Any], Callable[[Any], Array]]:
    """Return functions that view an array as a tensor of its type, and a tensor as an array of its bits."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

    def to(name: str, array: Array) -> Any:
        dtype = _torch_type(torch, name)
        plain = np.array(array).view(f"i{array.itemsize}" if array.itemsize > 1 else np.uint8)
        return torch.from_numpy(plain).view(dtype)

    def back(tensor: Any) -> Array:
        width = tensor.element_size()
        return tensor.detach().contiguous().view(bits[width]).numpy()

    return to, back


def jax_engine() -> Engine:
    """JAX on the CPU: `astype` compiled by XLA."""
    jax = _module("jax")

    jax.config.update("jax_enable_x64", val=True)

    def convert(array: Array, source: str, target: str) -> Array:
        if "string" in (source, target):
            raise RefusalError("JAX has no strings")
        dtype = dtype_of(target)

        def compiled(x: Any) -> Any:
            return x.astype(dtype)

        return np.asarray(jax.jit(compiled)(jax.numpy.asarray(array)))

    return _cast_only(convert)


def tensorflow_engine() -> Engine:
    """TensorFlow on the CPU: `tf.cast`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tensorflow = _module("tensorflow")

    def convert(array: Array, source: str, target: str) -> Array:
        if "string" in (source, target):
            raise RefusalError("tf.cast takes no strings")
        tensor = tensorflow.cast(tensorflow.constant(array), tensorflow.as_dtype(dtype_of(target)))
        return np.asarray(tensor.numpy())

    return _cast_only(convert)


def tinygrad_engine() -> Engine:
    """Tinygrad on its default device: `Tensor.cast`."""
    tinygrad = _module("tinygrad")
    dtypes = tinygrad.dtypes

    names = {"float": "float32", "double": "float64", "float8e4m3fn": "fp8e4m3", "float8e5m2": "fp8e5m2"}
    names |= {"float8e4m3fnuz": "fp8e4m3fnuz", "float8e5m2fnuz": "fp8e5m2fnuz"}

    def known(name: str) -> Any:
        if not hasattr(dtypes, names.get(name, name)):
            raise RefusalError(f"tinygrad has no type {name}")
        return getattr(dtypes, names.get(name, name))

    def convert(array: Array, source: str, target: str) -> Array:
        bits = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}
        tensor = tinygrad.Tensor(np.array(array).view(f"u{array.itemsize}")).bitcast(known(source)).cast(known(target))
        return tensor.contiguous().bitcast(bits[dtype_of(target).itemsize]).numpy()

    return _cast_only(convert)


def gfloat_engine() -> Engine:
    """gfloat: rounding and encoding of numbers in double, with and without saturation."""
    gfloat = _module("gfloat")
    formats = _module("gfloat.formats")

    names = {
        "float4e2m1": "format_info_ocp_e2m1",
        "float6e2m3": "format_info_ocp_e2m3",
        "float6e3m2": "format_info_ocp_e3m2",
        "float8e4m3fn": "format_info_ocp_e4m3",
        "float8e5m2": "format_info_ocp_e5m2",
        "float8e8m0": "format_info_ocp_e8m0",
        "float16": "format_info_binary16",
        "bfloat16": "format_info_bfloat16",
        "float": "format_info_binary32",
    }

    def run(job: Job, inputs: Sequence[Array]) -> Array:
        source, target, attributes = job["inputs"][0]["type"], job["output"]["type"], job["attributes"]
        if job["op"] != "Cast" or target not in names or source in ("string", "int64", "uint64"):
            raise RefusalError("gfloat converts numbers that double holds, to floating-point formats")
        modes = {"up": "TowardPositive", "down": "TowardNegative", "nearest": "TiesToAway"}
        mode = modes[attributes.get("round_mode", "up")] if target == "float8e8m0" else "TiesToEven"
        info = getattr(formats, names[target])
        saturate = bool(attributes.get("saturate", 1)) if target.startswith("float8") else info.num_infs == 0
        with np.errstate(all="ignore"):
            numbers = inputs[0].astype(np.float64)
            rounded = gfloat.round_ndarray(info, numbers, getattr(gfloat.RoundMode, mode), saturate)
            codes = gfloat.encode_ndarray(info, rounded)
        return codes.astype(f"u{dtype_of(target).itemsize}")

    return run


def qonnx_engine() -> Engine:
    """The functions of qonnx that its executor calls for Trunc."""
    trunc = _module("qonnx.custom_op.general.trunc")

    def run(job: Job, inputs: Sequence[Array]) -> Array:
        if job["op"] != "Trunc":
            raise RefusalError("qonnx has no such operator")
        attributes = job["attributes"]
        mode = attributes["rounding_mode"]
        if len(inputs) == 5:
            return np.asarray(trunc.trunc_v1(*inputs, mode))
        x, scale, zero, width, outer, narrowed = inputs
        flags = bool(attributes["narrow"]), bool(attributes["signed"])
        return np.asarray(trunc.trunc_v2(x, scale, zero, width, *flags, outer, narrowed, mode))

    return run


_ORT = "onnxruntime"

ENGINES: dict[str, tuple[str, Callable[[], Engine]]] = {
    _ORT: (_ORT, lambda: onnxruntime_engine("DISABLE_ALL")),
    "onnxruntime-basic": (_ORT, lambda: onnxruntime_engine("ENABLE_BASIC")),
    "onnxruntime-extended": (_ORT, lambda: onnxruntime_engine("ENABLE_EXTENDED")),
    "onnxruntime-all": (_ORT, lambda: onnxruntime_engine("ENABLE_ALL")),
    "reference": ("onnx", reference_engine),
    "openvino": ("openvino", openvino_engine),
    "tract": ("tract", tract_engine),
    "onnx2torch": ("onnx2torch", onnx2torch_engine),
    "ml_dtypes": ("ml_dtypes", ml_dtypes_engine),
    "torch": ("torch", torch_engine),
    "jax": ("jax", jax_engine),
    "tensorflow": ("tensorflow", tensorflow_engine),
    "tinygrad": ("tinygrad", tinygrad_engine),
    "gfloat": ("gfloat", gfloat_engine),
    "qonnx": ("qonnx", qonnx_engine),
}
"""Engines by name: the package whose version is stated, and the function that imports it."""

MODELS = {
    **dict.fromkeys((*(name for name in ENGINES if name.startswith(_ORT)), "reference"), "constant"),
    **dict.fromkeys(("openvino", "tract", "onnx2torch"), "inputs"),
}
"""Engines that run models, and whether these have the operands as constants or as inputs."""

LIBRARIES = ("ml_dtypes", "torch", "jax", "tensorflow", "tinygrad")
"""Engines without the attribute `saturate`."""


def version_of(package: str) -> str:
    """Return the installed version of the package, or of the module of that name."""
    try:
        return version(package)
    except PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", "unknown"))


@cache
def _loaded(engine: str) -> Engine:
    return ENGINES[engine][1]()


def answerer() -> Callable[..., object]:
    """Return the function that answers requests, as `channel` calls it.

    Without a vector it imports the engine and gives its version. Of a vector it gives the bytes of the output and,
    where the process is not to be trusted any more, the reason.
    """

    def answer(engine: str, job: Job | None = None) -> object:
        convert = _loaded(engine)
        if job is None:
            return version_of(ENGINES[engine][0])
        try:
            return raw(convert(job, [read(entry) for entry in job["inputs"]])), ""
        except BrokenError as error:
            return b"", str(error)

    return answer
