"""Numbers beside one that numpy or ml_dtypes converts otherwise than the standard."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

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


@pytest.mark.parametrize(("source", "target"), sampled("conversions of one other number", PAIRS, 14, cover=enumerate))
def test_ordinary_numbers_and_one_other(source: str, target: str) -> None:
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
