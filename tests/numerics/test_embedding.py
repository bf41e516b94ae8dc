"""Every value of one type is a value of another."""

from __future__ import annotations

import itertools

import numpy as np

from castsmith.numerics.exactness import is_exact
from castsmith.numerics.types import NUMERIC_TYPES
from tests.numerics.test_exactness import casts_at, kind_and_width, same_number, sample
from tests.sampling import sampled


def test_a_type_holds_another_where_casting_to_it_keeps_every_number() -> None:
    casts = casts_at(28, "up")
    held, holding = (
        sampled(name, NUMERIC_TYPES, 4, cover=kind_and_width) for name in ("held types", "types that hold")
    )
    for a, b in itertools.product(held, holding):
        x, y = sample(a), casts.first(a, b, False)[0]
        with np.errstate(all="ignore"):
            left, right = x.astype(np.float64), y.astype(np.float64)
        zeros_keep_their_sign = np.all((left != 0) | (right != 0) | (np.signbit(left) == np.signbit(right)))
        assert is_exact(a, b) == bool(np.all(same_number(x, y)) and zeros_keep_their_sign), (a, b)
