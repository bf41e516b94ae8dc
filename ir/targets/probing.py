"""Probing an installed runtime: a target's file is made again as far as it can be measured.

Every operator of `probe_models` is tried with every element type, at each opset at which the operator changed.
What cannot be measured so (wrong casts, hazards) is copied from the file that comes with Castsmith.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import onnx
import onnx.parser
from onnx_ir import DataType

from castsmith.ir.ops import CONTRIB_DOMAIN, contrib_operators
from castsmith.ir.targets.probe_models import EARLY, TEXTS, contrib_model, model_text, versions
from castsmith.ir.targets.reading import TARGETS_FOLDER
from castsmith.ir.targets.target import TargetError
from castsmith.numerics.cast import NEWEST_OPSET
from castsmith.numerics.types import ELEMENT_TYPES, type_name

Accepts = Callable[[bytes], bool]
_RELU = "agraph (float[2] x) => (float[2] y) {{ y = Relu (x) }}"
_NEWEST_IR = 14
_CONTRIB_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
_CONTRIB_OPSETS = (1, 9, 13, 17)
"""Opsets of the standard with which operators of com.microsoft are probed: they may be written out in its operators."""
_SETTLED = 7
"""An opset that every runtime takes."""
_CRASHES = {"openvino-cpu": (DataType.STRING,)}
"""Types that make the runtime abort its process when they are tried."""


def probe(name: str) -> dict[str, Any]:
    """Measure the content of the target's JSON file.

    Raises:
        TargetError: The target cannot be probed, or its runtime is not installed.
    """
    if name not in _RUNTIMES:
        raise TargetError(f"{name!r} cannot be probed; only {', '.join(_RUNTIMES)} can.")
    version, accepts = _RUNTIMES[name]()
    newest_ir = max(ir for ir in range(4, _NEWEST_IR + 1) if accepts(_binary(_simple(_SETTLED, ir))))
    newest = max(n for n in range(_SETTLED, NEWEST_OPSET + 1) if accepts(_binary(_simple(n, newest_ir))))
    rows = {
        dtype: {**_row(dtype, newest, newest_ir, accepts), **_contrib_row(dtype, newest_ir, accepts)}
        for dtype in ELEMENT_TYPES
        if dtype not in _CRASHES.get(name, ())
    }
    lacks = [dtype for dtype, row in rows.items() if "Cast" not in row and "Identity" not in row]
    shipped = json.loads((TARGETS_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    measured = {
        "name": name,
        "description": version,
        "evidence": f"each operator of `probed` tried with each type, at each opset where it changed, of {version}",
        "newest_opset": newest,
        "newest_ir_version": newest_ir,
        "lacks": [type_name(dtype) for dtype in lacks],
        "probed": sorted({*TEXTS, *(each for row in rows.values() for each in row)}),
        "kernels": list(_grouped({dtype: row for dtype, row in rows.items() if dtype not in lacks})),
    }
    return {**measured, **{key: value for key, value in shipped.items() if key not in measured}}


def target_text(data: dict[str, Any]) -> str:
    """Return the JSON of a target's file, one entry of a list per line."""
    parts = [f"  {json.dumps(key)}: {_value_text(value)}" for key, value in data.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _value_text(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in cast("list[Any]", value)):
        return "[\n" + ",\n".join(f"    {json.dumps(entry)}" for entry in cast("list[Any]", value)) + "\n  ]"
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{\n" + ",\n".join(f"    {json.dumps(key)}: {json.dumps(entry)}" for key, entry in pairs) + "\n  }"
    return json.dumps(value)


def _row(dtype: DataType, newest: int, ir_version: int, accepts: Accepts) -> dict[str, int]:
    """Return the operators that support the type, and the first opset of each."""
    found: dict[str, int] = {}
    for op_type in TEXTS:
        for opset in versions(op_type, dtype, newest):
            defined = opset >= EARLY.get(op_type, 1)
            model = _binary(model_text(op_type, dtype, opset, ir_version), defined=defined)
            if model and accepts(model):
                found[op_type] = opset
                break
    return found


def _contrib_row(dtype: DataType, ir_version: int, accepts: Accepts) -> dict[str, int]:
    """Return the operators of com.microsoft that support the type, one of those that whole models are converted to."""
    if dtype not in _CONTRIB_TYPES:
        return {}
    found: dict[str, int] = {}
    for op_type in contrib_operators():
        for opset in _CONTRIB_OPSETS:
            model = contrib_model(op_type, dtype, opset, ir_version)
            if model and accepts(model):
                found[f"{CONTRIB_DOMAIN}.{op_type}"] = opset
                break
    return found


def _grouped(rows: dict[DataType, dict[str, int]]) -> Iterator[dict[str, Any]]:
    """Group types with the same row."""
    groups: dict[str, list[DataType]] = {}
    for dtype, row in rows.items():
        groups.setdefault(json.dumps(row, sort_keys=True), []).append(dtype)
    for text, dtypes in groups.items():
        yield {"types": [type_name(dtype) for dtype in dtypes], "operators": json.loads(text)}


def _simple(opset: int, ir_version: int) -> str:
    return f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n' + _RELU.format()


def _binary(text: str, *, defined: bool = True) -> bytes:
    """Return the model; empty if this onnx cannot write it. defined: the opset has its operators."""
    try:
        model: onnx.ModelProto = onnx.parser.parse_model(text)
        if defined:
            onnx.checker.check_model(model)
    except (onnx.parser.ParseError, onnx.checker.ValidationError):
        return b""
    return model.SerializeToString()


def _onnxruntime() -> tuple[str, Accepts]:
    runtime = _installed("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1

    def accepts(model: bytes) -> bool:
        return not _raises(lambda: runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))

    return f"ONNX Runtime {runtime.__version__}, CPU execution provider", accepts


def _openvino() -> tuple[str, Accepts]:
    runtime = _installed("openvino")
    core = runtime.Core()

    def accepts(model: bytes) -> bool:
        return not _raises(lambda: core.compile_model(core.read_model(model), "CPU"))

    return f"OpenVINO {runtime.__version__.split('-')[0]}, CPU plugin and ONNX front end", accepts


def _raises(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except Exception:  # each runtime has its own, undocumented exceptions
        return True
    return False


def _installed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise TargetError(f"{module} is not installed, so it cannot be probed.") from None


_RUNTIMES: dict[str, Callable[[], tuple[str, Accepts]]] = {
    "onnxruntime-cpu": _onnxruntime,
    "openvino-cpu": _openvino,
}
