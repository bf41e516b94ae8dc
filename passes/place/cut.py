"""Regions of two types as minimum cuts.

A node is a variable: yes if it moves the first type, no if the second. Two that differ cost a cast, and each the bytes
that it moves. A cast that serves several users is paid once: its result is a variable too, tied to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ir import DataType

from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import present
from castsmith.passes.core.min_cut import NO, YES, Costs, solve
from castsmith.passes.place.chains import type_of
from castsmith.passes.place.choices import Choice, Mode
from castsmith.passes.place.problem import IMPOSSIBLE, Demand, MovingNode, Problem, Root

Sides = Sequence[tuple[Choice | None, Choice | None]]
"""For each move its choice in the first type and in the second; None if it has no choice there."""


def two_sides(problem: Problem) -> Sides | None:
    """Return the two choices of each node; None if it has several in one type.

    With casts one way, a to b: former b values can stay a if the cast rounds, or be cast back if it does not; former a
    values can be cast earlier. With casts both ways: no rounding remains between two types, so all values round-trip.
    """
    types = problem.casting.types()
    steps = {step for root in problem.roots for demand in root.demands for step in _steps(root, demand)}
    if len(steps) > 1 and _rounds(problem):
        return None
    sides: list[tuple[Choice | None, Choice | None]] = []
    for move in problem.moves:
        waits = len(steps) == 1 and any(to == move.dtype for _, to in steps)
        first, second = (_way(move, dtype, Mode.BEFORE if waits else Mode.AFTER) for dtype in types)
        sides.append((first, second))
    return sides


def minimum_cut(problem: Problem, sides: Sides) -> Sequence[Choice]:
    """Return the cheapest choice that a cut expresses."""
    network = _Network(problem, sides)
    for number, (first, second) in enumerate(sides):
        variable = network.moves[number]
        network.costs.pay(variable, NO, IMPOSSIBLE if first is None else problem.cost_of_move(number, first))
        network.costs.pay(YES, variable, IMPOSSIBLE if second is None else problem.cost_of_move(number, second))
    for number in range(len(problem.roots)):
        network.add_root(number)
    answers = solve(network.costs)
    chosen = [pair[not answers[variable]] for pair, variable in zip(sides, network.moves, strict=True)]
    return [present(choice, "the choice of a side") for choice in chosen]


def _way(move: MovingNode, dtype: DataType, preferred: Mode) -> Choice | None:
    """Return the choice in which the node moves the type; the preferred one if there are two."""
    ways = [choice for choice in move.choices if choice.dtype == dtype]
    return min(ways, key=lambda choice: choice.mode is not preferred, default=None)


def _steps(root: Root, demand: Demand) -> Iterator[tuple[DataType, DataType]]:
    pairs = zip((type_of(root.history), *demand.path), demand.path, strict=False)
    return ((a, to) for a, to in pairs if a != to)


def _rounds(problem: Problem) -> bool:
    """True if some cast of the region rounds a value to a type that does not hold it."""
    for root in problem.roots:
        for demand in root.demands:
            chain = root.history
            for dtype in demand.path:
                chain = present(problem.casting.extend(chain, dtype), "the chain of a value of the region")
                if len(chain) > 1 and not embeds(type_of(chain[:-1]), dtype):
                    return True
    return False


class _Network:
    """The variables of a region, and their costs."""

    def __init__(self, problem: Problem, sides: Sides) -> None:
        self.problem = problem
        self.sides = sides
        self.costs = Costs()
        self.moves = [self.costs.variable() for _ in sides]

    def add_root(self, number: int) -> None:
        """Add the casts of one root. A user of the root's type needs none."""
        root, costs = self.problem.roots[number], self.costs
        made_first, made_second = costs.variable(), costs.variable()
        for demand in root.demands:
            for own, own_variable in self._ends(root.move, type_of(root.history)):
                for other, other_variable in self._ends(demand.move, demand.value_type(root)):
                    if own[0] == other[0]:
                        continue
                    cost = self.problem.cost_of_serving(number, own[1], demand, other[1])
                    if cost == IMPOSSIBLE:
                        yes, no = (other_variable, own_variable) if own[0] else (own_variable, other_variable)
                        costs.pay(yes, no, IMPOSSIBLE)
                    elif own[0]:
                        costs.pays[made_first, own_variable] = cost
                        costs.pay(other_variable, made_first, IMPOSSIBLE)
                    else:
                        costs.pays[own_variable, made_second] = cost
                        costs.pay(made_second, other_variable, IMPOSSIBLE)

    def _ends(self, move: int | None, dtype: DataType) -> Iterator[tuple[tuple[int, Choice | None], int]]:
        """Return the possible types of a root or a user, the first as 0, with its choice there; and its variable."""
        if move is None:
            side = self.problem.casting.types().index(dtype)
            yield (side, None), (YES, NO)[side]
            return
        for side, choice in enumerate(self.sides[move]):
            if choice is not None:
                yield (side, choice), self.moves[move]
