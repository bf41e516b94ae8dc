"""Regions of two types: the cut costs least, and what it compares is the time in bytes, then casts, then changes."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod

import onnx_ir

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.naming import Namer
from castsmith.ir.walks import imports_by_scope
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.cost import Legality
from castsmith.passes.place import cut
from castsmith.passes.place.choices import Choice, Mode
from castsmith.passes.place.problem import IMPOSSIBLE, LAUNCH_BYTES, Problem
from castsmith.passes.place.regions import find_regions, pose
from castsmith.passes.place.sizes import Sizes
from tests.passes.place.place_regions import PAIRS, random_model
from tests.sampling import sampled

TIME, CAST, CHANGE = 1 << 24, 1 << 12, 1
SEEDS = sampled("small random regions", range(30 * len(PAIRS)), 24, cover=lambda seed: [seed % len(PAIRS)])
_ENUMERATED = 20_000


def problems(model: onnx_ir.Model) -> list[Problem]:
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    imports = imports_by_scope(model)
    sizes = Sizes(Shapes(model, inference), 64, {})
    ranges = Ranges(inference)
    posed = [
        pose(region, inference, imports[graph], sizes, legality=Legality(), namer=Namer(model))
        for graph in (model.graph, *model.graph.subgraphs())
        for region in find_regions(graph, inference, imports[graph], ranges)
    ]
    return [problem for problem in posed if isinstance(problem, Problem)]


def small_problems(model: onnx_ir.Model, most_choices: int = _ENUMERATED) -> list[Problem]:
    """The regions of a model of which all choices can be tried."""
    posed = [problem for problem in problems(model) if problem.cost(problem.kept) < IMPOSSIBLE]
    return [problem for problem in posed if prod(len(move.choices) for move in problem.moves) <= most_choices]


def least(problem: Problem) -> float:
    """The least cost of all choices there are. What a root costs is looked up by the choices of the moves at it."""
    near = [sorted({end.move for end in (root, *root.demands) if end.move is not None}) for root in problem.roots]
    costs_of_roots: list[dict[tuple[Choice, ...], float]] = [{} for _ in near]
    best = IMPOSSIBLE
    for chosen in product(*(move.choices for move in problem.moves)):
        cost = sum(problem.cost_of_move(number, choice) for number, choice in enumerate(chosen))
        for number, (moves, costs) in enumerate(zip(near, costs_of_roots, strict=True)):
            if cost >= best:
                break
            key = tuple(chosen[move] for move in moves)
            if key not in costs:
                costs[key] = problem.price(number, problem.plan(number, chosen))
            cost += costs[key]
        best = min(best, cost)
    return best


def cost_of_cut(problem: Problem) -> float | None:
    """The cost of the choice of the cut; None if there is none."""
    sides = cut.two_sides(problem)
    return None if sides is None else problem.cost(cut.minimum_cut(problem, sides))


def test_every_small_region_of_two_types_ends_at_the_least_cost() -> None:
    cuts = 0
    for seed in SEEDS:
        for problem in small_problems(random_model(seed, 12)):
            cost = cost_of_cut(problem)
            if cost is not None:
                assert cost == least(problem), seed
                cuts += 1
    assert cuts > len(SEEDS) / 8


@cache
def regions() -> list[Problem]:
    """Small regions of several moves, among them some of three types."""
    posed = [problem for seed in range(24) for problem in small_problems(random_model(seed, 9), 1000)]
    return [problem for problem in posed if len(problem.moves) > 1]


def test_costs() -> None:
    """The time in bytes first, then casts, then changes."""
    for problem in regions():
        total, casts = problem.bytes_and_casts(problem.kept)
        assert problem.cost(problem.kept) == TIME * (total + LAUNCH_BYTES * casts) + CAST * casts
        if (total, casts) == (problem.bytes_before, problem.casts_before):
            assert problem.cost(problem.kept) == problem.before
        for number, move in enumerate(problem.moves):
            for choice in move.choices:
                change = 0 if choice.mode is Mode.KEEP else CHANGE
                expected = TIME * move.elements * choice.dtype.itemsize + change
                assert problem.cost_of_move(number, choice) == expected


def test_a_choice_saves_casts_and_time() -> None:
    saving = 0
    for problem in regions():
        for chosen in product(*(move.choices for move in problem.moves)):
            if problem.cost(chosen) < IMPOSSIBLE:
                _, casts = problem.bytes_and_casts(chosen)
                saves = casts < problem.casts_before and problem.cost(chosen) < problem.before
                assert problem.saves(chosen) == saves
                saving += saves
    assert saving > 10


def test_two_sides_are_two_types() -> None:
    for problem in regions():
        sides = cut.two_sides(problem)
        types = {choice.dtype for move in problem.moves for choice in move.choices}
        assert sides is None or len(types) == 2
