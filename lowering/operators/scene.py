"""What the rules that lower one node at a time know of the model and the target, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Refusal, RewriteResult
from castsmith.lowering.builder import ReplacementBuilder
from castsmith.lowering.encodings.choose import Encoding
from castsmith.lowering.encodings.storage import inferred_declared
from castsmith.lowering.float8.casts import Context
from castsmith.lowering.float8.linear import expand_dequantize, expand_quantize
from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import Replacement, replace_nodes
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target


@dataclass(frozen=True)
class Scene:
    """A scope of the model, and the target.

    Attributes:
        target: The runtime that the model is for.
        inference: The element types of the model.
        imports: The opsets of the scope.
        opset: That of the default domain.
        constants: Constants that nodes share, by the graph that holds them, the value they come from, and their use.
    """

    target: Target
    inference: Inference
    imports: Mapping[str, int]
    opset: int
    constants: dict[tuple[onnx_ir.Graph | None, onnx_ir.Value, str], onnx_ir.Value]

    def type_of(self, value: onnx_ir.Value | None) -> DataType | None:
        """Return the element type of a value; None if it is absent or unknown."""
        return None if value is None else self.inference.types.get(value, value.dtype)

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

    def written_out(self, node: onnx_ir.Node) -> tuple[ReplacementBuilder, onnx_ir.Value]:
        """Write QuantizeLinear or DequantizeLinear in float, step by step. Raises ModelError if it has no such form."""
        build = ReplacementBuilder(node)
        expand = expand_quantize if node.op_type == "QuantizeLinear" else expand_dequantize
        return build, expand(build, node, Context(self.inference.types, frozenset(), Encoding.LADDER, self.opset))


Lower = Callable[[onnx_ir.Node, Scene], Replacement | Refusal | None]


def lower_nodes(session: Session, pass_name: str, target: Target, lower: Lower) -> RewriteResult:
    """Offer each node of the standard's operators, with its types declared, and replace it as `lower` says."""
    inference, imports = session.inference(PromotionRules()), session.imports
    constants = dict[tuple[onnx_ir.Graph | None, onnx_ir.Value, str], onnx_ir.Value]()

    def match(node: onnx_ir.Node) -> Replacement | Refusal | None:
        is_call = node.op_identifier() in session.model.functions
        if node.domain not in DEFAULT_DOMAINS or is_call:
            return None
        scope = imports[present(node.graph, "the graph of a node")]
        return lower(node, Scene(target, inference, scope, opset_of(scope, "") or 1, constants))

    with inferred_declared(session.model, inference.types):
        return replace_nodes(session, pass_name, match, types=inference.types)
