"""Cast against exact rational arithmetic: every pair of numeric types, every code of each narrow source."""

from __future__ import annotations

import numpy as np
import pytest

from castsmith.numerics.cast.convert import cast
from tests.numerics import oracle
from tests.numerics.samples import samples
from tests.numerics.settings import settings_of
from tests.sampling import sampled

FIRST_OPSET = {"float8e8m0": 24, "int2": 25, "uint2": 25, "float6e2m3": 28, "float6e3m2": 28}


def check_codes(source: str, target: str, codes: list[int], numbers: list[oracle.Number]) -> None:
    """Every setting of the pair, bit for bit; a failure shows the first code that differs."""
    array = oracle.array_of(source, codes)
    for settings in settings_of(target):
        if settings.opset < max(FIRST_OPSET.get(source, 1), FIRST_OPSET.get(target, 1)):
            continue
        got = cast(array, target, saturate=settings.saturate, round_mode=settings.round_mode, opset=settings.opset)
        row = oracle.FLOATS.get(target) or oracle.INTS[target]
        assert got.dtype == row.dtype
        expected = np.array(oracle.cast_codes(source, target, numbers, settings), oracle.unsigned(target))
        differs = np.flatnonzero(got.view(oracle.unsigned(target)) != expected)
        if differs.size:
            at = differs[0]
            pytest.fail(
                f"{differs.size} of {len(codes)} differ under {settings}; code {codes[at]:#x} is {numbers[at]}: "
                f"got {got.view(expected.dtype)[at]:#x}, expected {expected[at]:#x}"
            )


def pairs(sources: tuple[str, ...]) -> list[tuple[str, str]]:
    """Pairs of types; a sample has each source, and each target."""
    every = [(source, target) for source in sources for target in oracle.TYPES if source != target]
    return sampled(f"pairs of types for Cast [{sources[0]} to {sources[-1]}]", every, len(every) // 16, cover=enumerate)


@pytest.mark.parametrize(("source", "target"), pairs(oracle.NARROW_TYPES))
def test_every_code(source: str, target: str) -> None:
    check_codes(source, target, list(oracle.all_codes(source)), list(oracle.all_numbers(source)))


@pytest.mark.parametrize(("source", "target"), pairs(oracle.WIDE_TYPES))
def test_boundaries_and_random_numbers(source: str, target: str) -> None:
    codes = samples(source, target)
    check_codes(source, target, codes, [oracle.decode(source, code) for code in codes])


@pytest.mark.parametrize("name", oracle.TYPES)
def test_a_cast_to_the_same_type_changes_no_bit(name: str) -> None:
    codes = list(oracle.all_codes(name)) if name in oracle.NARROW_TYPES else samples(name, "float16")
    array = oracle.array_of(name, codes)
    got = cast(array, name)
    assert got.view(oracle.unsigned(name)).tolist() == codes
    assert not np.shares_memory(got, array)
