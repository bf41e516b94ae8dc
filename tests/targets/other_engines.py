"""Targets of runtimes that run in an environment of their own: what each was seen to compute, written to its file.

python -m tests.targets.other_engines NAME PYTHON    probe, in the environment of an interpreter
    --seconds S     the longest that a model may take, 60 by default
    --jobs N        processes, 1 by default
    --minutes M     stop then; operators that were not tried with each of their types are unknown
    --only NAMES    probe these operators, or `optional`: those with optional inputs; the file keeps the others

The models are those of `castsmith targets probe`, at one opset, the newest that all of these runtimes document, with
constants for scales and optional inputs, such as the bounds of Clip and zero points. Each is loaded and run, and
compared with the reference implementation of ONNX. Types that are not probed count as lacking: string, and what that
opset does not have.
A run that ends the process, or takes longer than S seconds, counts against the model.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
import onnx.defs
import onnx.numpy_helper
import onnx.parser
from onnx_ir import DataType

from castsmith.conformance.probe_models import TEXTS, model_text, versions
from castsmith.conformance.probing import grouped, target_text
from castsmith.ir.ops.schemas import since_version
from castsmith.numerics.types import ELEMENT_TYPES, parse_type, type_name
from castsmith.targets.target import TARGETS_FOLDER
from tests.targets.engine_worker import ENGINES, ones

OPSET, IR_VERSION = 17, 8
WORKER = Path(__file__).with_name("engine_worker.py")
DESCRIPTIONS = {
    "tract": "tract, CPU, Python interface",
    "onnx2torch": "onnx2torch: the model as a module of PyTorch, CPU",
    "tinygrad": "tinygrad's ONNX front end, CPU",
    "jaxonnxruntime": "jaxonnxruntime: the model as a function of JAX, CPU",
    "tvm": "Apache TVM: Relax ONNX front end, compiled by LLVM",
    "iree": "IREE: its importer of ONNX, compiled for the CPU by LLVM",
}
_FIRST = """
    Cast Identity Constant Add Sub Mul Div Min Max Clip Mod Abs Neg Sign Floor Round Exp Sqrt Relu Sigmoid Tanh
    Erf Pow Equal Less Greater And Or Not Where IsNaN BitShift Reshape Transpose Expand Shape Gather Concat
    Split Slice Squeeze Unsqueeze Pad Tile ScatterND ReduceSum ReduceMax ReduceMean ReduceMin ArgMax TopK MatMul
    Gemm Conv MaxPool AveragePool GlobalAveragePool Softmax LogSoftmax LayerNormalization BatchNormalization
    InstanceNormalization Range ConstantOfShape QuantizeLinear DequantizeLinear DynamicQuantizeLinear
    MatMulInteger ConvInteger QLinearConv QLinearMatMul CastLike Resize GatherElements GatherND CumSum If Loop
    Einsum
