"""Operators that do not see a cast: their result is the same for the value before it.

  Shape, Size          never look at elements: any cast
  IsNaN, IsInf, NonZero  ask one question of each element: casts that never change its answer
  Equal, Less ...      compare: casts to a type that holds the source, on both sides alike; a constant on the other
                       side is narrowed where that changes none of its elements
  ArgMax, ArgMin       compare elements: casts to a type that holds the source. Equal elements stay equal, so ties fall
                       the same way; types with NaN are refused, since the standard does not say where a NaN ends up
  Gather ...           take integer indices: casts to a type that holds the source

What is asked of a cast is decided on the values at which conversions turn (`castsmith.numerics.critical`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.casts import CastNode
from castsmith.numerics.cast import cast
from castsmith.numerics.critical import critical_values
from castsmith.numerics.embedding import embeds
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import Kind, element_type, type_name

SHAPE_ONLY = frozenset({"Shape", "Size"})
QUESTIONS = frozenset({"IsNaN", "IsInf", "NonZero"})
COMPARISONS = frozenset({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
ORDER = frozenset({"ArgMax", "ArgMin"})
INDICES = {"Gather": 1, "GatherElements": 1, "ScatterElements": 1}
"""The inputs that take indices of two types by a variable of their own."""

Question = Callable[[NDArray[Any]], NDArray[np.bool_]]


def why_seen(node: onnx_ir.Node, source: DataType, meaning: CastNode, opset: int) -> tuple[str, str] | None:
    """Why the operator sees the cast of its operand, with a value that shows it; None where it does not."""
    assert meaning.to is not None
    if node.op_type in SHAPE_ONLY:
        return None
    if max(element_type(source).kind, element_type(meaning.to).kind) > Kind.FLOATING:
        return f"casts between {type_name(source)} and {type_name(meaning.to)} are not compared number by number", ""
    question = _question(node)
    if question is not None:
        return _changed_answer(question, node.op_type, source, meaning, opset)
    if node.op_type in ORDER and element_type(source).has_nan:
        return f"the standard does not say where {node.op_type} puts a NaN", "nan"
    if embeds(source, meaning.to):
        return None
    return _confused(source, meaning, opset)


def reason_unseen(node: onnx_ir.Node, source: DataType, to: DataType) -> str:
    """Why the cast can go, in words."""
    if node.op_type in SHAPE_ONLY:
        return f"{node.op_type} looks at no element"
    if node.op_type in QUESTIONS:
        return f"{node.op_type} gives the same for every {type_name(source)} and what becomes of it in {type_name(to)}"
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
    return f"{asked} gives something else before and after the cast of this value", repr(_first(values, failing))


def _confused(source: DataType, meaning: CastNode, opset: int) -> tuple[str, str]:
    """Two numbers of `source` whose order the cast does not keep."""
    assert meaning.to is not None
    reason = f"{type_name(meaning.to)} does not hold every {type_name(source)}"
    values, _, fixed = _sample(source, meaning, opset)
    if not fixed.all():
        return f"{reason}; the standard does not even fix the cast of this one", repr(_first(values, ~fixed))
    numbers = values if element_type(source).kind <= Kind.INTEGER else values[~np.isnan(values.astype(np.float64))]
    if element_type(meaning.to).kind > Kind.FLOATING:
        return reason, ""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    images = cast(ordered, meaning.to, saturate=meaning.saturate, round_mode=meaning.round_mode, opset=opset)
    apart = ordered[1:] != ordered[:-1]
    lost = apart & ~(images[1:] > images[:-1])
    if not lost.any():
        return reason, ""
    place = int(lost.argmax())
    return f"{reason}: it does not tell these two apart", f"{ordered[place].item()!r} and {ordered[place + 1].item()!r}"


def _sample(source: DataType, meaning: CastNode, opset: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """The values of `source` that decide, what they become, and whether the standard fixes that."""
    assert meaning.to is not None
    values = critical_values(source, meaning.to)
    settings: dict[str, Any] = {"saturate": meaning.saturate, "round_mode": meaning.round_mode, "opset": opset}
    return values, cast(values, meaning.to, **settings), cast_status(values, meaning.to, **settings) == 0


def _first(values: NDArray[Any], failing: NDArray[np.bool_]) -> int | float | bool:
    return values[int(failing.argmax())].item()
