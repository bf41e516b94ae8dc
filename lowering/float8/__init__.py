"""The pass that stores types of at most 8 bits that a target lacks as codes: float8, float6, float4, int4, int2.

Run `LowerFloat8(target=...)`. It works in three steps: `needs` finds the values that must be codes, `plan` decides for
each node before anything changes, `apply` changes the model.

    lower               the pass
    casts               casts to, from and between codes
    linear              QuantizeLinear and DequantizeLinear of codes
    functions           encodings as model-local functions, and inlined functions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.float8.casts import Context
    from castsmith.lowering.float8.functions import Functions, inline_functions, obstacle_to_inlining, takes_a_type
    from castsmith.lowering.float8.linear import expand_dequantize, expand_quantize
    from castsmith.lowering.float8.lower import LowerFloat8
    from castsmith.lowering.float8.needs import Types, fused_wrongly, is_coded, lacks_kernel, touches_coded

__all__ = [
    "Context",
    "Functions",
    "LowerFloat8",
    "Types",
    "expand_dequantize",
    "expand_quantize",
    "fused_wrongly",
    "inline_functions",
    "is_coded",
    "lacks_kernel",
    "obstacle_to_inlining",
    "takes_a_type",
    "touches_coded",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "casts": ("Context",),
            "functions": ("Functions", "inline_functions", "obstacle_to_inlining", "takes_a_type"),
            "linear": ("expand_dequantize", "expand_quantize"),
            "lower": ("LowerFloat8",),
            "needs": ("Types", "fused_wrongly", "is_coded", "lacks_kernel", "touches_coded"),
        },
    )
