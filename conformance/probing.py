"""Probing an installed runtime: a target's file is made again as far as it can be measured.

Every operator of `probe_models` is loaded and run with every element type, at each opset at which the operator changed.
The models go to another process, which is started again after a crash.
What cannot be measured so (wrong casts, hazards) is copied from the file that comes with Castsmith.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.parser
from onnx_ir import DataType

from castsmith.conformance.probe_models import EARLY, TEXTS, contrib_model, model_text, versions
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN, contrib_operators
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.types import CODED_TYPES, ELEMENT_TYPES, type_name
from castsmith.targets.statements import TargetError
from castsmith.targets.target import TARGETS_FOLDER
from castsmith.verification.evaluate.engines import EngineError, Prepared

_RELU = "agraph (float[2] x) => (float[2] y) {{ y = Relu (x) }}"
_NEWEST_IR = 14
_CONTRIB_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
_CONTRIB_OPSETS = (1, 9, 13, 17)
"""Opsets of the standard with which operators of com.microsoft are probed: they may be written out in its operators."""
_SETTLED = 7
"""An opset that every runtime takes."""
_LONGEST = 60.0
_OPEN = 2
"""The size of an open dimension in a run."""
_FED = {int(dtype) for dtype in ELEMENT_TYPES} - {*CODED_TYPES, DataType.STRING, DataType.BFLOAT16}
"""The types of which runtimes take arrays."""


def probe(name: str) -> dict[str, Any]:
    """Measure the content of the target's JSON file, in another process.

    Raises:
        TargetError: The target cannot be probed, its runtime is not installed, or the installed onnx lacks new opsets.
    """
    if name not in _RUNTIMES:
        raise TargetError(f"{name!r} cannot be probed; only {', '.join(_RUNTIMES)} can.")
    if onnx.defs.onnx_opset_version() < NEWEST_OPSET:
        raise TargetError(
            f"probing needs an onnx that has opset {NEWEST_OPSET}; the installed one is {onnx.__version__}."
        )
    version, release, engine = _RUNTIMES[name]()
    newest_ir = max(ir for ir in range(4, _NEWEST_IR + 1) if _loads(engine, _binary(_simple(_SETTLED, ir))))
    newest = max(n for n in range(_SETTLED, NEWEST_OPSET + 1) if _loads(engine, _binary(_simple(n, newest_ir))))
    tried = {dtype: _try_operators(dtype, newest, newest_ir, engine) for dtype in ELEMENT_TYPES}
    spans = {dtype: {op: _span(opsets) for op, opsets in opsets_by_op.items()} for dtype, opsets_by_op in tried.items()}
    rows = {
        dtype: {**{op: span[0] for op, span in span_by_op.items() if span}, **_contrib_row(dtype, newest_ir, engine)}
        for dtype, span_by_op in spans.items()
    }
    dropped = {
        dtype: {op: span[1] for op, span in span_by_op.items() if span[1:]} for dtype, span_by_op in spans.items()
    }
    types = [dtype for dtype, row in rows.items() if "Cast" in row or "Identity" in row]
    shipped = json.loads((TARGETS_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    measured: dict[str, Any] = {
        "name": name,
        "description": version,
        "newest_opset": newest,
        "newest_ir_version": newest_ir,
        "types": [type_name(dtype) for dtype in types],
        "probed": sorted({*TEXTS, *(op for row in rows.values() for op in row)}),
        "kernels": list(grouped({dtype: rows[dtype] for dtype in types})),
        "dropped": list(grouped({dtype: row for dtype, row in dropped.items() if row})),
    }
    if any(measured[key] != shipped.get(key) for key in ("types", "probed", "kernels", "dropped")):
        how = f"{datetime.now(UTC).date()}: each operator of `probed` loaded and run with each type, of {version}"
        measured |= {"release": release, "evidence": {**shipped["evidence"], "types": how, "kernels": how}}
    return {**shipped, **measured}


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


def _try_operators(dtype: DataType, newest: int, ir_version: int, engine: str) -> dict[str, dict[int, bool]]:
    """Return for each operator the opsets at which it was tried with the type, in order, and whether it works."""
    outcomes: dict[str, dict[int, bool]] = {}
    for op_type in TEXTS:
        for opset in versions(op_type, dtype, newest):
            defined = opset >= EARLY.get(op_type, 1)
            model = _binary(model_text(op_type, dtype, opset, ir_version), defined=defined)
            if model:
                outcomes.setdefault(op_type, {})[opset] = _loads(engine, model, run=True)
    return outcomes


def _span(works: dict[int, bool]) -> tuple[int, ...]:
    """Return the last opset at which an operator began to work, and that at which it ceased to, if there are such."""
    first = last = 0
    for opset, runs in works.items():
        if runs and (not first or last):
            first, last = opset, 0
        elif not runs and first and not last:
            last = opset
    return tuple(filter(None, (first, last)))


def _contrib_row(dtype: DataType, ir_version: int, engine: str) -> dict[str, int]:
    """Return the operators of com.microsoft that support the type, one of those that whole models are converted to."""
    if dtype not in _CONTRIB_TYPES:
        return {}
    newest: dict[str, int] = {}
    for op_type in contrib_operators():
        for opset in _CONTRIB_OPSETS:
            model = contrib_model(op_type, dtype, opset, ir_version)
            if model and _loads(engine, model):
                newest[f"{CONTRIB_DOMAIN}.{op_type}"] = opset
                break
    return newest


def grouped(rows: dict[DataType, dict[str, int]]) -> Iterator[dict[str, Any]]:
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


def _loads(engine: str, model: bytes, *, run: bool = False) -> bool:
    """True if the runtime loads the model. run: and computes it for ones, if numpy has the types of its inputs."""
    prepared = Prepared(engine, model)
    try:
        prepared.ready(_LONGEST)
        feeds = _ones(model) if run else None
        if feeds is not None:
            prepared.run(feeds, _LONGEST)
    except EngineError:
        return False
    return True


def _ones(model: bytes) -> dict[str, np.ndarray[Any, Any]] | None:
    """Return an array of ones for each input; None if an input or output is of a type that numpy lacks."""
    graph = onnx.ModelProto.FromString(model).graph
    types = {value.name: value.type.tensor_type for value in (*graph.input, *graph.output)}
    if not all(tensor.elem_type in _FED for tensor in types.values()):
        return None
    return {
        value.name: np.ones(
            [dim.dim_value or _OPEN for dim in types[value.name].shape.dim],
            onnx.helper.tensor_dtype_to_np_dtype(types[value.name].elem_type),
        )
        for value in graph.input
    }


def _onnxruntime() -> tuple[str, str, str]:
    release = _installed("onnxruntime").__version__
    return f"ONNX Runtime {release}, CPU execution provider", release, "onnxruntime optimized"


def _openvino() -> tuple[str, str, str]:
    release = _installed("openvino").__version__.split("-")[0]
    return f"OpenVINO {release}, CPU plugin and ONNX front end", release, "openvino whole"


def _installed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise TargetError(f"{module} is not installed, so it cannot be probed.") from None


_RUNTIMES: dict[str, Callable[[], tuple[str, str, str]]] = {
    "onnxruntime-cpu": _onnxruntime,
    "openvino-cpu": _openvino,
}
"""For each target that can be probed: its version, in words and alone, and the engine of `verification.evaluate`."""
