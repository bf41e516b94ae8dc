"""simplify-casts: casts that change nothing go, and chains of casts that are exact become one.

Exact: a cast to the type that the value already has is no cast; a chain a -> b -> c becomes a -> c only where the
derived predicate `castsmith.numerics.exactness.chain_collapses` proves that no value of a, defined or not, comes out
otherwise. Refused: any other chain, with a value that shows the difference.

    a = Cast <to = double> (x)  # (float) -> double
    b = Cast <to = float16> (a)  # (double) -> float16
becomes
    b = Cast <to = float16> (x)  # (float) -> float16
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import CastNode, cast_node, read_cast
from castsmith.ir.inference import Inference, infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.records import Refusal, RewriteResult
from castsmith.ir.rewriting import Replacement, run_rules
from castsmith.ir.schemas import opset_of
from castsmith.ir.scopes import imports_by_scope
from castsmith.ir.text import site_of
from castsmith.numerics.errors import ElementTypeError
from castsmith.numerics.exactness import chain_collapses
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import type_name

NAME = "simplify-casts"


@dataclass(frozen=True)
class SimplifyCasts(onnx_ir.passes.InPlacePass):
    """Remove casts that change nothing and collapse chains that are exact; CastLike becomes Cast."""

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
        imports = imports_by_scope(model)

        def rule(node: onnx_ir.Node) -> Replacement | Refusal | None:
            if node.graph is None or node.inputs[:1] in ((), (None,)):
                return None
            return simplify(node, inference, imports[node.graph])

        return run_rules(model, NAME, Namer(model), rule)


def simplify(node: onnx_ir.Node, inference: Inference, imports: Mapping[str, int]) -> Replacement | Refusal | None:
    """What to put in place of one Cast or CastLike."""
    meaning = _meaning(node, inference)
    source = node.inputs[0]
    if meaning is None or meaning.to is None or source is None:
        return None
    if inference.type_of(source) == meaning.to:
        reason = f"the value is {type_name(meaning.to)} already"
        return Replacement("remove-identity-cast", reason, outputs=(source,))
    origin, path, refusal = _origin(node, source, meaning, inference, opset_of(imports, "") or 1)
    if origin is not source:
        return _shortcut(node, origin, meaning, path, round_trip=inference.type_of(origin) == meaning.to)
    if node.op_type == "CastLike":
        reason = f"the type to be like is known: {type_name(meaning.to)}"
        return _replace_by_cast("castlike-to-cast", node, source, meaning, reason)
    return refusal


def _origin(
    node: onnx_ir.Node, source: onnx_ir.Value, last: CastNode, inference: Inference, opset: int
) -> tuple[onnx_ir.Value, list[DataType], Refusal | None]:
    """The value furthest back from which one cast does the same as the chain that ends in `node`, the types passed on
    the way there, and the refusal of the step before it."""
    path: list[DataType] = []
    while (producer := source.producer()) is not None:
        first = _meaning(producer, inference)
        before = producer.inputs[0] if producer.inputs else None
        start, middle = inference.type_of(before), inference.type_of(source)
        if first is None or before is None or start is None or middle is None or last.to is None:
            break
        refusal = _refusal(node, (start, middle, last.to), first, last, opset)
        if refusal is not None:
            return source, path, refusal
        path.append(middle)
        source = before
    return source, path, None


def _refusal(
    node: onnx_ir.Node, types: tuple[DataType, DataType, DataType], first: CastNode, last: CastNode, opset: int
) -> Refusal | None:
    """Why the chain of two casts through `types` is not one cast; None where it is."""
    try:
        verdict = chain_collapses(
            *types,
            first_saturate=first.saturate,
            second_saturate=last.saturate,
            first_round_mode=first.round_mode,
            second_round_mode=last.round_mode,
            opset=opset,
        )
    except ElementTypeError as error:
        return Refusal(NAME, "collapse-chain", site_of(node), str(error))
    if verdict:
        return None
    chain = " to ".join(type_name(dtype) for dtype in types)
    witness = "" if verdict.witness is None else repr(verdict.witness)
    return Refusal(NAME, "collapse-chain", site_of(node), f"{chain} must stay: {verdict.reason.value}", witness)


def _shortcut(
    node: onnx_ir.Node, origin: onnx_ir.Value, meaning: CastNode, path: list[DataType], *, round_trip: bool
) -> Replacement:
    through = " and ".join(type_name(dtype) for dtype in path)
    if round_trip:
        return Replacement("collapse-chain", f"the round trip through {through} is exact", outputs=(origin,))
    reason = f"going through {through} changes no value that one cast would not"
    return _replace_by_cast("collapse-chain", node, origin, meaning, reason)


def _replace_by_cast(
    rule: str, node: onnx_ir.Node, source: onnx_ir.Value, meaning: CastNode, reason: str
) -> Replacement:
    assert meaning.to is not None
    cast = cast_node(source, meaning.to, saturate=meaning.saturate, round_mode=meaning.round_mode)
    cast.name, cast.outputs[0].name = node.name, node.outputs[0].name
    return Replacement(rule, reason, (cast,), outputs=(cast.outputs[0],))


def _meaning(node: onnx_ir.Node, inference: Inference) -> CastNode | None:
    like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
    return read_cast(node, like)
