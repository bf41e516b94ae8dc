"""Targets of runtimes that run in an environment of their own: what each was seen to compute, written to its file.

python -m tests.ir.targets.other_engines NAME PYTHON [SECONDS]    probe, in the environment of an interpreter

The models are those of `castsmith targets probe`, at one opset, the newest that all of these runtimes document; each is
loaded and run, and compared with the reference implementation of ONNX. Two types that are not probed count as lacking:
string, and what that opset does not have. A run that ends the process, or takes longer than SECONDS, counts against the
model.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
import onnx.parser
from onnx_ir import DataType

from castsmith.ir.ops import since_version
from castsmith.ir.targets.probe_models import TEXTS, model_text, versions
from castsmith.ir.targets.probing import grouped, target_text
from castsmith.ir.targets.reading import TARGETS_FOLDER
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from tests.ir.targets.engine_worker import ENGINES

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


def models() -> list[tuple[str, DataType, bytes]]:
    """Return the model of each operator and type that the opset has."""
    found: list[tuple[str, DataType, bytes]] = []
    for dtype in ELEMENT_TYPES:
        if dtype is DataType.STRING:
            continue
        for op_type in TEXTS:
            if not any(True for _ in versions(op_type, dtype, OPSET)):
                continue
            try:
                model = onnx.parser.parse_model(model_text(op_type, dtype, OPSET, IR_VERSION))
                onnx.checker.check_model(model)
            except (onnx.parser.ParseError, onnx.checker.ValidationError):
                continue
            found.append((op_type, dtype, model.SerializeToString()))
    return found


def answers(engine: str, python: str, folder: Path, count: int, seconds: float) -> tuple[str, dict[int, str]]:
    """Return the version of the engine and what it makes of each model; a crash costs one model."""
    version, found, first = "", dict[int, str](), 0
    while first < count:
        words = [python, str(WORKER), engine, str(folder), str(first)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        begun = first
        timer = threading.Timer(seconds, process.kill)
        for line in process.stdout or ():
            kind, _, rest = line.strip().partition(" ")
            if kind not in ("version", "begin", "end"):
                continue
            timer.cancel()
            timer = threading.Timer(seconds, process.kill)
            timer.start()
            if kind == "version":
                version = rest
            elif kind == "begin":
                begun = int(rest)
            else:
                number, _, answer = rest.partition(" ")
                found[int(number)] = answer
        timer.cancel()
        process.wait()
        if not version:
            raise SystemExit(f"{engine} does not start in {python}")
        if begun not in found:
            found[begun] = "the process ended"
        first = begun + 1
    return version, found


def probe(engine: str, python: str, seconds: float) -> dict[str, Any]:
    """Return the content of the target's file."""
    asked = models()
    with tempfile.TemporaryDirectory() as folder:
        for number, (_, _, model) in enumerate(asked):
            Path(folder, f"{number}.onnx").write_bytes(model)
        version, found = answers(engine, python, Path(folder), len(asked), seconds)
    rows: dict[DataType, dict[str, int]] = {dtype: {} for dtype in ELEMENT_TYPES}
    for number, (op_type, dtype, _) in enumerate(asked):
        if found[number] == "ok":
            rows[dtype][op_type] = since_version(op_type, OPSET) or OPSET
        else:
            print(f"{op_type} of {type_name(dtype)}: {found[number]}")
    taken = {dtype: row for dtype, row in rows.items() if {"Cast", "Identity"} & row.keys()}
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    print(f"{engine} {version}: {sum(map(len, taken.values()))} of {len(asked)} models")
    return {
        "name": engine,
        "description": f"{DESCRIPTIONS[engine]}, {version}",
        "evidence": f"{date}, {ENGINES[engine][0]} {version}: each operator of `probed` loaded and run with each type"
        f" at opset {OPSET}, and compared with the reference implementation of ONNX, by python -m"
        " tests.ir.targets.other_engines; newer opsets were not tried, nor was string, which counts as lacking",
        "newest_opset": OPSET,
        "newest_ir_version": IR_VERSION,
        "lacks": [type_name(dtype) for dtype in ELEMENT_TYPES if dtype not in taken],
        "probed": sorted({op_type for op_type, _, _ in asked}),
        "kernels": list(grouped(taken)),
    }


def main(engine: str, python: str, seconds: str = "60") -> None:
    """Probe and write."""
    data = probe(engine, python, float(seconds))
    json.dumps(data)
    (TARGETS_FOLDER / f"{engine}.json").write_text(target_text(data), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
