"""What the rules of lower-operators know of a node's surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.numerics.types import type_name
from castsmith.targets.target import Target

NAME = "lower-operators"


@dataclass(frozen=True)
class Scene:
    """A scope of the model, and the target.

    Attributes:
        target: The runtime that the model is for.
        inference: The element types of the model.
        imports: The opsets of the scope.
        opset: That of the default domain.
    """

    target: Target
    inference: Inference
    imports: Mapping[str, int]
    opset: int

    def has(self, op_type: str, dtype: DataType) -> bool:
        """True if the target has the type, and a kernel of the operator for it."""
        return dtype not in self.target.lacks and self.target.has_kernel(op_type, dtype, self.opset)

    def casts(self, source: DataType, to: DataType) -> bool:
        """True if the target casts between the types as the standard says."""
        kernels = self.has("Cast", source) and self.has("Cast", to) and self.target.loads_cast(source, to)
        return kernels and self.target.wrong_cast(source, to, saturate=True, opset=self.opset) is None

    def lacks(self, node: onnx_ir.Node, dtype: DataType) -> str:
        """Return the reason to lower the node."""
        return f"{self.target} has no {node.op_type} of {type_name(dtype)} at opset {self.opset}"
