"""Yes-or-no choices compared with all of them, and long chains."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

from castsmith.passes.core.min_cut import INFINITE, NO, YES, Costs, solve


def cost_of(costs: Costs, answers: tuple[bool, ...]) -> float:
    return sum(cost for (a, b), cost in costs.pays.items() if answers[a] and not answers[b])


def random_costs(draw: Random) -> Costs:
    costs = Costs()
    made = [NO, YES, *(costs.variable() for _ in range(draw.randint(1, 7)))]
    for _ in range(draw.randint(1, 14)):
        a, b = draw.choice(made), draw.choice(made)
        if draw.random() < 0.1:
            costs.join(a, b)
        elif draw.random() < 0.1:
            costs.fix(a, yes=draw.random() < 0.5)
        else:
            costs.pay(a, b, draw.choice([1, 2, 2, 3, 0.5, 7]))
    return costs


def test_the_answers_cost_least() -> None:
    finite = mixed = 0
    for seed in range(400):
        costs = random_costs(Random(seed))
        chosen = tuple(solve(costs))
        assert chosen[:2] == (False, True)
        choices = [(False, True, *rest) for rest in product((False, True), repeat=costs.count - 2)]
        least = min(cost_of(costs, each) for each in choices)
        assert cost_of(costs, chosen) == least, seed
        finite += least < INFINITE
        mixed += 0 < least < INFINITE and len({*chosen[2:]}) == 2
    assert finite > 200
    assert mixed > 40


def test_costs_that_are_paid() -> None:
    costs = Costs()
    a, b = costs.variable(), costs.variable()
    assert (a, b, costs.count) == (2, 3, 4)
    costs.pay(a, b, 2)
    costs.pay(a, b, 3)
    costs.pay(a, a, 5)
    costs.pay(b, a, 0)
    for yes, no in ((NO, YES), (NO, a), (a, YES)):  # what no answer can cost
        costs.pay(yes, no, 5)
    assert costs.pays == {(a, b): 5.0}
    costs.fix(a, yes=True)
    costs.fix(b, yes=False)
    assert costs.pays == {(a, b): 5.0, (YES, a): INFINITE, (b, NO): INFINITE}
    assert solve(costs) == [False, True, True, False]
    costs.fix(a, yes=False)  # fixed to both answers
    assert solve(costs) == [False, True, False, False]
    joined = Costs()  # all of them are fixed to both answers
    first, between, last = (joined.variable() for _ in range(3))
    joined.fix(last, yes=False)
    joined.join(between, last)
    joined.join(first, between)
    joined.fix(first, yes=True)
    assert solve(joined) == [False, True, False, False, False]
    alone = Costs()
    one = alone.variable()
    assert solve(alone) == [False, True, False]
    alone.pay(YES, one, 1)
    assert solve(alone) == [False, True, True]
    alone.pay(one, NO, 1)
    assert solve(alone) == [False, True, True]


def test_a_chain_is_cut_where_it_costs_least() -> None:
    costs = Costs()
    chain = [costs.variable() for _ in range(20_000)]
    for place, (one, other) in enumerate(pairwise(chain)):
        costs.pay(one, other, 2.0 + (place != 7_000))
    costs.pay(YES, chain[0], 9)
    costs.pay(chain[-1], NO, 9)
    assert solve(costs)[2:] == [place <= 7_000 for place in range(20_000)]


def test_costs_are_exact() -> None:
    """Of two sums that floats do not distinguish, the lower one counts."""
    for more, answer in ((-1, False), (1, True)):
        costs = Costs()
        one, other = costs.variable(), costs.variable()
        costs.pay(YES, one, 2**60 + more)
        costs.pay(one, other, 2**60)
        costs.pay(other, NO, 2**61)
        assert solve(costs) == [False, True, answer, False]
