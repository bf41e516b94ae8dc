"""Minimum cuts of flow networks: the largest side of the source.

Most vertices of a region have at most two neighbours: those are eliminated first, one after another, each leaving its
least cost to its neighbours as costs of their own. That solves chains, trees and ladders, in linear time; the rest of a
network is solved by Dinic's algorithm. All sums are exact.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

_Name = TypeVar("_Name", bound=Hashable)
_Cost = int | Fraction


def source_side(capacities: Mapping[tuple[_Name, _Name], float], source: _Name, sink: _Name) -> set[_Name]:
    """Return the vertices on the source's side of a minimum cut; of several such cuts, the one with most of them.

    Args:
        capacities: The cost of each edge if its tail is on the source's side and its head on the sink's. An infinite
            edge is cut only if every cut has one.
    """
    most = 1 + sum(_exact(capacity) for capacity in capacities.values() if capacity < float("inf"))
    network = _Network[_Name]()
    for (tail, head), capacity in capacities.items():
        cost = _exact(capacity) if capacity < most else most
        if tail in (source, sink):
            network.prefer(head, cost if tail == source else 0)
        elif head in (source, sink):
            network.prefer(tail, -cost if head == sink else 0)
        else:
            network.join(tail, head, cost)
    return {source, *network.solved()} - {sink}


def _exact(cost: float) -> _Cost:
    return int(cost) if cost == int(cost) else Fraction(cost)


@dataclass
class _Network(Generic[_Name]):
    """The vertices between source and sink.

    Attributes:
        gain: The cost of each vertex on the sink's side less that on the source's.
        pays: pays[a][b] is the cost if `a` is on the source's side and `b` is not; pays[b] has `a` then too.
    """

    gain: dict[_Name, _Cost] = field(default_factory=lambda: defaultdict[_Name, _Cost](int))
    pays: dict[_Name, dict[_Name, _Cost]] = field(default_factory=lambda: defaultdict[_Name, dict[_Name, _Cost]](dict))

    def prefer(self, vertex: _Name, gain: _Cost) -> None:
        """Pay `gain` if the vertex is on the sink's side; what is negative, if it is on the source's."""
        self.gain[vertex] += gain

    def join(self, tail: _Name, head: _Name, cost: _Cost) -> None:
        """Pay `cost` if the tail is on the source's side and the head is not."""
        if tail != head:
            self.pays[tail][head] = self.pays[tail].get(head, 0) + cost
            self.pays[head].setdefault(tail, 0)

    def solved(self) -> set[_Name]:
        """Return the source's side. The network is used up."""
        order, pays = dict.fromkeys([*self.gain, *self.pays]), self.pays
        waiting, gone = deque(order), list[tuple[_Name, dict[_Name, _Cost], dict[_Name, _Cost]]]()
        while waiting:
            vertex = waiting.popleft()
            if vertex not in order or len(pays[vertex]) > 2:
                continue
            del order[vertex]
            out = pays.pop(vertex)
            back = {other: pays[other].pop(vertex) for other in out}
            gone.append((vertex, out, back))
            self._leave_costs(self.gain[vertex], out, back)
            waiting += out
        chosen = self._core(order)
        for vertex, out, back in reversed(gone):
            kept = sum(cost for other, cost in back.items() if other in chosen)
            if sum(cost for other, cost in out.items() if other not in chosen) <= kept + self.gain[vertex]:
                chosen.add(vertex)
        return chosen

    def _leave_costs(self, gain: _Cost, out: Mapping[_Name, _Cost], back: Mapping[_Name, _Cost]) -> None:
        """Give the neighbours of an eliminated vertex its least cost for each of their sides."""
        names = list(out)

        def least(*sides: bool) -> _Cost:
            below = sum(out[name] for name, side in zip(names, sides, strict=True) if not side)
            return min(below, gain + sum(back[name] for name, side in zip(names, sides, strict=True) if side))

        if len(names) == 1:
            self.gain[names[0]] += least(False) - least(True)
        elif names:
            first, second = names
            both, one, other, neither = least(True, True), least(True, False), least(False, True), least(False, False)
            self.gain[first] += other - both
            self.gain[second] += neither - other
            if one + other > both + neither:  # never less: the cost of a cut is submodular
                self.join(first, second, one + other - both - neither)

    def _core(self, vertices: Mapping[_Name, None]) -> set[_Name]:
        """Return the source's side of the vertices that are left, by Dinic's algorithm."""
        if not vertices:
            return set()
        number = {name: index for index, name in enumerate(vertices, start=2)}
        flow = _Flow(len(number) + 2)
        for name, index in number.items():
            gain = self.gain[name]
            flow.add(*((_SOURCE, index, gain) if gain > 0 else (index, _SINK, -gain)), 0)
            for other, cost in self.pays[name].items():
                if number[other] > index:
                    flow.add(index, number[other], cost, self.pays[other][name])
        drained = flow.drained()
        return {name for name, index in number.items() if index not in drained}


_SOURCE, _SINK = 0, 1


class _Flow:
    """A flow network of numbered vertices; edge `e` and its reverse `e ^ 1` hold what can still flow along them."""

    def __init__(self, count: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(count)]
        self.heads: list[int] = []
        self.left: list[_Cost] = []

    def add(self, tail: int, head: int, there: _Cost, back: _Cost) -> None:
        """Add an edge with its capacity, and that of its reverse."""
        for start, end, capacity in ((tail, head, there), (head, tail, back)):
            self.edges[start].append(len(self.heads))
            self.heads.append(end)
            self.left.append(capacity)

    def drained(self) -> set[int]:
        """Return the vertices from which the sink can still be reached once the flow is as large as possible."""
        while True:
            distance = self._distances()
            if _SOURCE not in distance:
                return set(distance)
            tried = [0] * len(self.edges)
            while path := self._path(distance, tried):
                least = min(self.left[edge] for edge in path)
                for edge in path:
                    self.left[edge] -= least
                    self.left[edge ^ 1] += least

    def _distances(self) -> dict[int, int]:
        """Return the number of edges to the sink, for each vertex from which it can be reached."""
        found, waiting = {_SINK: 0}, deque([_SINK])
        while waiting:
            vertex = waiting.popleft()
            for edge in self.edges[vertex]:
                other = self.heads[edge]
                if other not in found and self.left[edge ^ 1]:
                    found[other] = found[vertex] + 1
                    waiting.append(other)
        return found

    def _path(self, distance: Mapping[int, int], tried: list[int]) -> list[int]:
        """Return the edges of a shortest path from the source to the sink; an empty list if it is out of reach."""
        path, vertex = list[int](), _SOURCE
        while vertex != _SINK:
            edge = next(self._onward(vertex, distance, tried), None)
            if edge is not None:
                path.append(edge)
                vertex = self.heads[edge]
            elif path:
                vertex = self.heads[path.pop() ^ 1]
                tried[vertex] += 1
            else:
                break
        return path

    def _onward(self, vertex: int, distance: Mapping[int, int], tried: list[int]) -> Iterator[int]:
        """Yield the next edge towards the sink that was not tried in vain."""
        edges = self.edges[vertex]
        while tried[vertex] < len(edges):
            edge = edges[tried[vertex]]
            if self.left[edge] and distance.get(self.heads[edge], -1) == distance[vertex] - 1:
                yield edge
                return
            tried[vertex] += 1
