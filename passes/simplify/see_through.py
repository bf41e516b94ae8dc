"""Rules for operators whose results do not depend on casts of their operands.

    y = Cast <to = double> (x)  # (float16) -> double
    z = IsNaN (y)
becomes
    z = IsNaN (x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor, narrowed, new_constant
from castsmith.ir.ops.casts import CastNode
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Answer, Indices
from castsmith.ir.records import Refusal
from castsmith.ir.text import site_of
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import critical_values
from castsmith.numerics.embedding import embeds
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.passes.core.casts import cast_before
from castsmith.passes.core.cost import SHAPE_ONLY
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.facts import NAME, Facts

# Operators that do not depend on a cast: their result is the same for the value before it. The property of a cast is
# decided on the critical values (`castsmith.numerics.critical`).
#   Shape, Size            independent of elements: any cast
#   IsNaN, IsInf, NonZero  a predicate of each element: casts that never change it
#   Equal, Less ...        comparison: casts to a type that holds the source, on both sides alike; a constant on one
#                          side is narrowed if that changes no element
#   ArgMax, ArgMin         comparison: casts to a type that holds the source. Equal elements stay equal, so ties are
#                          broken alike; types with NaN are refused, since the standard does not define its position
#   Gather ...             integer indices: casts to a type that holds the source

QUESTIONS = operators(lambda row: row.answer in (Answer.QUESTION, Answer.PLACES))
COMPARISONS = operators(lambda row: row.answer is Answer.COMPARISON)
ORDER = operators(lambda row: row.answer is Answer.EXTREME)
INDICES = dict.fromkeys(operators(lambda row: row.indices is Indices.ALONG_AXIS), 1)
"""The inputs that take indices of two types by a type variable of their own."""

Question = Callable[[NDArray[Any]], NDArray[np.bool_]]


def why_seen(node: onnx_ir.Node, source: DataType, meaning: CastNode, opset: int) -> tuple[str, str] | None:
    """Return the reason and a witness why the operator depends on the cast of its operand; None if it does not."""
    if node.op_type in SHAPE_ONLY:
        return None
    if max(element_type(source).kind, element_type(meaning.target).kind) > Kind.FLOATING:
        return f"casts between {type_name(source)} and {type_name(meaning.target)} are not analysed", ""
    question = _question(node)
    if question is not None:
        return _changed_answer(question, node.op_type, source, meaning, opset)
    if node.op_type in ORDER and element_type(source).has_nan:
        return f"the standard does not define the position of NaN in {node.op_type}", "nan"
    if embeds(source, meaning.target):
        return None
    return _confused(source, meaning, opset)


def reason_unseen(node: onnx_ir.Node, source: DataType, to: DataType) -> str:
    """Return the reason why the cast can be removed, in words."""
    if node.op_type in SHAPE_ONLY:
        return f"{node.op_type} does not depend on elements"
    if node.op_type in QUESTIONS:
        return f"{node.op_type} gives the same for every {type_name(source)} and its cast to {type_name(to)}"
    return f"{type_name(to)} holds every {type_name(source)}, so {node.op_type} gives the same"


def _question(node: onnx_ir.Node) -> Question | None:
    if node.op_type == "IsNaN":
        return lambda array: np.isnan(array.astype(np.float64))
    if node.op_type == "NonZero":
        return lambda array: array != np.zeros((), array.dtype)
    if node.op_type != "IsInf":
        return None
    negative = bool(node.attributes.get_int("detect_negative", 1))
    positive = bool(node.attributes.get_int("detect_positive", 1))
    return lambda array: (
        (np.isposinf(array.astype(np.float64)) & positive) | (np.isneginf(array.astype(np.float64)) & negative)
    )


def _changed_answer(
    question: Question, asked: str, source: DataType, meaning: CastNode, opset: int
) -> tuple[str, str] | None:
    values, results, fixed = _sample(source, meaning, opset)
    with np.errstate(all="ignore"):
        failing = (question(values) != question(results)) | ~fixed
    if not failing.any():
        return None
    return f"{asked} differs before and after the cast of this value", repr(_first(values, failing))


def _confused(source: DataType, meaning: CastNode, opset: int) -> tuple[str, str]:
    """Return two numbers of `source` whose order the cast does not preserve."""
    reason = f"{type_name(meaning.target)} does not hold every {type_name(source)}"
    values, _, fixed = _sample(source, meaning, opset)
    if not fixed.all():
        return f"{reason}; the standard does not define the cast of this value", repr(_first(values, ~fixed))
    numbers = values[~np.isnan(values.astype(np.float64))]
    ordered = numbers[np.argsort(numbers, kind="stable")]
    images = cast(ordered, meaning.target, saturate=meaning.saturate, round_mode=meaning.round_mode, opset=opset)
    differs = ordered[1:] != ordered[:-1]
    lost = differs & ~(images[1:] > images[:-1])
    if not lost.any():
        return reason, ""
    place = int(lost.argmax())
    return f"{reason}: it maps these two to one", f"{ordered[place].item()!r} and {ordered[place + 1].item()!r}"


def _sample(source: DataType, meaning: CastNode, opset: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Return the critical values of `source`, their casts, and whether the standard fixes these."""
    values = critical_values(source, meaning.target)
    settings: dict[str, Any] = {"saturate": meaning.saturate, "round_mode": meaning.round_mode, "opset": opset}
    return values, cast(values, meaning.target, **settings), cast_status(values, meaning.target, **settings) == 0


