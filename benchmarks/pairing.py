"""Times of several works that take turns, and the spread of their ratios.

Other work on a machine slows all that runs at the same time. So every benchmark runs what it compares in turns, and
compares the times of one turn: `in_turns` runs them, `spread` shows the ratios of the turns as `median (least to
greatest)`. The seconds beside them are the least, since other work only adds time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key")
Clock = Callable[[], float]


def in_turns(works: Mapping[Key, Callable[[], float]], turns: int) -> dict[Key, list[float]]:
    """Return the times that each work returns, turn by turn; every second turn goes through them backwards."""
    times: dict[Key, list[float]] = {name: [] for name in works}
    order = list(works)
    for turn in range(turns):
        for name in order if turn % 2 == 0 else reversed(order):
            times[name].append(works[name]())
    return times


def timed(work: Callable[[], object], clock: Clock = time.process_time, count: int = 1) -> Callable[[], float]:
    """Return what runs the work `count` times and returns the seconds of one, by default of processor time."""

    def run() -> float:
        start = clock()
        for _ in range(count):
            work()
        return (clock() - start) / count

    return run


def ratios(times: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return the ratio of each turn."""
    return [a / b for a, b in zip(times, others, strict=True)]


def spread(found: Sequence[float], digits: int = 2) -> str:
    """Return the median of ratios, with the least and the greatest if there are several."""
    ends = f" ({min(found):.{digits}f} to {max(found):.{digits}f})" if len(found) > 1 else ""
    return f"{statistics.median(found):.{digits}f}{ends}"


def middle(found: Sequence[float]) -> list[float]:
    """Return the middle half of many ratios, of works so short that any other process disturbs some of them."""
    ordered, cut = sorted(found), len(found) // 4
    return ordered[cut : len(ordered) - cut]
