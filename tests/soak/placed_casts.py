"""The cost of place-casts against brute force over every choice, for as many random regions as asked for.

    nice python -m tests.soak.placed_casts [SEEDS]

Takes the regions of at most 12 moves with at most 50,000 choices that have a cut. Prints how many there were, and exits
with 1 if one ended above the least cost.
"""

from __future__ import annotations

import sys

from tests.passes.place.place_regions import random_model
from tests.passes.place.test_cut import cost_of_cut, least, small_problems

_MOST_MOVES, _MOST_CHOICES = 12, 50_000


def main(seeds: int) -> int:
    tried = wrong = 0
    for seed in range(seeds):
        for problem in small_problems(random_model(seed, _MOST_MOVES), _MOST_CHOICES):
            cost = cost_of_cut(problem)
            if cost is None:
                continue
            tried += 1
            if cost != least(problem):
                wrong += 1
                print(f"seed {seed}: {cost} in place of {least(problem)}", flush=True)
    print(f"{tried} regions of {seeds} models, {wrong} above the least cost")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
