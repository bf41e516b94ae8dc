"""The cases that a run takes of a domain that is too large for every run, and many small cases as one test.

`make test` runs the cases that are always kept and others, drawn by a seed, which is the same in each run; its last
lines say of what, and how many. `CASTSMITH_SEED=random make test` draws other cases, and prints their seed first:
`CASTSMITH_SEED=N make test` draws them again. The numbers in the tests are for CASTSMITH_SAMPLE=1. `make test` draws a
third as many, and the nightly, which sets CASTSMITH_SAMPLE=4, four times as many. `make exhaustive` sets
CASTSMITH_COMPLETE=1: every case is run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from random import Random, SystemRandom
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

COMPLETE = os.environ.get("CASTSMITH_COMPLETE", "") not in ("", "0")
FIXED = "0"
_ASKED = os.environ.get("CASTSMITH_SEED") or FIXED
SEED = str(SystemRandom().randrange(1, 1_000_000)) if _ASKED == "random" else _ASKED
os.environ["CASTSMITH_SEED"] = SEED  # so that all processes of a run draw the same cases

SIZE = int(os.environ.get("CASTSMITH_SAMPLE") or 0)
"""Factor on the number of cases that are drawn; 0: a third of them."""

QUICK = not COMPLETE and SIZE <= 1

complete_only = pytest.mark.skipif(QUICK, reason="takes many seconds: `make exhaustive` and the nightly run it")

DRAWN: dict[str, tuple[int, int]] = {}
"""Of each domain, by its name, how many cases this process runs, and how many there are."""


class Sampled(list[Case]):
    """Cases that were drawn: `make test` runs all of them."""


def sampled(
    domain: str,
    cases: Iterable[Case],
    count: int,
    *,
    always: Callable[[Any], bool] = lambda _: False,
    cover: Callable[[Any], Iterable[object]] = lambda _: (),
    combined: bool = False,
) -> list[Case]:
    """Return all cases in a complete run, else about `count` of them times the factor, in their order.

    Args:
        domain: What the cases are, for the last lines of the run, which add up those that differ in a text in brackets.
            Draws of two domains are independent.
        cases: All cases.
        count: The number of cases to draw; there are more of them where `always` and `cover` need more.
        always: True for a case that is always run.
        cover: Properties of a case. Each property that a case has is one that a case of the sample has.
        combined: True where cases are combined with those of a domain that grows already, so that it does not grow.
    """
    every = list(cases)
    if COMPLETE:
        return every
    drawn = Random(f"{SEED} {domain}").sample(range(len(every)), len(every))
    kept = {index for index in drawn if always(every[index])}
    covered = {key for index in kept for key in cover(every[index])}
    for index in drawn:
        if not covered.issuperset(cover(every[index])):
            kept.add(index)
            covered.update(cover(every[index]))
    wanted = _wanted(count, min(SIZE, 1) if combined else SIZE)
    kept.update([index for index in drawn if index not in kept][: max(wanted - len(kept), 0)])
    DRAWN[domain] = (len(kept), len(every))
    return Sampled(every[index] for index in sorted(kept))


def _wanted(count: int, factor: int) -> int:
    return count * factor if factor else -(-count // 3)


def shortened(domain: str, complete: int, quick: int) -> int:
    """Return the size of a random or growing domain: `complete` in a complete run, else by the factor on `quick`."""
    if COMPLETE:
        return complete
    size = min(_wanted(quick, SIZE), complete)
    DRAWN[domain] = (size, complete)
    return size


_SHOWN = 20
"""Cases that fail, of which the message has the reason."""


def check_all(check: Callable[..., object], cases: Iterable[object]) -> None:
    """Call `check` with each case, a tuple with its elements, and fail with the cases that fail.

    A case of which the check takes a few milliseconds costs more as a test of its own than it takes itself.
    """
    count, wrong = 0, list[str]()
    for case in cases:
        count += 1
        try:
            if isinstance(case, tuple):
                check(*case)  # pyright: ignore[reportUnknownArgumentType]
            else:
                check(case)
        except (Exception, pytest.fail.Exception) as error:
            wrong.append(f"{case}: {type(error).__name__}: {error}")
    assert count, "there are no cases"
    if wrong:
        pytest.fail("\n".join([f"{len(wrong)} of {count} cases fail", *wrong[:_SHOWN]]), pytrace=False)
