"""Large arrays are cast in two threads, to the bits that one gives."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from castsmith.numerics.cast import convert
from castsmith.numerics.cast.convert import SharedIterator, in_two_threads
from tests.numerics import oracle

SIZE = 5 * convert.CHUNK + 3
PAIRS = [
    ("float", "float16"), ("float", "float8e4m3fn"), ("double", "bfloat16"), ("double", "float16"),
    ("double", "float8e8m0"), ("int64", "float16"), ("float16", "float"), ("bfloat16", "float8e5m2"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_two_threads_give_the_bits_of_one(source: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(3).integers(0, 256, SIZE * oracle.unsigned(source).itemsize, np.uint8)
    array = array.view(oracle.array_of(source, [0]).dtype)
    used = list[int]()

    def noted(work: Callable[[], None]) -> None:
        used.append(1)
        in_two_threads(work)

    monkeypatch.setattr(convert, "in_two_threads", noted)
    alone = [convert.cast(each, target) for each in (array, array[::-1])]
    assert not used
    monkeypatch.setattr(convert, "MOST_ALONE", SIZE - 1)
    shared = [convert.cast(each, target) for each in (array, array[::-1])]
    assert len(used) == 2
    assert [each.tobytes() for each in shared] == [each.tobytes() for each in alone]


def test_each_item_goes_to_one_thread() -> None:
    array, taken = np.arange(1000, dtype=np.uint8), list[int]()
    items = SharedIterator(convert.code_chunks(array, 1))
    both = threading.Barrier(2)

    def work() -> None:
        both.wait()
        taken.extend(where.start for where, _ in items)

    in_two_threads(work)
    assert sorted(taken) == list(range(1000))


def test_one_thread_works_where_no_other_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    turns = list[int]()
    in_two_threads(lambda: turns.append(threading.get_ident()))
    assert turns == [threading.get_ident()]


@pytest.mark.parametrize("where", ["here", "beside"])
def test_an_error_in_either_thread_is_raised(where: str) -> None:
    here = threading.get_ident()

    def work() -> None:
        if (threading.get_ident() == here) == (where == "here"):
            raise ArithmeticError(where)

    with pytest.raises(ArithmeticError, match=where):
        in_two_threads(work)
