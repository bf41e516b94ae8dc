"""Many small cases as one test, whose failure names each case that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

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
