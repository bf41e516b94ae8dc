"""The least cost of a region of any number of types, by eliminating one variable after another.

The variables are the moves, with their choices as values, and the roots, with the sets of casts that may be made of
them. The cost of a root is a table over its move and itself, and whether it serves another move is one over the
two: initially no table has more than two variables. A variable is eliminated by adding the tables that contain it
and keeping the least for each assignment of its neighbours. Regions resemble trees with a few shortcuts, so that the
tables stay small; if one would become too large, there is no result.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from castsmith.passes.place.choices import Choice, Wish, offer, useful_count
from castsmith.passes.place.problem import Problem

_LARGEST = 1 << 18
"""Largest number of elements of a table."""

_MOST_USEFUL = 8
"""Largest number of chains of one root of which all sets are enumerated."""

_Table = NDArray[np.float64]
Factor = tuple[tuple[int, ...], _Table]
"""A table, and the variables of its axes."""


def eliminate(problem: Problem) -> Sequence[Choice] | None:
    """Return a choice of least cost; None if the tables would become too large, or no choice is possible."""
    factors = factors_of(problem)
    chosen = None if factors is None else minimize(factors)
    if chosen is None:
        return None
    return [move.choices[chosen.get(number, 0)] for number, move in enumerate(problem.moves)]


def factors_of(problem: Problem) -> list[Factor] | None:
    """Return the tables; variables from 0 on are moves, then roots. None if a root has too many sets of casts."""
    factors: list[Factor] = []
    for number, move in enumerate(problem.moves):
        costs = [problem.cost_of_move(number, choice) for choice in move.choices]
        factors.append(((number,), np.array(costs)))
    for number, root in enumerate(problem.roots):
        own = (None,) if root.move is None else problem.moves[root.move].choices
        users = dict.fromkeys((demand.path, demand.move) for demand in root.demands)
        others = tuple((path, None if move is None else problem.moves[move].choices) for path, move in users)
        key = "tables", root.history, own, others
        if key not in problem.casting.plans:
            problem.casting.plans[key] = _tables(problem, number, own, others)
        found: Any = problem.casting.plans[key]
        if found is None:
            return None
        cost, served = found
        itself = len(problem.moves) + number
        priced = _priced(problem, number, cost)
        factors.append(((itself,), priced[0]) if root.move is None else ((root.move, itself), priced))
        factors += [
            ((itself,), table[0]) if move is None else ((move, itself), table)
            for (_, move), table in zip(users, served, strict=True)
        ]
    return factors


def _priced(problem: Problem, number: int, rows: list[tuple[int, float, int]]) -> _Table:
    """Return the cost of each set of casts, under each choice of the root."""
    move = problem.roots[number].move
    own = 1 if move is None else len(problem.moves[move].choices)
    cost = np.full((own, max(len(rows), 1)), np.inf)
    for column, (index, unit, casts) in enumerate(rows):
        cost[index, column] = problem.price_of_casts(number, unit, casts)
    return cost


_Row = tuple[int, float, int, list[bool]]
"""A set of casts: the choice of the root, bytes per element, the number of casts, and the demands it serves."""


def _tables(
    problem: Problem,
    number: int,
    own: Sequence[Choice | None],
    others: Sequence[tuple[Any, Sequence[Choice] | None]],
) -> tuple[list[tuple[int, float, int]], list[_Table]] | None:
    """Return the sets of casts with their choice, bytes per element and number of casts; and the demands each serves.

    A value of the root's variable is a set of casts together with the given chain, so that the demands it serves do not
    depend on its choice.
    """
    wishes: list[Wish] = [(path, choice) for path, choices in others for choice in choices or (None,)]
    rows: list[_Row] = []
    for index, choice in enumerate(own):
        history = problem.roots[number].history
        if useful_count(problem.casting, history, choice, tuple(wishes)) > _MOST_USEFUL:
            return None
        found = offer(problem.casting, history, choice, tuple(wishes))
        if found is None:
            continue
        for made, unit in found.sets:
            serves = [not accepted.isdisjoint(made) for accepted in found.wanted]
            rows.append((index, unit, len(made) - 1, serves))
    rows = _undominated(rows)
    serves = np.array([served for *_, served in rows], np.bool_).reshape(max(len(rows), 0), len(wishes))
    served: list[_Table] = []
    place = 0
    for _, choices in others:
        count = len(choices or (None,))
        table = np.where(serves[:, place : place + count].T, 0.0, np.inf)
        served.append(table if rows else np.full((count, 1), np.inf))
        place += count
    return [(index, unit, casts) for index, unit, casts, _ in rows], served


def _undominated(rows: list[_Row]) -> list[_Row]:
    """Return the sets without those that another set beats in bytes, casts and demands served."""
    kept: list[_Row] = []
    for row in sorted(rows, key=lambda row: (row[0], row[1], row[2], -sum(row[3]))):
        if not any(_beats(other, row) for other in kept):
            kept.append(row)
    return kept


def _beats(one: _Row, other: _Row) -> bool:
    cheaper = one[0] == other[0] and one[1] <= other[1] and one[2] <= other[2]
    return cheaper and all(theirs >= ours for theirs, ours in zip(one[3], other[3], strict=True))


def minimize(factors: list[Factor]) -> dict[int, int] | None:
    """Return the value of each variable at the minimum of the sum of all tables; None if a table is too large."""
    holding: dict[int, dict[int, Factor]] = {}
    for number, factor in enumerate(factors):
        for variable in factor[0]:
            holding.setdefault(variable, {})[number] = factor
    sizes = {variable: size for scope, table in factors for variable, size in zip(scope, table.shape, strict=True)}
    queue = [(_degree(holding[variable]), variable) for variable in sorted(holding)]
    heapq.heapify(queue)
    number, order = len(factors), list[tuple[int, tuple[int, ...], NDArray[np.intp]]]()
    while queue:
        degree, variable = heapq.heappop(queue)
        if variable not in holding:
            continue
        if degree != (now := _degree(holding[variable])):
            heapq.heappush(queue, (now, variable))
            continue
        mine = holding.pop(variable)
        scope = tuple(sorted({other for held, _ in mine.values() for other in held if other != variable}))
        if _size(sizes, (*scope, variable)) > _LARGEST:
            return None
        total = _sum((*scope, variable), mine.values())
        order.append((variable, scope, total.argmin(axis=-1)))
        for each, (held, _) in mine.items():
            for other in held:
                if other != variable:
                    del holding[other][each]
        if scope:
            rest = (scope, total.min(axis=-1))
            for other in scope:
                holding[other][number] = rest
            number += 1
        elif np.isinf(total.min()):
            return None
    values: dict[int, int] = {}
    for variable, scope, best in reversed(order):
        values[variable] = int(best[tuple(values[other] for other in scope)])
    return values


def _degree(held: dict[int, Factor]) -> int:
    return len({other for scope, _ in held.values() for other in scope}) - (1 if held else 0)


def _size(sizes: dict[int, int], scope: Sequence[int]) -> int:
    size = 1
    for variable in scope:
        size *= sizes[variable]
        if size > _LARGEST:
            break
    return size


def _sum(scope: tuple[int, ...], factors: Iterable[Factor]) -> _Table:
    """Return the sum of tables as one over `scope`."""
    total: Any = 0.0
    for held, table in factors:
        axes = sorted(range(len(held)), key=lambda axis: scope.index(held[axis]))
        shape = [1] * len(scope)
        for axis in axes:
            shape[scope.index(held[axis])] = table.shape[axis]
        total = total + table.transpose(axes).reshape(shape)
    return total
