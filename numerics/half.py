"""float16 to and from float by integer arithmetic, because numpy's own takes 60 ns for each number that underflows.

The ends of float16 within float, as codes without a sign:

    0x3880_0000   2**-14, its smallest normal number: below it, adding 1/2 in float rounds to the multiple of 2**-24
                  that the code of a subnormal counts, and leaves the count in the low bits
    0x3800_0000   what the exponents differ by, 112, in place
    0x3F00_0000   1/2

NaNs come out as infinity or NaN; the callers set them right.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_SMALLEST_NORMAL = np.uint32(0x3880_0000)
_EXPONENTS = np.uint32(0x3800_0000)
_HALF = np.uint32(0x3F00_0000)
_SIGN, _INFINITY = np.uint32(0x8000_0000), np.uint32(0x7C00)


def half_of_float(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The codes of float16 nearest to `values`, ties to even, NaN aside; shaped as `values`."""
    bits = values.view(np.uint32)
    size = bits & ~_SIGN
    rounded = size >> np.uint32(13)
    rounded &= np.uint32(1)
    rounded += size
    rounded += np.uint32(0xFFF) - _EXPONENTS  # wraps for subnormals, which the next step replaces
    rounded >>= np.uint32(13)
    np.minimum(rounded, _INFINITY, out=rounded)
    subnormal = size < _SMALLEST_NORMAL
    if subnormal.any():
        counted = (size.view(np.float32) + np.float32(0.5)).view(np.uint32)
        np.subtract(counted, _HALF, out=rounded, where=subnormal)
    size ^= bits
    size >>= np.uint32(16)
    rounded |= size
    return rounded.astype(np.uint16)


def float_of_half(codes: npt.NDArray[np.uint16], out: Words) -> None:
    """Write the codes of the float numbers for which the `codes` of float16 stand to `out`, NaN with its payload."""
    np.bitwise_and(codes, np.uint16(0x7FFF), out=out, casting="safe", dtype=np.uint32)
    subnormal = out < np.uint32(0x400)
    special = out >= _INFINITY
    counted = (out | _HALF).view(np.float32) - np.float32(0.5) if subnormal.any() else None
    out <<= np.uint32(13)
    out += _EXPONENTS
    if special.any():
        out[special] += _EXPONENTS
    if counted is not None:
        np.copyto(out, counted.view(np.uint32), where=subnormal)
    sign = codes & np.uint16(0x8000)
    out |= sign.astype(np.uint32) << np.uint32(16)
