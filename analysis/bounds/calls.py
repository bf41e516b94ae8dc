"""Calls of model-local functions: the body that a call walks, and what it gave for the same operands before."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import onnx_ir

from castsmith.analysis.bounds.interval import Interval
from castsmith.ir.walks import bind_parameters, nodes_of


@dataclass
class Calls:
    """The functions of a model and their calls so far.

    Attributes:
        functions: The functions.
        results: The intervals of the results, by body and operands.
        originals: The value of the function for each value of a copy of it.
    """

    functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function]
    results: dict[Hashable, list[Interval]] = field(default_factory=dict[Hashable, list[Interval]])
    originals: dict[onnx_ir.Value, onnx_ir.Value] = field(default_factory=dict[onnx_ir.Value, onnx_ir.Value])
    _copies: dict[Hashable, onnx_ir.Function] = field(default_factory=dict[Hashable, onnx_ir.Function])

    def function_of(self, node: onnx_ir.Node) -> onnx_ir.Function | None:
        """The function that the node calls; None if it calls none."""
        return self.functions.get(node.op_identifier()) if self.functions else None

    def body_of(self, function: onnx_ir.Function, node: onnx_ir.Node) -> onnx_ir.Function:
        """The function, or for one with parameters a copy with those of the call."""
        if not function.attributes:
            return function
        values = {name: node.attributes.get(name) or default for name, default in function.attributes.items()}
        key = (function, *((name, attribute.type, repr(attribute.value)) for name, attribute in values.items()))
        if key not in self._copies:
            copy = function.clone()
            named = {name: attribute for name, attribute in values.items() if attribute.value is not None}
            for original, inner in zip(nodes_of(function), nodes_of(copy), strict=True):
                bind_parameters(inner, named)
                self.originals.update(zip(inner.outputs, original.outputs, strict=True))
            self.originals.update(zip(copy.inputs, function.inputs, strict=True))
            self._copies[key] = copy
        return self._copies[key]
