"""The kernels as Python runs them, without a compiler: each step of each of them counts for one of these numbers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from castsmith.numerics.cast.compiled import kernel_name, narrow_facts, widen_facts
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import NEWEST_OPSET, Policy
from castsmith.numerics.critical import critical_values
from castsmith.numerics.types import Kind, element_type, parse_type

pytestmark = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")

PAIRS = (
    *("float:float16", "float:bfloat16", "float:float8e4m3fn", "float:float8e5m2fnuz", "int8:float8e5m2"),
    *("double:float16", "double:bfloat16", "uint32:bfloat16", "int32:float16", "int32:bfloat16", "int64:bfloat16"),
    *("bfloat16:float16", "bfloat16:float8e4m3fnuz", "float:int8", "double:uint8", "bfloat16:int8"),
    *("float16:float", "float16:double", "bfloat16:float"),
)
SPECIALS = (0x7F80_0000, 0x7F81_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFF80_0000, 0xFFA0_0001, 0x8000_0000)
"""Codes of float: infinities, NaN of several payloads, with and without the bit that makes them quiet, and -0."""
MOST = 1500
"""Numbers of a pair: Python takes some 20 microseconds for each."""


def numbers(source: str, target: str) -> np.ndarray[Any, Any]:
    """Numbers about those of the target, and of integers those of which a bit far below the last counts."""
    values = critical_values(parse_type(source), parse_type(target))
    if values.dtype.kind == "i" and values.itemsize > 2:
        width = 8 * values.itemsize - 1
        powers = [(1 << width - 1) + (1 << width - 9) + tail for tail in (0, 1, 2**7, 2**10, 2**11 + 1)]
        wide = [sign * (power >> shift) for power in powers for shift in range(width - 20) for sign in (1, -1)]
        values = np.concatenate([np.array(wide, values.dtype), values])
    if len(values) > MOST:
        values = values[np.sort(np.random.default_rng(3).choice(len(values), MOST, replace=False))]
    specials = np.array(SPECIALS, np.uint32).view(np.float32)
    if source == "bfloat16":
        specials = (specials.view(np.uint32) >> 16).astype(np.uint16).view(values.dtype)
    with np.errstate(invalid="ignore"):
        return values if values.dtype.kind in "iu" else np.concatenate([values, specials.astype(values.dtype)])


@pytest.mark.parametrize(
    ("pair", "opset"), [*((pair, NEWEST_OPSET) for pair in PAIRS), ("float:float8e5m2fnuz", 23)]
)  # of an older opset infinity is NaN, and a number that is too large is not
def test_the_bits_of_each_kernel(pair: str, opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from castsmith.numerics.cast import kernels

    for name in ("_narrowed", "_float_to_odd", "_truncated"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)
    source, target = (element_type(parse_type(name)) for name in pair.split(":"))
    name = kernel_name(source, target)
    assert name is not None
    values = numbers(*pair.split(":"))
    expected = cast(values, target.dtype, opset=opset)
    facts: tuple[Any, ...] = ()
    if target.kind is Kind.INTEGER:
        number = np.float64 if source.name == "double" else np.float32
        facts = number(target.min), number(target.max), number(0)
    elif target.bits <= 16:
        facts = (
            None
            if target.name == "bfloat16"
            else narrow_facts(target, Policy(infinity_saturates=opset == NEWEST_OPSET)),
        )
    elif source.name == "float16":
        facts = (widen_facts(source),)
    is_code = source.name == "bfloat16"
    codes = f"u{target.dtype.numpy().itemsize}"
    out = np.ones(values.shape, codes if Kind.FLOATING is target.kind and target.bits <= 16 else target.dtype.numpy())
    stored = values.view(np.uint16) if is_code or source.name == "float16" else values
    with np.errstate(all="ignore"):
        getattr(kernels, name)(stored, out, *facts)
    assert out.view(codes).tolist() == expected.view(codes).tolist()
