"""What the build scripts share: export as torch does, run ONNX Runtime unoptimised, write NAME.onnx and NAME.npz."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Arrays = Mapping[str, np.ndarray]
Case = tuple[Arrays, Arrays]

HERE = Path(__file__).parent


def export(module: torch.nn.Module, example: Sequence[Tensor], **options: object) -> onnx.ModelProto:
    """The model exactly as the dynamo exporter writes it."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    program = torch.onnx.export(module.eval(), tuple(example), dynamo=True, verbose=False, **options)  # type: ignore[arg-type]
    assert program is not None
    return program.model_proto


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    """An ONNX Runtime session with every optimisation off and one thread."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_ort(model: onnx.ModelProto, cases: Sequence[Arrays]) -> list[Case]:
    """Each set of inputs with the outputs that unoptimised ONNX Runtime gives."""
    runner = session(model)
    names = [value.name for value in runner.get_outputs()]
    return [(case, dict(zip(names, runner.run(names, dict(case)), strict=True))) for case in cases]


def run_torch(module: torch.nn.Module, model: onnx.ModelProto, cases: Sequence[Arrays]) -> list[Case]:
    """Each set of inputs with the outputs that eager PyTorch gives; inputs are passed in the order of the model's."""
    inputs, outputs = ([value.name for value in values] for values in (model.graph.input, model.graph.output))
    results: list[Case] = []
    for case in cases:
        with torch.no_grad():
            result = module.eval()(*(torch.from_numpy(np.array(case[name])) for name in inputs))
        tensors = result if isinstance(result, tuple) else (result,)
        results.append((case, {name: tensor.numpy() for name, tensor in zip(outputs, tensors, strict=True)}))
    return results


def lowest_bit(x: Tensor) -> float:
    """The largest power of two of which every element is a multiple."""
    mantissa, exponent = torch.frexp(x[x != 0].double())
    digits = (mantissa * 2.0**53).long()
    places = torch.log2((digits & -digits).double()) - 53 + exponent
    return 2.0 ** places.min().item() if len(places) else 1.0


class ExactSums(TorchFunctionMode):
    """While active, asserts that no order of summation in a convolution or linear layer (without bias) can round."""

    def __torch_function__(
        self, function: Callable[..., Any], _: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (functional.conv2d, functional.linear):
            x, weight = (value.double().nan_to_num(posinf=0, neginf=0) for value in args[:2])
            largest = function(x.abs(), weight.abs(), **kwargs).max()
            assert largest <= 2**24 * lowest_bit(x) * lowest_bit(weight)
        return function(*args, **kwargs)


def refusal(load: Callable[[], object]) -> str:
    """The message a runtime refuses with, or "" when it does not."""
    try:
        load()
    except Exception as error:  # any kind: the message is the result
        return str(error)
    return ""


def same(left: Arrays, right: Arrays) -> bool:
    """Equal in name, type, shape and every bit, any NaN being as good as another."""

    def bits(array: np.ndarray) -> tuple[np.dtype, tuple[int, ...], bytes]:
        plain = np.where(np.isnan(array), np.nan, array).astype(array.dtype) if array.dtype.kind == "f" else array
        return array.dtype, array.shape, plain.tobytes()

    return left.keys() == right.keys() and all(bits(left[name]) == bits(right[name]) for name in left)


def shorten_paths(model: onnx.ModelProto) -> None:
    """Make the paths in PyTorch's stack traces relative, so that a rebuild on any machine gives the same bytes."""
    roots = (f"{HERE.parent}/", f"{Path(torch.__file__).parents[1]}/")
    graphs: list[onnx.GraphProto] = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs:
        graph = graphs.pop()
        nodes += graph.node
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    for entry in (entry for node in nodes for entry in node.metadata_props):
        for root in roots:
            entry.value = entry.value.replace(root, "")


def write(name: str, model: onnx.ModelProto, cases: Sequence[Case]) -> None:
    """Write the pair and say what a runtime makes of the model today."""
    shorten_paths(model)
    arrays = {
        f"{side}{index}/{key}": value
        for index, pair in enumerate(cases)
        for side, values in zip(("in", "out"), pair, strict=True)
        for key, value in values.items()
    }
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    np.savez_compressed(HERE / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    print(f"{name}: {opsets}; IR {model.ir_version}; {len(cases)} cases")
    print(f"  onnx full check: {refusal(lambda: onnx.checker.check_model(model, full_check=True)) or 'passes'}")
    print(f"  ONNX Runtime {ort.__version__}: {refusal(lambda: session(model)) or 'loads'}")
