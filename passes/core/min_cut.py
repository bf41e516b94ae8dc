"""Yes-or-no choices at the least total cost: a minimum cut.

`Costs` holds what each pair of variables costs if they differ; `solve` decides. Most variables of a real problem are
decided by infinite costs. networkx decides the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

NO, YES = 0, 1
"""The variables whose answer is fixed."""

INFINITE = float("inf")

Pair = tuple[int, int]


@dataclass
class Costs:
    """The costs of all pairs: pays[a, b] is paid if `a` is yes and `b` is no."""

    count: int = 2
    pays: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])

    def variable(self) -> int:
        """Add a variable."""
        self.count += 1
        return self.count - 1

    def pay(self, yes: int, no: int, cost: float) -> None:
        """Pay `cost` if the first is yes and the second is no."""
        if yes != no and cost and yes != NO and no != YES:
            self.pays[yes, no] = self.pays.get((yes, no), 0) + cost

    def fix(self, variable: int, *, yes: bool) -> None:
        """Fix the answer of the variable."""
        self.pay(*((YES, variable) if yes else (variable, NO)), INFINITE)

    def join(self, one: int, other: int) -> None:
        """Give both the same answer."""
        self.pay(one, other, INFINITE)
        self.pay(other, one, INFINITE)


def solve(costs: Costs) -> list[bool]:
    """Return the answer of each variable at the least cost.

    A variable fixed to both answers is no, and so is one that costs nothing. Among other equal costs, the answer is yes
    for as many as possible.
    """
    pays, infinite = _as_integers(costs.pays)
    no = _reached(((b, a) for (a, b), cost in pays.items() if cost == infinite), NO)
    yes = _reached((pair for pair, cost in pays.items() if cost == infinite), YES)
    answers = {**dict.fromkeys(yes, True), **dict.fromkeys(no, False), YES: True}
    rest = {pair: cost for pair, cost in pays.items() if pair[0] not in answers or pair[1] not in answers}
    if rest:
        answers.update(_cut(rest, answers))
    return [answers.get(variable, False) for variable in range(costs.count)]


def _as_integers(pays: Mapping[Pair, float]) -> tuple[dict[Pair, int], int]:
    """Return the costs in a unit of which all are multiples, and the cost that stands for infinity."""
    exact = {pair: Fraction(cost) for pair, cost in pays.items() if cost != INFINITE}
    unit = lcm(*(cost.denominator for cost in exact.values()))
    integers = {pair: int(cost * unit) for pair, cost in exact.items()}
    infinite = 1 + sum(integers.values())
    return {pair: integers.get(pair, infinite) for pair in pays}, infinite


def _reached(edges: Iterable[Pair], start: int) -> dict[int, None]:
    """Return the variables to which the edges lead from `start`."""
    ends: dict[int, list[int]] = defaultdict(list)
    for tail, head in edges:
        ends[tail].append(head)
    reached, waiting = {start: None}, [start]
    while waiting:
        fresh = [head for head in ends[waiting.pop()] if head not in reached]
        reached.update(dict.fromkeys(fresh))
        waiting += fresh
    return reached


def _cut(pays: Mapping[Pair, int], answers: Mapping[int, bool]) -> Iterable[tuple[int, bool]]:
    """Return the answers of the variables that are left: no are those on the sink's side, which is the smallest."""
    import networkx

    def vertex(variable: int) -> int:
        return variable if variable not in answers else YES if answers[variable] else NO

    capacities: dict[Pair, int] = defaultdict(int)
    for (a, b), cost in pays.items():
        capacities[vertex(a), vertex(b)] += cost
    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_nodes_from((YES, NO))
    graph.add_edges_from((tail, head, {"capacity": capacity}) for (tail, head), capacity in capacities.items())
    flow: Any = networkx.algorithms.flow  # its flow functions have no complete types
    _, (yes, _) = flow.minimum_cut(graph, YES, NO, flow_func=flow.boykov_kolmogorov)
    return [(variable, variable in yes) for variable in graph if variable not in (NO, YES)]
