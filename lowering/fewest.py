"""The fewest nodes to keep in a wider type so that the error of a conversion stays below a bound.

The error of a set of kept nodes is measured, never predicted, so that every answer is one that was seen to hold; a
prediction only orders the trials. A node alone in float between nodes in 16 bits saves little, so the search works
on runs of nodes that follow each other in the model:

1. The run with the largest error of its own, all other nodes kept, is halved again and again.
2. The runs that add the least error per node are converted, as many as the bound allows: independent roundings add up
   as the root of their squares, and the number is bisected from there.
3. Each run that is still kept is released if the bound still holds, or halved.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Run = tuple[str, ...]
NOTHING: frozenset[str] = frozenset()

_TO_ORDER = 0.4
"""The share of the trials that may measure runs alone; the others are for step 3."""


@dataclass
class Fewest:
    """A search in progress.

    Attributes:
        nodes: The nodes that may be kept, in the order of the model.
        error: Returns the error with which the model is converted if a set of nodes is kept.
        most: The largest error allowed.
        trials: The number of sets that may be measured.
    """

    nodes: Sequence[str]
    error: Callable[[frozenset[str]], float]
    most: float
    trials: int
    errors: dict[frozenset[str], float] = field(default_factory=dict[frozenset[str], float])

    def run(self) -> None:
        """Measure sets, ever smaller ones that stay below the error, unless not even all nodes do."""
        if not self._holds(NOTHING) and self._holds(frozenset(self.nodes)):
            runs = self._runs_by_error()
            self._release(runs[self._most_converted(runs) :])

    def _measured(self, kept: frozenset[str]) -> float:
        if kept not in self.errors:
            self.errors[kept] = self.error(kept)
        return self.errors[kept]

    def _holds(self, kept: frozenset[str]) -> bool:
        return self._measured(kept) <= self.most

    def _left(self, share: float = 1.0) -> float:
        return self.trials * share - len(self.errors)

    def _alone(self, run: Run) -> float:
        """Return the error if only this run is converted."""
        return self._measured(frozenset(self.nodes) - frozenset(run))

    def _runs_by_error(self) -> list[Run]:
        """Return runs that are all of the nodes, the one with the least error per node first."""
        entire = tuple(self.nodes)
        waiting, done = [(-self._measured(NOTHING), 0, entire)], list[Run]()
        while waiting and self._left(_TO_ORDER) >= 2:
            error, start, run = heapq.heappop(waiting)
            if len(run) == 1 or not error:
                done.append(run)
                continue
            middle = len(run) // 2
            for first, half in ((start, run[:middle]), (start + middle, run[middle:])):
                heapq.heappush(waiting, (-self._alone(half), first, half))
        runs = [*done, *(run for _, _, run in waiting)]
        return sorted(runs, key=lambda run: (self._of(run) ** 2 / len(run), self.nodes.index(run[0])))

    def _of(self, run: Run) -> float:
        return self._measured(NOTHING) if len(run) == len(self.nodes) else self._alone(run)

    def _most_converted(self, runs: Sequence[Run]) -> int:
        """Return how many of the runs, the first ones, can be converted."""
        low, high = 0, len(runs)
        guess = self._predicted(runs)
        while high - low > 1 and self._left() > 0:
            middle = min(max(guess, low + 1), high - 1)
            kept = frozenset(name for run in runs[middle:] for name in run)
            low, high = (middle, high) if self._holds(kept) else (low, middle)
            guess = (low + high) // 2
        return low

    def _predicted(self, runs: Sequence[Run]) -> int:
        total = 0.0
        for number, run in enumerate(runs):
            total = math.hypot(total, self._of(run))
            if total > self.most:
                return number
        return len(runs)

    def _release(self, runs: Sequence[Run]) -> None:
        """Keep the nodes of these runs less those that need not be kept."""
        kept = frozenset(name for run in runs for name in run)
        waiting = deque(runs)
        while waiting and self._left() > 0:
            run = waiting.popleft()
            if self._holds(kept.difference(run)):
                kept = kept.difference(run)
            elif len(run) > 1:
                middle = len(run) // 2
                waiting += (run[:middle], run[middle:])
