"""place-casts: Move casts among moves of elements to where fewer casts are needed.

Exact: an operator that only moves elements (Reshape, Transpose, Slice, Concat, Where's branches ...) commutes with a
cast of every element. In each region of such operators and two types every node is given the type in which it moves,
and casts are inserted between types, at the least cost: a minimum cut. Every value that leaves the region has gone
through the same value-changing casts as before. A region is changed only if that saves casts and time. Skipped: a cast
that the standard leaves open for some value, operators without a kernel for the type, regions of three types or more,
and regions whose casts have different settings.

    a = Cast <to = float> (x)  # (float16[N]) -> float[N]
    b = Cast <to = float> (y)  # (float16[N]) -> float[N]
    z = Concat <axis = 0> (a, b)
becomes
    a = Concat <axis = 0> (x, y)
    z = Cast <to = float> (a)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference, called_with_several_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.codes import Rule
from castsmith.ir.naming import Namer
from castsmith.ir.records import Records, Refusal, Rewrite, RewriteResult
from castsmith.ir.text import node_items, site_of
from castsmith.ir.walks import subgraphs_of
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import TypeLike
from castsmith.passes.core.cost import Legality
from castsmith.passes.core.options import count_info, narrowed_types, option, shared, text_info
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.session import Session
from castsmith.passes.place.apply import apply, needs_identity
from castsmith.passes.place.choices import Choice
from castsmith.passes.place.cut import minimum_cut, two_sides
from castsmith.passes.place.problem import IMPOSSIBLE, LAUNCH_BYTES, Problem
from castsmith.passes.place.regions import Region, find_regions, pose
from castsmith.passes.place.sizes import Sizes, parse_sizes
from castsmith.targets.target import Target

NAME = "place-casts"

PLACE_CASTS = Rule(
    "place-casts",
    "Casts move across operators that only move elements, so that fewer are needed.",
    why="Casting before or after a move of elements gives the same bits.",
    example="- a = Cast <to = float> (x); b = Transpose (a); y = Cast <to = float16> (b)\n+ y = Transpose (x)",
    advice="--explain lists the regions that were not changed.",
)


@dataclass(frozen=True)
class PlaceCasts(SessionPass):
    """Move casts across moves of elements to where they cost least.

    Attributes:
        default_size: The assumed size of a dimension without a number.
        sizes: The assumed sizes of dimensions by name, as `batch=1,N=128`; both affect only the placement, not the
            results.
        target: As in SimplifyCasts.
        narrow: As in SimplifyCasts.
    """

    codes = (PLACE_CASTS,)

    default_size: int = option(64, count_info("assumed size of an unknown dimension"))
    sizes: str = option("", text_info("assumed sizes of dimensions by name: batch=1,N=128"))
    target: Target | None = None
    narrow: TypeLike | Sequence[TypeLike] = shared("narrow")

    def rewrite(self, session: Session) -> RewriteResult:
        model, inference, namer = session.model, session.inference(PromotionRules(promote_unsafe=True)), session.namer()
        sizes = Sizes(Shapes(model, inference), self.default_size, parse_sizes(self.sizes))
        ranges, legality = Ranges(inference), Legality(self.target, narrowed_types("narrow", self.narrow))
        several, records = called_with_several_types(inference), Records()
        for graph in (graph for graph in _inside_out(session) if graph not in several):
            imports = session.imports[graph]
            for region in find_regions(graph, inference, imports, ranges):
                problem = pose(region, inference, imports, sizes, legality=legality, namer=namer)
                outcome = place(region, problem, inference, namer) if isinstance(problem, Problem) else problem
                if isinstance(outcome, Rewrite):
                    records.rewrites.append(outcome)
                elif outcome is not None:
                    records.refusals.append(Refusal(NAME, PLACE_CASTS.code, site_of(next(iter(region.nodes))), outcome))
        return RewriteResult(model, bool(records.rewrites), records)


def _inside_out(session: Session) -> Iterator[onnx_ir.Graph]:
    """Yield the graphs of the model, inner graphs first, scope by scope."""
    model = session.model
    for scope in (model.graph, *model.functions.values()):
        if session.holders:
            yield from reversed(list(subgraphs_of(scope)))
        yield scope.graph if isinstance(scope, onnx_ir.Function) else scope


def place(region: Region, problem: Problem, inference: Inference, namer: Namer) -> Rewrite | str | None:
    """Improve one region; return the reason if it is refused, None if it cannot be improved."""
    if problem.cost(problem.kept) == IMPOSSIBLE:
        return "chain of more than two value-changing casts; skipped"
    chosen = solve(problem)
    if chosen is None:
        return None
    moved, casts = problem.bytes_and_casts(chosen)
    plans = [plan for number in range(len(problem.roots)) if (plan := problem.plan(number, chosen)) is not None]
    if needs_identity(problem, plans):
        return "a graph output would need an Identity to keep its name"
    site, cost = site_of(next(iter(region.nodes))), problem.bytes_before
    before = node_items(region.nodes, inference.types)
    after = apply(region, problem, chosen, plans, namer, inference.types)
    _retype(problem, chosen, inference)
    counts = f"casts: {casts} instead of {problem.casts_before}, bytes moved: {moved:.0f} instead of {cost:.0f}"
    reason = f"{counts}; the least possible time at these sizes (a launch counts as {LAUNCH_BYTES} bytes)"
    return Rewrite(NAME, PLACE_CASTS.code, site, before, after, reason, saved_bytes=int(cost - moved))


def solve(problem: Problem) -> Sequence[Choice] | None:
    """Return the choice of least time, if it saves both casts and time."""
    sides = two_sides(problem)
    if sides is None:
        return None
    chosen = minimum_cut(problem, sides)
    return chosen if problem.saves(chosen) else None


def _retype(problem: Problem, chosen: Sequence[Choice], inference: Inference) -> None:
    for move, choice in zip(problem.moves, chosen, strict=True):
        for output in move.node.outputs:
            inference.types[output] = choice.dtype
