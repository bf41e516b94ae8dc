"""The builder with which a lowering of a custom operator writes the nodes that replace one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_tensor
from castsmith.ir.records import Effect, Refusal
from castsmith.ir.text import site_of
from castsmith.lowering.builder import ReplacementBuilder, as_replacement
from castsmith.passes.core.rewriting import Replacement
from castsmith.targets.target import Target

NAME = "lower-custom"

LOWER_CUSTOM = Rule(
    "lower-custom",
    (
        "An operator of another domain is replaced by the lowering that a user, a package or Castsmith has for it: "
        "Castsmith has those of ONNX Runtime and TensorRT for quantized formats."
    ),
    why="The target lacks the operator; the lowering states the reason and how exact it is.",
    example="- y = com.example.ScaledFloat8Cast (x, scale)\n+ q = Div (x, scale)\n+ y = Cast <to = float8e4m3fn> (q)",
    advice="If it is skipped, the lowering says why; `castsmith passes` lists the packages that lower operators.",
    safety=(Effect.BIT_EXACT, Effect.IN_WIDER_TYPE, Effect.AS_DEFINED),
)


class NodeBuilder(ReplacementBuilder):
    """The builder with which a lowering writes the nodes that replace one node.

    Attributes:
        node: The node to lower; the types of its inputs are set if they can be inferred.
        opset: The opset of the default domain in the node's scope.
        target: The runtime that the model is for.
    """

    def __init__(self, node: onnx_ir.Node, opset: int, target: Target) -> None:
        super().__init__(node)
        self.opset, self.target = opset, target

    def known(self, value: onnx_ir.Value | None) -> NDArray[Any] | None:
        """Return the elements of a constant value; None for any other."""
        tensor = constant_tensor(value)
        return None if tensor is None else tensor.numpy()

    def replace(self, *outputs: onnx_ir.Value, reason: str, effect: Effect = Effect.BIT_EXACT) -> Replacement:
        """Return the nodes written so far as the replacement, with a value for each output of the node."""
        return as_replacement(self, NAME, reason, *outputs, effect=effect)

    def refuse(self, reason: str, witness: str = "") -> Refusal:
        """Leave the node unchanged, and give the reason."""
        return Refusal(NAME, NAME, site_of(self.node), reason, witness)


Lowering = Callable[[onnx_ir.Node, NodeBuilder], Replacement | Refusal | None]
