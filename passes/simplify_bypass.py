"""Rules for operators whose operands are casts that they do not see (`castsmith.passes.simplify_sight`).

    y = Cast <to = double> (x)  # (float16) -> double
    z = IsNaN (y)
becomes
    z = IsNaN (x)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import CastNode, cast_node, read_cast
from castsmith.ir.constants import constant_tensor, new_constant
from castsmith.ir.inference import Inference
from castsmith.ir.ranges_integer import Ranges
from castsmith.ir.records import Refusal
from castsmith.ir.rewriting import Replacement
from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.targets import Target, takes_type
from castsmith.ir.text import site_of
from castsmith.numerics.cast import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import type_name
from castsmith.passes.simplify_ranges import held
from castsmith.passes.simplify_sight import COMPARISONS, INDICES, ORDER, QUESTIONS, SHAPE_ONLY, reason_unseen, why_seen

RULE = "see-through-cast"

_Step = tuple[onnx_ir.Value, DataType, CastNode]
"""What stands before a cast, its type, and what the cast does."""

_SMALL = 1024
"""Elements up to which a constant is narrowed to meet the other operand."""

_BLIND = SHAPE_ONLY | QUESTIONS | ORDER

SEEING_THROUGH = _BLIND | INDICES.keys() | COMPARISONS
"""The operators that a rule is about."""


def bypass(
    pass_name: str,
    node: onnx_ir.Node,
    inference: Inference,
    imports: Mapping[str, int],
    ranges: Ranges,
    target: Target | None,
) -> Replacement | Refusal | None:
    """Rewire the node to what stands before the casts that it does not see."""
    if node.domain not in DEFAULT_DOMAINS:
        return None
    if node.op_type in _BLIND or node.op_type in INDICES:
        return _bypass_one(pass_name, node, INDICES.get(node.op_type, 0), inference, imports, ranges, target)
    if node.op_type in COMPARISONS:
        return _bypass_both(pass_name, node, inference, imports, ranges, target)
    return None


def cast_before(value: onnx_ir.Value | None, inference: Inference) -> tuple[onnx_ir.Value, DataType, CastNode] | None:
    """What stands before the cast that makes `value`, its type, and what the cast does; None where there is no cast."""
    producer = None if value is None else value.producer()
    if producer is None or not producer.inputs or producer.inputs[0] is None:
        return None
    like = inference.type_of(producer.inputs[1]) if len(producer.inputs) == 2 else None
    meaning = read_cast(producer, like)
    source = inference.type_of(producer.inputs[0])
    if meaning is None or meaning.to is None or source is None:
        return None
    return producer.inputs[0], source, meaning


def _bypass_one(
    pass_name: str,
    node: onnx_ir.Node,
    index: int,
    inference: Inference,
    imports: Mapping[str, int],
    ranges: Ranges,
    target: Target | None,
) -> Replacement | Refusal | None:
    """Go back over one cast after another as long as the operator does not see them."""
    origin, reason, refusal = node.inputs[index] if index < len(node.inputs) else None, "", None
    while (step := cast_before(origin, inference)) is not None:
        before, source, meaning = step
        if not takes_type(node, index, source, imports, target):
            break
        seen = why_seen(node, source, meaning, opset_of(imports, "") or 1)
        if seen is not None and not held([before], ranges, source, meaning):
            refusal = Refusal(pass_name, RULE, site_of(node), *seen)
            break
        assert meaning.to is not None
        origin, reason = before, _reason(seen, node, source, meaning.to)
    if reason and origin is not None:
        return Replacement(RULE, reason, inputs={index: origin})
    return refusal


def _bypass_both(
    pass_name: str,
    node: onnx_ir.Node,
    inference: Inference,
    imports: Mapping[str, int],
    ranges: Ranges,
    target: Target | None,
) -> Replacement | Refusal | None:
    """Compare before the casts where both operands are cast alike, or one is and the other is a constant."""
    steps = [cast_before(value, inference) for value in node.inputs]
    step = steps[0] or steps[1]
    if step is None:
        return None
    _, source, meaning = step
    assert meaning.to is not None
    alike = all(other is not None and (other[1], other[2].to) == (source, meaning.to) for other in steps)
    if not alike and steps[0] is not None and steps[1] is not None:
        return _unlike(node, steps[0], steps[1], imports, target)
    constant = None if alike else _narrowed(node.inputs[1 if steps[0] else 0], source, imports)
    if not (alike or constant is not None) or not takes_type(node, 0, source, imports, target):
        return None
    seen = why_seen(node, source, meaning, opset_of(imports, "") or 1)
    befores = [other[0] for other in steps if other is not None]
    if seen is not None and not held(befores, ranges, source, meaning):
        return Refusal(pass_name, RULE, site_of(node), *seen)
    inputs = {index: other[0] for index, other in enumerate(steps) if other is not None}
    if constant is None:
        return Replacement(RULE, _reason(seen, node, source, meaning.to), inputs=inputs)
    inputs[1 if steps[0] else 0] = constant
    reason = f"{_reason(seen, node, source, meaning.to)}, and {type_name(source)} holds the constant"
    return Replacement(RULE, reason, constants=(constant,), inputs=inputs)


def _unlike(
    node: onnx_ir.Node, left: _Step, right: _Step, imports: Mapping[str, int], target: Target | None
) -> Replacement | None:
    """Compare two types cast to a third in the one of them that holds the other."""
    if left[2].to != right[2].to:
        return None
    for index, (wide, narrow) in enumerate(((left, right), (right, left))):
        holds = embeds(narrow[1], wide[1]) and wide[2].to is not None and embeds(wide[1], wide[2].to)
        if holds and wide[1] != wide[2].to and takes_type(node, 0, wide[1], imports, target):
            made = cast_node(narrow[0], wide[1])
            operands = {index: wide[0], 1 - index: made.outputs[0]}
            assert wide[2].to is not None
            reason = f"{type_name(wide[1])} holds every {type_name(narrow[1])}, as {type_name(wide[2].to)} does both"
            return Replacement(RULE, f"{reason}, so {node.op_type} gives the same", (made,), inputs=operands)
    return None


def _reason(seen: object, node: onnx_ir.Node, source: DataType, to: DataType) -> str:
    if seen is None:
        return reason_unseen(node, source, to)
    return f"the operands are known to be integers that {type_name(source)} and {type_name(to)} both hold"


def _narrowed(value: onnx_ir.Value | None, to: DataType, imports: Mapping[str, int]) -> onnx_ir.Value | None:
    """A small constant in the type `to`; None where `to` does not hold each of its elements."""
    tensor = constant_tensor(value)
    if value is None or tensor is None or tensor.size > _SMALL or not embeds(to, tensor.dtype):
        return None
    opset, array = opset_of(imports, "") or 1, tensor.numpy()
    if (cast_status(array, to, opset=opset) != 0).any():
        return None
    narrow = cast(array, to, opset=opset)
    back = cast(narrow, tensor.dtype, opset=opset)
    if not np.array_equal(np.ascontiguousarray(back).view(np.uint8), np.ascontiguousarray(array).view(np.uint8)):
        return None
    return new_constant(f"{value.name}_{type_name(to)}", onnx_ir.tensor(narrow, dtype=to))
