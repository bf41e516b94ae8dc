"""Regions too tangled to be solved at once: window by window, each at its least cost while the rest stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from castsmith.passes.place_casts_eliminate import Factor, factors_of, minimize
from castsmith.passes.place_casts_plans import Choice
from castsmith.passes.place_casts_problem import Problem

_WINDOW = 24
"""Moves, next to each other in the order of the graph, that are chosen for together."""

_ROUNDS = 3
_WORK = 100
"""How often each table may be looked at, taken together."""


def improve(problem: Problem, chosen: Sequence[Choice]) -> Sequence[Choice]:
    """A choice that costs no more than the one given."""
    factors = factors_of(problem)
    if factors is None:
        return chosen
    touching: dict[int, list[Factor]] = {}
    for factor in factors:
        for variable in factor[0]:
            touching.setdefault(variable, []).append(factor)
    count = len(problem.moves)
    values = [move.choices.index(choice) for move, choice in zip(problem.moves, chosen, strict=True)]
    left = _WORK * len(factors)
    for _ in range(_ROUNDS):
        before = list(values)
        for first in range(0, count, _WINDOW // 2):
            left -= _solve_window(range(first, min(first + _WINDOW, count)), count, touching, values)
            if left < 0:
                break
        if values == before:
            break
    result = [move.choices[value] for move, value in zip(problem.moves, values, strict=True)]
    return result if problem.cost(result) < problem.cost(chosen) else chosen


def _solve_window(window: range, moves: int, touching: dict[int, list[Factor]], values: list[int]) -> int:
    """Choose anew for the moves of the window; the roots that they touch are free, all other moves stay.

    Returns how many tables that took: a root that very many use is in very many windows.
    """
    near = {variable for move in window for scope, _ in touching.get(move, ()) for variable in scope}
    roots = sorted(variable for variable in near if variable >= moves)
    held = {id(factor): factor for variable in chain(window, roots) for factor in touching.get(variable, ())}
    found = minimize([_with_others_fixed(factor, window, moves, values) for factor in held.values()])
    for move in window if found is not None else ():
        assert found is not None
        values[move] = found.get(move, 0)
    return len(held)


def _with_others_fixed(factor: Factor, window: range, moves: int, values: Sequence[int]) -> Factor:
    scope, table = factor
    free = [variable in window or variable >= moves for variable in scope]
    index = tuple(slice(None) if is_free else values[variable] for variable, is_free in zip(scope, free, strict=True))
    return tuple(_only(scope, free)), table[index]


def _only(scope: Iterable[int], free: Iterable[bool]) -> Iterable[int]:
    return (variable for variable, is_free in zip(scope, free, strict=True) if is_free)
