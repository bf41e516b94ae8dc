"""The other process of `other_engines`: one engine, which runs the models of a folder one after the other.

    python engine_worker.py ENGINE FOLDER FIRST

The file imports numpy, onnx and the engine, nothing of this program, so that it runs in any environment. FOLDER has
NUMBER.onnx; those from FIRST on are run. The number of a model is printed when it begins, then `ok` or the reason
against it. An input is ones; what comes out must be what the reference implementation of ONNX gives, where that runs
the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

Array = Any
Engine = Callable[[Path, Mapping[str, Array]], list[Array]]
_TOLERANCE = 1e-2


def tract_engine() -> Engine:
    tract = import_module("tract")

    def run(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
        model = tract.onnx().load(str(path)).into_model().into_runnable()
        return [value.to_numpy() for value in model.run(list(feeds.values()))]

    return run


def onnx2torch_engine() -> Engine:
    onnx2torch, torch = import_module("onnx2torch"), import_module("torch")

    def run(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
        module = onnx2torch.convert(onnx.load(path))
        found = module(*(_as_torch(torch, array) for array in feeds.values()))
        values = found if isinstance(found, list | tuple) else [found]
        return [value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy() for value in values]

    return run


def _as_torch(torch: Any, array: Array) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def tinygrad_engine() -> Engine:
    tinygrad, runner = import_module("tinygrad"), import_module("tinygrad.nn.onnx")

    def run(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
        model = runner.OnnxRunner(path)
        inputs = {}
        for name, array in feeds.items():
            if array.dtype.name == "bfloat16":
                tensor = tinygrad.Tensor(array.view(np.uint16)).bitcast(tinygrad.dtypes.bfloat16)
            else:
                tensor = tinygrad.Tensor(array)
            inputs[name] = tensor
        found = model(inputs)
        values = [found[each.name] for each in onnx.load(path).graph.output]
        return [(v.float() if v.dtype == tinygrad.dtypes.bfloat16 else v).numpy() for v in values]

    return run


def tvm_engine() -> Engine:
    tvm, front_end = import_module("tvm"), import_module("tvm.relax.frontend.onnx")

    def run(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
        module = tvm.relax.transform.LegalizeOps()(front_end.from_onnx(onnx.load(path)))
        machine = tvm.relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        found = machine["main"](*(tvm.runtime.tensor(array) for array in feeds.values()))
        values = [found] if hasattr(found, "numpy") else list(found)
        return [value.numpy() for value in values]

    return run


def iree_engine() -> Engine:
    compiler, runtime = import_module("iree.compiler.api"), import_module("iree.runtime")
    importer, contexts = import_module("iree.compiler.extras.onnx_importer"), import_module("iree.compiler.ir")
    session = compiler.Session()
    session.set_flags("--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=generic")
    session.set_flags("--iree-input-type=onnx")

    def compiled(text: str) -> Any:
        invocation = session.invocation()
        source, output = compiler.Source.wrap_buffer(session, text.encode() + b"\0"), compiler.Output.open_membuffer()
        if not (invocation.parse_source(source) and invocation.execute()):
            raise ValueError("not compiled")
        invocation.output_vm_bytecode(output)
        return bytes(output.map_memory())

    def run(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
        model = importer.ModelInfo(onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True))
        module = model.create_module(context=contexts.Context())
        importer.NodeImporter.define_function(model.main_graph, module.operation).import_all()
        context = runtime.SystemContext(config=runtime.Config("local-sync"))
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, compiled(str(module))))
        found = context.modules.module[model.main_graph.graph_proto.name](*feeds.values())
        values = found if isinstance(found, list | tuple) else [found]
        return [np.asarray(value) for value in values]

    return run


def jaxonnxruntime_engine() -> Engine:
    import_module("jax").config.update("jax_enable_x64", val=True)
    front_end = import_module("jaxonnxruntime.call_onnx")

    def run(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
        function, weights = front_end.call_onnx_model(onnx.load(path), dict(feeds))
        return [np.asarray(value) for value in function(weights, dict(feeds))]

    return run


ENGINES: dict[str, tuple[str, Callable[[], Engine]]] = {
    "tract": ("tract", tract_engine),
    "onnx2torch": ("onnx2torch", onnx2torch_engine),
    "tinygrad": ("tinygrad", tinygrad_engine),
    "jaxonnxruntime": ("jaxonnxruntime", jaxonnxruntime_engine),
    "tvm": ("apache-tvm", tvm_engine),
    "iree": ("iree-base-compiler", iree_engine),
}
"""Engines by name: the package whose version is stated, and the function that imports it."""


def ones(model: onnx.ModelProto) -> dict[str, Array]:
    """Return an array of ones for each input; open dimensions are 2."""
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or 2 for dim in tensor.shape.dim]
        feeds[value.name] = np.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return feeds


def verdict(found: list[Array], model: onnx.ModelProto, feeds: Mapping[str, Array]) -> str:
    """Return `ok`, or how the outputs differ from those of the reference implementation."""
    try:
        wanted = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # the reference lacks operators and types: then the result of the engine counts
        return "ok"
    for got, expected in zip(found, wanted, strict=True):
        if np.shape(got) != np.shape(expected):
            return f"the shape is {np.shape(got)}, not {np.shape(expected)}"
        wide = np.complex128 if np.iscomplexobj(expected) else np.float64
        pair = (np.asarray(array).astype(wide) for array in (got, expected))
        if not np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
            return "the numbers differ from the reference"
    return "ok"


def main(engine: str, folder: str, first: str) -> None:
    """Run every model from `first` on; say what begins, so that a crash is known by its model."""
    package, load = ENGINES[engine]
    run = load()
    print("version", version(package), flush=True)
    paths = sorted(Path(folder).glob("*.onnx"), key=lambda path: int(path.stem))
    for path in [path for path in paths if int(path.stem) >= int(first)]:
        print("begin", path.stem, flush=True)
        try:
            model = onnx.load(path)
            feeds = ones(model)
            answer = verdict(run(path, feeds), model, feeds)
        except Exception as error:  # whatever the engine raises is its refusal
            answer = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        print("end", path.stem, answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
