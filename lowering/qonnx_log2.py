"""Where the binades of QONNX's FloatQuant end: it takes floor(log2(x)) in float, whose log2 is rounded.

Just below 2**k the logarithm rounds up to k, so that such a number has the exponent k. The nearest float below k is
k - u, and what lies at the middle rounds to k, whose last digit is even: from x = 2**(k - u/2) on. That is n floats
below 2**k, with (1 - n * 2**-24) >= 2**(-u/2). numpy 2 agrees at every k from -100 to 127, with and without AVX-512.

    k    -100  -64  -16  -8  -2  -1  0  1  2  3  4  5  8  9  16  17  64  127
    n      44   44   11   5   1   0  0  0  0  1  1  2  2  5   5  11  22   44
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_DIGITS = 24


def floats_below(k: int) -> int:
    """How many floats just below 2**k have a logarithm, in float, of k."""
    power = np.float32(k)
    half_step = (float(power) - float(np.nextafter(power, np.float32(-np.inf)))) / 2
    return math.floor(-math.expm1(-half_step * math.log(2)) * 2**_DIGITS)


def binade_ends(first: int, count: int) -> NDArray[np.float32]:
    """For each of `count` binades from 2**first on, the x / 2**exponent from which it is taken for the next."""
    ends = [2 - floats_below(k + 1) * 2.0 ** (1 - _DIGITS) for k in range(first, first + count)]
    return np.array(ends, np.float32)
