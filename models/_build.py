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
from proof import refusal, run, session
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


def run_ort(model: onnx.ModelProto, cases: Sequence[Arrays]) -> list[Case]:
    """Each set of inputs with the outputs that unoptimised ONNX Runtime gives."""
    runner = session(model.SerializeToString())
    return [(case, run(runner, case)) for case in cases]


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


def refused_by_onnx(model: onnx.ModelProto) -> str:
    """What the full check of onnx says when it refuses the model; empty where it takes it."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return ""


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
    print(f"  onnx full check: {refused_by_onnx(model) or 'passes'}")
    print(f"  ONNX Runtime {ort.__version__}: {refusal(model.SerializeToString()) or 'loads'}")
