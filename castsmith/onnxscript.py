"""The rules of Castsmith as a RewriteRuleSet of onnxscript.

    import onnxscript.rewriter
    from castsmith.onnxscript import rules

    onnxscript.rewriter.rewrite(model, rules)

Applied as a set they are fold-shapes, fold-constants, simplify-casts and place-casts, in turns until nothing changes.
Each of `rules.rules` is a pattern that stands by itself among rules of others: `remove_identity_cast` and
`collapse_chain`, the latter for every chain of casts that `chain_collapses` proves, not for a list of types.
"""

from __future__ import annotations

from typing import Any

import onnx_ir
from onnx_ir import DataType
from onnxscript.rewriter import MatchContext, MatchResult, RewriteRuleClassBase, RewriteRuleSet

from castsmith.ir.inference.session import Session
from castsmith.ir.ops.casts import CastNode, chain_verdict, read_cast
from castsmith.ir.ops.schemas import opset_of
from castsmith.numerics.errors import present, printable
from castsmith.passes.fold.run import FoldConstants
from castsmith.passes.place.run import PlaceCasts
from castsmith.passes.shapes.run import FoldShapes
from castsmith.passes.simplify.run import SimplifyCasts

_MOST_ROUNDS = 8


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


class CastRules(RewriteRuleSet):
    """The rules of Castsmith; applied to a model they are its passes, which are exact or leave what they find."""

    def __init__(self) -> None:
        super().__init__([_RemoveIdentityCast.rule(), _CollapseChain.rule()])

    def apply_to_model(self, model: onnx_ir.Model, *, verbose: int | None = None, tracer: Any = None) -> int:
        """Rewrite the model; returns the number of rewrites.

        Args:
            model: The model, which is changed.
            verbose: As in RewriteRuleSet; 1 or more prints each rewrite.
            tracer: As in RewriteRuleSet: only the patterns are matched, and nothing changes.
        """
        if tracer is not None:
            return super().apply_to_model(model, verbose=verbose, tracer=tracer)
        session, count = Session(model), 0
        for _ in range(_MOST_ROUNDS):
            done = 0
            for each in (FoldShapes(), FoldConstants(), SimplifyCasts(), PlaceCasts()):
                rewrites = each.run(session).records.rewrites
                done += len(rewrites)
                for rewrite in rewrites if verbose else ():
                    print(printable(f"{rewrite.rule}: {rewrite.site}: {rewrite.reason}"))  # noqa: T201
            count += done
            if not done:
                break
        return count


def _meaning(value: onnx_ir.Value) -> CastNode | None:
    node = value.producer()
    return None if node is None else read_cast(node, None)


def _type_of(value: onnx_ir.Value) -> DataType | None:
    return value.const_value.dtype if value.const_value is not None else value.dtype


rules = CastRules()
"""The rules, as `onnxscript.rewriter.rewrite` and `onnxscript.rewriter.RewritePass` take them."""
