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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import onnx_ir

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import called_with_several_types
from castsmith.ir.io.protos import REPEATED, WRITTEN
from castsmith.ir.ops.table import CASTS
from castsmith.ir.records import Refusal, Rewrite, RewriteResult, Site
from castsmith.ir.text import site_of
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import TypeLike
from castsmith.passes.core.cost import Legality
from castsmith.passes.core.options import count_info, flag_info, narrowed_types, option, shared, text_info
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import NodeRule, Replacement, first_of, lacking_identity, replace_nodes
from castsmith.passes.core.session import Session
from castsmith.passes.place.sizes import parse_sizes
from castsmith.passes.simplify.cast_constant_of_shape import CAST_CONSTANT_OF_SHAPE
from castsmith.passes.simplify.castlike_to_cast import CASTLIKE_TO_CAST
from castsmith.passes.simplify.collapse_chain import COLLAPSE_CHAIN
from castsmith.passes.simplify.earlier import Earlier
from castsmith.passes.simplify.facts import NAME, Facts
from castsmith.passes.simplify.merge_duplicate_casts import MERGE_DUPLICATE_CASTS
from castsmith.passes.simplify.merge_equal_nodes import MERGE_EQUAL_NODES, nodes_before
from castsmith.passes.simplify.remove_identity_cast import REMOVE_IDENTITY_CAST
from castsmith.passes.simplify.savings import Savings
from castsmith.passes.simplify.see_through import SEE_THROUGH_CAST
from castsmith.targets.target import Target

_RULES: tuple[NodeRule[Facts], ...] = (
    CAST_CONSTANT_OF_SHAPE,
    REMOVE_IDENTITY_CAST,
    MERGE_DUPLICATE_CASTS,
    COLLAPSE_CHAIN,
    CASTLIKE_TO_CAST,
    MERGE_EQUAL_NODES,
    SEE_THROUGH_CAST,
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

    codes = _RULES

    default_size: int = option(64, count_info("assumed size of an unknown dimension"))
    sizes: str = option("", text_info("assumed sizes of dimensions by name: batch=1,N=128"))
    undefined_free: bool = option(False, flag_info("shorten chains whose results the standard does not define"))
    largest_dim: int = shared("largest_dim")
    target: Target | None = None
    narrow: TypeLike | Sequence[TypeLike] = shared("narrow")

    def rewrite(self, session: Session) -> RewriteResult:
        inference, imports = session.follow(PromotionRules(promote_unsafe=True)), session.imports
        facts = Facts(
            inference,
            imports,
            Ranges(inference, self.largest_dim) if self.largest_dim else Ranges(inference),
            Earlier(session.holders),
            nodes_before(session.nodes_of(CASTS)),
            Legality(self.target, narrowed_types("narrow", self.narrow)),
            self.undefined_free,
        )
        savings = Savings(inference, self.default_size, parse_sizes(self.sizes))
        ambiguous, offer = called_with_several_types(inference), first_of(_RULES, facts)

        def match(node: onnx_ir.Node) -> Replacement | Refusal | None:
            outcome = None if node.graph in ambiguous else offer(node)
            if isinstance(outcome, Replacement):
                outcome = _unless_identity(node, outcome, facts)
            if isinstance(outcome, Replacement) and outcome.rule != MERGE_EQUAL_NODES.code:
                return replace(outcome, saved_bytes=savings.of(node, outcome))
            return outcome

        result = replace_nodes(session, NAME, match, types=inference.types)
        session.model.meta.pop(WRITTEN, None)
        repeated = cast("list[str]", session.model.meta.pop(REPEATED, []))
        merged = [_merged(text, session.model) for text in repeated]
        result.records.rewrites[:0] = merged
        return replace(result, modified=result.modified or bool(merged))


def _unless_identity(node: onnx_ir.Node, replacement: Replacement, facts: Facts) -> Replacement | Refusal:
    """Refuse a replacement after which a graph output would need an Identity that the target lacks."""
    target, imports = facts.legality.target, facts.imports_of(node)
    lack = lacking_identity(node, replacement.outputs or (), facts.inference, imports, target, replacement.nodes)
    return replacement if lack is None else Refusal(NAME, replacement.rule, site_of(node), lack)


def _merged(text: str, model: onnx_ir.Model) -> Rewrite:
    """The record of a node or an initializer that the file has twice, under one name, of which one was read."""
    reason = "the model has this twice, under one name"
    return Rewrite(NAME, MERGE_DUPLICATE_CASTS.code, Site(model.graph.name or ""), text, "", reason)
