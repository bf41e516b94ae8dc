"""The seven rounding modes of QONNX in ONNX operators, signs of zero included.

ONNX Runtime's Where turns -0 into +0 when it comes from the branch of a true condition, so no branch that can be -0
stands there: see DOWN, where Floor of what is greater than 0 cannot be.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir

from castsmith.lowering.builder import Builder
from castsmith.numerics.rounding import rounding_function

Rounding = Callable[[Builder, onnx_ir.Value], onnx_ir.Value]


def _operator(op_type: str) -> Rounding:
    return lambda build, x: build.op(op_type, x)


def _up(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    return build.op("Mul", build.op("Sign", x), build.op("Ceil", build.op("Abs", x)))


def _down(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    return build.op("Where", build.op("Greater", x, 0.0), build.op("Floor", x), build.op("Ceil", x))


def _half_up(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    nearest = build.op("Floor", build.op("Add", build.op("Abs", x), 0.5))
    return build.op("Mul", build.op("Sign", x), nearest)


def _half_down(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    nearest = build.op("Ceil", build.op("Sub", build.op("Abs", x), 0.5))
    return build.op("Mul", build.op("Sign", x), nearest)


ROUNDINGS: dict[str, Rounding] = {
    "ROUND": _operator("Round"),
    "HALF_EVEN": _operator("Round"),
    "CEIL": _operator("Ceil"),
    "FLOOR": _operator("Floor"),
    "UP": _up,
    "DOWN": _down,
    "HALF_UP": _half_up,
    "HALF_DOWN": _half_down,
}
"""Each mode as in `castsmith.numerics.rounding.ROUNDING_MODES`, whose names these are."""


def round_as(build: Builder, x: onnx_ir.Value, mode: str) -> onnx_ir.Value:
    """`x` rounded by the mode, in any case of letters. Raises TruncError for a mode that QONNX does not have."""
    rounding_function(mode)
    return ROUNDINGS[mode.upper()](build, x)
