"""The cheapest choice for a region.

Two types, and one way to move each: a minimum cut (`castsmith.passes.place_casts_cut`). Beyond that every choice, by
branch and bound; where that would take too long, the best that changes of single nodes lead to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castsmith.passes.place_casts_cut import minimum_cut, two_sides
from castsmith.passes.place_casts_problem import Choice, Mode, Problem

_STEPS = 10_000
"""Partial choices that branch and bound looks at before it gives up."""

_SEARCHED_MOVES = 64
_ROUNDS = 5


def solve(problem: Problem) -> tuple[Sequence[Choice], bool]:
    """A choice of least cost, and whether it is known that there is no better one."""
    sides = two_sides(problem)
    chosen = None if sides is None else minimum_cut(problem, sides)
    if chosen is not None:
        return chosen, True
    return search(problem, descend(problem, min(_starts(problem), key=problem.cost)))


def descend(problem: Problem, chosen: Sequence[Choice]) -> Sequence[Choice]:
    """Change single nodes as long as that lowers the cost, a few times over."""
    current, touching = list(chosen), _roots_of_moves(problem)
    for _ in range(_ROUNDS):
        before = list(current)
        for number, move in enumerate(problem.moves):
            costs: list[tuple[float, int]] = []
            for index, choice in enumerate(move.choices):
                current[number] = choice
                roots = sum(problem.cost_of_root(root, current) for root in touching[number])
                costs.append((problem.cost_of_move(number, choice) + roots, index))
            kept = move.choices.index(before[number])
            lowest = min(costs)
            current[number] = move.choices[lowest[1] if lowest[0] < costs[kept][0] else kept]
        if current == before:
            break
    return current


def search(problem: Problem, best: Sequence[Choice]) -> tuple[Sequence[Choice], bool]:
    """The best of all choices by branch and bound, starting from a good one; the best found when it takes too long."""
    if len(problem.moves) > _SEARCHED_MOVES:
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
        if not left:
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
            wanted = Choice(dtype, mode)
            yield [
                wanted if wanted in move.choices else kept
                for move, kept in zip(problem.moves, problem.kept, strict=True)
            ]


def _moves_of_root(problem: Problem, number: int) -> set[int]:
    root = problem.roots[number]
    return {move for move in (root.move, *(demand.move for demand in root.demands)) if move is not None}


def _roots_of_moves(problem: Problem) -> list[list[int]]:
    touching: list[list[int]] = [[] for _ in problem.moves]
    for number in range(len(problem.roots)):
        for move in _moves_of_root(problem, number):
            touching[move].append(number)
    return touching


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
