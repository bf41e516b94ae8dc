"""place-casts against brute force: every region of few moves ends at the least cost, and no bit changes."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith import optimize
from castsmith.ir.inference.intervals import Ranges
from castsmith.ir.inference.walk import infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.walks import holders, imports_by_scope
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.place.choices import Choice
from castsmith.passes.place.cut import minimum_cut, two_sides
from castsmith.passes.place.eliminate import eliminate
from castsmith.passes.place.problem import IMPOSSIBLE, Problem
from castsmith.passes.place.regions import find_regions, pose
from castsmith.passes.place.run import PlaceCasts
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.place.solve import improve, search, solve
from castsmith.passes.shapes import Shapes
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for
from tests.passes.place.place_regions import PAIRS, random_model
from tests.sampling import sampled

_ENUMERATED = 20_000
SEEDS = sampled("random regions", range(30 * len(PAIRS)), 24, cover=lambda seed: [seed % len(PAIRS)])
SMALL_SEEDS = sampled("small random regions", range(30 * len(PAIRS)), 24, cover=lambda seed: [seed % len(PAIRS)])


def problems(model: onnx_ir.Model) -> list[Problem]:
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    imports = imports_by_scope(model)
    sizes = Sizes(Shapes(model, inference, imports, holders(model)), 64, {})
    ranges = Ranges(inference)
    found = [
        pose(region, inference, imports[graph], sizes, ranges, {}, namer=Namer(model))
        for graph in (model.graph, *model.graph.subgraphs())
        for region in find_regions(graph, inference, imports[graph], ranges)
    ]
    return [problem for problem in found if isinstance(problem, Problem)]


def small_problems(most_moves: int) -> list[Problem]:
    found = [problem for seed in SMALL_SEEDS for problem in problems(random_model(seed, most_moves))]
    found = [problem for problem in found if problem.cost(problem.kept) < IMPOSSIBLE]
    return [p for p in found if prod(len(move.choices) for move in p.moves) <= _ENUMERATED]


def least(problem: Problem) -> float:
    """The least cost of all choices there are. What a root costs is looked up by the choices of the moves at it."""
    near = [sorted({each.move for each in (root, *root.demands) if each.move is not None}) for root in problem.roots]
    known: list[dict[tuple[Choice, ...], float]] = [{} for _ in near]
    best = IMPOSSIBLE
    for chosen in product(*(move.choices for move in problem.moves)):
        cost = problem.cost_of_moves(chosen)
        for number, (moves, costs) in enumerate(zip(near, known, strict=True)):
            if cost >= best:
                break
            key = tuple(chosen[move] for move in moves)
            if key not in costs:
                costs[key] = problem.cost_of_root(number, chosen)
            cost += costs[key]
        best = min(best, cost)
    return best


def test_every_small_region_ends_at_the_least_cost() -> None:
    cut = searched = 0
    for problem in small_problems(12):
        chosen, proven = solve(problem)
        assert proven
        assert problem.cost(chosen) == least(problem)
        sides = two_sides(problem)
        cut += sides is not None and minimum_cut(problem, sides) is not None
        searched += sides is None
    assert cut > len(SMALL_SEEDS) / 8
    assert searched > len(SMALL_SEEDS) / 8


def test_every_way_to_the_least_cost_agrees() -> None:
    """Cut, elimination and branch and bound, where they go."""
    for problem in small_problems(9):
        chosen, proven = search(problem, problem.kept)
        assert proven
        eliminated = eliminate(problem)
        assert eliminated is not None
        assert problem.cost(chosen) == problem.cost(solve(problem)[0]) == problem.cost(eliminated)


def test_large_regions_window_by_window() -> None:
    """If elimination works too, the windows come close to it; otherwise they improve on the present choice."""
    near = least_found = 0.0
    for problem in (p for seed in range(0, 60, 3) for p in problems(random_model(seed, 80))):
        if problem.cost(problem.kept) == IMPOSSIBLE:
            continue
        chosen, best = improve(problem, problem.kept), eliminate(problem)
        assert problem.cost(chosen) <= problem.cost(problem.kept)
        if best is not None:
            assert problem.cost(best) <= problem.cost(chosen)
            near, least_found = near + problem.cost(chosen), least_found + problem.cost(best)
    assert 0 < near < 1.05 * least_found


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_and_cost_of_random_regions(seed: int) -> None:
    before, after = random_model(seed, 12), random_model(seed, 12)
    result = PlaceCasts()(after)
    onnx.checker.check_model(onnx_ir.to_proto(after), full_check=True)
    feeds = inputs_for(before, seed)
    for old, new in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
        assert old.dtype == new.dtype
        np.testing.assert_array_equal(
            np.ascontiguousarray(old).view(np.uint8), np.ascontiguousarray(new).view(np.uint8)
        )
    if result.modified:
        assert sum(p.before for p in problems(after)) < sum(p.before for p in problems(before))
    assert not PlaceCasts()(after).modified


def test_a_cast_is_not_moved_back_and_forth_across_a_reshape_of_unknown_size() -> None:
    """Outputs of an If may have no shape, and a flattened lowering has length `?`: both keep their element count."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (bool first, float[2] x) => (float[2] y) {
            c = Cast <to = 17> (x)
            chosen = If (first) <
                then_branch = yes () => (float8e4m3fn[2] p) { p = Identity (w) },
                else_branch = no () => (float8e4m3fn[2] q) { q = Identity (c) }
            >
            y = Cast <to = 1> (chosen)
        }"""
    )
    model.graph.initializer.append(onnx.helper.make_tensor("w", 17, [2], bytes([0x3C, 0xFE]), raw=True))
    rules = [rewrite.rule for rewrite in optimize(model, target="onnxruntime-android").rewrites]
    assert "place-casts" not in rules


@pytest.mark.parametrize(
    ("source", "to"), [("int16", "uint64"), ("int8", "uint8"), ("int32", "uint32"), ("int64", "int8")]
)
@pytest.mark.parametrize("body", ["y = Sign (k)", "t = Transpose (k) y = Sign (t)", "y = Max (k, l)", "y = Min (k, l)"])
def test_no_order_is_asked_ahead_of_a_cast_that_wraps(source: str, to: str, body: str) -> None:
    """Sign of -1 that becomes the largest unsigned number is 1, and not that of -1."""
    code = int(onnx_ir.DataType[to.upper()])
    casts = f"k = Cast <to = {code}> (x) l = Cast <to = {code}> (z)"
    text = f"g ({source}[64,64] x, {source}[64,64] z) => ({to}[64,64] y) {{ {casts} {body} }}"
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    moved = [node.op_type for node in optimize(model).model.graph]
    assert moved[-1] in ("Sign", "Max", "Min")
