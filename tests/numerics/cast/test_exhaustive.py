"""The long run over every float32, in small: its short cut to the oracle is right, and it finds what differs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.numerics import oracle
from tests.numerics.cast import exhaustive
from tests.numerics.settings import settings_of
from tests.sampling import sampled

RUNS = [(target, settings) for target in exhaustive.TARGETS for settings in settings_of(target)]
STEPS = 1 << 25
"""Codes of a part in which the steps are found: four powers of two."""
WIDE = ("float16", "bfloat16")
"""Each has 65,000 steps, and is looked at in parts."""
PARTS = sampled(
    "parts of casts from float to 16 bits",
    range(0, 2**32, STEPS),
    6,
    always=lambda first: first in (0x3E00_0000, 0x8000_0000),
)


@pytest.mark.parametrize(
    ("target", "settings"),
    sampled(
        "steps of floats", [run for run in RUNS if run[0] not in ("int16", "uint16")], 10, cover=lambda run: run[:1]
    ),
)
def test_the_steps_are_those_of_the_oracle(target: str, settings: oracle.Settings) -> None:
    for first, end in [(part, part + STEPS) for part in PARTS] if target in WIDE else [(0, 2**32)]:
        known = exhaustive.steps(target, settings, first, end)
        generator = random.Random(target)
        around = generator.sample(known[0].tolist(), min(known[0].size, 100))
        codes = sorted({start + d for start in around for d in (-1, 0, 1)} | {generator.randrange(first, end)})
        codes = [code for code in codes if first <= code < end]
        want = oracle.cast_codes("float", target, [oracle.decode("float", code) for code in codes], settings)
        assert [int(exhaustive.expected(known, code, 1)[0]) for code in codes] == want
        run = exhaustive.expected(known, codes[0], 1000)
        assert run.tolist() == [int(exhaustive.expected(known, codes[0] + d, 1)[0]) for d in range(1000)]


@pytest.mark.parametrize("target", ["float8e4m3fn", "float8e8m0", "int4", "bool"])
def test_a_part_of_the_run(target: str) -> None:
    for settings in settings_of(target):
        for first in (0, 0x3F80_0000, 0x7F7F_0000, 0x8000_0000, 0xFF7F_0000):
            assert exhaustive.differences(target, settings, first, first + 2**17) == (0, None)


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(values: np.ndarray, to: str, **settings: Any) -> np.ndarray:
        result = exhaustive_cast(values, to, **settings)
        result[values == 1.5] = 0
        return result

    exhaustive_cast = exhaustive.cast
    monkeypatch.setattr(exhaustive, "cast", wrong)
    assert exhaustive.differences("int8", oracle.Settings(), 0x3F80_0000, 0x4000_0000) == (1, 0x3FC0_0000)
