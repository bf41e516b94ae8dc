"""Large arrays are cast a chunk at a time, in memory that does not grow, and in two threads to the bits of one."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from castsmith.numerics.cast import convert
from castsmith.numerics.cast.convert import SharedIterator, cast, in_two_threads
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from tests.numerics import oracle
from tests.sampling import sampled

SIZE = 2**21
LIMIT = 4 * 2**20


def extra(work: Callable[[], np.ndarray]) -> int:
    """The most bytes that numpy held at one time while at work, without the result; tables are made beforehand."""
    work()
    tracemalloc.start()
    try:
        result = work()
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("source", ["float", "double", "int64", "float16", "bfloat16", "float8e4m3fn", "bool"])
def test_cast(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "MOST_ALONE", SIZE - 1)
    array = cast(np.arange(SIZE, dtype=np.float32) % 100, source)
    targets = [target for target in oracle.TYPES if target != source]
    for target in sampled(f"memory of casts [from {source}]", targets, 3):
        assert extra(lambda to=target: cast(array, to)) < LIMIT, target
    assert extra(lambda: cast(array[::-1], targets[0])) < LIMIT


@pytest.mark.parametrize("granularity", ["tensor", "axis", "block"])
def test_quantize_and_dequantize(granularity: str) -> None:
    x = np.ones((64, SIZE // 64), np.float32)
    scale = {"tensor": np.ones(()), "axis": np.ones(64), "block": np.ones((64, SIZE // 64 // 32))}[granularity]
    scale, axis, block = scale.astype(np.float32), {"axis": 0}.get(granularity, 1), {"block": 32}.get(granularity, 0)
    for output in ("uint8", "int4", "float8e4m3fn"):
        work = lambda to=output: quantize_linear(x, scale, output_dtype=to, axis=axis, block_size=block)  # noqa: E731
        assert extra(work) < LIMIT, output
        y = work()
        assert extra(lambda y=y: dequantize_linear(y, scale, axis=axis, block_size=block)) < LIMIT, output


SHARED = 5 * convert.CHUNK + 3
PAIRS = [
    ("float", "float16"), ("float", "float8e4m3fn"), ("double", "bfloat16"), ("double", "float16"),
    ("double", "float8e8m0"), ("int64", "float16"), ("float16", "float"), ("bfloat16", "float8e5m2"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_two_threads_give_the_bits_of_one(source: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(3).integers(0, 256, SHARED * oracle.unsigned(source).itemsize, np.uint8)
    array = array.view(oracle.array_of(source, [0]).dtype)
    used = list[int]()

    def noted(work: Callable[[], None]) -> None:
        used.append(1)
        in_two_threads(work)

    monkeypatch.setattr(convert, "in_two_threads", noted)
    alone = [convert.cast(each, target) for each in (array, array[::-1])]
    assert not used
    monkeypatch.setattr(convert, "MOST_ALONE", SHARED - 1)
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
