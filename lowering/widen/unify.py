"""Operands of several types, for targets whose layers take one: cast to a type that holds all of them.

The standard lets Pow, GridSample, RMSNormalization, Attention and QuantizeLinear mix types; a strongly typed TensorRT
network does not.

    y = Pow (x, e)                             # float16 and float
becomes, with a constant exponent that float16 holds,
    e_float16 = Cast <to = float16> (e), y = Pow (x, e_float16)
and else
    x_float = Cast <to = float> (x), y_float = Pow (x_float, e), y = Cast <to = float16> (y_float)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_tensor
from castsmith.ir.records import Effect, Records, Refusal, RewriteResult
from castsmith.ir.text import site_of
from castsmith.lowering.builder import ReplacementBuilder, as_replacement, computed_in
from castsmith.lowering.operators.scene import Scene, lower_nodes
from castsmith.lowering.widen.storage import NAME
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement
from castsmith.passes.core.session import Session
from castsmith.targets.kernels import operands_of_several_types
from castsmith.targets.target import Target

_CANDIDATES = (DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT)

UNIFY_OPERANDS = Rule(
    "unify-operands",
    "The operands of a node are cast to one type, because the target requires it. Some are skipped.",
    why=(
        "The standard lets Pow, GridSample, RMSNormalization, Attention and QuantizeLinear mix types; a strongly "
        "typed TensorRT network does not, and inserts no casts."
    ),
    example="- y = Pow (x, e)  # (float16[N], float[])\n+ y = Cast <to = float16> (Pow (x_float, e))",
    advice=(
        "QuantizeLinear stays bit-exact. A constant is cast to the type of the first operand, if that holds it. "
        "Otherwise all operands are cast to a type that holds them. If it is skipped, cast an operand in the model."
    ),
    safety=(Effect.BIT_EXACT, Effect.IN_WIDER_TYPE, Effect.AS_DEFINED),
)


@dataclass(frozen=True)
class UnifyOperands(SessionPass):
    """Cast the operands of a node to one type where the target requires that.

    Attributes:
        target: The runtime that the model is for.
    """

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        records = Records()
        unify_operands(session, self.target, records)
        return RewriteResult(session.model, bool(records.rewrites), records)


def unify_operands(session: Session, target: Target, records: Records) -> None:
    """Apply the rule to every node."""
    if any(node.op_type in target.one_type for node in session.nodes):
        records.extend(lower_nodes(session, NAME, target, _unified).records)


def _unified(node: onnx_ir.Node, scene: Scene) -> Replacement | Refusal | None:
    target = scene.target
    operands = operands_of_several_types(node, scene.type_of, scene.imports, target)
    if not operands:
        return None
    names = " and ".join(type_name(dtype) for dtype in dict.fromkeys(operands.values()))
    dtype, effect = _common_type(node, operands, scene)
    if dtype is None:
        reason = f"{target} has no {node.op_type} of {names}, nor of a type that holds both"
        return Refusal(NAME, UNIFY_OPERANDS.code, site_of(node), reason)

    def before(old: onnx_ir.Value) -> DataType | None:
        present = scene.type_of(old)
        return present if present in operands.values() else None

    attributes = [attribute for attribute in node.attributes.values() if attribute.name != "precision"]
    build = ReplacementBuilder(node)
    outputs = computed_in(
        build, dtype, attributes, lambda index, value: build.cast(value, dtype) if index in operands else value, before
    )
    reason = f"{target} requires one type of the operands of {node.op_type}, which are {names}"
    return as_replacement(build, UNIFY_OPERANDS.code, reason, *outputs, effect=effect)


def _common_type(node: onnx_ir.Node, operands: Mapping[int, DataType], scene: Scene) -> tuple[DataType | None, Effect]:
    """Return the type to compute in, None if there is no such type, and the effect."""
    if node.op_type == "QuantizeLinear":  # the standard casts both to `precision`, the type of the scale by default
        return DataType(node.attributes.get_int("precision", 0) or int(operands[1])), Effect.BIT_EXACT
    first = next(iter(operands.values()))
    if all(_is_held(node.inputs[index], first) for index, dtype in operands.items() if dtype != first):
        return first, Effect.AS_DEFINED
    candidates = (
        dtype
        for dtype in _CANDIDATES
        if all(embeds(source, dtype) for source in operands.values())
        and scene.target.has_kernel(node.op_type, dtype, scene.opset)
    )
    return next(candidates, None), Effect.IN_WIDER_TYPE


def _is_held(value: onnx_ir.Value | None, dtype: DataType) -> bool:
    """True for a constant whose elements the type holds; an integer one must not be negative, as an exponent."""
    tensor = constant_tensor(value)
    if tensor is None:
        return False
    array = tensor.numpy()
    converted = cast(cast(array, dtype), tensor.dtype)
    return converted.tobytes() == array.tobytes() and not (dtype.is_integer() and np.any(array < 0))
