"""The seven rounding modes of QONNX, to an integer in the array's own type.

Source: `resolve_rounding_mode` of qonnx 1.0.0; the formulas are its own, so that the sign of a zero is its own too.

    x            -2.5  -1.5  -0.5   0.5   1.5   2.5
    ROUND          -2    -2    -0     0     2     2    half to even; HALF_EVEN is another name
    HALF_UP        -3    -2    -1     1     2     3    half away from zero
    HALF_DOWN      -2    -1    -0     0     1     2    half toward zero
    FLOOR          -3    -2    -1     0     1     2
    CEIL           -2    -1    -0     1     2     3
    UP             -3    -2    -1     1     2     3    away from zero
    DOWN           -2    -1    -0     0     1     2    toward zero
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from castsmith.numerics.arguments import text
from castsmith.numerics.errors import TruncError

Array = NDArray[Any]
Rounding = Callable[[Array], Array]


def _up(x: Array) -> Array:
    return np.sign(x) * np.ceil(np.abs(x))


def _half_up(x: Array) -> Array:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def _half_down(x: Array) -> Array:
    return np.sign(x) * np.ceil(np.abs(x) - 0.5)


ROUNDING_MODES: dict[str, Rounding] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": _up,
    "DOWN": np.trunc,
    "HALF_UP": _half_up,
    "HALF_DOWN": _half_down,
}
"""Each mode under its name in capitals."""


def rounding_function(mode: str) -> Rounding:
    """Return the rounding named `mode`, in any case. Raises TruncError, which names the mode, for any other."""
    try:
        return ROUNDING_MODES[text("rounding_mode", mode).upper()]
    except KeyError:
        known = ", ".join(ROUNDING_MODES)
        raise TruncError(f"Rounding mode {mode!r} is not one of QONNX: {known}.") from None
