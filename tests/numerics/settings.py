"""The settings of Cast between which a target distinguishes."""

from __future__ import annotations

from tests.numerics import oracle

_FLOAT8 = [oracle.Settings(), oracle.Settings(saturate=False)]
_FLOAT8_OLD = [oracle.Settings(opset=23), oracle.Settings(saturate=False, opset=23)]
_E8M0 = [oracle.Settings(saturate, mode) for saturate in (True, False) for mode in ("up", "down", "nearest")]


def settings_of(target: str) -> list[oracle.Settings]:
    """Every setting that can matter to casts to `target`; opset 23 is the last with the older float8 table."""
    if target == "float8e8m0":
        return _E8M0
    return [*_FLOAT8, *_FLOAT8_OLD] if target in oracle.FLOAT8_TYPES else [oracle.Settings()]
