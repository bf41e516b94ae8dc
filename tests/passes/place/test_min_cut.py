"""Minimum cuts beside those of networkx, on random networks of every shape."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from networkx.algorithms.flow import boykov_kolmogorov  # pyright: ignore[reportUnknownVariableType]

from castsmith.passes.min_cut import source_side

_SOURCE, _SINK = -1, -2


def _network(chance: random.Random) -> dict[tuple[int, int], float]:
    """A network of few vertices and few capacities, so that most have several minimum cuts."""
    count = chance.randint(1, 9)
    vertices = [_SOURCE, *range(count), _SINK]
    made: dict[tuple[int, int], float] = {}
    for _ in range(chance.randint(0, 4 * count)):
        tail, head = chance.choice(vertices), chance.choice(vertices)
        if tail != head:
            made[tail, head] = made.get((tail, head), 0) + chance.choice([1, 1, 2, 3, 0.5, 2**60 + 1, float("inf")])
    return made


def _by_networkx(capacities: dict[tuple[int, int], float]) -> tuple[float, set[int]]:
    whole = {edge: 2 * capacity for edge, capacity in capacities.items()}
    most = 1 + sum(int(capacity) for capacity in whole.values() if capacity < float("inf"))
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from((_SOURCE, _SINK))
    for (tail, head), capacity in whole.items():
        graph.add_edge(tail, head, capacity=int(capacity) if capacity < most else most)
    _, (below, _) = nx.minimum_cut(graph, _SOURCE, _SINK, flow_func=boykov_kolmogorov)  # pyright: ignore
    return most, set(below)  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.parametrize("seed", range(4))
def test_the_cuts_of_random_networks_are_those_of_networkx(seed: int) -> None:
    chance, large = random.Random(seed), 0
    for _ in range(250):
        capacities = _network(chance)
        _, expected = _by_networkx(capacities)
        assert source_side(capacities, _SOURCE, _SINK) == expected, capacities
        large += 1 < len(expected) < len({vertex for edge in capacities for vertex in edge}) - 1
    assert large > 20


def test_a_chain_is_cut_where_it_costs_least_in_linear_time() -> None:
    count = 20_000
    edges = {(index, index + 1): 2.0 + (index != 7_000) for index in range(count)}
    side = source_side({**edges, (_SOURCE, 0): 9.0, (count, _SINK): 9.0}, _SOURCE, _SINK)
    assert side == {_SOURCE, *range(7_001)}
