"""The fewest nodes to keep in a wider type so that the error of a conversion stays below a bound.

The error of a set of kept nodes is measured, never predicted, so that every answer is one that was seen to hold. A node
alone in float between nodes in 16 bits saves little, so the search works on runs of nodes that follow each other in the
model: each is released if the bound still holds, or halved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache


def fewest(nodes: Sequence[str], holds: Callable[[frozenset[str]], bool], trials: int) -> None:
    """Ask for ever smaller sets of kept nodes if the bound holds, unless not even all nodes are enough.

    Args:
        nodes: The nodes that may be kept, in the order of the model.
        holds: Returns if the bound holds with these nodes kept. It is asked for no set twice.
        trials: The number of sets to ask for at most.
    """
    kept, ask = frozenset(nodes), cache(holds)
    if ask(frozenset[str]()) or not ask(kept):
        return
    waiting = deque(_halves(tuple(nodes)))
    while waiting and ask.cache_info().misses < trials:
        run = waiting.popleft()
        if ask(kept.difference(run)):
            kept = kept.difference(run)
        else:
            waiting += _halves(run)


def _halves(run: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    middle = len(run) // 2
    return filter(None, (run[:middle], run[middle:] if middle else ()))
