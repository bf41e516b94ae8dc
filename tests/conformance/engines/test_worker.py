"""What the other process does around an engine, with stand-ins for the packages: types, bytes, attributes, refusals."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.conformance.engines import worker
from castsmith.conformance.engines.worker import (
    BrokenError,
    RefusalError,
    dtype_of,
    pack,
    raw,
    read,
    unpack,
)
from castsmith.numerics.types import ELEMENT_TYPES, NUMERIC_TYPES, parse_type, type_name


def entry(name: str, shape: Sequence[int] = (3,), content: bytes = b"") -> dict[str, Any]:
    return {"type": name, "shape": list(shape), "content": content}


def job(source: str, target: str, operator: str = "Cast", /, **attributes: Any) -> dict[str, Any]:
    return {"op": operator, "attributes": attributes, "inputs": [entry(source)], "output": entry(target), "model": b"m"}


def stand_in(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Let the names, with `_` for dots, be the packages of engines."""

    def module(name: str) -> Any:
        return modules[name.replace(".", "_")]

    monkeypatch.setattr(worker, "_module", module)


@pytest.mark.parametrize("dtype", [*NUMERIC_TYPES, DataType.STRING], ids=type_name)
def test_the_numpy_type_of_each(dtype: DataType) -> None:
    assert dtype_of(type_name(dtype)) == (np.dtype(object) if dtype is DataType.STRING else dtype.numpy())


PACKED = [
    ("int2", 2, [1, -2, -1, 0, 1], b"\x39\x01"),
    ("uint2", 2, [1, 2, 3, 0, 1], b"\x39\x01"),
    ("int4", 4, [1, -2, 7, -8, 3], b"\xe1\x87\x03"),
    ("uint4", 4, [1, 14, 7, 8, 3], b"\xe1\x87\x03"),
    ("float4e2m1", 4, [0.5, -4, 6, -0.0, 1.5], b"\xe1\x87\x03"),
]


@pytest.mark.parametrize(("name", "bits", "numbers", "content"), PACKED)
def test_several_elements_in_a_byte(name: str, bits: int, numbers: list[float], content: bytes) -> None:
    array = np.array(numbers, np.float64).astype(parse_type(name).numpy())
    assert pack(array, bits) == content
    found = unpack(content, name, len(numbers))
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


def test_elements_as_they_are_sent_and_read() -> None:
    texts = read(entry("string", (2, 1), json.dumps(["a", "b"]).encode()))
    assert (texts.dtype, texts.tolist()) == (np.dtype(object), [["a"], ["b"]])
    numbers = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert read(entry("int16", (2, 3), numbers.tobytes())).tolist() == numbers.tolist()
    assert raw(numbers.T) == np.array([0, 3, 1, 4, 2, 5], np.int16).tobytes()
    for array in (
        np.array(["x", "y"]),
        np.array([b"x", b"y"]),
        np.array(["x", "y"], object),
        np.array([b"x", "y"], object),
    ):
        assert json.loads(raw(array)) == ["x", "y"]
    assert json.loads(raw(np.array([[b"\xff"]], object))) == ["\ufffd"]
    assert json.loads(raw(np.array(["x"], np.dtypes.StringDType()))) == ["x"]


def test_libraries_have_casts_alone() -> None:
    calls = list[tuple[Any, ...]]()

    def note(*words: Any) -> None:
        calls.append(words)

    run = worker._cast_only(note)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(RefusalError, match="the library has no CastLike"):
        run(job("float", "int8", "CastLike"), ["x"])
    for attributes in ({}, {"round_mode": "up"}, {"round_mode": "down"}):
        with pytest.raises(RefusalError, match="to nearest only"):
            run(job("float", "float8e8m0", **attributes), ["x"])
    run(job("float", "float8e8m0", round_mode="nearest"), ["x"])
    run(job("float8e8m0", "int8"), ["y"])
    assert calls == [("x", "float", "float8e8m0"), ("y", "float8e8m0", "int8")]


