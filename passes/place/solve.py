"""The cheapest choice for a region.

Two types, and one way to move each: a minimum cut (`castsmith.passes.place.cut`). Otherwise by eliminating one
variable after another (`castsmith.passes.place.eliminate`). If the region is too complex for that: branch and bound if
it is small, and for large ones the best result of solving it window by window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from castsmith.passes.place.choices import Choice, Mode, choice_of
from castsmith.passes.place.cut import minimum_cut, two_sides
from castsmith.passes.place.eliminate import Factor, eliminate, factors_of, minimize
from castsmith.passes.place.problem import Problem

# Complex regions are solved window by window, each at its least cost while the rest is unchanged.

_WINDOW = 24
"""Number of moves, adjacent in the order of the graph, that are decided together."""

_ROUNDS = 3
_WORK = 100
"""Largest number of table look-ups in total."""


def improve(problem: Problem, chosen: Sequence[Choice]) -> Sequence[Choice]:
    """Return a choice that costs no more than the one given."""
    factors = factors_of(problem)
    if factors is None:
        return chosen
    touching: dict[int, list[int]] = {}
    for number, (scope, _) in enumerate(factors):
        for variable in scope:
            touching.setdefault(variable, []).append(number)
    count = len(problem.moves)
    values = [move.choices.index(choice) for move, choice in zip(problem.moves, chosen, strict=True)]
    left = _WORK * len(factors)
    for _ in range(_ROUNDS):
        before = list(values)
        for first in range(0, count, _WINDOW // 2):
            left -= _solve_window(range(first, min(first + _WINDOW, count)), count, factors, touching, values)
            if left < 0:
                break
        if values == before:
            break
    result = [move.choices[value] for move, value in zip(problem.moves, values, strict=True)]
    return result if problem.cost(result) < problem.cost(chosen) else chosen


def _solve_window(
    window: range, moves: int, factors: Sequence[Factor], touching: Mapping[int, Sequence[int]], values: list[int]
) -> int:
    """Decide again for the moves of the window; the roots that they touch are free, all other moves stay.

    Returns the number of tables: a root with very many users is in very many windows.
    """
    near = {variable for move in window for number in touching.get(move, ()) for variable in factors[number][0]}
    roots = sorted(variable for variable in near if variable >= moves)
    held = dict.fromkeys(number for variable in chain(window, roots) for number in touching.get(variable, ()))
    found = minimize([_with_others_fixed(factors[number], window, moves, values) for number in held])
    if found is not None:
        for move in window:
            values[move] = found.get(move, 0)
    return len(held)


def _with_others_fixed(factor: Factor, window: range, moves: int, values: Sequence[int]) -> Factor:
    scope, table = factor
    free = [variable in window or variable >= moves for variable in scope]
    index = tuple(slice(None) if is_free else values[variable] for variable, is_free in zip(scope, free, strict=True))
    return tuple(_only(scope, free)), table[index]


def _only(scope: Iterable[int], free: Iterable[bool]) -> Iterable[int]:
    return (variable for variable, is_free in zip(scope, free, strict=True) if is_free)


_STEPS = 10_000
"""Partial choices that branch and bound examines before it stops, for a region of more than a few moves."""

_FEW = 12

_SEARCHED_MOVES = 64


def solve(problem: Problem) -> tuple[Sequence[Choice], bool]:
    """Return a choice of least cost, and True if it is known to be optimal."""
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
    """Return the best choice by branch and bound, from a good initial one; the best found if it takes too long."""
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
    """Return the present choice, and those with all moves in one type."""
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
    """Return the roots whose cost is known once the moves up to that number are decided."""
    ready: dict[int, list[int]] = {number: [] for number in range(-1, len(problem.moves))}
    for number in range(len(problem.roots)):
        ready[max(_moves_of_root(problem, number), default=-1)].append(number)
    return ready


def _cheapest_rest(problem: Problem) -> list[float]:
    """Return, for each depth, a lower bound of the cost of the remaining moves."""
    rest = [0.0]
    for number in reversed(range(len(problem.moves))):
        rest.append(rest[-1] + min(problem.cost_of_move(number, choice) for choice in problem.moves[number].choices))
    return rest[::-1]
