"""How many elements values have, as far as shapes tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import onnx
import onnx.shape_inference
import onnx_ir

from castsmith.ir.value_types import set_element_type

_SMALL = 1024


class Sizes:
    """Element counts: a symbolic dimension has its given size or the default one.

    Shapes that the model does not declare are inferred when the first is asked for. Where that fails, a value that
    moves is taken to be as large as the largest one that it was moved from. Sizes steer what is chosen, never what is
    right.
    """

    def __init__(self, model: onnx_ir.Model, default: int, named: Mapping[str, int]) -> None:
        self._model = model
        self._default = default
        self._named = named
        self._noted: dict[onnx_ir.Value, int] = {}
        self._inferred: dict[onnx_ir.Value, onnx_ir.Shape] | None = None

    def of(self, value: onnx_ir.Value) -> int:
        """The number of elements. The sizes of what moves are known once `note_move` has seen its node."""
        if value in self._noted:
            return self._noted[value]
        shape = self._shape(value)
        if shape is None:
            return self._default
        return prod(dim if isinstance(dim, int) else self._named.get(dim.value or "", self._default) for dim in shape)

    def note_move(self, operands: Sequence[onnx_ir.Value], outputs: Sequence[onnx_ir.Value]) -> None:
        """Guess the sizes of outputs that have no shape; called in the order of the graph."""
        for output in outputs:
            if self._shape(output) is None:
                self._noted[output] = max(self.of(value) for value in operands)

    def _shape(self, value: onnx_ir.Value) -> onnx_ir.Shape | None:
        if value.shape is not None:
            return value.shape
        if self._inferred is None:
            self._inferred = _infer(self._model)
        return self._inferred.get(value)


def parse_sizes(text: str) -> dict[str, int]:
    """The sizes in `batch=1,N=128`. Raises ValueError for text of another form."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip(): int(size) for name, _, size in pairs}


def _infer(model: onnx_ir.Model) -> dict[onnx_ir.Value, onnx_ir.Shape]:
    """The shapes that onnx infers, large weights left out; nothing where it cannot."""
    bare = model.clone()
    for value in list(bare.graph.initializers.values()):
        if value.const_value is not None and value.const_value.nbytes > _SMALL and value.name is not None:
            value.shape = onnx_ir.Shape(value.const_value.shape.numpy())
            set_element_type(value, value.const_value.dtype)
            del bare.graph.initializers[value.name]
            if not value.is_graph_input():
                bare.graph.inputs.append(value)
    try:
        proto = onnx.shape_inference.infer_shapes(onnx_ir.to_proto(bare), data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError):
        return {}
    found: dict[onnx_ir.Value, onnx_ir.Shape] = {}
    pairs = zip(model.graph.all_nodes(), onnx_ir.from_proto(proto).graph.all_nodes(), strict=True)
    for node, inferred in pairs:
        for value, twin in zip(node.outputs, inferred.outputs, strict=True):
            if twin.shape is not None:
                found[value] = twin.shape
    return found
