"""One operator run by itself, by ONNX Runtime or by the reference implementation of ONNX.

By itself, because ONNX Runtime merges chains of casts even with its optimization off, and so changes values: a model
run whole in it shows what it makes of the model, not what the model means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx_ir
from onnx.reference import ReferenceEvaluator

from castsmith.ir.errors import ModelError
from castsmith.ir.verify_promotion import Array, dtype_of

ENGINES = ("onnxruntime", "reference")

_Run = Callable[[dict[str, Array]], Sequence[Any]]


class EngineError(ModelError):
    """An engine that is not there, or an operator that no engine runs on the given operands."""


@dataclass
class Engine:
    """Runs operators; remembers each by its node and the types that came in.

    stood_in: operators which ONNX Runtime would not run, so that the reference implementation did.
    """

    name: str
    stood_in: set[str] = field(default_factory=set[str])
    _runs: dict[tuple[object, ...], _Run] = field(default_factory=dict[tuple[object, ...], _Run])

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise EngineError(f"{self.name!r} is not an engine; the engines are {' and '.join(ENGINES)}.")
        if self.name == "onnxruntime":
            onnxruntime()

    def run(self, node: onnx_ir.Node, operands: Sequence[Array | None], imports: Mapping[str, int]) -> list[Array]:
        """The outputs of the node for the operands, which are of types that it takes."""
        feeds = {f"i{index}": array for index, array in enumerate(operands) if array is not None}
        key = (node, *((name, dtype_of(array)) for name, array in feeds.items()))
        with np.errstate(all="ignore"):
            if key in self._runs:
                return _arrays(self._call(node, self._runs[key], feeds))
            model = _alone(node, operands, imports)
            if self.name == "onnxruntime" and _is_plain(feeds):
                try:
                    run = _onnxruntime_run(model)
                    results = run(feeds)
                except Exception:  # ONNX Runtime raises a class of its own for each of its status codes
                    self.stood_in.add(node.op_type)
                else:
                    self._runs[key] = run
                    return _arrays(results)
            self._runs[key] = _reference_run(model)
            return _arrays(self._call(node, self._runs[key], feeds))

    def _call(self, node: onnx_ir.Node, run: _Run, feeds: dict[str, Array]) -> Sequence[Any]:
        try:
            return run(feeds)
        except Exception as error:  # whatever numpy or an engine has to say about these operands
            text = " ".join(str(error).split())[:200]
            raise EngineError(f"{node.op_type} does not run on {_types_text(feeds)}: {text}.") from None


def onnxruntime() -> Any:
    """The module, or a sentence that says how to get it."""
    try:
        module = import_module("onnxruntime")
    except ImportError:
        raise EngineError(
            "ONNX Runtime is not installed: `pip install onnxruntime`, or choose the engine `reference`."
        ) from None
    return module


def session(model: bytes | str, *, optimized: bool = False) -> Any:
    """An ONNX Runtime session of one thread, as unoptimized as it goes unless asked for."""
    module = onnxruntime()
    options = module.SessionOptions()
    level = module.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return module.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _onnxruntime_run(model: onnx.ModelProto) -> _Run:
    opened = session(model.SerializeToString())
    return lambda feeds: opened.run(None, feeds)


def _reference_run(model: onnx.ModelProto) -> _Run:
    evaluator: list[ReferenceEvaluator] = []

    def run(feeds: dict[str, Array]) -> Sequence[Any]:
        if not evaluator:
            evaluator.append(ReferenceEvaluator(model))
        return evaluator[0].run(None, feeds)  # type: ignore[return-value]

    return run


def _is_plain(feeds: Mapping[str, Array]) -> bool:
    """Whether numpy itself has the types: the others are no inputs of a session."""
    return all(array.dtype.isbuiltin != 2 for array in feeds.values())


def _alone(node: onnx_ir.Node, operands: Sequence[Array | None], imports: Mapping[str, int]) -> onnx.ModelProto:
    """A model of this node alone."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.attribute.extend(onnx_ir.to_proto(attribute) for attribute in node.attributes.values())
    proto.input.extend("" if array is None else f"i{index}" for index, array in enumerate(operands))
    proto.output.extend(f"o{index}" if value.name else "" for index, value in enumerate(node.outputs))
    inputs = [
        onnx.helper.make_tensor_value_info(f"i{index}", int(dtype_of(array)), None)
        for index, array in enumerate(operands)
        if array is not None
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    graph = onnx.helper.make_graph([proto], "alone", inputs, outputs)
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()]
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    model.ir_version = min(model.ir_version, 10)
    return model


def _arrays(results: Sequence[Any]) -> list[Array]:
    return [np.asarray(result) for result in results]


def _types_text(feeds: Mapping[str, Array]) -> str:
    return " and ".join(f"{dtype_of(a).name.lower()}{list(a.shape)}" for a in feeds.values()) or "no operands"
