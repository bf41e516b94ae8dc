"""A model run as a whole in a runtime, to separate the runtime's changes from the meaning of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir

from castsmith.ir.walks import MOST_INLINED, nodes_once_inlined
from castsmith.numerics.cast.codec import Array
from castsmith.verification.compare import EXACT, Difference, How, difference
from castsmith.verification.evaluate.conversions import Content, Tensor
from castsmith.verification.evaluate.engines import TITLES, EngineError, Prepared
from castsmith.verification.evaluate.evaluator import Evaluator, Path

_LEVELS = {
    "onnxruntime": {"": "onnxruntime", ", with its default optimization,": "onnxruntime optimized"},
    "openvino": {"": "openvino whole"},
}
_INVALID = ("Type Error", "INVALID_GRAPH", "bound to different types")
_MOST_CUTS, _PART = 48, 0.1
"""The search for the node at which a difference starts: models that are cut off, and part of the time that is left."""
_LARGEST_CUT = 1 << 22
"""Bytes of a model that is cut: the process of the engine keeps those of the search for a while."""


@dataclass
class Whole:
    """The whole second model in the engine: in ONNX Runtime without optimization and with its default."""

    model: onnx_ir.Model
    engine: str
    seconds: float
    reason: str = ""
    _proto: onnx.ModelProto | None = None
    _runs: dict[str, Prepared] = field(default_factory=dict[str, Prepared])

    def __post_init__(self) -> None:
        inlined = nodes_once_inlined(self.model, self.model.functions)
        if inlined > MOST_INLINED:
            self.reason = f"it has {inlined} nodes once its functions are inlined, more than {MOST_INLINED}"
            return
        try:
            self._proto = onnx_ir.to_proto(self.model)
            data = self._proto.SerializeToString()
        except (ValueError, TypeError, RuntimeError) as error:
            self.reason = " ".join(str(error).split())[:200]
            return
        try:
            for level, kind in _LEVELS[self.engine].items():
                prepared = Prepared(kind, data)
                prepared.ready(self.seconds)
                self._runs[level] = prepared
        except EngineError as error:
            self.reason = str(error)

    @property
    def invalid(self) -> bool:
        """True if the runtime refuses the model as invalid, and not for a missing kernel."""
        return any(word in self.reason for word in _INVALID)

    def differences(
        self,
        name: str,
        feeds: Mapping[str, Array | list[Array] | None],
        expected: Mapping[str, Content],
        evaluator: Evaluator,
        how: How,
    ) -> list[str]:
        """Yield one sentence for each level at which an output differs from the meaning, with the node that caused it.

        Args:
            expected: The outputs that the model means.
        """
        title = TITLES[self.engine]
        if self.reason:
            return [f"{title} does not load the second model as a whole: {self.reason}"]
        plain = {key: array for key, array in feeds.items() if isinstance(array, np.ndarray)}
        if len(plain) != len(feeds):
            return []
        texts: list[str] = []
        for level, run in self._runs.items():
            try:
                results = run.run(plain, evaluator.budget.call)
            except EngineError as error:
                texts.append(f"{title}{level} does not run the whole model: {error}")
                continue
            for value, array in zip(self.model.graph.outputs, results, strict=True):
                gap = self._difference(expected, value, value, array, how)
                if gap is None:
                    continue
                place, engine = list(gap.index) if gap.index else "", f"{title}{level}".removesuffix(",")
                cause = self._cause(run.kind, evaluator, plain, value, how)
                texts.append(
                    f"run as a whole by {engine}, {value.name}{place} is {gap.b} instead of {gap.a}"
                    f" ({name}; {gap.elements} of {gap.of} elements){cause}"
                )
                break
        return texts

    def _difference(
        self, expected: Mapping[str, Content], value: onnx_ir.Value, output: onnx_ir.Value, array: object, how: How
    ) -> Difference | None:
        """Return the first difference of a value, within the tolerance of an output."""
        tensor = expected.get(value.name or "")
        if not isinstance(tensor, Tensor) or isinstance(array, list | dict):
            return None
        tolerance = how.tolerances.get(output.name or "", EXACT)
        return difference(tensor.array, np.asarray(array), tensor.undefined, nan_bits=how.nan_bits, tolerance=tolerance)

    def _cause(
        self,
        kind: str,
        evaluator: Evaluator,
        feeds: Mapping[str, Array],
        output: onnx_ir.Value,
        how: How,
    ) -> str:
        """Return the first node whose result, as the only output, the runtime changes; of a large model, about that."""
        if self._proto is None or self._proto.ByteSize() > _LARGEST_CUT:
            return ""
        tensors: dict[str, Tensor] = {key: Tensor(array) for key, array in feeds.items()}

        def watch(path: Path, value: onnx_ir.Value, tensor: Tensor) -> None:
            if not path:
                tensors[value.name or ""] = tensor

        try:
            evaluator.run(feeds, watch)
        except EngineError:
            return ""
        makers = [node for node in self.model.graph if node.outputs and node.outputs[0].name in tensors]
        if output.producer() in makers:
            makers = makers[: makers.index(output.producer()) + 1]  # pyright: ignore[reportArgumentType]
        least = evaluator.budget.left * (1 - _PART)
        steps = makers if len(makers) <= _MOST_CUTS else makers[:: len(makers) // _MOST_CUTS + 1]
        for node in steps:
            if evaluator.budget.left <= max(least, 0):
                break
            try:
                cut = onnx.ModelProto()
                cut.CopyFrom(self._proto)
                del cut.graph.output[:]
                cut.graph.output.append(onnx.ValueInfoProto(name=node.outputs[0].name or ""))
                array = Prepared(kind, cut.SerializeToString()).run(feeds, evaluator.budget.call)[0]
            except EngineError:
                continue
            if self._difference(tensors, node.outputs[0], output, array, how) is not None:
                return f"; it starts at {node.outputs[0].name}, made by {node.op_type} {node.name or ''}".rstrip()
        return ""
