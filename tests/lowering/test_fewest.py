"""The search for the fewest nodes to keep, beside all sets of nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from itertools import combinations

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

from castsmith import convert
from castsmith.lowering.fewest import fewest
from castsmith.numerics.errors import OptionError
from tests.sampling import sampled

Error = Callable[[frozenset[str]], float]


def best_of(nodes: list[str], error: Error, most: float, trials: int = 64) -> int | None:
    """The number of nodes in the smallest set that the search saw to hold; None without such a set."""
    asked = list[frozenset[str]]()

    def holds(kept: frozenset[str]) -> bool:
        asked.append(kept)
        return error(kept) <= most

    fewest(nodes, holds, trials)
    assert len(asked) == len(set(asked)) <= trials
    return min((len(kept) for kept in asked if error(kept) <= most), default=None)


def oracle(nodes: Collection[str], error: Error, most: float) -> int | None:
    """The fewest nodes of all sets."""
    for count in range(len(nodes) + 1):
        if any(error(frozenset(kept)) <= most for kept in combinations(nodes, count)):
            return count
    return None


def independent(seed: int, count: int) -> tuple[list[str], Error]:
    """Nodes whose roundings add up as the root of their squares."""
    draw = random.Random(seed)
    own = {f"n{number}": draw.random() ** 4 for number in range(count)}
    return list(own), lambda kept: math.hypot(*(size for name, size in own.items() if name not in kept))


def in_a_chain(seed: int, count: int) -> tuple[list[str], Error]:
    """Nodes between which values are rounded: keeping one of two neighbours saves nothing."""
    draw = random.Random(seed)
    names, own = [f"n{number}" for number in range(count)], [draw.random() ** 4 for _ in range(count + 1)]

    def error(kept: frozenset[str]) -> float:
        wide = [True, *(name in kept for name in names), True]
        return math.hypot(*(size for size, a, b in zip(own, wide, wide[1:], strict=False) if not (a and b)))

    return names, error


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_independent_errors_keep_as_few_as_possible(seed: int, share: float) -> None:
    nodes, error = independent(seed, 9)
    most = share * error(frozenset())
    assert best_of(nodes, error, most) == oracle(nodes, error, most)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_neighbours_keep_few_more_than_possible(share: float) -> None:
    more = list[int]()
    for seed in range(10):
        nodes, error = in_a_chain(seed, 8)
        most = share * error(frozenset())
        kept, least = best_of(nodes, error, most), oracle(nodes, error, most)
        assert kept is not None
        assert least is not None
        more.append(kept - least)
    assert max(more) <= 2
    assert sum(more) <= 6


def test_a_bound_that_all_nodes_do_not_reach_ends_the_search() -> None:
    asked = list[frozenset[str]]()
    fewest(["a", "b"], lambda kept: bool(asked.append(kept)), 64)
    assert asked == [frozenset(), {"a", "b"}]


def test_more_trials_keep_fewer() -> None:
    nodes, error = independent(0, 200)
    few, many = (best_of(nodes, error, error(frozenset()) / 4, trials) for trials in (24, 64))
    assert few is not None
    assert many is not None
    assert 0 < many < few < 200


def test_a_bound_may_be_met_exactly() -> None:
    weights = dict(zip("abcdefgh", (1, 2, 64, 4, 32, 8, 1, 16), strict=True))
    for most, least in ((128, 0), (127, 1), (64, 1), (63, 2), (32, 2), (1, 7), (0, 8)):
        assert (
            best_of([*weights], lambda kept: sum(weights[name] for name in weights if name not in kept), most) == least
        )


def network() -> onnx.ModelProto:
    """Two branches of which one is off by much more than the other."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[8,8] x) => (float[8,8] y) <float small = {0.01}> {
      a = MatMul (x, v) b = Mul (a, a) c = MatMul (b, v)
      d = MatMul (x, w) e = Mul (d, small)
      y = Add (c, e)
    }""")
    draw = np.random.default_rng(1)
    for name in ("v", "w"):
        model.graph.initializer.append(onnx.numpy_helper.from_array(draw.normal(0, 1, (8, 8)).astype("f4"), name))
    return model


@pytest.mark.parametrize("share", sampled("errors of a network", [0.2, 0.5, 0.8], 3))
def test_a_network_keeps_as_few_nodes_as_possible(share: float) -> None:
    model = network()
    feeds = {"x": np.random.default_rng(2).normal(0, 1, (8, 8)).astype("f4")}

    def error(kept: Collection[str]) -> float:
        measured = convert(model, to="float16", inputs=feeds, keep=[f"name:{name}" for name in kept]).error
        assert measured is not None
        return measured.worst

    most = share * error(())
    result = convert(model, to="float16", inputs=feeds, max_error=most)
    assert result.error is not None
    assert result.error.worst <= most
    assert 1 < result.attempts <= 64
    assert all("error stays below" in result.precisions[name][1] for name in result.kept)
    assert len(result.kept) == oracle("abcdey", error, most)


def test_an_error_that_is_not_reached_is_refused() -> None:
    feeds = {"x": np.random.default_rng(2).normal(0, 1, (8, 8)).astype("f4")}
    with pytest.raises(OptionError, match=r"is not reached: the error is .* if every node is kept that can be"):
        convert(network(), to="float16", inputs=feeds, io="convert", max_error=1e-12)
