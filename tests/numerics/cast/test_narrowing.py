"""Conversions that numpy and ml_dtypes compute: right where they are used, and not used where they may be wrong."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from castsmith.numerics.cast import convert, integers, narrowing
from castsmith.numerics.cast.convert import cast
from tests.numerics import oracle
from tests.numerics.cast import digest
from tests.numerics.samples import samples
from tests.sampling import sampled

FLOATS = ("float", "double", "bfloat16")
INTS = tuple(name for name, row in oracle.INTS.items() if row.bits >= 8)
PAIRS = [
    *((source, target) for source in FLOATS for target in INTS),
    *((source, "bfloat16") for source in (*INTS, "float")),
    *((source, target) for source in ("bfloat16", "float16") for target in ("float", "double")),
]
LENGTH = 70
"""Elements of an array with one number that numpy does not convert: longer than the vectors of any processor."""
ALONE, SOME = 40, 1500
SMALL = narrowing.SMALL


def numbers_of(source: str, target: str) -> dict[int, oracle.Number]:
    """Codes about the ends of the range of `target`, about 2**24 and at random, with their numbers."""
    codes = samples(source, target)
    numbers = {code: oracle.decode(source, code) for code in random.Random(source).sample(codes, min(len(codes), SOME))}
    row = oracle.INTS.get(target, oracle.INTS["int32"])
    for end in (row.low, row.high, 2**24):
        dtype = (oracle.FLOATS.get(source) or oracle.INTS[source]).dtype
        with np.errstate(all="ignore"):
            near = np.array([end - 1, end - 0.5, end, end + 0.5, end + 1], np.float64).astype(dtype)
        for code in near.view(oracle.unsigned(source)).tolist():
            for neighbour in (code - 1, code, code + 1):
                code = neighbour % 2 ** (8 * oracle.unsigned(source).itemsize)
                numbers[code] = oracle.decode(source, code)
    return numbers


def expected(source: str, target: str, numbers: list[oracle.Number]) -> np.ndarray:
    return np.array(oracle.cast_codes(source, target, numbers, oracle.Settings()), oracle.unsigned(target))


def is_ordinary(source: str, target: str, number: oracle.Number) -> bool:
    """True if numpy converts the number as the standard does."""
    if number.kind != "number":
        return number.kind == "inf" and target in oracle.FLOATS
    if target in oracle.FLOATS:
        return source in oracle.FLOATS or number.size < 2**24
    row = oracle.INTS[target]
    return row.low <= (-1 if number.negative else 1) * (number.size.numerator // number.size.denominator) <= row.high


def never(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    del source, target
    return False


@pytest.mark.parametrize("reported", [True, False])
@pytest.mark.parametrize(("source", "target"), sampled("quick conversions", PAIRS, 14, cover=enumerate))
def test_ordinary_numbers_and_one_other(
    source: str, target: str, reported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not reported:
        monkeypatch.setattr(integers, "reports", never)
    numbers = numbers_of(source, target)
    ordinary = [code for code, number in numbers.items() if is_ordinary(source, target, number)]
    others = sorted(set(numbers) - set(ordinary))
    generator = random.Random(f"{source} {target}")
    parts = [ordinary]
    for code in generator.sample(others, min(len(others), ALONE)):
        part = generator.choices(ordinary, k=LENGTH)
        part[generator.randrange(LENGTH)] = code
        parts.append(part)
    for part in parts:
        got = cast(oracle.array_of(source, part), target).view(oracle.unsigned(target))
        want = expected(source, target, [numbers[code] for code in part])
        assert np.array_equal(got, want), [hex(code) for code in part if code not in ordinary]


def test_a_number_out_of_range_is_never_left_to_numpy() -> None:
    """numpy reports nothing of what it makes of 300 in int8, so that its report must not be relied on."""
    assert not integers.reports(np.dtype(np.float32), np.dtype(np.int8))
    whole = np.empty(3, np.int8)
    assert not integers.truncates(whole, np.array([1, 300, 2], np.float32), 8)
    assert integers.truncates(whole, np.array([1, -128.5, 127.5], np.float32)[:1], 8)


@pytest.mark.parametrize("source", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("end", [SMALL, SMALL + 1, 2**31 - 1])
def test_small_integers_and_one_at_the_end_of_the_table(source: str, end: int) -> None:
    """As the same numbers in float, which holds them; the last one is looked up, or keeps the others from it."""
    low = 0 if source.startswith("u") else -SMALL
    for last in (end - 1, end) if low == 0 else (end - 1, end, -end, low - 1):
        numbers = np.append(np.arange(low, SMALL), [last] * SMALL)
        for target in (name for name in oracle.FLOATS if oracle.unsigned(name).itemsize == 1):
            for saturate in (True, False):
                got = cast(numbers.astype(source), target, saturate=saturate, round_mode="down")
                want = cast(numbers.astype(np.float64), target, saturate=saturate, round_mode="down")
                assert got.tobytes() == want.tobytes(), (last, target)


@pytest.mark.parametrize("source", ["float8e4m3fn", "float8e8m0", "int8", "int4", "bool"])
def test_pairs_of_codes_and_a_last_one(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair, from an even and from an odd address, beside the codes looked up one by one."""
    pairs = np.arange(2**16 + 1, dtype=np.uint16).view(np.uint8)
    codes = pairs % 2 if source == "bool" else pairs
    for target in ("uint8", "float8e5m2", "float16", "float", "double"):
        for each in (codes, codes[1:]):
            array = each.view(oracle.array_of(source, [0]).dtype)
            one_by_one = cast(array, target)
            with monkeypatch.context() as patch:
                patch.setattr(convert, "MANY", 2)
                assert cast(array, target).tobytes() == one_by_one.tobytes(), target


def test_no_bit_depends_on_the_instructions_of_the_processor() -> None:
    """The casts of a second process, in which numpy uses its baseline alone."""
    umath = sys.modules["numpy._core._multiarray_umath"]
    dispatched = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(dispatched)}
    run = subprocess.run(
        [sys.executable, "-m", "tests.numerics.cast.digest"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.strip() == digest.digest()


def test_float16_where_subnormal_numbers_count_as_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a thread in which a library has set the processor so: the product would give zero."""
    codes = np.array([1, 0x83FF, 0x3C00], np.uint16)
    numbers = np.array([2.0**-24, -1023 * 2.0**-24, 1])
    assert cast(codes.view(np.float16), "double").tolist() == numbers.tolist()
    monkeypatch.setattr(narrowing, "_LEAST_FLOAT", np.zeros(1, np.float32))
    monkeypatch.setattr(narrowing, "_HALF_BITS", np.uint32(0))
    assert cast(codes.view(np.float16), "double").tolist() == numbers.tolist()