def test_numpy_with_ml_dtypes() -> None:
    convert = worker.ml_dtypes_engine()
    assert convert(job("float", "string"), [np.array([1.5], np.float32)]).tolist() == ["1.5"]
    found = convert(job("string", "float"), [np.array(["1.5"], object)])
    assert (found.dtype, found.tolist()) == (np.dtype(np.float32), [1.5])
    assert convert(job("float", "int4"), [np.array([-2.5], np.float32)]).astype(int).tolist() == [-2]


def test_tract_takes_plain_types() -> None:
    check = worker._plain_only  # pyright: ignore[reportPrivateUsage]
    check(job("float", "int64"))
    for source, target in (("string", "float"), ("float", "string"), ("bfloat16", "float"), ("float", "int4")):
        with pytest.raises(RefusalError, match="the Python interface has no type "):
            check(job(source, target))


OPENVINO = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "boolean", "int4": "i4",
    "uint4": "u4", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "uint2": "u2", "float4e2m1": "f4e2m1", "float8e4m3fn": "f8e4m3",
    "float8e5m2": "f8e5m2", "float8e8m0": "f8e8m0", "string": "string",
}  # fmt: skip


class _OpenVino:
    """A stand-in for the package: it gives back the memory of the input, as a tensor of `shape` and `name`."""

    def __init__(self) -> None:
        self.Core, self.Type = lambda: self, SimpleNamespace(**{name: name for name in OPENVINO.values()})
        self.shape: Any = (3,)
        self.name = ""

    def Shape(self, shape: Any) -> Any:  # noqa: N802 - the package's name
        return tuple(shape)

    def Tensor(self, memory: Any, shape: Any = None, name: str = "string") -> Any:  # noqa: N802
        assert name != "string" or memory.dtype.kind == "U"
        return SimpleNamespace(memory=memory, shape=shape, name=name)

    def read_model(self, model: bytes) -> bytes:
        return model

    def compile_model(self, model: bytes, device: str, settings: dict[str, Any]) -> Any:
        assert (model, device) == (b"m", "CPU")
        assert settings == {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        return SimpleNamespace(create_infer_request=lambda: self)

    def set_input_tensor(self, index: int, tensor: Any) -> None:
        assert index == 0
        self.tensor, self.done = tensor, False

    def infer(self) -> None:
        self.done = True

    def get_output_tensor(self, index: int) -> Any:
        assert (index, self.done) == (0, True)
        kind = SimpleNamespace(get_type_name=lambda: self.name or self.tensor.name)
        return SimpleNamespace(
            shape=self.shape, element_type=kind, data=self.tensor.memory, str_data=self.tensor.memory
        )


@pytest.mark.parametrize("dtype", [*NUMERIC_TYPES, DataType.STRING], ids=type_name)
def test_each_type_in_openvino(monkeypatch: pytest.MonkeyPatch, dtype: DataType) -> None:
    engine, name = _OpenVino(), type_name(dtype)
    stand_in(monkeypatch, openvino=engine)
    convert = worker.openvino_engine()
    if name not in OPENVINO:
        for each in (job(name, "float"), job("float", name)):
            with pytest.raises(RefusalError, match=f"OpenVINO has no type {name}"):
                convert(each, [np.zeros(3)])
        return
    is_text = dtype is DataType.STRING
    array = np.array(["1", "0", "1"], object) if is_text else np.array([1, 0, 1], np.float32).astype(dtype.numpy())
    if dtype is DataType.FLOAT8E8M0:
        array = np.array([1, 2, 1], np.float32).astype(dtype.numpy())
    found = convert(job(name, name), [array])
    assert engine.tensor.name == OPENVINO[name]
    assert found.dtype == (np.dtype(object) if is_text else dtype.numpy())
    assert found.tolist() == array.tolist()
    if not is_text:
        assert engine.tensor.shape == (3,)
        assert len(engine.tensor.memory) == -(-3 * ELEMENT_TYPES[dtype].stored_bits // 8)
    engine.name = "other"
    with pytest.raises(RefusalError, match=f"the output is other, not {OPENVINO[name]}"):
        convert(job(name, name), [array])
    engine.shape = (0,)
    with pytest.raises(BrokenError, match="the output has 0 elements"):
        convert(job(name, name), [array])


def test_the_levels_of_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    options, names = SimpleNamespace(), ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")
    levels = SimpleNamespace(**{f"ORT_{name}": name for name in names})
    stand_in(monkeypatch, onnxruntime=SimpleNamespace(SessionOptions=lambda: options, GraphOptimizationLevel=levels))
    for engine, level in zip(("", "-basic", "-extended", "-all"), names, strict=True):
        package, make = worker.ENGINES[f"onnxruntime{engine}"]
        make()
        assert (package, options.graph_optimization_level) == ("onnxruntime", level)
    assert (options.intra_op_num_threads, options.log_severity_level) == (1, 4)


@pytest.mark.parametrize("dtype", [*NUMERIC_TYPES, DataType.STRING], ids=type_name)
def test_each_type_in_the_memory_of_onnxruntime(monkeypatch: pytest.MonkeyPatch, dtype: DataType) -> None:
    """It gives arrays of numpy's own types; of others the memory is read, in which narrow elements share bytes."""
    array = np.array([[1, 2, 1]], np.float32).astype(np.str_ if dtype is DataType.STRING else dtype.numpy())
    is_own = array.dtype.isbuiltin != 2  # of ml_dtypes
    bits = ELEMENT_TYPES[dtype].stored_bits
    content = b"" if is_own else pack(array, bits) if bits < 8 and bits != 6 else array.tobytes()
    memory = ctypes.create_string_buffer(content)
    value = SimpleNamespace(shape=lambda: [1, 3], data_ptr=lambda: ctypes.addressof(memory))
    if is_own:
        value.numpy = lambda: array

    def run(names: object, feeds: dict[str, Any]) -> Any:
        assert (names, feeds) == (None, {})
        return [value, None]

    def session(model: bytes, options: object, providers: list[str]) -> Any:
        assert (model, providers) == (b"m", ["CPUExecutionProvider"])
        assert options is not None
        return SimpleNamespace(run_with_ort_values=run)

    levels = SimpleNamespace(ORT_ENABLE_ALL="all")
    package = SimpleNamespace(SessionOptions=SimpleNamespace, GraphOptimizationLevel=levels, InferenceSession=session)
    stand_in(monkeypatch, onnxruntime=package)
    found = worker.onnxruntime_engine("ENABLE_ALL")(job(type_name(dtype), type_name(dtype)), [])
    assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes())


def test_the_model_that_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluator of the standard, onnx2torch and tract: the model, the inputs, and the first output."""

    def evaluator(model: str) -> Any:
        def run(names: object, feeds: dict[str, Any]) -> Any:
            assert (model, names, feeds) == ("loaded m", None, {})
            return [[1, 2], None]

        return SimpleNamespace(run=run)

    def loaded(model: bytes) -> str:
        return f"loaded {model.decode()}"

    def module_of(model: str) -> Any:
        assert model == "loaded m"

        def module(tensor: _Tensor) -> _Tensor:
            return tensor.to(np.float32)

        return module

    def tract_model(path: str) -> Any:
        assert Path(path).read_bytes() == b"m"
        return SimpleNamespace(into_model=lambda: SimpleNamespace(into_runnable=lambda: SimpleNamespace(run=tract_run)))

    def tract_run(inputs: list[Any]) -> Any:
        return [SimpleNamespace(to_numpy=lambda: inputs[0] + 1), None]

    stand_in(
        monkeypatch,
        onnx=SimpleNamespace(load_from_string=loaded),
        onnx_reference=SimpleNamespace(ReferenceEvaluator=evaluator),
        onnx2torch=SimpleNamespace(convert=module_of),
        torch=libraries()["torch"],
        tract=SimpleNamespace(onnx=lambda: SimpleNamespace(load=tract_model)),
    )
    array = np.array([1, 2], np.int64)
    assert worker.reference_engine()(job("int64", "float"), []).tolist() == [1, 2]
    tensor = worker.onnx2torch_engine()(job("int64", "float"), [array])
    assert tensor.tobytes() == np.array([1, 2], np.float32).tobytes()
    assert worker.tract_engine()(job("int64", "int64"), [array]).tolist() == [2, 3]
    with pytest.raises(RefusalError, match="has no type bfloat16"):
        worker.tract_engine()(job("bfloat16", "float"), [array])


def test_what_gfloat_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[Any, ...]]()
    infinities = {"format_info_ocp_e4m3": 0, "format_info_ocp_e2m1": 0, "format_info_ocp_e8m0": 0}
    others = ("ocp_e2m3", "ocp_e3m2", "ocp_e5m2", "binary16", "bfloat16", "binary32")
    formats = {f"format_info_{name}": 2 * (name in others[2:]) for name in others} | infinities
    modes = SimpleNamespace(TowardPositive="up", TowardNegative="down", TiesToAway="away", TiesToEven="even")

    def rounded(info: Any, numbers: Any, mode: str, saturate: bool) -> Any:
        assert numbers.dtype == np.float64
        asked.append((info.name, mode, saturate))
        return numbers

    def encoded(_info: Any, numbers: Any) -> Any:
        return numbers.astype(np.uint64)

    package = SimpleNamespace(round_ndarray=rounded, encode_ndarray=encoded, RoundMode=modes)
    infos = {name: SimpleNamespace(name=name.removeprefix("format_info_"), num_infs=n) for name, n in formats.items()}
    stand_in(monkeypatch, gfloat=package, gfloat_formats=SimpleNamespace(**infos))
    run = worker.gfloat_engine()
    rows: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
        ("float4e2m1", {}, ("ocp_e2m1", "even", True)),
        ("float6e2m3", {}, ("ocp_e2m3", "even", True)),
        ("float6e3m2", {"round_mode": "down"}, ("ocp_e3m2", "even", True)),
        ("float8e4m3fn", {}, ("ocp_e4m3", "even", True)),
        ("float8e4m3fn", {"saturate": 0}, ("ocp_e4m3", "even", False)),
        ("float8e5m2", {"saturate": 1}, ("ocp_e5m2", "even", True)),
        ("float8e8m0", {}, ("ocp_e8m0", "up", True)),
        ("float8e8m0", {"round_mode": "down", "saturate": 0}, ("ocp_e8m0", "down", False)),
        ("float8e8m0", {"round_mode": "nearest"}, ("ocp_e8m0", "away", True)),
        ("float16", {}, ("binary16", "even", False)),
        ("bfloat16", {}, ("bfloat16", "even", False)),
        ("float", {}, ("binary32", "even", False)),
    ]
    for target, attributes, said in rows:
        found = run(job("int32", target, **attributes), [np.array([1, 2], np.int32)])
        assert (asked.pop(), found.tolist()) == (said, [1, 2])
        assert found.dtype.kind == "u"
        assert found.dtype.itemsize == dtype_of(target).itemsize
    for refused in (job("int32", "float", "CastLike"), job("int32", "double"), job("int32", "int8")):
        with pytest.raises(RefusalError):
            run(refused, [np.zeros(1, np.int32)])
    for source in ("string", "int64", "uint64"):
        with pytest.raises(RefusalError):
            run(job(source, "float"), [np.zeros(1, np.int64)])


def test_what_qonnx_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(version: str, *words: Any) -> list[Any]:
        return [version, *words]

    package = SimpleNamespace(trunc_v1=partial(said, "v1"), trunc_v2=partial(said, "v2"))
    stand_in(monkeypatch, qonnx_custom_op_general_trunc=package)
    run = worker.qonnx_engine()
    attributes: dict[str, Any] = {"rounding_mode": "CEIL", "narrow": 1, "signed": 0}
    asked = job("float", "float", "Trunc", **attributes)
    assert run(asked, list("abcde")).tolist() == ["v1", *"abcde", "CEIL"]
    assert run(asked, list("abcdef")).tolist() == ["v2", *"abcd", "True", "False", *"ef", "CEIL"]
    with pytest.raises(RefusalError, match="qonnx has no such operator"):
        run(job("float", "float", **attributes), list("abcde"))


class _Tensor:
    """A tensor of the stand-in for PyTorch, TensorFlow and tinygrad: an array, its types those of numpy."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def view(self, dtype: Any) -> _Tensor:
        return _Tensor(self.array.view(dtype))

    bitcast = view

    def to(self, dtype: Any) -> _Tensor:
        return _Tensor(self.array.astype(dtype))

    cast = to

    def element_size(self) -> int:
        return self.array.itemsize

    def contiguous(self) -> _Tensor:
        return self

    detach = contiguous

    def numpy(self) -> Any:
        return self.array


def libraries() -> dict[str, Any]:
    """Stand-ins for packages that cast, by the engines' names; numpy and ml_dtypes do it."""
    plain = {name: np.dtype(name) for name in ("float32", "float64", "float16", "int8", "int16", "int32", "int64")}
    plain |= {name: np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64", "bool")}
    narrow = {name: dtype_of(name) for name in ("bfloat16", "int4", "uint4")}
    floats = {
        "float8e4m3fn": "e4m3fn",
        "float8e4m3fnuz": "e4m3fnuz",
        "float8e5m2": "e5m2",
        "float8e5m2fnuz": "e5m2fnuz",
    }
    of_torch = {f"float8_{name}": dtype_of(key) for key, name in floats.items()}
    of_tinygrad = {
        f"fp8{name}".replace("m3fn", "m3").replace("m3uz", "m3fnuz"): dtype_of(key) for key, name in floats.items()
    }

    def same(thing: Any, **_: object) -> Any:
        return thing

    def update(name: str, *, val: bool) -> None:
        assert (name, val) == ("jax_enable_x64", True)
        jax.jit = same  # not before

    jax = SimpleNamespace(config=SimpleNamespace(update=update), numpy=np)
    return {
        "torch": SimpleNamespace(**plain, **narrow, **of_torch, from_numpy=_Tensor),
        "tensorflow": SimpleNamespace(constant=_Tensor, cast=_Tensor.to, as_dtype=same),
        "tinygrad": SimpleNamespace(dtypes=SimpleNamespace(**plain, **narrow, **of_tinygrad), Tensor=_Tensor),
        "jax": jax,
    }


@pytest.mark.parametrize("engine", ["torch", "tensorflow", "tinygrad", "jax"])
def test_what_libraries_cast(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    stand_in(monkeypatch, **{engine: libraries()[engine]})
    convert = worker.ENGINES[engine][1]()
    lacking = {"torch": {"int4", "uint4"}}.get(engine, set[str]())
    names = ("float", "double", "float16", "bfloat16", "int8", "uint8", "int64", "int4", "float8e4m3fn",
             "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")  # fmt: skip
    for source, target in (
        (a, b) for a in names for b in ("float", "float16", "double", "float8e5m2", "uint8", "int4") if a != b
    ):
        array = np.array([1.0, 2.0, 3.0]).astype(dtype_of(source))
        if lacking & {source, target}:
            with pytest.raises(RefusalError):
                convert(job(source, target), [array])
            continue
        found = convert(job(source, target), [array]).view(dtype_of(target))
        assert found.tobytes() == np.array([1.0, 2.0, 3.0]).astype(dtype_of(target)).tobytes()
    for source, target in (("string", "float"), ("float", "string"), ("float6e2m3", "float"), ("float", "float6e2m3")):
        if "string" in (source, target) or engine in ("torch", "tinygrad"):
            with pytest.raises(RefusalError):
                convert(job(source, target), [np.zeros(1, dtype_of("float" if source == "string" else source))])


def test_answers_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(each: Any, inputs: Any) -> Any:
        if each["op"] == "Break":
            raise BrokenError("it is empty")
        if each["op"] == "Refuse":
            raise RefusalError("none such")
        return inputs[0] + 1

    monkeypatch.setitem(worker.ENGINES, "mine", ("numpy", lambda: convert))
    answer = worker.answerer()
    assert answer("mine") == np.__version__
    asked = {**job("int8", "int8"), "inputs": [entry("int8", (2,), b"\1\2")]}
    assert answer("mine", asked) == (b"\2\3", "")
    assert answer("mine", {**asked, "op": "Break"}) == (b"", "it is empty")
    with pytest.raises(RefusalError, match="none such"):
        answer("mine", {**asked, "op": "Refuse"})
    assert worker.version_of("no-such-package") == "unknown"
    monkeypatch.setitem(sys.modules, "no-such-package", SimpleNamespace(__version__="7"))
    assert worker.version_of("no-such-package") == "7"
