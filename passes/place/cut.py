"""Regions of two types as minimum s-t cuts.

A node on the source's side moves the first type, one on the sink's side the second; a cut edge is a required cast,
or the bytes that a node moves. A cast that serves several users is paid once: a vertex represents its result,
and all users are connected to that vertex by edges that no minimum cut can cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ir import DataType

from castsmith.numerics.embedding import embeds
from castsmith.passes.min_cut import source_side
from castsmith.passes.place.chains import type_of
from castsmith.passes.place.choices import Choice, Mode
from castsmith.passes.place.problem import IMPOSSIBLE, Demand, MovingNode, Problem, Root

Sides = Sequence[tuple[Choice | None, Choice | None]]
"""For each move its choice on the source's side and on the sink's side; None if it has no choice there."""

Vertex = tuple[str, int]
_SOURCE: Vertex = ("source", 0)
_SINK: Vertex = ("sink", 0)


def two_sides(problem: Problem) -> Sides | None:
    """Return the two choices of each node; None if the region has more types, or several choices in one type.

    With casts one way, a to b: former b values can stay a if the cast rounds, or be cast back if it does not; former a
    values can be cast earlier. With casts both ways: no rounding remains between two types, so all values round-trip.
    """
    types = problem.casting.types()
    steps = {step for root in problem.roots for demand in root.demands for step in _steps(root, demand)}
    if len(types) != 2 or (len(steps) > 1 and _rounds(problem)):
        return None
    sides: list[tuple[Choice | None, Choice | None]] = []
    for move in problem.moves:
        waits = len(steps) == 1 and any(to == move.dtype and not embeds(a, to) for a, to in steps)
        first, second = (_way(move, dtype, Mode.BEFORE if waits else Mode.AFTER) for dtype in types)
        sides.append((first, second))
    return sides


def minimum_cut(problem: Problem, sides: Sides) -> Sequence[Choice] | None:
    """Return the cheapest choice; None if a root cannot serve a user of its own type, which no cut expresses."""
    network = _Network(problem, sides)
    for number, pair in enumerate(sides):
        costs = [IMPOSSIBLE if choice is None else problem.cost_of_move(number, choice) for choice in pair]
        network.add(("move", number), _SINK, costs[0])
        network.add(_SOURCE, ("move", number), costs[1])
    for number in range(len(problem.roots)):
        if not network.add_root(number):
            return None
    below = network.source_side()
    chosen = [pair[0] if ("move", number) in below else pair[1] for number, pair in enumerate(sides)]
    result = [choice for choice in chosen if choice is not None]
    return result if len(result) == len(chosen) and problem.cost(result) < IMPOSSIBLE else None


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
                longer = problem.casting.extend(chain, dtype)
                if longer is None or (len(longer) > 1 and not embeds(type_of(longer[:-1]), dtype)):
                    return True
                chain = longer
    return False


class _Network:
    """The flow network of a region."""

    def __init__(self, problem: Problem, sides: Sides) -> None:
        self.problem = problem
        self.sides = sides
        self.capacities: dict[tuple[Vertex, Vertex], float] = {}

    def add(self, tail: Vertex, head: Vertex, capacity: float) -> None:
        """Pay `capacity` if the tail is on the source's side and the head on the sink's."""
        if tail != head and capacity and (tail, head) != (_SINK, _SOURCE):
            self.capacities[tail, head] = self.capacities.get((tail, head), 0) + capacity

    def add_root(self, number: int) -> bool:
        """Add the casts of one root; False if a user of the root's type cannot be served by the root itself."""
        root = self.problem.roots[number]
        made_first, made_second = ("first", number), ("second", number)
        for demand in root.demands:
            for own, own_vertex in self._ends(root.move, type_of(root.history)):
                for other, other_vertex in self._ends(demand.move, demand.value_type(root)):
                    cost = self.problem.cost_of_serving(number, own[1], demand, other[1])
                    if own[0] == other[0]:
                        if cost and not self._forbid(own_vertex, other_vertex, own[0]):
                            return False
                    elif cost == IMPOSSIBLE:
                        tail, head = (own_vertex, other_vertex) if own[0] == 0 else (other_vertex, own_vertex)
                        self.add(tail, head, IMPOSSIBLE)
                    elif own[0] == 0:
                        self.capacities[own_vertex, made_second] = cost
                        self.add(made_second, other_vertex, IMPOSSIBLE)
                    else:
                        self.capacities[made_first, own_vertex] = cost
                        self.add(other_vertex, made_first, IMPOSSIBLE)
        return True

    def _ends(self, move: int | None, dtype: DataType) -> Iterator[tuple[tuple[int, Choice | None], Vertex]]:
        """Return the possible sides of a root or a user, with its choice there, and its vertex."""
        if move is None:
            side = self.problem.casting.types().index(dtype)
            yield (side, None), (_SOURCE, _SINK)[side]
            return
        for side, choice in enumerate(self.sides[move]):
            if choice is not None:
                yield (side, choice), ("move", move)

    def _forbid(self, own: Vertex, other: Vertex, side: int) -> bool:
        """Keep two vertices from being both on one side, if a cut can express it: if one of them is fixed."""
        for fixed, free in ((own, other), (other, own)):
            if fixed in (_SOURCE, _SINK):
                tail, head = (free, _SINK) if side == 0 else (_SOURCE, free)
                self.add(tail, head, IMPOSSIBLE)
                return True
        return False

    def source_side(self) -> set[Vertex]:
        return source_side(self.capacities, _SOURCE, _SINK)
