"""A small float8 transformer for phones and browsers: what each target makes of it, its size and its time.

    python -m benchmarks.float8_transformer [--repeat N] [--web FOLDER] [--save FOLDER]

Two blocks of attention and an MLP; weights are float8e4m3fn, what enters a product goes through float8e4m3fn, keys and
values through float8e5m2. Lowered for each target and run where that is possible: the models for onnxruntime-android,
onnxruntime-wasm and coreml in ONNX Runtime on this machine, that for openvino-cpu in OpenVINO, and those of `--web` in
onnxruntime-web under Node, one thread each. FOLDER has node_modules/onnxruntime-web.

`exact` models have no norm and no softmax, and numbers of so few bits that every sum is exact in any order: all engines
must give the bits that ONNX Runtime gives of the model as it is. The others have both; their bits are compared with
those of the model as it is in the same engine.

The models of an engine take turns, but those in onnxruntime-web. The times are the least, and the ratios to the model
as it is, with the engine's own kernels, the median of the turns, with the ends of the middle half of them. Prints
Markdown.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx import TensorProto, helper
from onnx_ir import DataType

import castsmith
from benchmarks.pairing import in_turns, middle, ratios, spread, timed

Array = np.ndarray[Any, np.dtype[np.float32]]
RUNNER = Path(__file__).with_name("onnxruntime_web.mjs")
TARGETS = ("onnxruntime-android", "onnxruntime-wasm", "coreml", "openvino-cpu")
LENGTH = 32
E4M3, E5M2 = DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2


class _Network:
    """Nodes and weights of a model, as they are added."""

    def __init__(self, width: int, *, exact: bool) -> None:
        self.width, self.exact = width, exact
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(21)

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, list(inputs), [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def constant(self, array: Any, dtype: DataType | None = None) -> str:
        name = f"w{len(self.weights)}"
        held = np.asarray(array) if dtype is None else np.asarray(array).astype(dtype.numpy())
        self.weights.append(onnx_ir.to_proto(onnx_ir.tensor(held, name=name)))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def through(self, x: str, dtype: DataType) -> str:
        """Return x as read back from the type, stored divided by 4; an exact model stores integers up to 8."""
        x = self.op("Mul", x, self.number(0.25))
        if self.exact:
            x = self.op("Clip", self.op("Round", x), self.number(-8), self.number(8))
        stored = self.op("Cast", x, to=int(dtype))
        return self.op("Mul", self.op("Cast", stored, to=TensorProto.FLOAT), self.number(4))

    def linear(self, x: str, outputs: int, inputs: int) -> str:
        weight = self.rng.integers(-4, 5, (inputs, outputs)).astype(np.float32) / np.float32(64)
        held = self.op("Cast", self.constant(weight, E4M3), to=TensorProto.FLOAT)
        return self.op("MatMul", self.through(x, E4M3), held)

    def heads(self, x: str) -> str:
        split = self.op("Reshape", x, self.constant(np.array([0, -1, 4, self.width // 4], np.int64)))
        return self.op("Transpose", split, perm=[0, 2, 1, 3])

    def normed(self, x: str) -> str:
        if self.exact:
            return self.op("Mul", x, self.number(0.5))
        ones, zeros = (self.constant(np.full(self.width, value, np.float32)) for value in (1, 0))
        return self.op("LayerNormalization", x, ones, zeros)

    def block(self, x: str) -> str:
        """Return a block of attention and an MLP."""
        entered = self.normed(x)
        q, k, v = (self.heads(self.linear(entered, self.width, self.width)) for _ in range(3))
        k, v = (self.through(each, E5M2) for each in (k, v))
        q = self.through(q, E4M3)
        scores = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])), self.number(0.0625))
        scores = self.op("Relu", self.through(scores, E4M3)) if self.exact else self.op("Softmax", scores, axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", mixed, self.constant(np.array([0, -1, self.width], np.int64)))
        x = self.op("Add", x, self.linear(joined, self.width, self.width))
        hidden = self.op("Relu", self.linear(self.normed(x), 4 * self.width, self.width))
        return self.op("Add", x, self.linear(hidden, self.width, 4 * self.width))


def transformer(*, exact: bool, width: int = 128, blocks: int = 2) -> onnx.ModelProto:
    """Return the model of that many blocks: x of shape (1, 32, width) to y."""
    made = _Network(width, exact=exact)
    y = "x"
    for _ in range(blocks):
        y = made.block(y)
    made.nodes.append(helper.make_node("Identity", [y], ["y"]))
    x, y_info = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, LENGTH, width]) for name in "xy")
    graph = helper.make_graph(made.nodes, "float8_transformer", [x], [y_info], made.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def an_input(width: int = 128) -> Array:
    """Return numbers in steps of 1/4."""
    return (np.random.default_rng(7).integers(-32, 33, (1, LENGTH, width)) / 4).astype(np.float32)


def lowered(model: onnx.ModelProto, target: str) -> onnx.ModelProto:
    """Return the model as `optimize` makes it for the target, without folding weights to float."""
    result = castsmith.optimize(model, target=target)
    errors = [each.message for each in castsmith.check(result.model, target=target) if each.severity.value == "error"]
    if errors:
        raise SystemExit(f"{target}: {errors[0]}")
    return onnx_ir.to_proto(result.model)


def in_onnxruntime(model: onnx.ModelProto, *, fold: bool = True) -> Callable[[Array], Array]:
    """Return the model as a function. fold: let ONNX Runtime compute constants when it loads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    left_out = [] if fold else ["ConstantFolding"]
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"], disabled_optimizers=left_out
    )
    return lambda x: np.asarray(session.run(None, {"x": x})[0])


