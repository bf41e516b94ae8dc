"""The cheapest choice for a region.

Two types, and one way to move each: a minimum cut (`castsmith.passes.place_casts_cut`). Beyond that by eliminating one
variable after another (`castsmith.passes.place_casts_eliminate`). Regions too tangled for that: branch and bound where
they are small, and for large ones the best that solving them window by window leads to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castsmith.passes.place_casts_cut import minimum_cut, two_sides
from castsmith.passes.place_casts_eliminate import eliminate
from castsmith.passes.place_casts_plans import Choice, Mode, choice_of
from castsmith.passes.place_casts_problem import Problem
from castsmith.passes.place_casts_windows import improve

_STEPS = 10_000
"""Partial choices that branch and bound looks at before it gives up on a region of more than a few moves."""

_FEW = 12

_SEARCHED_MOVES = 64


def solve(problem: Problem) -> tuple[Sequence[Choice], bool]:
    """A choice of least cost, and whether it is known that there is no better one."""
    sides = two_sides(problem)
    chosen = None if sides is None else minimum_cut(problem, sides)
    if chosen is not None:
        return chosen, True
    chosen = eliminate(problem)
    if chosen is not None:
        return chosen, True
    best = improve(problem, min(_starts(problem), key=problem.cost))
    return search(problem, best)


def search(problem: Problem, best: Sequence[Choice]) -> tuple[Sequence[Choice], bool]:
    """The best of all choices by branch and bound, starting from a good one; the best found when it takes too long."""
    moves = len(problem.moves)
    if moves > _SEARCHED_MOVES:
        return best, False
    ready = _roots_by_last_move(problem)
    rest = _cheapest_rest(problem)
    lowest, left = problem.cost(best), _STEPS
    stack: list[tuple[tuple[Choice, ...], float]] = [((), sum(problem.cost_of_root(n, ()) for n in ready[-1]))]
    while stack:
        chosen, cost = stack.pop()
        depth = len(chosen)
        if cost + rest[depth] >= lowest:
            continue
        if depth == len(problem.moves):
            best, lowest = chosen, cost
            continue
        left -= 1
        if not left and moves > _FEW:
            return best, False
        for choice in reversed(problem.moves[depth].choices):
            longer = (*chosen, choice)
            more = problem.cost_of_move(depth, choice) + sum(problem.cost_of_root(n, longer) for n in ready[depth])
            stack.append((longer, cost + more))
    return best, True


def _starts(problem: Problem) -> Iterator[Sequence[Choice]]:
    """The region as it is, and all of it in one type."""
    yield problem.kept
    for dtype in problem.casting.types():
        for mode in (Mode.AFTER, Mode.BEFORE):
            wanted = choice_of(dtype, mode)
            yield [
                wanted if wanted in move.choices else kept
                for move, kept in zip(problem.moves, problem.kept, strict=True)
            ]


def _moves_of_root(problem: Problem, number: int) -> set[int]:
    root = problem.roots[number]
    return {move for move in (root.move, *(demand.move for demand in root.demands)) if move is not None}


def _roots_by_last_move(problem: Problem) -> dict[int, list[int]]:
    """The roots whose cost is known once the moves up to that number have been chosen for."""
    ready: dict[int, list[int]] = {number: [] for number in range(-1, len(problem.moves))}
    for number in range(len(problem.roots)):
        ready[max(_moves_of_root(problem, number), default=-1)].append(number)
    return ready


def _cheapest_rest(problem: Problem) -> list[float]:
    """For each depth, the least that the moves from there on can cost."""
    rest = [0.0]
    for number in reversed(range(len(problem.moves))):
        rest.append(rest[-1] + min(problem.cost_of_move(number, choice) for choice in problem.moves[number].choices))
    return rest[::-1]
