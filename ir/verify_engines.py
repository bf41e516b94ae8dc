"""One operator run by itself, by ONNX Runtime, OpenVINO or the reference implementation of ONNX.

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

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.verify_openvino import alone_in_openvino, believed, openvino
from castsmith.ir.verify_promotion import Array, dtype_of

ENGINES = ("onnxruntime", "openvino", "reference")

Run = Callable[[Mapping[str, Array]], Sequence[Any]]

OURSELVES = "castsmith"
"""Who runs conversions, promotions and Trunc: exact arithmetic, and no engine."""

TITLES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "reference": "the reference implementation of ONNX"}


class EngineError(ModelError):
    """An engine that is not there, or an operator that no engine runs on the given operands."""


@dataclass
class Engine:
    """Runs operators; remembers each by its node and the types that came in.

    ran: the operators that each has run: an engine, or `castsmith` for what it computes itself. stood_in: those which
    the engine would not run, so that the reference implementation did.
    """

    name: str
    ran: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    stood_in: set[str] = field(default_factory=set[str])
    _runs: dict[tuple[object, ...], tuple[str, Run]] = field(default_factory=dict[tuple[object, ...], tuple[str, Run]])

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            known = f"{', '.join(ENGINES[:-1])} and {ENGINES[-1]}"
            raise EngineError(f"{self.name!r} is not an engine; the engines are {known}.")
        if self.name == "onnxruntime":
            onnxruntime()
        if self.name == "openvino" and openvino() is None:
            raise EngineError("OpenVINO is not installed: `pip install openvino`, or choose the engine `reference`.")

    def note(self, who: str, op_type: str) -> None:
        """Remember who ran an operator of the type."""
        self.ran.setdefault(who, set()).add(op_type)

    def run(self, node: onnx_ir.Node, operands: Sequence[Array | None], imports: Mapping[str, int]) -> list[Array]:
        """The outputs of the node for the operands, which are of types that it takes."""
        feeds = {f"i{index}": array for index, array in enumerate(operands) if array is not None}
        taken = self._takes(operands)
        key = (node, taken, *((name, dtype_of(array), array.ndim) for name, array in feeds.items()))
        with np.errstate(all="ignore"):
            if key not in self._runs:
                model = _alone(node, operands, imports)
                run = self._prepared(node, operands, model, feeds) if taken else None
                if run is None and self.name != "reference":
                    self.stood_in.add(node.op_type)
                self._runs[key] = ("reference", _reference_run(model)) if run is None else (self.name, run)
            who, run = self._runs[key]
            self.note(who, node.op_type)
            return _placed(node, self._call(node, run, feeds))

    def _takes(self, operands: Sequence[Array | None]) -> bool:
        """Whether the engine is asked at all: numpy's own types alone are inputs of a session."""
        plain = all(array is None or array.dtype.isbuiltin != 2 for array in operands)
        return self.name != "reference" and plain and (self.name != "openvino" or believed(operands))

    def _prepared(
        self, node: onnx_ir.Node, operands: Sequence[Array | None], model: onnx.ModelProto, feeds: dict[str, Array]
    ) -> Run | None:
        """The node ready to run in the engine; None where the engine refuses it, whatever the numbers.

        Where ONNX Runtime takes the node and refuses numbers, such as an index out of range, nothing stands in for it:
        what the reference implementation does with them is no better, and may not end.
        """
        constant = [constant_tensor(value) is not None for value in node.inputs]
        try:
            if self.name == "onnxruntime":
                return _onnxruntime_run(model)
            run = alone_in_openvino(model, operands, constant)
            run(feeds)
        except Exception:  # each engine raises classes of its own, ONNX Runtime one for each of its status codes
            return None
        return run

    def _call(self, node: onnx_ir.Node, run: Run, feeds: dict[str, Array]) -> Sequence[Any]:
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


def _onnxruntime_run(model: onnx.ModelProto) -> Run:
    opened = session(model.SerializeToString())
    return lambda feeds: opened.run(None, dict(feeds))


def _reference_run(model: onnx.ModelProto) -> Run:
    evaluator: list[ReferenceEvaluator] = []

    def run(feeds: Mapping[str, Array]) -> Sequence[Any]:
        if not evaluator:
            evaluator.append(ReferenceEvaluator(model))
        return evaluator[0].run(None, dict(feeds))  # type: ignore[return-value]

    return run


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


def _placed(node: onnx_ir.Node, results: Sequence[Any]) -> list[Array]:
    """The results at the places of the outputs; nothing where the node leaves an output out."""
    if any(isinstance(result, list | tuple | dict) for result in results):
        raise EngineError(f"{node.op_type} gives a sequence, and only tensors are followed from node to node.")
    left = iter(results)
    return [np.asarray(next(left)) if value.name else np.zeros(0) for value in node.outputs]


def _types_text(feeds: Mapping[str, Array]) -> str:
    return " and ".join(f"{dtype_of(a).name.lower()}{list(a.shape)}" for a in feeds.values()) or "no operands"