def in_openvino(model: onnx.ModelProto) -> Callable[[Array], Array]:
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings)
    return lambda x: np.array(next(iter(compiled({"x": x}).values())))


def in_web(models: Mapping[str, onnx.ModelProto], x: Array, folder: Path, repeat: int = 1) -> dict[str, Any]:
    """Return for each model its output in onnxruntime-web and the least ms of a run, or the error; and the version."""
    node = shutil.which("node")
    if node is None:
        raise FileNotFoundError("node is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        (place / "x.bin").write_bytes(x.tobytes())
        jobs = {"shape": x.shape, "repeat": repeat, "models": list(models)}
        for name, model in models.items():
            (place / f"{name}.onnx").write_bytes(model.SerializeToString())
        (place / "jobs.json").write_text(json.dumps(jobs))
        package = folder / "node_modules" / "onnxruntime-web" / "dist" / "ort.node.min.mjs"
        words = [node, str(RUNNER), str(package.resolve()), scratch]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        answers: dict[str, Any] = json.loads(told.splitlines()[-1])
        for name in models:
            answer = answers[name]
            if "error" not in answer:
                answer["y"] = np.frombuffer((place / f"{name}.bin").read_bytes(), np.float32).reshape(x.shape)
        return answers


def in_ms(runs: Mapping[str, Callable[[Array], Array]], x: Array, repeat: int) -> dict[str, list[float]]:
    """Return the processor times of runs in turns, in milliseconds."""
    for run in runs.values():
        run(x)
    times = in_turns({name: timed(partial(run, x)) for name, run in runs.items()}, repeat)
    return {name: [1000 * each for each in found] for name, found in times.items()}


def _verdict(got: Array | None, wanted: Array | None) -> str:
    if got is None or wanted is None:
        return "not run"
    if got.tobytes() == wanted.tobytes():
        return "the same"
    return f"differ by up to {np.abs(got - wanted).max() / np.abs(wanted).max():.1e} of the largest"


def _tried(load: Callable[[onnx.ModelProto], Callable[[Array], Array]], model: onnx.ModelProto) -> Any:
    try:
        run = load(model)
        run(an_input())
    except Exception:  # an engine that lacks float8 raises what it likes
        return None
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--web", type=Path)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    x = an_input()
    whole = {exact: transformer(exact=exact) for exact in (True, False)}
    made = {(target, exact): lowered(model, target) for target in TARGETS for exact, model in whole.items()}
    wanted = in_onnxruntime(whole[True])(x)
    given = [("as it is", whole[True], whole[False])]
    given += [(target, made[target, True], made[target, False]) for target in TARGETS]
    if arguments.save:
        for name, exact, usual in given:
            onnx.save(usual, arguments.save / f"{name.replace(' ', '-')}.onnx")
            onnx.save(exact, arguments.save / f"{name.replace(' ', '-')}-exact.onnx")
    rows: list[list[str]] = []
    for engine, load in (("ONNX Runtime", in_onnxruntime), ("OpenVINO", in_openvino)):
        chosen = [
            each for each in given if each[0] == "as it is" or (each[0] == "openvino-cpu") == (engine == "OpenVINO")
        ]
        runs = {name: _tried(load, usual) for name, _, usual in chosen}
        base = runs["as it is"]
        times = in_ms({name: run for name, run in runs.items() if run is not None}, x, arguments.repeat)
        for name, exact, usual in chosen:
            one, run = _tried(load, exact), runs[name]
            bits = _verdict(None if one is None else one(x), wanted)
            same = _verdict(None if run is None else run(x), None if base is None else base(x))
            ms = f"{min(times[name]):.2f}" if name in times else "-"
            both = name in times and "as it is" in times
            beside = spread(middle(ratios(times[name], times["as it is"]))) if both else "-"
            rows.append([engine, name, *_sizes(usual), bits, same, ms, beside])
    if arguments.web:
        chosen = {name: models for name, *models in given if name != "openvino-cpu"}
        jobs = {f"{name} {kind}": models[kind] for name, models in chosen.items() for kind in (0, 1)}
        answers = in_web(jobs, x, arguments.web, arguments.repeat)
        base = answers["as it is 1"].get("y")
        for name, (_, usual) in chosen.items():
            exact, run = answers[f"{name} 0"], answers[f"{name} 1"]
            ms = f"{run['ms']:.2f}" if "ms" in run else "-"
            bits, same = _verdict(exact.get("y"), wanted), _verdict(run.get("y"), base)
            first = answers["as it is 1"].get("ms")
            beside = f"{run['ms'] / first:.2f}" if "ms" in run and first else "-"
            rows.append([f"onnxruntime-web {answers['version']}", name, *_sizes(usual), bits, same, ms, beside])
    titles = "engine | model for | nodes | kB | exact model: bits of the original | bits of the original here | ms"
    print(f"| {titles} | to the original |\n|{'---|' * (titles.count('|') + 2)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def _sizes(model: onnx.ModelProto) -> list[str]:
    return [str(len(model.graph.node)), str(round(len(model.SerializeToString()) / 1000))]


if __name__ == "__main__":
    main()
