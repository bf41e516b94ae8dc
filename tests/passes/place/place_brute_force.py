"""The cost of place-casts against brute force over every choice, for as many random regions as asked for.

    nice python -m tests.passes.place.place_brute_force [SEEDS]

Takes the regions of at most 12 moves with at most 50,000 choices. Prints how many there were, and exits with 1 if
one ended above the least cost.
"""

from __future__ import annotations

import sys
from itertools import product
from math import prod

from castsmith.passes.place.problem import IMPOSSIBLE, Problem
from castsmith.passes.place.solve import solve
from tests.passes.place.place_regions import random_model
from tests.passes.place.test_place_casts import problems

_MOST_MOVES, _MOST_CHOICES = 12, 50_000


def least(problem: Problem) -> float:
    """The least cost of all choices, each root's cost looked up where it has been computed before."""
    return min(problem.cost(chosen) for chosen in product(*(move.choices for move in problem.moves)))


def main(seeds: int) -> int:
    tried = wrong = 0
    for seed in range(seeds):
        for problem in problems(random_model(seed, _MOST_MOVES)):
            choices = prod(len(move.choices) for move in problem.moves)
            if choices > _MOST_CHOICES or problem.cost(problem.kept) == IMPOSSIBLE:
                continue
            chosen, proven = solve(problem)
            tried += 1
            if not proven or problem.cost(chosen) != least(problem):
                wrong += 1
                print(f"seed {seed}: {problem.cost(chosen)} in place of {least(problem)}", flush=True)
    print(f"{tried} regions of {seeds} models, {wrong} above the least cost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
