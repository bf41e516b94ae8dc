"""lower-operators: Compute operators on integers and bool, for which the target has no kernel, exactly by others.

Equal of bool is Not of Xor. A QuantizeLinear or DequantizeLinear of uint8 becomes one of int8, with a zero point less
128, or is written out in float. Any operator that moves, picks, compares or counts elements runs in a wider type that
holds all of them. Floats are left to widen-floats, and types of less than 8 bits to lower-float8.

    n = NonZero (mask)                 # bool
becomes
    mask_int32 = Cast <to = int32> (mask)
    n = NonZero (mask_int32)
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.records import RewriteResult
from castsmith.lowering.builder import ReplacementBuilder, as_replacement
from castsmith.lowering.check.target import types_asked_about
from castsmith.lowering.operators.eight_bits import QUANTIZE_IN_FLOAT, SHIFT_TO_INT8, lowered_quantizer
from castsmith.lowering.operators.scene import Scene, lower_nodes
from castsmith.lowering.operators.wider import RUN_IN_WIDER_TYPE, in_wider_type
from castsmith.numerics.errors import present
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

NAME = "lower-operators"

EQUAL_OF_BOOL = Rule(
    "equal-of-bool",
    "Equal of two bools becomes Not of Xor.",
    why="The target has no Equal of bool.",
    example="- y = Equal (a, b)\n+ x = Xor (a, b)\n+ y = Not (x)",
    advice="Needs Xor and Not of bool; without them, Equal runs in a wider type.",
)


@dataclass(frozen=True)
class LowerOperators(SessionPass):
    """Compute operators on integers and bool, for which the target has no kernel, exactly by others.

    Attributes:
        target: The runtime that the model is for.
    """

    codes = (
        EQUAL_OF_BOOL,
        RUN_IN_WIDER_TYPE,
        SHIFT_TO_INT8,
        QUANTIZE_IN_FLOAT,
    )

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        replacements = dict[onnx_ir.Node, Replacement]()

        def lower(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
            if node not in replacements:
                replacements.update(_lowered(node, scene))
            return replacements.get(node)

        return lower_nodes(session, NAME, self.target, lower)


def _lowered(node: onnx_ir.Node, scene: Scene) -> dict[onnx_ir.Node, Replacement]:
    """Return the replacements of the node, and of those that have to change with it; none if it stays."""
    if node.op_type in LINEAR:
        return lowered_quantizer(node, scene) or {}
    dtypes = types_asked_about(node, scene.type_of, scene.target)
    lacking = next((dtype for dtype in dtypes if not scene.has(node.op_type, dtype)), None)
    if lacking is None:
        return {}
    equal = _equal_of_bool(node, scene) if lacking == DataType.BOOL else None
    equal = equal or in_wider_type(node, lacking, scene)
    return {} if equal is None else {node: equal}


def _equal_of_bool(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
    if node.op_type != "Equal" or not all(scene.has(op_type, DataType.BOOL) for op_type in ("Xor", "Not")):
        return None
    build = ReplacementBuilder(node)
    y = build.op("Not", build.op("Xor", *(present(value, "an operand") for value in node.inputs)))
    return as_replacement(build, EQUAL_OF_BOOL.code, scene.lacks(node, DataType.BOOL), y)
