"""What a lowering of an operator of one's own domain is, and what it writes its nodes with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.constants import constant_tensor, new_constant
from castsmith.ir.records import Effect, Refusal
from castsmith.ir.rewriting import Replacement
from castsmith.ir.targets import Target
from castsmith.ir.text import site_of
from castsmith.lowering.builder import Builder

NAME = "lower-custom"


class NodeBuilder(Builder):
    """What a lowering writes the nodes with that stand in for one node.

    node: what is lowered; the types of its inputs are set where they can be inferred. opset: of the default domain
    where the node stands. target: where the model is to run.
    """

    def __init__(self, node: onnx_ir.Node, opset: int, target: Target) -> None:
        super().__init__(self._home)
        self.node, self.opset, self.target = node, opset, target
        self._constants: list[onnx_ir.Value] = []

    def known(self, value: onnx_ir.Value | None) -> NDArray[Any] | None:
        """The elements of a value that is constant; None for any other."""
        tensor = None if value is None else constant_tensor(value)
        return None if tensor is None else tensor.numpy()

    def replace(self, *outputs: onnx_ir.Value, reason: str, effect: Effect = Effect.BIT_EXACT) -> Replacement:
        """The nodes written so far, and what stands in for each output of the node."""
        for old, new in zip(self.node.outputs, outputs, strict=True):
            if new.producer() in self.nodes and new.name is None:
                new.name = old.name
        return Replacement(NAME, reason, tuple(self.nodes), tuple(self._constants), outputs=outputs, effect=effect)

    def refuse(self, reason: str, witness: str = "") -> Refusal:
        """Leave the node as it is, and say why."""
        return Refusal(NAME, NAME, site_of(self.node), reason, witness)

    def _home(self, name: str, array: NDArray[Any]) -> onnx_ir.Value:
        self._constants.append(new_constant(f"{self.node.outputs[0].name}_{name}", onnx_ir.tensor(array)))
        return self._constants[-1]


Lowering = Callable[[onnx_ir.Node, NodeBuilder], Replacement | Refusal | None]
