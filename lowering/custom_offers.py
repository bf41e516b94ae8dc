"""What lowerings answer for each node that they are for, asked while element types are inferred.

What an operator of another domain gives is known only from what stands in for it, and what follows depends on that: so
each lowering is asked in the order of the graph, when the types of the node's inputs are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.inference import declared_types
from castsmith.ir.records import Refusal
from castsmith.ir.rewriting import Replacement
from castsmith.ir.schemas import opset_of
from castsmith.ir.targets import Target
from castsmith.lowering.custom_builder import Lowering, NodeBuilder

Answer = Replacement | Refusal


def name_of(node: onnx_ir.Node) -> str:
    """The operator with its domain, as ONNX text has it."""
    return f"{node.domain}.{node.op_type}"


@dataclass
class Offers:
    """The answers, by node. lowerings: by the names of operators, none of which a function of the model defines."""

    lowerings: Mapping[str, Lowering]
    target: Target
    answers: dict[onnx_ir.Node, Replacement | Refusal] = field(
        default_factory=dict[onnx_ir.Node, "Replacement | Refusal"]
    )
    _builders: dict[onnx_ir.Node, NodeBuilder] = field(default_factory=dict[onnx_ir.Node, NodeBuilder])

    def types(
        self, node: onnx_ir.Node, inputs: Sequence[DataType | None], imports: Mapping[str, int]
    ) -> Sequence[DataType | None]:
        """The types of the outputs of what stands in for the node; asks again where its inputs have others now."""
        lowering = self.lowerings.get(name_of(node))
        if lowering is None:
            return declared_types(node)
        self._drop(node)
        for value, dtype in zip(node.inputs, inputs, strict=True):
            if value is not None and dtype is not None:
                value.type = onnx_ir.TensorType(dtype) if value.dtype != dtype else value.type
        build = NodeBuilder(node, opset_of(imports, "") or 1, self.target)
        self._builders[node] = build
        answer = lowering(node, build)
        if answer is not None:
            self.answers[node] = answer
        if isinstance(answer, Replacement) and answer.outputs is not None:
            return [value.dtype for value in answer.outputs]
        self._forget_nodes(build)
        return declared_types(node)

    def refuse_several(self, functions: Iterable[onnx_ir.Function]) -> None:
        """Refuse what stands in functions that are called with operands of several types, as each needs its own."""
        for node in [node for function in functions for node in function.all_nodes() if node in self.answers]:
            refusal = self._builders[node].refuse("the function around it is called with operands of several types")
            self._drop(node)
            self.answers[node] = refusal

    def _drop(self, node: onnx_ir.Node) -> None:
        if self.answers.pop(node, None) is not None:
            self._forget_nodes(self._builders[node])

    def _forget_nodes(self, build: NodeBuilder) -> None:
        """Nodes that were written in vain no longer count as uses of the model's values."""
        for node in build.nodes:
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
