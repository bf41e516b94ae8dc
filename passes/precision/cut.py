"""The choice of a side for each variable at the least cost: a minimum cut, one for each connected component.

A variable is on the side of the precision (True) or of the present types (False). `Costs` holds the cost of each side
of a variable, and of each cut pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from castsmith.passes.min_cut import source_side

KEPT, CONVERTED = 0, 1
"""The variables whose side is fixed."""

INFINITE = float("inf")


@dataclass
class Costs:
    """Costs of sides and pairs; pays[a, b] is the cost if `a` is converted and `b` is not."""

    count: int = 2
    pays: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])

    def variable(self) -> int:
        """Add a variable."""
        self.count += 1
        return self.count - 1

    def pay(self, converted: int, kept: int, cost: float) -> None:
        """Pay `cost` if the first is converted and the second is not."""
        if converted != kept and cost and (converted, kept) != (KEPT, CONVERTED):
            self.pays[converted, kept] = self.pays.get((converted, kept), 0.0) + cost

    def fix(self, variable: int, *, converted: bool) -> None:
        """Fix the variable to a side."""
        self.pay(*((CONVERTED, variable) if converted else (variable, KEPT)), INFINITE)

    def join(self, one: int, other: int) -> None:
        """Put both on the same side."""
        self.pay(one, other, INFINITE)
        self.pay(other, one, INFINITE)


def solve(costs: Costs) -> list[bool]:
    """Return the side of each variable: True is converted. A variable fixed to both sides is kept."""
    kept = _reached(costs, KEPT, forward=False)
    converted = _reached(costs, CONVERTED, forward=True) - kept
    sides: dict[int, bool] = {**dict.fromkeys(kept, False), **dict.fromkeys(converted, True)}
    sides.update({KEPT: False, CONVERTED: True})
    _settle_dominated(costs, sides)
    for part in _parts(costs, sides):
        sides.update(_cut(costs, sides, part))
    return [sides.get(variable, False) for variable in range(costs.count)]


def _reached(costs: Costs, start: int, *, forward: bool) -> set[int]:
    """Return the variables that infinite costs put on the side of `start`."""
    next_to: dict[int, list[int]] = defaultdict(list)
    for (a, b), cost in costs.pays.items():
        if cost == INFINITE:
            next_to[a if forward else b].append(b if forward else a)
    found, waiting = {start}, [start]
    while waiting:
        for other in next_to[waiting.pop()]:
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def _settle_dominated(costs: Costs, sides: dict[int, bool]) -> None:
    """Fix each variable whose own cost exceeds the sum of its pairs: every minimum cut agrees."""
    wish: dict[int, float] = defaultdict(float)
    beside: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    for (a, b), cost in costs.pays.items():
        for one, other, if_kept in ((a, b, False), (b, a, True)):
            if one in sides:
                continue
            if other in sides:
                if if_kept and sides[other]:
                    wish[one] += cost
                elif not if_kept and not sides[other]:
                    wish[one] -= cost
            else:
                kept, converted = beside[one].get(other, (0.0, 0.0))
                beside[one][other] = (kept + cost, converted) if if_kept else (kept, converted + cost)
    waiting = list(dict.fromkeys([*wish, *beside]))
    while waiting:
        one = waiting.pop()
        if one in sides:
            continue
        against_converted = sum(converted for _, converted in beside[one].values())
        against_kept = sum(kept for kept, _ in beside[one].values())
        if wish[one] > 0 and wish[one] >= against_converted:
            sides[one] = True
        elif wish[one] < 0 and -wish[one] >= against_kept:
            sides[one] = False
        elif not beside[one]:
            sides[one] = wish[one] > 0
        else:
            continue
        for other in beside.pop(one):
            kept, converted = beside[other].pop(one)
            wish[other] += kept if sides[one] else -converted
            waiting.append(other)


def _parts(costs: Costs, sides: dict[int, bool]) -> Iterable[list[tuple[int, int]]]:
    """Return the pairs of variables that are not fixed, by connected component."""
    parent: dict[int, int] = {}

    def root(one: int) -> int:
        while parent.setdefault(one, one) != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    pairs = [pair for pair in costs.pays if pair[0] not in sides or pair[1] not in sides]
    for a, b in pairs:
        if a not in sides and b not in sides:
            parent[root(a)] = root(b)
    parts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for a, b in pairs:
        parts[root(b if a in sides else a)].append((a, b))
    return parts.values()


def _cut(costs: Costs, sides: dict[int, bool], pairs: list[tuple[int, int]]) -> dict[int, bool]:
    def vertex(one: int) -> int:
        return one if one not in sides else CONVERTED if sides[one] else KEPT

    capacities: dict[tuple[int, int], float] = defaultdict(float)
    for a, b in pairs:
        capacities[vertex(a), vertex(b)] += costs.pays[a, b]
    inside = source_side(capacities, CONVERTED, KEPT)
    return {one: one in inside for pair in pairs for one in pair if one not in sides}
