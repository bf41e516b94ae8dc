"""The ways to solve a region that is too complex for a cut and for elimination, and the costs that they compare."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.passes.place import cut, eliminate, solve
from castsmith.passes.place.choices import Mode, choice_of
from castsmith.passes.place.problem import IMPOSSIBLE, LAUNCH_BYTES, Problem
from tests.passes.place.place_regions import random_model
from tests.passes.place.test_place_casts import least, problems

TIME, CAST, CHANGE = 1 << 24, 1 << 12, 1


@cache
def regions() -> list[Problem]:
    """Small regions of several moves, among them some of three types."""
    found = [problem for seed in range(24) for problem in problems(random_model(seed, 9))]
    found = [each for each in found if len(each.moves) > 1 and each.cost(each.kept) < IMPOSSIBLE]
    return [each for each in found if 1 < prod(len(move.choices) for move in each.moves) < 1000]


@cache
def cheapest(number: int) -> float:
    return least(regions()[number])


def fresh(problem: Problem) -> Problem:
    return Problem(problem.moves, problem.roots, problem.casting, problem.bytes_before, problem.casts_before)


def test_what_is_searched_when_elimination_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "two_sides", lambda _problem: None)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(solve, "eliminate", lambda _problem: None)  # pyright: ignore[reportUnknownLambdaType]
    for number, problem in enumerate(regions()):
        chosen, proven = solve.solve(fresh(problem))
        assert proven
        assert problem.cost(chosen) == cheapest(number)


def test_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    better = 0
    for problem in regions():
        monkeypatch.setattr(solve, "_SEARCHED_MOVES", len(problem.moves))
        chosen, proven = solve.search(fresh(problem), problem.kept)
        assert proven
        better += problem.cost(chosen) < problem.cost(problem.kept)
        monkeypatch.setattr(solve, "_SEARCHED_MOVES", len(problem.moves) - 1)
        assert solve.search(fresh(problem), problem.kept) == (problem.kept, False)
    assert better > 3
    monkeypatch.setattr(solve, "_SEARCHED_MOVES", 64)
    monkeypatch.setattr(solve, "_STEPS", 1)
    ended = 0
    for problem in regions():
        monkeypatch.setattr(solve, "_FEW", len(problem.moves))
        assert solve.search(fresh(problem), problem.kept)[1]
        monkeypatch.setattr(solve, "_FEW", len(problem.moves) - 1)
        chosen, proven = solve.search(fresh(problem), problem.kept)
        assert problem.cost(chosen) <= problem.cost(problem.kept)
        ended += not proven
    assert ended > 3


def test_large_tables_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = 0
    for problem in regions():
        factors = eliminate.factors_of(fresh(problem))
        assert factors is not None
        whole = eliminate.minimize(factors)
        assert whole is not None
        monkeypatch.setattr(eliminate, "_LARGEST", 1)
        assert eliminate.minimize(factors) is None
        monkeypatch.undo()
        monkeypatch.setattr(eliminate, "_MOST_USEFUL", 0)
        problem.casting.plans.clear()
        given_up += eliminate.factors_of(fresh(problem)) is None
        assert solve.improve(fresh(problem), problem.kept) is problem.kept or eliminate.factors_of(problem) is not None
        monkeypatch.undo()
        problem.casting.plans.clear()
    assert given_up > 3


def test_windows_of_one_move_improve_on_the_present_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "_WINDOW", 2)
    for number, problem in enumerate(regions()):
        chosen = solve.improve(fresh(problem), problem.kept)
        assert cheapest(number) <= problem.cost(chosen) <= problem.cost(problem.kept)


def test_no_choice_is_possible() -> None:
    problem = next(each for each in regions() if any(root.demands for root in each.roots))
    factors = eliminate.factors_of(fresh(problem))
    assert factors is not None
    scope, table = factors[-1]
    assert eliminate.minimize([*factors[:-1], (scope, table + float("inf"))]) is None


def test_costs() -> None:
    """The time in bytes first, then casts, then changes; of the fewest casts, casts first."""
    for problem in regions():
        moved = sum(move.elements * move.dtype.itemsize for move in problem.moves)
        assert problem.cost_of_moves(problem.kept) == TIME * moved
        total, casts = problem.bytes_and_casts(problem.kept)
        assert problem.cost(problem.kept) == TIME * (total + LAUNCH_BYTES * casts) + CAST * casts
        if (total, casts) == (problem.bytes_before, problem.casts_before):
            assert problem.cost(problem.kept) == problem.before
        for number, move in enumerate(problem.moves):
            for choice in move.choices:
                change = 0 if choice.mode is Mode.KEEP else CHANGE
                expected = TIME * move.elements * choice.dtype.itemsize + change
                assert problem.cost_of_move(number, choice) == expected
        fewest = problem.of_fewest_casts()
        assert fewest.cost(problem.kept) == TIME * (total + (1 << 40) * casts) + CAST * casts
        assert problem.launch == LAUNCH_BYTES
        for chosen in product(*(move.choices for move in problem.moves)):
            apart = Problem(problem.moves, problem.roots, problem.casting, launch=1 << 40)
            assert problem.cost(chosen) <= IMPOSSIBLE  # the plans of this cost are not those of the other
            assert fewest.cost(chosen) == apart.cost(chosen)
        best = [fewest.bytes_and_casts(chosen)[1] for chosen in (solve.solve(fewest)[0], problem.kept)]
        assert best[0] <= best[1]


def test_two_sides_are_two_types() -> None:
    for number, problem in enumerate(regions()):
        sides = cut.two_sides(fresh(problem))
        types = {choice.dtype for move in problem.moves for choice in move.choices}
        if sides is None:
            continue
        assert len(types) == 2
        chosen = cut.minimum_cut(fresh(problem), sides)
        assert chosen is None or problem.cost(chosen) == cheapest(number)


def test_a_fixed_value_keeps_its_users_from_a_side() -> None:
    """Max may not precede a cast that wraps; after it, its operands in the wide type would need two casts."""
    for wide, narrow in (("INT64", "UINT32"), ("INT32", "INT8")):  # the wide type is the first, then the second
        to = DataType[narrow].value
        ports = f"({wide.lower()}[64,64] x, {wide.lower()}[64,64] z) => ({narrow.lower()}[64,64] y)"
        nodes = f"a = Cast <to = {to}> (x) b = Cast <to = {to}> (z) m = Max (a, b) y = Transpose (m)"
        for more, possible in (("", True), ("w = Transpose (x) ", False)):  # no value is fixed that is moved before
            text = f"g {ports} {{ {more}{nodes.replace('(x)', '(w)') if more else nodes} }}"
            (problem,) = problems(onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21]> {text}'))
            sides = cut.two_sides(fresh(problem))
            assert sides is not None
            chosen = cut.minimum_cut(fresh(problem), sides)
            assert (chosen is not None) == possible
            assert chosen is None or problem.cost(chosen) == least(problem) < IMPOSSIBLE


def test_choices_are_made_once() -> None:
    assert choice_of(DataType.FLOAT, Mode.KEEP) is choice_of(DataType.FLOAT, Mode.KEEP)
    assert choice_of(DataType.FLOAT, Mode.KEEP) is not choice_of(DataType.FLOAT, Mode.AFTER)