"""
"""The operators to probe first: those of lowered models, and the most frequent others."""


_BY_HAND = ("quantization", "hazards")
"""Facts that these models do not show; a new probe keeps them."""


@dataclass(frozen=True)
class Probe:
    """The model of an operator and a type. optional: it has an optional input, which was made a constant."""

    op_type: str
    dtype: DataType
    model: bytes
    optional: bool


def models() -> list[Probe]:
    """Return the model of each operator and type that the opset has, the types of an operator one after the other."""
    found: list[Probe] = []
    for op_type in sorted(TEXTS, key=lambda each: each not in _FIRST.split()):
        for dtype in ELEMENT_TYPES:
            if dtype is DataType.STRING or not any(True for _ in versions(op_type, dtype, OPSET)):
                continue
            try:
                model = onnx.parser.parse_model(model_text(op_type, dtype, OPSET, IR_VERSION))
                optional = _bind_optional_inputs(model)
                _store_raw(model)
                onnx.checker.check_model(model)
            except (onnx.parser.ParseError, onnx.checker.ValidationError):
                continue
            found.append(Probe(op_type, dtype, model.SerializeToString(), optional))
    return found


def _bind_optional_inputs(model: onnx.ModelProto) -> bool:
    """Make scales, and the inputs that nodes need not have, constants of ones, as exporters write them.

    True if there are any.
    """
    used, required = set[str](), set[str]()
    for node in model.graph.node:
        formals = onnx.defs.get_schema(node.op_type, OPSET).inputs
        for name, formal in zip(node.input, formals, strict=False):
            free = formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional or formal.name.endswith("scale")
            (used if free else required).add(name)
    inputs = [each for each in model.graph.input if each.name in used - required]
    values = ones(model)
    for each in inputs:
        model.graph.initializer.append(onnx.numpy_helper.from_array(values[each.name], each.name))
        model.graph.input.remove(each)
    return bool(inputs)


def _store_raw(model: onnx.ModelProto) -> None:
    """Store tensors as exporters do: the importer of IREE takes no others of float16."""
    held = [attribute.t for node in model.graph.node for attribute in node.attribute if attribute.HasField("t")]
    for tensor in (*model.graph.initializer, *held):
        if tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128):
            continue  # the parser of ONNX text leaves out their imaginary parts
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))


def answers(engine: str, python: str, folder: Path, seconds: float, until: float) -> tuple[str, dict[int, str]]:
    """Return the version of the engine and what it makes of the models.

    A model with which the process ends is tried again in a new process, of which it is the first.
    """
    version, found, first, again = "", dict[int, str](), 0, -1
    last = max((int(path.stem) for path in folder.iterdir()), default=-1)
    while first <= last and time.monotonic() < until:
        words = [python, str(WORKER), engine, str(folder), str(first)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        begun, timer = -1, _killing(process, seconds)
        for line in process.stdout or ():
            kind, _, rest = line.strip().partition(" ")
            if kind not in ("version", "begin", "end"):
                continue
            timer.cancel()
            timer = _killing(process, seconds)
            if kind == "version":
                version = rest
            elif kind == "end":
                number, _, answer = rest.partition(" ")
                found[int(number)] = answer
                print("end", number, answer, flush=True)
            elif time.monotonic() < until:
                begun = int(rest)
            else:
                process.kill()
                break
        timer.cancel()
        process.wait()
        if time.monotonic() >= until:
            break
        if not version or begun < 0:
            raise SystemExit(f"{engine} does not start in {python}")
        if begun not in found and begun == again:
            found[begun] = "the process ended"
        first, again = begun + (begun in found), begun
    return version, found


def _killing(process: subprocess.Popen[str], seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    return timer


def shared(asked: Sequence[Probe], engine: str, options: argparse.Namespace) -> tuple[str, dict[int, str]]:
    """Return the answers of several processes, among which the models are dealt."""
    until = time.monotonic() + options.minutes * 60
    found: dict[int, str] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        parts = [Path(folder, str(part)) for part in range(options.jobs)]
        for part in parts:
            part.mkdir()
        for number, each in enumerate(asked):
            (parts[number % options.jobs] / f"{number}.onnx").write_bytes(each.model)
        runs = [pool.submit(answers, engine, options.python, part, options.seconds, until) for part in parts]
        version = ""
        for run in runs:
            version, some = run.result()
            found |= some
    return version, found


def probe(engine: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the content of the target's file."""
    only = set(options.only)
    asked = [each for each in models() if not only or each.op_type in only or (each.optional and "optional" in only)]
    version, found = shared(asked, engine, options)
    whole = {each.op_type for each in asked} - {each.op_type for n, each in enumerate(asked) if n not in found}
    rows: dict[DataType, dict[str, int]] = {dtype: {} for dtype in ELEMENT_TYPES}
    known = _kept(engine, rows, {each.op_type for each in asked}) if only else set[str]()
    for number, each in enumerate(asked):
        if each.op_type in whole and found[number] == "ok":
            rows[each.dtype][each.op_type] = since_version(each.op_type, OPSET) or OPSET
        elif each.op_type in whole:
            print(f"{each.op_type} of {type_name(each.dtype)}: {found[number]}")
    taken = {dtype: dict(sorted(row.items())) for dtype, row in rows.items() if {"Cast", "Identity"} & row.keys()}
    computed = sum(map(len, taken.values()))
    unknown = ", ".join(sorted({each.op_type for each in asked} - whole)) or "none"
    print(f"{engine} {version}: computes {computed} models; {len(found)} of {len(asked)} tried; unknown: {unknown}")
    path = TARGETS_FOLDER / f"{engine}.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        "name": engine,
        "description": f"{DESCRIPTIONS[engine]}, {version}",
        "release": version,
        "newest_release": f"{version} ({_today()})",
        "evidence": {"kernels": _evidence(engine, version), "types": f"{_today()}: as kernels"},
        "newest_opset": OPSET,
        "newest_ir_version": IR_VERSION,
        "types": [type_name(dtype) for dtype in ELEMENT_TYPES if dtype in taken],
        "probed_from": OPSET,
        "probed": sorted(known | whole),
        **{key: old[key] for key in _BY_HAND if key in old},
        "kernels": list(grouped(taken)),
    }


def _evidence(engine: str, version: str) -> str:
    return (
        f"{_today()}, {ENGINES[engine][0]} {version}: each operator of `probed` loaded and run with each type"
        f" at opset {OPSET}, scales and optional inputs as constants, and compared with the reference implementation of"
        " ONNX, by python -m tests.targets.other_engines; newer opsets were not tried, nor was string, which counts"
        " as lacking"
    )


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _kept(engine: str, rows: dict[DataType, dict[str, int]], again: Collection[str]) -> set[str]:
    """Fill the rows with what the file says of operators that are not probed again; return their names."""
    data = json.loads((TARGETS_FOLDER / f"{engine}.json").read_text(encoding="utf-8"))
    for row in data["kernels"]:
        for name in row["types"]:
            kept = {op_type: since for op_type, since in row["operators"].items() if op_type not in again}
            rows[parse_type(name)].update(kept)
    return set(data["probed"]) - set(again)


def main() -> None:
    """Probe and write."""
    parser = argparse.ArgumentParser(description="probe a runtime in an environment of its own")
    parser.add_argument("engine", choices=sorted(DESCRIPTIONS))
    parser.add_argument("python")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    data = probe(options.engine, options)
    (TARGETS_FOLDER / f"{options.engine}.json").write_text(target_text(data), encoding="utf-8")


if __name__ == "__main__":
    main()
