"""simplify-casts: Remove casts that change nothing, collapse exact chains into one cast, and merge equal casts.

Exact: a cast to the type that the value already has changes nothing; a chain a -> b -> c becomes a -> c only where the
derived predicate `castsmith.numerics.exactness.chain_collapses` proves that no value of a, defined or not, comes out
otherwise, or where the values are known to be integers which a and b both hold; two casts of one value by one
conversion are one; an operator that does not see a cast (Shape, IsNaN, a comparison ...) is given what stands before
it. Refused: any other chain or operand, with a value that shows the difference.

    a = Cast <to = double> (x)  # (float) -> double
    b = Cast <to = float16> (a)  # (double) -> float16
becomes
    b = Cast <to = float16> (x)  # (float) -> float16
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import cast

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference, called_with_several_types
from castsmith.ir.codes import Rule
from castsmith.ir.io.protos import REPEATED
from castsmith.ir.ops.casts import CastNode, cast_node, chain_verdict, not_cast, read_cast
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.table import CASTS
from castsmith.ir.records import Refusal, Rewrite, RewriteResult, Site
from castsmith.ir.text import site_of
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import TypeLike, type_name
from castsmith.passes.core.cost import Legality
from castsmith.passes.core.options import count_info, flag_info, narrowed_types, option, shared, text_info
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement, lacking_identity, run_rules
from castsmith.passes.core.session import Session
from castsmith.passes.place.sizes import parse_sizes
from castsmith.passes.shapes.bounds import ranges_of
from castsmith.passes.simplify.equal import MERGE_EQUAL_NODES, EqualNodes
from castsmith.passes.simplify.local import (
    CAST_CONSTANT_OF_SHAPE,
    MERGE_DUPLICATE_CASTS,
    CastTable,
    cast_filling,
    merge_with,
)
from castsmith.passes.simplify.savings import Savings, reads_more
from castsmith.passes.simplify.see_through import SEE_THROUGH_CAST, SEEING_THROUGH, Bypass, cast_before, harmless
from castsmith.targets.target import Target

NAME = "simplify-casts"

_OPERATORS = SEEING_THROUGH | CASTS


REMOVE_IDENTITY_CAST = Rule(
    "remove-identity-cast",
    "A cast to the type that the value already has is removed.",
    why="It changes nothing.",
    example="- y = Cast <to = float> (x)  # (float[N]) -> float[N]",
)
COLLAPSE_CHAIN = Rule(
    "collapse-chain",
    "A chain of casts becomes one cast. Refused, with a witness, if the result differs for some value.",
    why="The intermediate type holds every value, or its rounding never changes the final result.",
    example="- a = Cast <to = double> (x)\n- y = Cast <to = float16> (a)\n+ y = Cast <to = float16> (x)",
    advice="If refused, the chain changes values; remove it in the model if the rounding is unintended.",
)
CASTLIKE_TO_CAST = Rule(
    "castlike-to-cast",
    "A CastLike becomes a Cast.",
    why="The type of its second operand is known.",
    example="- y = CastLike (x, t)  # (float[N], float16[M])\n+ y = Cast <to = float16> (x)",
)


@dataclass(frozen=True)
class SimplifyCasts(SessionPass):
    """Remove casts without effect, collapse exact chains, and merge equal casts; CastLike becomes Cast.

    Attributes:
        default_size: As in PlaceCasts; used only for the bytes in the records.
        sizes: As in PlaceCasts; used only for the bytes in the records.
        undefined_free: Also shorten chains whose result changes only where the standard leaves the chain open.
        largest_dim: As in NarrowTypes.
        target: The runtime whose kernels limit the types a node may be given; ONNX Runtime on the CPU if None.
        narrow: The types that NarrowTypes makes narrower, which no node is given.
    """

    codes = (
        REMOVE_IDENTITY_CAST,
        COLLAPSE_CHAIN,
        CASTLIKE_TO_CAST,
        CAST_CONSTANT_OF_SHAPE,
        MERGE_DUPLICATE_CASTS,
        MERGE_EQUAL_NODES,
        SEE_THROUGH_CAST,
    )

    default_size: int = option(64, count_info("assumed size of an unknown dimension"))
    sizes: str = option("", text_info("assumed sizes of dimensions by name: batch=1,N=128"))
    undefined_free: bool = option(False, flag_info("shorten chains that the standard leaves open"))
    largest_dim: int = shared("largest_dim")
    target: Target | None = None
    narrow: TypeLike | Sequence[TypeLike] = shared("narrow")

    def rewrite(self, session: Session) -> RewriteResult:
        inference, imports = session.follow(PromotionRules(promote_unsafe=True)), session.imports
        ranges = ranges_of(session, inference, self.largest_dim)
        facts = _Facts(inference, CastTable(session.holders), ranges, self.undefined_free)
        savings = Savings(inference, self.default_size, parse_sizes(self.sizes))
        ambiguous, of_shapes = called_with_several_types(inference), bool(session.nodes_of({"ConstantOfShape"}))
        legality = Legality(self.target, narrowed_types("narrow", self.narrow))
        equal = EqualNodes(session.holders, session.nodes_of(CASTS))

        def rule(node: onnx_ir.Node) -> Replacement | Refusal | None:
            if node.graph is None or (ambiguous and node.graph in ambiguous):
                return None
            kind, inputs = node.op_type, node.inputs
            merged = None if kind in CASTS else equal.merge(node, imports)
            if merged is not None or kind not in _OPERATORS or not inputs or inputs[0] is None:
                return merged
            if kind in CASTS:
                answer = (
                    cast_filling(node, inference, imports[node.graph], self.target) if of_shapes else None
                ) or simplify(node, facts, imports[node.graph])
            else:
                if node.outputs:
                    facts.ranges.get(node.outputs[0])
                answer = Bypass(NAME, inference, imports[node.graph], facts.ranges, legality).change(node)
            if isinstance(answer, Replacement) and any(output.is_graph_output() for output in node.outputs):
                values = answer.outputs or ()
                lack = lacking_identity(node, values, inference, imports[node.graph], self.target, answer.nodes)
                answer = answer if lack is None else Refusal(NAME, answer.rule, site_of(node), lack)
            return answer

        def saved(node: onnx_ir.Node, answer: Replacement) -> int | None:
            return None if answer.rule == MERGE_EQUAL_NODES.code else savings.of(node, answer)

        result = run_rules(session, NAME, rule, types=inference.types, saved=saved)
        repeated = cast("list[str]", session.model.meta.pop(REPEATED, []))
        merged = [_merged(text, session.model) for text in repeated]
        result.records.rewrites[:0] = merged
        return replace(result, modified=result.modified or bool(merged))


def _merged(text: str, model: onnx_ir.Model) -> Rewrite:
    """The record of a node that the file has twice, with one result, of which one was read."""
    reason = "the model has this node twice, under one name of its result"
    return Rewrite(NAME, MERGE_DUPLICATE_CASTS.code, Site(model.graph.name or ""), text, "", reason)


@dataclass(frozen=True)
class _Facts:
    """Facts about the model; `origins` caches results, so that a long chain is not followed twice."""

    inference: Inference
    casts: CastTable
    ranges: Ranges
    undefined_free: bool = option(False, flag_info("shorten chains that the standard leaves open"))
    origins: dict[tuple[onnx_ir.Value, CastNode], _Origin] = field(
        default_factory=dict[tuple[onnx_ir.Value, CastNode], "_Origin"]
    )


@dataclass(frozen=True)
class _Origin:
    """The earliest value from which one cast equals a chain of casts.

    It has the types in between, the reason and witness why the step before it is refused, and the facts about the
    values that made it exact.
    """

    value: onnx_ir.Value
    path: tuple[DataType, ...] = ()
    refused: tuple[str, str] | None = None
    because: str = ""


def simplify(node: onnx_ir.Node, facts: _Facts, imports: Mapping[str, int]) -> Replacement | Refusal | None:
    """Return the replacement of one Cast or CastLike."""
    meaning = _meaning(node, facts.inference)
    source = node.inputs[0]
    if meaning is None or meaning.to is None or source is None or node.graph is None:
        return None
    opset = opset_of(imports, "") or 1
    if facts.inference.type_of(source) == meaning.to:
        reason = f"the value already is {type_name(meaning.to)}"
        return Replacement(REMOVE_IDENTITY_CAST.code, reason, outputs=(source,))
    origin = _origin(source, meaning, facts, opset)
    if facts.inference.type_of(origin.value) == meaning.to:
        reason = f"the round trip through {_names(origin.path)} is exact{origin.because}"
        return Replacement(COLLAPSE_CHAIN.code, reason, outputs=(origin.value,))
    twin = facts.casts.find(node.graph, origin.value, meaning, opset)
    if twin is None and reads_more(node, origin.value, facts.inference, opset):
        facts.casts.note(node.graph, origin.value, meaning, opset, node.outputs[0])
        return None
    answer = merge_with(node, twin, meaning.to) or _one_cast(node, origin, meaning, facts, opset)
    if not isinstance(answer, Replacement) or answer.nodes:
        result = answer.nodes[0].outputs[0] if isinstance(answer, Replacement) else node.outputs[0]
        facts.casts.note(node.graph, origin.value, meaning, opset, result)
    return answer


def _no_cast(node: onnx_ir.Node, origin: _Origin, meaning: CastNode, facts: _Facts, opset: int) -> Refusal | None:
    """Return the reason why a Cast of the opset cannot replace a CastLike, which is invalid there too."""
    types = (meaning.to, facts.inference.type_of(origin.value))
    why = not_cast([dtype for dtype in types if dtype is not None], opset) if node.op_type == "CastLike" else None
    return None if why is None else Refusal(NAME, CASTLIKE_TO_CAST.code, site_of(node), why)


def _one_cast(
    node: onnx_ir.Node, origin: _Origin, meaning: CastNode, facts: _Facts, opset: int
) -> Replacement | Refusal | None:
    """Return one Cast from the origin instead of the chain, or of a CastLike."""
    lacking = _no_cast(node, origin, meaning, facts, opset)
    if lacking is not None:
        return lacking
    if origin.path:
        reason = f"going through {_names(origin.path)} gives the same as one cast{origin.because}"
        return _replace_by_cast(COLLAPSE_CHAIN.code, node, origin.value, meaning, reason)
    if node.op_type == "CastLike":
        reason = f"the type of the second operand is known: {type_name(meaning.target)}"
        return _replace_by_cast(CASTLIKE_TO_CAST.code, node, origin.value, meaning, reason)
    return None if origin.refused is None else Refusal(NAME, COLLAPSE_CHAIN.code, site_of(node), *origin.refused)


def _origin(source: onnx_ir.Value, last: CastNode, facts: _Facts, opset: int) -> _Origin:
    """Return the start of the chain of casts that ends in a cast of `source` by `last`."""
    start, path, because = source, list[DataType](), ""
    while (found := facts.origins.get((source, last))) is None:
        step = cast_before(source, facts.inference)
        if step is None or last.to is None:
            found = _Origin(source)
            break
        before, dtype, first = step
        refused = _refused((dtype, first, last), opset, free=facts.undefined_free)
        known = facts.ranges.get(before)
        if refused is not None and known is not None and harmless(known, dtype, first, last):
            refused, because = None, f" for {known}"
        if refused is not None:
            found = _Origin(source, refused=refused)
            break
        path.append(first.target)
        source = before
    origin = _Origin(found.value, (*path, *found.path), found.refused, because or found.because)
    facts.origins[start, last] = origin
    return origin


@lru_cache(maxsize=1024)
def _refused(chain: tuple[DataType, CastNode, CastNode], opset: int, *, free: bool) -> tuple[str, str] | None:
    """Return the reason and a witness why the chain of two casts is not one cast; None if it is."""
    start, first, last = chain
    try:
        verdict = chain_verdict(start, first, last, opset, undefined_free=free)
    except (ElementTypeError, CastError) as error:
        return str(error), ""
    if verdict:
        return None
    types = " to ".join(type_name(dtype) for dtype in (start, first.target, last.target))
    return f"{types} must stay: {verdict.reason.value}", "" if verdict.witness is None else repr(verdict.witness)


def _names(path: tuple[DataType, ...]) -> str:
    return " and ".join(type_name(dtype) for dtype in path)


def _replace_by_cast(
    rule: str, node: onnx_ir.Node, source: onnx_ir.Value, meaning: CastNode, reason: str
) -> Replacement:
    cast = cast_node(source, meaning.target, saturate=meaning.saturate, round_mode=meaning.round_mode)
    cast.name, cast.outputs[0].name = node.name, node.outputs[0].name
    return Replacement(rule, reason, (cast,), outputs=(cast.outputs[0],))


def _meaning(node: onnx_ir.Node, inference: Inference) -> CastNode | None:
    like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
    return read_cast(node, like)
