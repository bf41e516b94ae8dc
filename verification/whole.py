"""A model run as a whole in a runtime, to separate the runtime's changes from the meaning of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir

from castsmith.ir.walks import MOST_INLINED, nodes_once_inlined
from castsmith.numerics.cast.codec import Array
from castsmith.verification.compare import EXACT, Difference, How, difference
from castsmith.verification.evaluate.conversions import Content, Tensor
from castsmith.verification.evaluate.engines import TITLES, EngineError, Prepared

_LEVELS = {
    "onnxruntime": {"": "onnxruntime", ", with its default optimization,": "onnxruntime optimized"},
    "openvino": {"": "openvino whole"},
}
_INVALID = ("Type Error", "INVALID_GRAPH", "bound to different types")


@dataclass
class Whole:
    """The whole second model in the engine: in ONNX Runtime without optimization and with its default."""

    model: onnx_ir.Model
    engine: str
    seconds: float
    reason: str = ""
    _runs: dict[str, Prepared] = field(default_factory=dict[str, Prepared])

    def __post_init__(self) -> None:
        inlined = nodes_once_inlined(self.model, self.model.functions)
        if inlined > MOST_INLINED:
            self.reason = f"it has {inlined} nodes once its functions are inlined, more than {MOST_INLINED}"
            return
        try:
            data = onnx_ir.to_proto(self.model).SerializeToString()
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
        meant: Mapping[str, Content],
        seconds: float,
        how: How,
    ) -> list[str]:
        """Return one sentence for each level at which an output differs from the meaning.

        Args:
            meant: The outputs that the model means.
            seconds: The time for one run.
        """
        title = TITLES[self.engine]
        if self.reason:
            return [f"{title} does not load the whole second model: {self.reason}"]
        plain = {key: array for key, array in feeds.items() if isinstance(array, np.ndarray)}
        if len(plain) != len(feeds):
            return []
        found: list[str] = []
        for level, run in self._runs.items():
            try:
                results = run.run(plain, seconds)
            except EngineError as error:
                found.append(f"{title}{level} does not run the whole model: {error}")
                continue
            for value, array in zip(self.model.graph.outputs, results, strict=True):
                here = _difference(meant, value, array, how)
                if here is None:
                    continue
                place, who = list(here.index) if here.index else "", f"{title}{level}".removesuffix(",")
                found.append(
                    f"run as a whole by {who}, {value.name}{place} is {here.b} instead of {here.a}"
                    f" ({name}; {here.elements} of {here.of} elements)"
                )
                break
        return found


def _difference(meant: Mapping[str, Content], output: onnx_ir.Value, array: object, how: How) -> Difference | None:
    """Return the first difference of an output, within its tolerance."""
    known = meant.get(output.name or "")
    if not isinstance(known, Tensor) or isinstance(array, list | dict):
        return None
    tolerance = how.tolerances.get(output.name or "", EXACT)
    return difference(known.array, np.asarray(array), known.undefined, nan_bits=how.nan_bits, tolerance=tolerance)
