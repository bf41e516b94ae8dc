"""The ONNX backend node tests that Castsmith does not reproduce, each with the sentence of the schema that lets it."""

from __future__ import annotations

_OUT_OF_RANGE = "'fixed point: undefined if OOR': the case wraps, Castsmith gives the nearest extreme"

DIFFERENT = {
    f"test_{op}_{source}_to_{target}": _OUT_OF_RANGE
    for op in ("cast", "castlike")
    for source in ("FLOAT", "FLOAT16")
    for target in ("UINT4", "INT4", "UINT2", "INT2")
}
"""Each differs in UNDEFINED elements alone."""
