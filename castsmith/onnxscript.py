"""The rules of Castsmith as a RewriteRuleSet of onnxscript.

    import onnxscript.rewriter
    from castsmith.onnxscript import rules

    onnxscript.rewriter.rewrite(model, rules)

The rules remove casts to the type that a value has, join chains of casts, and cancel casts around operators that only
move elements. Every result keeps its bits: `chain_collapses` proves each chain. `[*rules]`, alone or among other rules,
does the same as `rules`. Folding and the best place of a cast need the whole model: for them, run the passes of
`castsmith.passes`, which are onnx_ir passes.
"""

from __future__ import annotations

from typing import Any

import onnx_ir
from onnx_ir import DataType
from onnxscript.rewriter import MatchContext, MatchResult, RewriteRuleClassBase, RewriteRuleSet

from castsmith.ir.ops.casts import CastNode, chain_verdict, read_cast
from castsmith.ir.ops.schemas import opset_of
from castsmith.numerics.errors import present
from castsmith.passes.place.movable import data_inputs
from castsmith.targets.kernels import takes_type


class _RemoveIdentityCast(RewriteRuleClassBase):
    """A cast to the type that the value has is removed."""

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Cast(x, _allow_other_attributes=True, _outputs=["y"])

    def check(self, context: MatchContext, x: onnx_ir.Value, y: onnx_ir.Value) -> MatchResult:
        del context
        meaning, result = _meaning(y), MatchResult()
        same = meaning is not None and _type_of(x) == meaning.to
        return result if same else result.fail("the value has another type, or an undeclared one")

    def rewrite(self, op: Any, x: onnx_ir.Value, y: onnx_ir.Value) -> Any:
        del y
        return op.Identity(x)


class _CollapseChain(RewriteRuleClassBase):
    """Two casts become one, or none, where every value gives the same bits."""

    def pattern(self, op: Any, x: Any) -> Any:
        middle = op.Cast(x, _allow_other_attributes=True, _outputs=["middle"])
        return op.Cast(middle, _allow_other_attributes=True, _outputs=["y"])

    def check(self, context: MatchContext, x: onnx_ir.Value, middle: onnx_ir.Value, y: onnx_ir.Value) -> MatchResult:
        first, last, start, result = _meaning(middle), _meaning(y), _type_of(x), MatchResult()
        if first is None or last is None or first.to is None or last.to is None or start is None:
            return result.fail("a type is not known")
        opset = opset_of(context.graph_or_function.opset_imports or context.model.opset_imports, "") or 1
        verdict = chain_verdict(start, first, last, opset)
        return result if verdict else result.fail(f"the chain must stay: {verdict.reason.value}")

    def rewrite(self, op: Any, x: onnx_ir.Value, middle: onnx_ir.Value, y: onnx_ir.Value) -> Any:
        del middle
        last = y.producer()
        last = present(last, "the last cast")
        meaning = _meaning(y)
        if meaning is not None and meaning.to == _type_of(x):
            return op.Identity(x)
        attributes = dict(last.attributes)
        return op.Cast(x, **attributes)


class _CancelAcrossMoves(RewriteRuleClassBase):
    """Two casts that cancel out are removed although elements are moved between them."""

    def __init__(self) -> None:
        super().__init__("CancelAcrossMoves", remove_nodes=False)

    def pattern(self, op: Any, x: Any) -> Any:
        return op.Cast(x, _allow_other_attributes=True, _outputs=["y"])

    def check(self, context: MatchContext, x: onnx_ir.Value, y: onnx_ir.Value) -> MatchResult:
        result, (source, moves) = MatchResult(), _moves_before(x)
        start = None if source is None else _type_of(source)
        first, last = _meaning(present(moves[0].inputs[0], "the first cast")) if moves else None, _meaning(y)
        if first is None or last is None or start is None or last.to != start:
            return result.fail("no cast to cancel before operators that only move elements")
        imports = context.graph_or_function.opset_imports or context.model.opset_imports
        if not chain_verdict(start, first, last, opset_of(imports, "") or 1):
            return result.fail("the casts change values")
        is_supported = all(takes_type(node, 0, start, imports, None) for node in moves)
        return result if is_supported else result.fail(f"an operator between the casts does not support {start.name}")

    def rewrite(self, op: Any, x: onnx_ir.Value, y: onnx_ir.Value) -> Any:
        del y
        value, moves = _moves_before(x)
        for node in moves:
            value = getattr(op, node.op_type)(value, *node.inputs[1:], **dict(node.attributes))
        return value


def _moves_before(value: onnx_ir.Value) -> tuple[onnx_ir.Value | None, list[onnx_ir.Node]]:
    """Return the operand of the cast before a value, and the operators between, which move elements for it alone."""
    moves = list[onnx_ir.Node]()
    while (node := value.producer()) is not None:
        if read_cast(node, None) is not None:
            return node.inputs[0], moves[::-1]
        alone = len(value.uses()) == 1 and not value.is_graph_output() and len(node.outputs) == 1
        if not alone or data_inputs(node) != [0]:
            break
        moves.append(node)
        value = present(node.inputs[0], "the operand of a move")
    return None, []


def _meaning(value: onnx_ir.Value) -> CastNode | None:
    node = value.producer()
    return None if node is None else read_cast(node, None)


def _type_of(value: onnx_ir.Value) -> DataType | None:
    return value.const_value.dtype if value.const_value is not None else value.dtype


rules = RewriteRuleSet([_RemoveIdentityCast.rule(), _CollapseChain.rule(), _CancelAcrossMoves.rule()])
"""The rules, as `onnxscript.rewriter.rewrite` and `onnxscript.rewriter.RewritePass` take them, or one by one."""
