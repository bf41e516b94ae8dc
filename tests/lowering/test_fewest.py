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
from castsmith.lowering.fewest import Fewest
from castsmith.numerics.errors import OptionError
from tests.sampling import sampled

Error = Callable[[frozenset[str]], float]


def best_of(search: Fewest) -> int | None:
    """The number of nodes in the smallest set that the search found to hold; None without such a set."""
    search.run()
    assert len(search.errors) <= search.trials
    return min((len(kept) for kept, error in search.errors.items() if error <= search.most), default=None)


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
    assert best_of(Fewest(nodes, error, most, 64)) == oracle(nodes, error, most)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_neighbours_keep_few_more_than_possible(share: float) -> None:
    more = list[int]()
    for seed in range(10):
        nodes, error = in_a_chain(seed, 8)
        most = share * error(frozenset())
        found, least = best_of(Fewest(nodes, error, most, 64)), oracle(nodes, error, most)
        assert found is not None
        assert least is not None
        more.append(found - least)
    assert max(more) <= 2
    assert sum(more) <= 6


def test_a_bound_that_all_nodes_do_not_reach_ends_the_search() -> None:
    search = Fewest(["a", "b"], lambda kept: 2.0 - len(kept) / 2, 0.5, 64)
    assert best_of(search) is None
    assert len(search.errors) == 2


def test_few_trials_still_give_a_set_that_holds() -> None:
    nodes, error = independent(0, 200)
    most = error(frozenset()) / 4
    found = best_of(Fewest(nodes, error, most, 24))
    assert found is not None
    assert 0 < found < 200
    more = best_of(Fewest(nodes, error, most, 64))
    assert more is not None
    assert more <= found


def network() -> onnx.ModelProto:
    """Two branches of which one is off by much more than the other."""
    found = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[8,8] x) => (float[8,8] y) <float small = {0.01}> {
      a = MatMul (x, v) b = Mul (a, a) c = MatMul (b, v)
      d = MatMul (x, w) e = Mul (d, small)
      y = Add (c, e)
    }""")
    draw = np.random.default_rng(1)
    for name in ("v", "w"):
        found.graph.initializer.append(onnx.numpy_helper.from_array(draw.normal(0, 1, (8, 8)).astype("f4"), name))
    return found


@pytest.mark.parametrize("share", sampled("errors of a network", [0.2, 0.5, 0.8], 3))
def test_a_network_keeps_as_few_nodes_as_possible(share: float) -> None:
    model = network()
    feeds = {"x": np.random.default_rng(2).normal(0, 1, (8, 8)).astype("f4")}

    def error(kept: Collection[str]) -> float:
        found = convert(model, to="float16", inputs=feeds, keep=[f"name:{name}" for name in kept]).error
        assert found is not None
        return found.worst

    most = share * error(())
    result = convert(model, to="float16", inputs=feeds, max_error=most)
    assert result.error is not None
    assert result.error.worst <= most
    assert all("error stays below" in result.precisions[name][1] for name in result.kept)
    assert len(result.kept) == oracle("abcdey", error, most)


def test_an_error_that_is_not_reached_is_refused() -> None:
    feeds = {"x": np.random.default_rng(2).normal(0, 1, (8, 8)).astype("f4")}
    with pytest.raises(OptionError, match=r"is not reached: the error is .* if every node is kept that can be"):
        convert(network(), to="float16", inputs=feeds, io="convert", max_error=1e-12)


WEIGHTS = dict(zip("abcdefgh", (1, 2, 64, 4, 32, 8, 1, 16), strict=True))
HALVES = "cdefgh abefgh abdefgh abcefgh abcdgh abcdef abcdfgh abcdegh abcdefh abcdefg bcdefgh acdefgh"
SEARCHES: list[tuple[int, int, str]] = [
    (128, 64, "-"),
    (127, 6, "- abcdefgh efgh gh h"),
    (64, 6, "- abcdefgh efgh abcd cd d"),
    (64, 12, "- abcdefgh efgh abcd cd d c"),
    (63, 64, f"- abcdefgh efgh abcd {HALVES} c cdefh ceh ce e"),
    (32, 6, "- abcdefgh efgh abcd cdefgh cdgh"),
    (32, 12, "- abcdefgh efgh abcd abcdgh abcdef cdef ef cdf cde de ce"),
    (32, 64, f"- abcdefgh efgh abcd {HALVES} ce c e"),
    (1, 12, "- abcdefgh efgh abcd abcdgh abcdef cdefgh abefgh abcdfgh abcdegh abcdefh bcdefh"),
    (0, 64, f"- abcdefgh efgh abcd {HALVES}"),
]


@pytest.mark.parametrize(("most", "trials", "sets"), SEARCHES)
def test_the_sets_that_are_measured(most: int, trials: int, sets: str) -> None:
    """Errors that add up: the bound may be met exactly, and no set is measured twice or beyond the trials."""
    measured = list[str]()

    def error(kept: frozenset[str]) -> float:
        measured.append("".join(sorted(kept)) or "-")
        return sum(weight for name, weight in WEIGHTS.items() if name not in kept)

    search = Fewest(list(WEIGHTS), error, most, trials)
    search.run()
    assert " ".join(measured) == sets
    assert len(search.errors) == len(measured) <= trials
