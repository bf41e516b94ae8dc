"""QuantizeLinear and DequantizeLinear on arrays, per tensor, per axis and in blocks, for every opset.

Call `quantize_linear` or `dequantize_linear`.

    linear         the arithmetic
    schema         operands, types and attributes checked by opset
    granularity    the scale of each element
    status         `quantize_reason`: why the standard does not fix a result
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.numerics.quantize.granularity import folded_shape, is_scalar, require_shapes
    from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
    from castsmith.numerics.quantize.schema import division_type
    from castsmith.numerics.quantize.status import (
        dequantize_reason,
        dequantize_spans,
        quantize_reason,
        quantize_spans,
        quantize_status,
    )

__all__ = [
    "dequantize_linear",
    "dequantize_reason",
    "dequantize_spans",
    "division_type",
    "folded_shape",
    "is_scalar",
    "quantize_linear",
    "quantize_reason",
    "quantize_spans",
    "quantize_status",
    "require_shapes",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "granularity": ("folded_shape", "is_scalar", "require_shapes"),
            "linear": ("dequantize_linear", "quantize_linear"),
            "schema": ("division_type",),
            "status": ("dequantize_reason", "dequantize_spans", "quantize_reason", "quantize_spans", "quantize_status"),
        },
    )