def _first(values: NDArray[Any], failing: NDArray[np.bool_]) -> int | float | bool:
    return values[int(failing.argmax())].item()


_BLIND = SHAPE_ONLY | QUESTIONS | ORDER

SEEING_THROUGH = frozenset(_BLIND | INDICES.keys() | COMPARISONS)
"""The operators of the rule."""


def see_through(node: onnx_ir.Node, facts: Facts) -> Replacement | Refusal | None:
    """Rewire the node to the values before the casts on which it does not depend, or say why a cast must stay."""
    if not node.inputs:
        return None
    if node.outputs:
        facts.ranges.get(node.outputs[0])  # remembered as it is before the operands change
    if node.op_type in COMPARISONS:
        return _past_both(node, facts) if len(node.inputs) == 2 else None
    return _past_one(node, INDICES.get(node.op_type, 0), facts)


SEE_THROUGH_CAST = NodeRule(
    "see-through-cast",
    "An operator that does not depend on a cast reads the value before it. Skipped if the result could differ.",
    why="Its result does not depend on the type (Shape), or only on a property that the cast preserves (IsNaN).",
    example="- s = Shape (Cast <to = float16> (x))\n+ s = Shape (x)",
    operators=SEEING_THROUGH,
    apply=see_through,
)


def _refusal(node: onnx_ir.Node, source: DataType, meaning: CastNode, opset: int) -> Refusal | None:
    """Return the refusal if the node depends on the cast of its operands."""
    reason = why_seen(node, source, meaning, opset)
    return None if reason is None else Refusal(NAME, SEE_THROUGH_CAST.code, site_of(node), *reason)


def _past_one(node: onnx_ir.Node, index: int, facts: Facts) -> Replacement | Refusal | None:
    """Go back over one cast after another as long as the operator does not depend on them."""
    imports = facts.imports_of(node)
    origin, reason, refusal = node.inputs[index] if index < len(node.inputs) else None, "", None
    while (step := cast_before(origin, facts.inference)) is not None:
        before, source, meaning = step
        if not facts.legality.takes(node, index, source, imports):
            break
        refusal = _refusal(node, source, meaning, opset_of(imports, "") or 1)
        if refusal is not None:
            break
        origin, reason = before, reason_unseen(node, source, meaning.target)
    if reason and origin is not None:
        return Replacement(SEE_THROUGH_CAST.code, reason, inputs={index: origin})
    return refusal


def _past_both(node: onnx_ir.Node, facts: Facts) -> Replacement | Refusal | None:
    """Compare before the casts if both operands are cast alike, or one is and the other is a constant."""
    imports, steps = facts.imports_of(node), [cast_before(value, facts.inference) for value in node.inputs]
    step, opset = steps[0] or steps[1], opset_of(imports, "") or 1
    if step is None:
        return None
    _, source, meaning = step
    alike = all(
        of_operand is not None and (of_operand[1], of_operand[2].to) == (source, meaning.target) for of_operand in steps
    )
    constant = None if alike else _narrowed(node.inputs[1 if steps[0] else 0], source, opset)
    if not (alike or constant is not None) or not facts.legality.takes(node, 0, source, imports):
        return None
    refusal = _refusal(node, source, meaning, opset)
    if refusal is not None:
        return refusal
    inputs = {index: of_operand[0] for index, of_operand in enumerate(steps) if of_operand is not None}
    reason = reason_unseen(node, source, meaning.target)
    if constant is None:
        return Replacement(SEE_THROUGH_CAST.code, reason, inputs=inputs)
    inputs[1 if steps[0] else 0] = constant
    reason = f"{reason}, and {type_name(source)} holds the constant"
    return Replacement(SEE_THROUGH_CAST.code, reason, constants=(constant,), inputs=inputs)


def _narrowed(value: onnx_ir.Value | None, to: DataType, opset: int) -> onnx_ir.Value | None:
    """Return a small constant in the type `to`; None if `to` does not hold each of its elements."""
    tensor = constant_tensor(value)
    narrow = None if tensor is None else narrowed(tensor, to, opset)
    return None if value is None or narrow is None else new_constant(f"{value.name}_{type_name(to)}", narrow)
